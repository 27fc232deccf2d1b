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

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A file of the result, a gate, the exit.
    #[default]
    Claim,
    /// A declared output, by its name.
    Output,
    /// A pattern of which something must exist.
    Artifact,
    /// A criterion of success, by its name.
    Criterion,
}

impl About {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_claim(&self) -> bool {
        *self == About::Claim
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at: a file, a gate, an output's name.
    pub subject: String,
    #[serde(default, skip_serializing_if = "About::is_claim")]
    pub about: About,
    pub grade: Grade,
    pub met: bool,
    /// What a criterion was measured at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What was seen, as a sentence.
    pub saw: String,
}

impl Finding {
    pub fn new(subject: impl Into<String>, grade: Grade, met: bool, saw: impl Into<String>) -> Self {
        let (subject, saw) = (subject.into(), saw.into());
        Finding { subject, about: About::Claim, grade, met, value: None, saw }
    }
}

impl fmt::Display for Finding {
    /// `src/a.rs: does not exist`, `output code: does not exist`, `coverage: 75, but at least 80 is required`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.about {
            About::Claim | About::Criterion => "",
            About::Output => "output ",
            About::Artifact => "artifact ",
        };
        write!(f, "{kind}{}: {}", self.subject, self.saw)
    }
}

/// What verification found about one claim.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// In the declared scope, changed, but not in the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_unclaimed: Vec<String>,
    /// In the declared scope, not changed, whatever was planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared_untouched: Vec<String>,
    /// Outside of everything that the task declares, in the trees that were watched, and changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched_undeclared: Vec<String>,
}

impl Verdict {
    /// The grade of the weakest thing; nothing to look at leaves the agent's word.
    pub fn grade(&self) -> Grade {
        self.findings.iter().map(|finding| finding.grade).min().unwrap_or(Grade::Claimed)
    }

    pub fn about(&self, about: About) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.about == about)
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
        let finding = |grade| Finding::new("x", grade, true, "");
        assert_eq!(Verdict::default().grade(), Grade::Claimed);
        let mixed = Verdict {
            findings: vec![finding(Grade::Verified), finding(Grade::Observed)],
            ..Verdict::default()
        };
        assert_eq!(mixed.grade(), Grade::Observed);
    }
}
