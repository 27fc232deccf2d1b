//! Criteria of success: what a command said about one, or, where none was asked, what the agent says.
//!
//! Values in, findings out. Running the commands is the runner's business.

use regex_lite::Regex;
use serde_json::Value;

use crate::model::evidence::About;
use crate::model::handoff::{Check, Criterion, Wanted};
use crate::model::{Claim, Finding, Grade};

/// Texts by which an agent says that something holds.
const AFFIRMATIONS: [&str; 4] = ["true", "yes", "passed", "ok"];
const NUMBER: &str = r"[-+]?(?:\d{1,3}(?:,\d{3})+\b|\d+)(?:\.\d+)?(?:[eE][-+]?\d+\b)?";

/// How a check's command ended, and what it printed.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    /// `None` where a signal ended it.
    pub exit_code: Option<i32>,
    pub output: &'a str,
}

/// What a command says of a criterion: its exit code decides, and for a floor also the number that it prints.
pub fn by_command(criterion: &Criterion, check: &Check, ran: Ran<'_>) -> Finding {
    let ended = match ran.exit_code {
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    };
    let command = check.command.join(" ");
    let is_fine = ran.exit_code == Some(0);
    let value = measured(ran.output, check.value.as_deref());
    let (met, saw) = match (criterion.wants, value, &check.value) {
        _ if !is_fine => (false, format!("`{command}`: {ended}")),
        (Wanted::Floor(floor), Some(value), _) if value >= floor => {
            (true, format!("{value}, and at least {floor} is required"))
        }
        (Wanted::Floor(floor), Some(value), _) => {
            (false, format!("{value}, but at least {floor} is required"))
        }
        (Wanted::Floor(floor), None, _) => {
            (false, format!("`{command}` printed no value, and at least {floor} is required"))
        }
        (Wanted::Truth(_), Some(value), Some(_)) => (true, format!("`{command}`: {ended}, {value}")),
        (Wanted::Truth(_), None, Some(pattern)) => {
            (false, format!("`{command}` printed no value that '{pattern}' finds"))
        }
        (Wanted::Truth(_), _, None) => (true, format!("`{command}`: {ended}")),
    };
    // A number that nobody asked for says nothing about a truth.
    let value = value.filter(|_| check.value.is_some() || matches!(criterion.wants, Wanted::Floor(_)));
    finding(criterion, Grade::Verified, met, value, saw)
}

/// A check that could not be run decides against the criterion: nothing is met that was to be checked and was
/// not. Nor is anything verified by it.
pub fn not_run(criterion: &Criterion, why: &str) -> Finding {
    finding(criterion, Grade::Claimed, false, None, format!("its check could not be run: {why}"))
}

/// A check that checks nothing decides against the criterion, however it ended.
pub fn vacuous(criterion: &Criterion, why: &str) -> Finding {
    finding(criterion, Grade::Claimed, false, None, why.to_owned())
}

/// What the agent says of the criteria that no command decided.
pub fn by_word(criteria: &[Criterion], decided: &[Finding], claim: &Claim) -> Vec<Finding> {
    let is_open = |criterion: &&Criterion| {
        let is_about =
            |finding: &Finding| finding.about == About::Criterion && finding.subject == criterion.name;
        !decided.iter().any(is_about)
    };
    let word_on = |criterion: &Criterion| {
        // What an agent counted is its word too.
        let (said, counted) = (claim.criteria.get(&criterion.name), claim.metrics.get(&criterion.name));
        match criterion.wants {
            Wanted::Floor(floor) => word_on_floor(criterion, floor, said, counted),
            Wanted::Truth(_) => word_on_truth(criterion, said.or(counted)),
        }
    };
    criteria.iter().filter(is_open).map(word_on).collect()
}

/// A number decides, the lower one where the agent gives two. Whatever else it says of a floor is no value, but for
/// a plain `true`.
fn word_on_floor(
    criterion: &Criterion,
    floor: f64,
    said: Option<&Value>,
    counted: Option<&Value>,
) -> Finding {
    let value = [said, counted].into_iter().flatten().filter_map(number_said).min_by(f64::total_cmp);
    let (met, saw) = match (said.or(counted), value) {
        (Some(Value::Bool(false)), _) => (false, "the agent says that it is not met".to_owned()),
        (_, Some(value)) if value < floor => {
            (false, format!("the agent says {value}, but at least {floor} is required"))
        }
        (_, Some(value)) => (true, format!("the agent says {value}; nobody checked it")),
        (Some(Value::Bool(true)), None) => (true, "the agent says true; nobody checked it".to_owned()),
        (Some(other), None) => {
            (false, format!("the agent says {other}, which is no number, and at least {floor} is required"))
        }
        (None, None) => {
            (true, format!("nobody gave a value, and at least {floor} is wanted; the agent's word alone"))
        }
    };
    finding(criterion, Grade::Claimed, met, value, saw)
}

fn word_on_truth(criterion: &Criterion, said: Option<&Value>) -> Finding {
    let (met, saw) = match said {
        Some(Value::Bool(false)) => (false, "the agent says that it is not met".to_owned()),
        Some(said) if affirms(said) => (true, format!("the agent says {said}; nobody checked it")),
        Some(said) => (false, format!("the agent says {said}, which does not say that it is met")),
        None => (true, "the agent's word alone; nobody checked it".to_owned()),
    };
    finding(criterion, Grade::Claimed, met, said.and_then(Value::as_f64), saw)
}

fn affirms(said: &Value) -> bool {
    match said {
        Value::Bool(said) => *said,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => {
            let text = text.trim().to_lowercase();
            AFFIRMATIONS.contains(&text.as_str())
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// A number, or a text with one number in it: `"79%"`. Of several nobody knows which is meant.
fn number_said(said: &Value) -> Option<f64> {
    match said {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match numbers(text).as_slice() {
            [only] => Some(*only),
            _ => None,
        },
        _ => None,
    }
}

fn finding(criterion: &Criterion, grade: Grade, held: bool, value: Option<f64>, saw: String) -> Finding {
    // What is merely looked at decides nothing.
    let met = held || criterion.wants == Wanted::Truth(false);
    let value = match criterion.wants {
        // That it does not hold has to be told all the same.
        Wanted::Truth(false) => Some(f64::from(u8::from(held))),
        _ => value,
    };
    Finding { about: About::Criterion, value, ..Finding::new(&criterion.name, grade, met, saw) }
}

/// The value in what a command printed: what the pattern finds, or else the last number.
fn measured(output: &str, pattern: Option<&str>) -> Option<f64> {
    match pattern {
        Some(pattern) => {
            let found = Regex::new(pattern).ok()?.captures_iter(output).last()?;
            numbers(found.get(1).or_else(|| found.get(0))?.as_str()).first().copied()
        }
        None => numbers(output).last().copied(),
    }
}

/// The numbers in a text, also those with an exponent (`1e3`) or with commas between thousands (`1,234`).
fn numbers(text: &str) -> Vec<f64> {
    let Ok(number) = Regex::new(NUMBER) else { return Vec::new() };
    let found = number.find_iter(text).filter_map(|found| found.as_str().replace(',', "").parse().ok());
    found.filter(|value: &f64| value.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn criterion(name: &str, wants: Wanted) -> Criterion {
        Criterion { name: name.to_owned(), wants, check: None }
    }

    fn check(value: Option<&str>) -> Check {
        Check { command: vec!["measure".into()], value: value.map(str::to_owned), from_request: false }
    }

    fn ran(exit_code: i32, output: &str) -> Ran<'_> {
        Ran { exit_code: Some(exit_code), output }
    }

    #[test]
    fn a_floor_is_met_by_the_value_that_the_command_prints() {
        let coverage = criterion("coverage", Wanted::Floor(80.0));
        let seen = |output, value| by_command(&coverage, &check(value), ran(0, output));
        let found = seen("TOTAL 120 18 85%\n", None);
        assert!(found.met && found.value == Some(85.0) && found.grade == Grade::Verified);
        let found = seen("TOTAL coverage: 75.5% of 1000 lines", Some(r"coverage: ([\d.]+)%"));
        assert_eq!((found.met, found.value), (false, Some(75.5)));
        assert_eq!(found.saw, "75.5, but at least 80 is required");
        assert!(!seen("nothing to tell", None).met);
        assert!(!by_command(&coverage, &check(None), ran(1, "85")).met, "its exit code says no");
    }

    #[test]
    fn what_is_only_looked_at_decides_nothing_and_is_told() {
        let found = by_command(&criterion("tests_pass", Wanted::Truth(false)), &check(None), ran(1, ""));
        assert_eq!((found.met, found.value), (true, Some(0.0)));
    }

    #[test]
    fn the_agents_word_counts_where_nobody_checked_and_against_itself() {
        let criteria =
            [criterion("tests_pass", Wanted::Truth(true)), criterion("coverage", Wanted::Floor(80.0))];
        let claim = |said: Value| Claim { criteria: said.as_object().cloned().unwrap(), ..Claim::default() };
        let of = |said: Value| by_word(&criteria, &[], &claim(said));
        let found = of(json!({"coverage": 85}));
        assert!(found.iter().all(|finding| finding.met && finding.grade == Grade::Claimed));
        assert_eq!(found[1].value, Some(85.0));
        assert!(!of(json!({"coverage": 79.9}))[1].met);
        assert!(!of(json!({"tests_pass": false}))[0].met);
        let decided = by_command(&criteria[0], &check(None), ran(0, ""));
        assert_eq!(by_word(&criteria, &[decided], &Claim::default()).len(), 1);
        for met in [json!(true), json!(1), json!("Passed"), json!("ok")] {
            assert!(of(json!({"tests_pass": met}))[0].met, "{met}");
        }
        for against in [json!("no"), json!("false"), json!(0), json!(null), json!([]), json!({"ok": true})] {
            assert!(!of(json!({"tests_pass": against}))[0].met, "{against}");
        }
        let metrics = json!({"coverage": 50}).as_object().cloned().unwrap();
        assert!(!by_word(&criteria, &[], &Claim { metrics, ..Claim::default() })[1].met);
    }

    #[test]
    fn for_a_floor_only_a_number_is_a_value() {
        let criteria = [criterion("coverage", Wanted::Floor(80.0))];
        let of = |said: Value, counted: Value| {
            let fields = |value: Value| match value {
                Value::Object(fields) => fields,
                _ => serde_json::Map::new(),
            };
            let claim = Claim { criteria: fields(said), metrics: fields(counted), ..Claim::default() };
            let finding = by_word(&criteria, &[], &claim).remove(0);
            (finding.met, finding.value)
        };
        let said = |value: Value| of(json!({"coverage": value}), json!(null));
        assert_eq!(said(json!("79%")), (false, Some(79.0)));
        assert_eq!(said(json!("81 %")), (true, Some(81.0)));
        for none in [json!(null), json!([90]), json!({"percent": 90}), json!("high"), json!("85 of 100")] {
            assert_eq!(said(none.clone()), (false, None), "{none}");
        }
        assert_eq!(said(json!(false)), (false, None));
        assert_eq!(said(json!(true)), (true, None));
        assert_eq!(of(json!({"coverage": true}), json!({"coverage": 79})), (false, Some(79.0)));
        assert_eq!(of(json!({"coverage": 85}), json!({"coverage": 79})), (false, Some(79.0)));
        assert_eq!(of(json!({"coverage": null}), json!({"coverage": 90})), (true, Some(90.0)));
        assert_eq!(of(json!({"coverage": false}), json!({"coverage": 90})), (false, Some(90.0)));
        assert_eq!(of(json!(null), json!(null)), (true, None));
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let last = |output| measured(output, None);
        assert_eq!(last("took 1e3"), Some(1000.0));
        assert_eq!(last("lines: 1,234"), Some(1234.0));
        assert_eq!(last("1,234,567.5 in all"), Some(1_234_567.5));
        assert_eq!(last("[1,2,3]"), Some(3.0));
        assert_eq!(last("from -2.5 to +4"), Some(4.0));
        assert_eq!(measured("covered: 85% of 90", Some("covered: (.*?) of")), Some(85.0));
    }

    #[test]
    fn a_value_that_is_asked_for_must_be_printed_and_is_told() {
        let size = criterion("size", Wanted::Truth(true));
        let found = by_command(&size, &check(Some(r"size (\d+)")), ran(0, "size 12"));
        assert_eq!((found.met, found.value), (true, Some(12.0)));
        let found = by_command(&size, &check(Some(r"size (\d+)")), ran(0, "nothing"));
        assert_eq!((found.met, found.value), (false, None));
        assert_eq!(by_command(&size, &check(None), ran(0, "12")).value, None);
    }
}
