//! Success criteria: what is wanted, and by which command it is checked.
//!
//! A command in the request is marked as such: whether it may run is policy, and not decided here.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Reading, paths};
use crate::format::criteria::flaw_of_pattern;
use crate::format::{join, shortened};
use crate::model::handoff::{Check, Criterion, TESTS_CMD, Wanted};

/// Criteria by name: `true`, `false`, a floor, or an object that says how it is checked.
pub(super) fn read(value: Option<&Value>, place: &str, reading: &mut Reading<'_>) -> Vec<Criterion> {
    let Some(Value::Object(entries)) = value else { return Vec::new() };
    let read = |(name, value): (&String, &Value)| one(name, value, &join(place, name), reading);
    entries.iter().filter_map(read).collect()
}

fn one(name: &str, value: &Value, place: &str, reading: &mut Reading<'_>) -> Option<Criterion> {
    if !reading.is_fit_to_show(name, place) {
        return None;
    }
    let (wants, own) = match value {
        Value::Bool(truth) => (Wanted::Truth(*truth), None),
        Value::Number(number) => (Wanted::Floor(number.as_f64()?), None),
        Value::Object(fields) => {
            let floor = fields.get("min").and_then(Value::as_f64);
            let check = own_check(fields, place, reading)?;
            (floor.map_or(Wanted::Truth(true), Wanted::Floor), Some(check))
        }
        _ => return None,
    };
    let check = own.or_else(|| reading.settings.criteria.get(name).cloned());
    Some(Criterion { name: name.to_owned(), wants, check })
}

/// How the request says that it is checked.
fn own_check(fields: &Map<String, Value>, place: &str, reading: &mut Reading<'_>) -> Option<Check> {
    let command = match (fields.get("cmd"), fields.get("shell").filter(|line| line.is_string())) {
        (Some(_), Some(_)) => {
            let message = "has both 'cmd' and 'shell'";
            reading.report.refuse("bad_criterion", place, message, "keep one of them");
            return None;
        }
        (None, None) => {
            let remedy = "add \"cmd\": [\"program\", \"argument\"], or write the floor as a plain number";
            reading.report.refuse("bad_criterion", place, "names no command", remedy);
            return None;
        }
        (None, Some(line)) => command_of(line, &join(place, "shell"), reading)?,
        (Some(given), None) => command_of(given, &join(place, "cmd"), reading)?,
    };
    let value = fields.get("value").and_then(Value::as_str);
    if let Some(why) = value.and_then(flaw_of_pattern) {
        let message = format!("{:?} is no regular expression: {why}", shortened(value.unwrap_or_default()));
        reading.report.refuse("bad_pattern", &join(place, "value"), message, "correct it");
        return None;
    }
    Some(Check { command, value: value.map(str::to_owned), from_request: true })
}

/// Program and arguments, or one line as a shell reads it.
pub(super) fn command_of(value: &Value, place: &str, reading: &mut Reading<'_>) -> Option<Vec<String>> {
    match value {
        Value::String(line) if line.contains('\0') => {
            let message = "contains a NUL character, which no command can have";
            reading.report.refuse("bad_argument", place, message, "remove it");
            None
        }
        Value::String(line) => Some(Check::shell(line)),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// What assignments ask for, of the whole or of one task: criteria, and patterns of required artifacts.
pub(super) fn read_success(
    value: Option<&Value>,
    place: &str,
    reading: &mut Reading<'_>,
) -> (Vec<Criterion>, Vec<String>) {
    let Some(Value::Object(fields)) = value else { return Default::default() };
    let patterns = required_artifacts(fields.get("required_artifacts"), place, reading);
    let mut criteria = read(fields.get("criteria"), &join(place, "criteria"), reading);
    let tests = fields.get(TESTS_CMD);
    if let Some(command) = tests.and_then(|tests| command_of(tests, &join(place, TESTS_CMD), reading)) {
        if criteria.iter().any(|criterion| criterion.name == TESTS_CMD) {
            let place = join(&join(place, "criteria"), TESTS_CMD);
            let message = format!("'{TESTS_CMD}' also stands beside 'criteria'");
            reading.report.refuse("bad_criterion", &place, message, "keep one of them");
        }
        let check = Some(Check { command, value: None, from_request: true });
        criteria.insert(0, Criterion { name: TESTS_CMD.to_owned(), wants: Wanted::Truth(true), check });
    }
    (criteria, patterns)
}

fn required_artifacts(value: Option<&Value>, place: &str, reading: &mut Reading<'_>) -> Vec<String> {
    let Some(Value::Array(items)) = value else { return Vec::new() };
    let mut patterns: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for (index, pattern) in items.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_str()?))) {
        let place = format!("{}[{index}]", join(place, "required_artifacts"));
        match paths::objection_to_pattern(pattern) {
            Some(why) => {
                let message = format!("{:?} {why}", shortened(pattern));
                let remedy = "name files below the workspace, as in build/**/*.html";
                reading.report.refuse("bad_artifact", &place, message, remedy);
            }
            None if !known.insert(pattern) => {
                reading.report.warn(&place, format!("{:?} is listed twice", shortened(pattern)));
            }
            None => patterns.push(pattern.to_owned()),
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::format::settings::read_toml;
    use crate::intake::NoSurroundings;
    use crate::model::Settings;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        read_toml("[criteria]\ncoverage = { cmd = [\"cover\"], value = '(\\d+)%' }\n", &mut settings)
            .unwrap();
        settings
    }

    fn criteria(value: Value) -> (Vec<Criterion>, Vec<String>) {
        let settings = settings();
        let mut reading = Reading::new(&settings, &NoSurroundings);
        let criteria = read(Some(&value), "task.success_criteria", &mut reading);
        (criteria, reading.report.defects.iter().map(|defect| format!("{}: {defect}", defect.rule)).collect())
    }

    #[test]
    fn a_criterion_is_a_truth_a_floor_or_a_check() {
        let (found, defects) = criteria(json!({
            "a_truth": true, "b_lie": false, "c_floor": 80, "coverage": 85.5,
            "d_own": {"cmd": ["make", "lint"]}, "e_line": {"cmd": "make lint | cat"},
            "f_shell": {"shell": "true", "value": "x(\\d+)", "min": 3},
        }));
        assert_eq!(defects, Vec::<String>::new());
        let by_name = |name: &str| found.iter().find(|criterion| criterion.name == name).unwrap();
        assert_eq!((by_name("a_truth").wants, &by_name("a_truth").check), (Wanted::Truth(true), &None));
        assert_eq!(by_name("b_lie").wants, Wanted::Truth(false));
        assert_eq!((by_name("c_floor").wants, &by_name("c_floor").check), (Wanted::Floor(80.0), &None));
        let ours = by_name("coverage").check.clone().unwrap();
        assert_eq!((ours.command.as_slice(), ours.from_request), (&["cover".to_owned()][..], false));
        assert_eq!(by_name("coverage").wants, Wanted::Floor(85.5));
        let own = by_name("d_own").check.clone().unwrap();
        assert_eq!((own.command, own.from_request), (vec!["make".to_owned(), "lint".to_owned()], true));
        assert_eq!(by_name("e_line").check.clone().unwrap().command, ["sh", "-c", "make lint | cat"]);
        let shell = by_name("f_shell");
        assert_eq!(shell.wants, Wanted::Floor(3.0));
        assert_eq!(shell.check.clone().unwrap().value.as_deref(), Some("x(\\d+)"));
    }

    #[test]
    fn a_criterion_that_cannot_be_checked_as_it_says_is_a_defect() {
        let (found, defects) = criteria(json!({
            "a": {"value": "x"}, "b": {"cmd": ["x"], "shell": "x"}, "c": {"cmd": ["x"], "value": "("}, " ": true,
        }));
        assert_eq!(found, []);
        let told = defects.join("\n");
        for part in ["names no command", "both 'cmd' and 'shell'", "no regular expression", "has no name"] {
            assert!(told.contains(part), "{part} in:\n{told}");
        }
        assert!(told.contains("bad_pattern: field task.success_criteria.c.value: "), "{told}");
    }

    #[test]
    fn tests_cmd_is_a_line_or_a_command_and_comes_first() {
        let settings = settings();
        let mut reading = Reading::new(&settings, &NoSurroundings);
        let value = json!({"tests_cmd": "make test", "required_artifacts": ["a/*.txt", "/x", "a/*.txt"],
                           "criteria": {"coverage": 80}});
        let (criteria, patterns) = read_success(Some(&value), "success_criteria", &mut reading);
        assert_eq!(criteria[0].check.clone().unwrap().command, ["sh", "-c", "make test"]);
        assert_eq!((criteria[1].name.as_str(), patterns), ("coverage", vec!["a/*.txt".to_owned()]));
        assert_eq!(reading.report.defects.len(), 1, "{:?}", reading.report.defects);
        let value = json!({"tests_cmd": ["make", "test"]});
        let (criteria, _) = read_success(Some(&value), "success_criteria", &mut reading);
        assert_eq!(criteria[0].check.clone().unwrap().command, ["make", "test"]);
    }
}
