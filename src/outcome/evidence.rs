//! Why a task has its grade, finding by finding: what was looked at, what was seen, and what it is worth.

use serde::Serialize;
use serde_json::Value;

use super::made::{Made, Reported};
use super::standing::standing;
use crate::model::claim::Claim;
use crate::model::evidence::{About, Finding, Grade, Verdict};
use crate::model::state::{BatchState, Outcome, TaskIx};
use crate::view::escape::one_line;
use crate::view::words::{Word, listed_at_most};

/// Files that are listed for people.
const FILES_SHOWN_MAX: usize = 20;

/// What stands behind one task.
#[derive(Debug, Clone, Serialize)]
pub struct Evidence {
    pub batch_id: Value,
    pub task_id: String,
    pub status: &'static str,
    /// Null where no result was judged, or the task did not succeed.
    pub evidence: Option<Grade>,
    pub required: Grade,
    pub files: Option<Grade>,
    pub criteria: Option<Grade>,
    pub standing: Option<String>,
    pub findings: Vec<Finding>,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub files_deleted: Vec<String>,
    pub commits: Vec<Value>,
    pub reported: Option<Reported>,
    pub no_change_needed: Option<String>,
    /// Why it did not succeed.
    pub reason: Option<String>,
    #[serde(skip)]
    label: String,
}

/// What the journal says of a task, with the claim that was collected from it, if one was.
pub fn evidence(state: &BatchState, ix: TaskIx, claim: Option<&Claim>) -> Evidence {
    let task = &state.tasks[ix];
    let verdict = task.collected.as_ref().map(|collected| &collected.verdict);
    let seen = verdict.filter(|verdict| verdict.brought.is_some());
    let made = Made::of(verdict, claim);
    Evidence {
        batch_id: state.batch.id.to_json(),
        task_id: task.spec.task_id.clone(),
        status: Word::of(&task.phase).written(),
        evidence: state.evidence_of(task),
        required: state.batch.require,
        files: seen.map(Verdict::files),
        criteria: seen.and_then(Verdict::criteria),
        standing: seen.map(standing),
        findings: verdict.map(|verdict| verdict.findings.clone()).unwrap_or_default(),
        files_created: made.created,
        files_modified: made.modified,
        files_deleted: made.deleted,
        commits: made.commits,
        reported: claim.map(Reported::of),
        no_change_needed: seen.and_then(|verdict| verdict.no_change_needed.clone()),
        reason: task.outcome().and_then(Outcome::reason).map(ToString::to_string),
        label: task.spec.label().to_owned(),
    }
}

impl Evidence {
    /// For people, escaped.
    pub fn to_text(&self) -> String {
        let mut lines = vec![self.headline()];
        lines.extend(self.reason.iter().map(|reason| format!("It did not succeed: {reason}")));
        for (heading, abouts) in [
            ("Declared:", &[About::Declared, About::Output, About::Artifact][..]),
            ("Criteria:", &[About::Criterion][..]),
            ("Commits:", &[About::Commit][..]),
            ("What its result says besides:", &[About::Claim][..]),
        ] {
            let about = self.findings.iter().filter(|finding| abouts.contains(&finding.about));
            let findings: Vec<String> = about.map(finding_line).collect();
            if !findings.is_empty() {
                lines.push(String::new());
                lines.push(heading.to_owned());
                lines.extend(findings);
            }
        }
        let made = [
            ("Created", &self.files_created),
            ("Modified", &self.files_modified),
            ("Deleted", &self.files_deleted),
        ];
        let made = made.iter().filter(|(_, files)| !files.is_empty());
        let made: Vec<String> =
            made.map(|(word, files)| format!("{word}: {}", listed_at_most(files, FILES_SHOWN_MAX))).collect();
        if !made.is_empty() {
            lines.push(String::new());
            lines.extend(made);
        }
        let why = self.no_change_needed.iter();
        lines.extend(why.map(|why| format!("The agent says that nothing had to be changed: {why}")));
        lines.iter().map(|line| one_line(line) + "\n").collect()
    }

    fn headline(&self) -> String {
        let grade = match (self.evidence, self.findings.is_empty()) {
            (Some(grade), _) => grade.word().to_owned(),
            (None, true) => "no result was judged yet".to_owned(),
            (None, false) => self.status.to_owned(),
        };
        let standing = self.standing.as_ref().map(|standing| format!(" ({standing})")).unwrap_or_default();
        let demanded = match self.required {
            Grade::Claimed => String::new(),
            required => format!("; {required} is required"),
        };
        format!("{}: {grade}{standing}{demanded}", self.label)
    }
}

/// `  ✓ src/a.rs: its content changed → observed`.
fn finding_line(finding: &Finding) -> String {
    let is_undone = finding.change.is_some_and(|change| !change.is_done());
    let glyph = match (finding.met, is_undone) {
        (false, _) | (_, true) => '✗',
        (true, false) if finding.grade == Grade::Claimed => '·',
        (true, false) => '✓',
    };
    let worth = match (finding.met, is_undone) {
        (false, _) => "not met",
        (true, true) => "not done",
        (true, false) => finding.grade.word(),
    };
    format!("  {glyph} {finding} → {worth}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene::Scene;

    #[test]
    fn each_finding_says_what_was_seen_and_what_it_is_worth() {
        let mut scene = Scene::of("1; 2", "0 done 1 verified\n0 done 2 claimed");
        scene.claim("1", &["src/a.rs"], &[], 0);
        let ix = scene.state.find("1").unwrap();
        let text = evidence(&scene.state, ix, scene.claims.get(&ix)).to_text();
        let expected = "\
Phase 1: verified (files observed · gates verified)

Declared:
  ✓ src/a.rs: its content changed → observed

Criteria:
  ✓ `make check`: `make check`: exit code 0 → verified

Created: src/a.rs
";
        assert_eq!(text, expected);
        let weak = evidence(&scene.state, scene.state.find("2").unwrap(), None).to_text();
        assert!(weak.contains("  · src/a.rs: written again with the same bytes → claimed\n"), "{weak}");
    }
}
