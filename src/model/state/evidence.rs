//! What stands behind the tasks of a batch and behind the whole.

use super::{BatchState, Outcome, TaskState};
use crate::model::evidence::{About, Grade, Verdict};

impl BatchState {
    /// The grade of the weakest task that succeeded.
    pub fn evidence(&self) -> Option<Grade> {
        self.tasks.iter().filter_map(|task| self.evidence_of(task)).min()
    }

    /// What stands behind a task's success. Where one task checks the whole, its criteria count for those that have
    /// none of their own.
    pub fn evidence_of(&self, task: &TaskState) -> Option<Grade> {
        let verdict = succeeded(task)?;
        let grade = verdict.grade();
        let is_checked_as_part = || {
            let whole = self.tasks.iter().filter(|task| task.spec.is_validation());
            let verdicts: Vec<&Verdict> = whole.filter_map(succeeded).collect();
            !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.criteria() == Some(Grade::Verified))
        };
        match grade {
            Grade::Observed if self.is_checked_by_the_whole(task, verdict) && is_checked_as_part() => {
                Some(Grade::Verified)
            }
            grade => Some(grade),
        }
    }

    /// The least grade that a task must reach by itself: criteria that the whole has are judged with the whole.
    pub fn required_of(&self, task: &TaskState, verdict: &Verdict) -> Grade {
        match self.batch.require {
            Grade::Verified if self.is_checked_by_the_whole(task, verdict) => Grade::Observed,
            required => required,
        }
    }

    fn is_checked_by_the_whole(&self, task: &TaskState, verdict: &Verdict) -> bool {
        let has_checks = |other: &TaskState| {
            let criteria = other.spec.assignment.iter().flat_map(|assignment| &assignment.criteria);
            other.spec.is_validation() && criteria.into_iter().any(|criterion| criterion.check.is_some())
        };
        !task.spec.is_validation()
            && verdict.about(About::Criterion).next().is_none()
            && self.tasks.iter().any(has_checks)
    }
}

fn succeeded(task: &TaskState) -> Option<&Verdict> {
    task.outcome().filter(|outcome| **outcome == Outcome::Succeeded)?;
    task.collected.as_ref().map(|collected| &collected.verdict)
}
