//! How criteria are checked: the `[criteria]` table of the settings file, and the patterns that find a value.
//!
//! Says what is to be run. Nothing is run here, and whether a request's own command may be is policy.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::agents::{command, word};
use super::settings::line_of;
use crate::model::Defect;
use crate::model::handoff::Check;
use crate::model::settings::nearest;

/// The one name in the `merge` table.
const VERIFY: &str = "verify";
const FIELDS: &[&str] = &["cmd", "shell", "value"];

/// What `wk init` shows of criteria.
pub(super) const EXAMPLE: &str = "
# How the success criteria of requests are checked, by their names. What is not here is the agent's word.
#
#     [criteria]
#     tests_pass = [\"cargo\", \"test\"]                              # met if it ends with 0
#     coverage = { cmd = [\"make\", \"coverage\"], value = 'TOTAL (\\d+)' }   # and prints the number
#     no_lint_errors = { shell = \"make lint > lint.log\" }           # a line for `sh -c`
#
# What is run in the merged tree of a handed-over batch before that is published; it must end with 0.
#
#     [merge]
#     verify = [\"make\", \"check\"]
";

/// Reads the whole `criteria` table; everything that is wrong becomes a defect.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    text: &str,
    into: &mut BTreeMap<String, Check>,
    defects: &mut Vec<Defect>,
) {
    let mut tell = |offset: usize, message: String, remedy: &str| {
        defects.push(Defect::new("bad_criterion", line_of(text, offset), message, remedy));
    };
    let DeValue::Table(entries) = value.get_ref() else {
        return tell(value.span().start, "'criteria' must be a table".to_owned(), "write [criteria]");
    };
    for (name, entry) in entries {
        match check_of(entry.get_ref()) {
            Ok(check) => {
                into.insert(name.get_ref().to_string(), check);
            }
            Err((rule, remedy)) => {
                tell(name.span().start, format!("criteria.{}: {rule}", name.get_ref()), remedy);
            }
        }
    }
}

/// Reads the `merge` table: what is run in a merged tree.
pub(super) fn read_merge(
    value: &Spanned<DeValue<'_>>,
    text: &str,
    into: &mut Option<Check>,
    defects: &mut Vec<Defect>,
) {
    let mut read = BTreeMap::new();
    let before = defects.len();
    self::read(value, text, &mut read, defects);
    for defect in &mut defects[before..] {
        "bad_setting".clone_into(&mut defect.rule);
        defect.message = defect.message.replace("criteria.", "merge.").replace("'criteria'", "'merge'");
        defect.remedy = defect.remedy.replace("[criteria]", "[merge]");
    }
    *into = read.remove(VERIFY).or_else(|| into.take());
    for other in read.keys() {
        let message = format!("merge.{other}: there is no such setting");
        let place = line_of(text, value.span().start);
        defects.push(Defect::new("unknown_setting", place, message, "the table has 'verify' alone"));
    }
}

type Broken = (String, &'static str);

fn check_of(value: &DeValue<'_>) -> Result<Check, Broken> {
    const REMEDY: &str = "write a list, or { cmd = [\"program\", \"argument\"], value = \"pattern\" }";
    let argv = |value| command(value).map_err(|rule| (rule, "a line for a shell is { shell = \"…\" }"));
    match value {
        DeValue::Table(fields) => check_of_table(fields),
        DeValue::Array(_) => Ok(Check { command: argv(value)?, value: None, from_request: false }),
        _ => Err(("must be a list of program and arguments, or a table".to_owned(), REMEDY)),
    }
}

fn check_of_table(fields: &DeTable<'_>) -> Result<Check, Broken> {
    let (mut argv, mut line, mut pattern) = (None, None, None);
    for (key, value) in fields {
        let text = || word(value.get_ref()).filter(|text| !text.trim().is_empty());
        match key.get_ref().as_ref() {
            "cmd" => {
                let given = command(value.get_ref());
                argv = Some(given.map_err(|rule| (format!("'cmd' {rule}"), "a line is { shell = \"…\" }"))?);
            }
            "shell" => {
                line = Some(text().ok_or(("'shell' must be a line".to_owned(), "write it as a text"))?);
            }
            "value" => {
                let text = text().ok_or(("'value' must be a pattern".to_owned(), "write it as a text"))?;
                if let Some(why) = flaw_of_pattern(&text) {
                    return Err((format!("'value' is no regular expression: {why}"), "correct it there"));
                }
                pattern = Some(text);
            }
            other => {
                let near = nearest(other, FIELDS.iter().copied());
                let hint = near.map_or(String::new(), |name| format!("; did you mean '{name}'?"));
                return Err((format!("unknown field '{other}'{hint}"), "there are cmd, shell and value"));
            }
        }
    }
    let command = match (argv, line) {
        (Some(argv), None) => argv,
        (None, Some(line)) => Check::shell(&line),
        (None, None) => return Err(("names no command".to_owned(), "add cmd = [\"program\"]")),
        (Some(_), Some(_)) => return Err(("has both 'cmd' and 'shell'".to_owned(), "keep one of them")),
    };
    Ok(Check { command, value: pattern, from_request: false })
}

/// Why a text is no regular expression, in one line.
pub fn flaw_of_pattern(pattern: &str) -> Option<String> {
    let error = regex_lite::Regex::new(pattern).err()?;
    Some(error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "))
}

/// The table as a JSON Schema, for editors.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "how criteria are checked, by their names",
        "additionalProperties": check_schema(),
    })
}

/// The `merge` table likewise.
pub(super) fn merge_schema() -> Value {
    json!({
        "type": "object",
        "description": "what is run in a merged tree before it is published",
        "properties": {VERIFY: check_schema()},
        "additionalProperties": false,
    })
}

fn check_schema() -> Value {
    let text = json!({"type": "string", "pattern": "\\S"});
    let argv = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    json!({"anyOf": [argv, {
        "type": "object",
        "properties": {"cmd": argv, "shell": text, "value": text},
        "oneOf": [{"required": ["cmd"]}, {"required": ["shell"]}],
        "additionalProperties": false,
    }]})
}

#[cfg(test)]
mod tests {
    use crate::format::settings::read_toml;
    use crate::model::Settings;

    #[test]
    fn a_criterion_is_a_command_a_line_or_a_command_with_a_value() {
        let mut settings = Settings::default();
        let text = "[criteria]\ntests_pass = [\"cargo\", \"test\"]\n\
                    coverage = { cmd = [\"cover\"], value = '(\\d+)%' }\nlint = { shell = \"make lint | cat\" }\n";
        read_toml(text, &mut settings).unwrap();
        assert_eq!(settings.criteria["tests_pass"].command, ["cargo", "test"]);
        assert_eq!(settings.criteria["coverage"].value.as_deref(), Some("(\\d+)%"));
        assert_eq!(settings.criteria["lint"].command, ["sh", "-c", "make lint | cat"]);
        assert!(settings.criteria.values().all(|check| !check.from_request));
    }

    #[test]
    fn everything_wrong_with_criteria_is_told_at_once_with_its_line() {
        let text = "[criteria]\na = \"cargo test\"\nb = { cmd = \"x\" }\nc = { value = \"x\" }\n\
                    d = { cmd = [\"x\"], value = '(' }\ne = { cmd = [\"x\"], shell = \"x\" }\nf = { comand = 1 }\ng = []\n";
        let defects = read_toml(text, &mut Settings::default()).unwrap_err();
        let told: Vec<String> = defects.iter().map(ToString::to_string).collect();
        for (line, part) in [
            "must be a list of program and arguments, or a table",
            "'cmd' must be a list",
            "names no command",
            "no regular expression",
            "both 'cmd' and 'shell'",
            "unknown field 'comand'",
            "must be a list",
        ]
        .iter()
        .enumerate()
        {
            assert!(told[line].starts_with(&format!("line {}: ", line + 2)), "{told:?}");
            assert!(told[line].contains(part), "{part} in {told:?}");
        }
    }
}
