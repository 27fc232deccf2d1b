//! What stands behind a green: three grades, and the findings that a verdict is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a machine checked. The order is the strength: a whole has the grade of its weakest part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// The agent's word alone; its exit code is no more than that.
    Claimed,
    /// We saw the content change, the output appear, the commit exist.
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
    /// What only the result says: a file that it lists, a gate that no command decides.
    #[default]
    Claim,
    /// A file, directory or pattern that the task declares.
    Declared,
    /// A commit that the result names.
    Commit,
    /// A declared output, by its name.
    Output,
    /// A pattern of which something must exist.
    Artifact,
    /// A criterion of success, by its name, or a gate that a command decides, by its text.
    Criterion,
}

impl About {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_claim(&self) -> bool {
        *self == About::Claim
    }
}

/// What became of a file since the task's first attempt began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Created,
    Modified,
    Deleted,
    /// Written or touched, with the bytes that it had.
    Rewritten,
    /// Left without content, where its name does not make that customary.
    Emptied,
    /// A link to another file of the tree, or a second name of one: that file is not this task's work.
    Linked,
    /// It changed, and another attempt that declares or reports it ran at the same time.
    Shared,
    /// It is there; how it was before is not known.
    Unknown,
    Untouched,
    Absent,
}

impl Change {
    /// What a machine saw of it is worth so much.
    pub fn grade(self) -> Grade {
        match self {
            Change::Created | Change::Modified | Change::Deleted => Grade::Observed,
            Change::Rewritten
            | Change::Emptied
            | Change::Linked
            | Change::Shared
            | Change::Unknown
            | Change::Untouched
            | Change::Absent => Grade::Claimed,
        }
    }

    /// Whether anything was done to the file at all.
    pub fn is_done(self) -> bool {
        !matches!(self, Change::Untouched | Change::Absent)
    }

    /// As a sentence about the file.
    pub fn saw(self) -> &'static str {
        match self {
            Change::Created => "created",
            Change::Modified => "its content changed",
            Change::Deleted => "deleted",
            Change::Rewritten => "written again with the same bytes",
            Change::Emptied => "is empty",
            Change::Linked => "is a link to another file of the tree",
            Change::Shared => {
                "changed, but another attempt that ran at the same time declares or reports it too"
            }
            Change::Unknown => "exists; how it was before is not known",
            Change::Untouched => "was not changed",
            Change::Absent => "does not exist",
        }
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
    /// Of a file: what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// An earlier attempt of the task did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// What a criterion was measured at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What was seen, as a sentence.
    pub saw: String,
}

impl Finding {
    pub fn new(subject: impl Into<String>, grade: Grade, met: bool, saw: impl Into<String>) -> Self {
        let (subject, saw) = (subject.into(), saw.into());
        Finding { subject, about: About::Claim, grade, met, change: None, inherited: false, value: None, saw }
    }

    /// What became of a file. Whether a file that was not touched is a failure is for `decide` to say.
    pub fn of_change(subject: impl Into<String>, about: About, change: Change, inherited: bool) -> Self {
        let saw = match inherited {
            true => format!("{}, by an earlier attempt", change.saw()),
            false => change.saw().to_owned(),
        };
        let finding = Finding::new(subject, change.grade(), true, saw);
        Finding { about, change: Some(change), inherited, ..finding }
    }
}

impl fmt::Display for Finding {
    /// `src/a.rs: does not exist`, `output code: does not exist`, `coverage: 75, but at least 80 is required`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.about {
            About::Claim | About::Declared | About::Criterion => "",
            About::Commit => "commit ",
            About::Output => "output ",
            About::Artifact => "artifact ",
        };
        write!(f, "{kind}{}: {}", self.subject, self.saw)
    }
}

/// What a machine saw a task bring about, as paths below the root and ids of commits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Brought {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Files beyond those that are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

impl Brought {
    pub fn is_empty(&self) -> bool {
        *self == Brought::default()
    }

    /// Whether a file of it is another's too.
    pub fn shares_files_with(&self, other: &Brought) -> bool {
        self.files().any(|file| other.files().any(|one| one == file))
    }

    /// Without the files that are another's too.
    pub fn leave_out(&mut self, other: &Brought) {
        for list in [&mut self.created, &mut self.modified, &mut self.deleted] {
            list.retain(|file| !other.files().any(|one| one == file));
        }
    }

    fn files(&self) -> impl Iterator<Item = &String> {
        self.created.iter().chain(&self.modified).chain(&self.deleted)
    }

    /// Adds what another look saw, each once.
    pub fn extend(&mut self, other: Brought) {
        let Brought { created, modified, deleted, commits, more } = other;
        for (own, new) in [
            (&mut self.created, created),
            (&mut self.modified, modified),
            (&mut self.deleted, deleted),
            (&mut self.commits, commits),
        ] {
            for one in new {
                if !own.contains(&one) {
                    own.push(one);
                }
            }
        }
        self.more += more;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What verification found about one claim.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// What the task was seen to bring about; `None` in journals of versions before 0.2, which did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Brought>,
    /// Why the agent says that nothing had to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_change_needed: Option<String>,
    /// The task is there to check what others made: no file is asked of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_checks: bool,
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
    /// What stands behind the files: the weakest of what was promised; where nothing was, the agent's word. What a
    /// result lists besides raises nothing and lowers nothing, so that telling never costs more than silence.
    pub fn files(&self) -> Grade {
        self.promised().map(|finding| finding.grade).min().unwrap_or(Grade::Claimed)
    }

    /// What stands behind the criteria that a command can decide; `None` where there are none.
    pub fn criteria(&self) -> Option<Grade> {
        self.about(About::Criterion).map(|finding| finding.grade).min()
    }

    /// The grade of the whole. Criteria raise what was observed to `verified` if all of them were run and met;
    /// one that was not run lowers nothing. Without a file that was observed there is the agent's word alone.
    pub fn grade(&self) -> Grade {
        if self.brought.is_none() {
            // Versions before 0.2 looked at what the result lists, and the weakest of everything counted.
            return self.findings.iter().map(|finding| finding.grade).min().unwrap_or(Grade::Claimed);
        }
        match (self.files(), self.criteria()) {
            (_, Some(checked)) if self.only_checks && self.promised().next().is_none() => checked,
            (Grade::Claimed, _) => Grade::Claimed,
            (_, Some(Grade::Verified)) => Grade::Verified,
            (_, _) => Grade::Observed,
        }
    }

    pub fn about(&self, about: About) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.about == about)
    }

    pub fn unmet(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.met)
    }

    /// What was to be brought about: declared files, outputs, artifacts.
    pub fn promised(&self) -> impl Iterator<Item = &Finding> {
        let is_promised = |about| matches!(about, About::Declared | About::Output | About::Artifact);
        self.findings.iter().filter(move |finding| is_promised(finding.about))
    }

    /// The promised things that nothing was done about.
    pub fn undone(&self) -> impl Iterator<Item = &Finding> {
        self.promised().filter(|finding| finding.change.is_some_and(|change| !change.is_done()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(findings: &[(About, Grade)]) -> Verdict {
        let finding = |(about, grade): &(About, Grade)| Finding {
            about: *about,
            ..Finding::new("x", *grade, true, "")
        };
        let brought = Some(Brought::default());
        Verdict { findings: findings.iter().map(finding).collect(), brought, ..Verdict::default() }
    }

    #[test]
    fn files_are_as_strong_as_the_weakest_of_them_and_nothing_declared_is_a_claim() {
        use About::{Criterion, Declared};
        use Grade::{Claimed, Observed, Verified};
        assert_eq!(Verdict::default().grade(), Claimed);
        assert_eq!(verdict(&[(Declared, Observed), (Declared, Claimed)]).grade(), Claimed);
        assert_eq!(verdict(&[(Declared, Observed)]).grade(), Observed);
        assert_eq!(verdict(&[(Criterion, Verified)]).grade(), Claimed, "a check alone shows no work");
    }

    #[test]
    fn criteria_raise_what_was_observed_and_one_that_was_not_run_lowers_nothing() {
        use About::{Criterion, Declared};
        use Grade::{Claimed, Observed, Verified};
        let seen = (Declared, Observed);
        assert_eq!(verdict(&[seen, (Criterion, Verified)]).grade(), Verified);
        assert_eq!(verdict(&[seen, (Criterion, Verified), (Criterion, Claimed)]).grade(), Observed);
        assert_eq!(
            verdict(&[seen, (Criterion, Observed)]).grade(),
            Observed,
            "a check that was tampered with"
        );
        assert_eq!(verdict(&[seen, (About::Claim, Claimed)]).grade(), Observed, "a gate in prose");
    }

    #[test]
    fn a_task_that_only_checks_is_worth_its_artifacts_or_else_its_checks() {
        let only = |findings: &[(About, Grade)]| Verdict { only_checks: true, ..verdict(findings) };
        assert_eq!(only(&[(About::Criterion, Grade::Verified)]).grade(), Grade::Verified);
        let artifact = (About::Artifact, Grade::Claimed);
        assert_eq!(only(&[artifact, (About::Criterion, Grade::Verified)]).grade(), Grade::Claimed);
        assert_eq!(only(&[]).grade(), Grade::Claimed);
    }
}
