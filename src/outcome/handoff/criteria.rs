//! What came of a task's criteria of success: for each its value, and beside it how that is known.

use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::evidence::{About, Finding, Grade, Verdict};
use crate::model::handoff::{Criterion, Wanted};
use crate::model::state::TaskState;

use super::super::task_result::Span;
use super::Fields;

/// By name, in the request's order; `null` where nobody came to judge one.
#[derive(Debug, Default)]
pub(super) struct Criteria {
    pub met: Fields<Value>,
    pub evidence: Fields<Option<Grade>>,
}

impl Criteria {
    pub(super) fn of(task: &TaskState, claim: Option<&Claim>) -> Criteria {
        let mut criteria = Criteria::default();
        let Some(assignment) = &task.spec.assignment else { return criteria };
        let verdict = task.collected.as_ref().map(|collected| &collected.verdict);
        for criterion in &assignment.criteria {
            let said = claim.and_then(|claim| claim.criteria.get(&criterion.name));
            let (value, grade) = match verdict.and_then(|verdict| finding_of(verdict, criterion)) {
                Some(finding) => (value_of(criterion.wants, finding, said), Some(finding.grade)),
                None => match said {
                    Some(said) => (said.clone(), Some(Grade::Claimed)),
                    None => (Value::Null, None),
                },
            };
            criteria.met.0.push((criterion.name.clone(), value));
            criteria.evidence.0.push((criterion.name.clone(), grade));
        }
        criteria
    }

    /// Those that rest on the agent's word.
    pub(super) fn claimed(&self) -> Vec<&str> {
        let claimed = self.evidence.0.iter().filter(|(_, grade)| *grade == Some(Grade::Claimed));
        claimed.map(|(name, _)| name.as_str()).collect()
    }
}

fn finding_of<'a>(verdict: &'a Verdict, criterion: &Criterion) -> Option<&'a Finding> {
    verdict.about(About::Criterion).find(|finding| finding.subject == criterion.name)
}

/// A floor tells the measured value, else the agent's number, else only whether it is met.
fn value_of(wants: Wanted, finding: &Finding, said: Option<&Value>) -> Value {
    match wants {
        Wanted::Truth(true) => finding.met.into(),
        // It decides nothing, so it is always met; whether it holds is its value.
        Wanted::Truth(false) => finding.value.map_or(finding.met, |held| held != 0.0).into(),
        Wanted::Floor(_) => match (finding.value, said) {
            (Some(value), _) => number(value),
            (None, Some(said @ Value::Number(_))) => said.clone(),
            (None, _) => finding.met.into(),
        },
    }
}

/// `85`, not `85.0`.
fn number(value: f64) -> Value {
    serde_json::to_value(Span(value)).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(wants: Wanted, met: bool, value: Option<f64>, said: Option<Value>, expected: Value) {
        let finding = Finding { value, ..Finding::new("x", Grade::Verified, met, "") };
        assert_eq!(value_of(wants, &finding, said.as_ref()), expected);
    }

    #[test]
    fn a_floor_tells_what_was_measured_and_a_truth_whether_it_holds() {
        check(Wanted::Floor(80.0), true, Some(85.0), Some(json!(99)), json!(85));
        check(Wanted::Floor(80.0), false, Some(75.5), None, json!(75.5));
        check(Wanted::Floor(80.0), true, None, Some(json!(90)), json!(90));
        check(Wanted::Floor(80.0), true, None, Some(json!("much")), json!(true));
        check(Wanted::Floor(80.0), false, None, None, json!(false));
        check(Wanted::Truth(true), true, Some(0.0), Some(json!(false)), json!(true));
        check(Wanted::Truth(false), true, Some(0.0), None, json!(false));
        check(Wanted::Truth(false), true, Some(1.0), None, json!(true));
    }
}
