//! What stands behind a green: three grades, and the findings that a verdict is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a machine checked. The order is the strength: a whole has the grade of its weakest part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// The agent's word alone.
    Claimed,
    /// We saw the file, the change, the exit code.
    Observed,
    /// A command that we ran said so.
    Verified,
}

impl Grade {
    pub const ALL: [Grade; 3] = [Grade::Claimed, Grade::Observed, Grade::Verified];

    pub fn word(self) -> &'static str {
        match self {
            Grade::Claimed => "claimed",
            Grade::Observed => "observed",
            Grade::Verified => "verified",
        }
    }

    pub fn parse(word: &str) -> Option<Grade> {
        Grade::ALL.into_iter().find(|grade| grade.word() == word)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What the finding is about: a file, a gate.
    pub subject: String,
    pub grade: Grade,
    pub met: bool,
    /// What was seen, as a sentence.
    pub saw: String,
}

/// What verification found about one claim.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// In the declared scope, changed, but not in the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_unclaimed: Vec<String>,
    /// In the declared scope, not changed, whatever was planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared_untouched: Vec<String>,
}

impl Verdict {
    /// The grade of the weakest thing; nothing to look at leaves the agent's word.
    pub fn grade(&self) -> Grade {
        self.findings.iter().map(|finding| finding.grade).min().unwrap_or(Grade::Claimed)
    }

    pub fn unmet(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_as_strong_as_its_weakest_finding() {
        let finding = |grade| Finding { subject: "x".into(), grade, met: true, saw: String::new() };
        assert_eq!(Verdict::default().grade(), Grade::Claimed);
        let mixed = Verdict {
            findings: vec![finding(Grade::Verified), finding(Grade::Observed)],
            ..Verdict::default()
        };
        assert_eq!(mixed.grade(), Grade::Observed);
    }
}
