//! The variables that a request adds to its agents' environment, in the four forms that people use.
//!
//! What decides which program runs is refused: a request may ask for work, and settings say by what.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::format::agents::is_variable;
use crate::format::{Report, join, shortened};
use crate::model::agent::EnvRule;

/// Variables by which a value becomes a program or a library that is loaded. With `WK_` begin ours.
const DECIDING: &[&str] = &[
    "PATH",
    "HOME",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "IFS",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONPATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "EDITOR",
    "PAGER",
];
const DECIDING_PREFIXES: &[&str] = &["LD_", "DYLD_", "GIT_", "WK_"];
/// Variables that begin like those and only say who somebody is.
const HARMLESS_PREFIXES: &[&str] = &["GIT_AUTHOR_", "GIT_COMMITTER_"];

/// The rules in the request's order, each name once.
pub(super) fn read(value: Option<&Value>, place: &str, report: &mut Report) -> Vec<EnvRule> {
    let mut list = List { rules: Vec::new(), names: HashSet::new(), report };
    match value {
        Some(Value::Object(map)) => map.iter().for_each(|(name, value)| list.take_entry(name, value, place)),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                list.take_item(item, &format!("{place}[{index}]"));
            }
        }
        _ => {}
    }
    list.rules
}

struct List<'r> {
    rules: Vec<EnvRule>,
    names: HashSet<String>,
    report: &'r mut Report,
}

impl List<'_> {
    fn take_entry(&mut self, name: &str, value: &Value, place: &str) {
        let place = join(place, name);
        match value {
            Value::String(text) => self.put(name, Some(text), &place),
            Value::Bool(true) => self.put(name, None, &place),
            Value::Bool(false) => {
                let message = "must be a text, or true to inherit it, found false";
                self.report.refuse(
                    "bad_variable",
                    &place,
                    message,
                    "leave out what the agents shall not have",
                );
            }
            _ => {}
        }
    }

    fn take_item(&mut self, item: &Value, place: &str) {
        match item {
            Value::String(text) => match text.split_once('=') {
                Some((name, value)) => self.put(name, Some(value), place),
                None => self.put(text, None, place),
            },
            Value::Object(fields) => self.take_object(fields, place),
            _ => {}
        }
    }

    fn take_object(&mut self, fields: &Map<String, Value>, place: &str) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let is_odd = fields.get("value").is_some_and(|value| !value.is_string());
        if let Some(name) = text("name").filter(|_| !is_odd) {
            self.put(name, text("value"), place);
        }
    }

    fn put(&mut self, name: &str, value: Option<&str>, place: &str) {
        let shown = shortened(name);
        if !is_variable(name) {
            let message = format!("{shown:?} is no variable's name");
            let remedy = "use letters, digits and '_', and no digit first";
            return self.report.refuse("bad_variable", place, message, remedy);
        }
        if !self.names.insert(name.to_owned()) {
            let message = format!("{shown} is given twice");
            return self.report.refuse("duplicate_variable", place, message, "keep one of the two");
        }
        if decides(name) && value.is_some() {
            let message = format!("{shown} is not a request's to set: it can change what is run");
            let remedy = "put it into the agent's own env, in settings or in its agent.toml";
            return self.report.refuse("variable_not_allowed", place, message, remedy);
        }
        if value.is_some_and(|value| value.contains('\0')) {
            let message = format!("the value of {shown} contains a NUL character");
            return self.report.refuse("bad_variable", place, message, "remove it");
        }
        self.rules.push(EnvRule { name: name.to_owned(), value: value.map(str::to_owned), plain: false });
    }
}

fn decides(name: &str) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    DECIDING.contains(&name) || (begins(DECIDING_PREFIXES) && !begins(HARMLESS_PREFIXES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(value: Value) -> String {
        let mut report = Report::default();
        let rules = read(Some(&value), "environment.env_vars", &mut report);
        let rules = rules.iter().map(|rule| match &rule.value {
            Some(value) => format!("{}={value}", rule.name),
            None => rule.name.clone(),
        });
        let defects = report.defects.iter().map(|defect| format!("{}: {defect}", defect.rule));
        rules.chain(defects).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn variables_come_in_four_forms() {
        assert_eq!(told(json!({"A": "1", "B": "x=y", "C": "", "D": true})), "A=1\nB=x=y\nC=\nD");
        assert_eq!(told(json!(["A=1", "B=x=y", "C=", "D"])), "A=1\nB=x=y\nC=\nD");
        assert_eq!(told(json!([{"name": "A", "value": "1"}, {"name": "D"}, "E=5"])), "A=1\nD\nE=5");
        assert_eq!(told(json!([])), "");
        assert_eq!(read(None, "", &mut Report::default()), []);
    }

    #[test]
    fn a_bad_variable_is_told_with_its_place() {
        let place = "field environment.env_vars";
        assert_eq!(
            told(json!(["1A=x", "A B=c", "=x", "A=1", "A=2"])),
            format!(
                "A=1\nbad_variable: {place}[0]: \"1A\" is no variable's name\n\
                 bad_variable: {place}[1]: \"A B\" is no variable's name\n\
                 bad_variable: {place}[2]: \"\" is no variable's name\n\
                 duplicate_variable: {place}[4]: A is given twice"
            )
        );
        assert!(told(json!({"A": "x\u{0}y"})).contains("NUL"));
        assert!(told(json!({"A": false})).starts_with("bad_variable"));
    }

    #[test]
    fn what_decides_which_program_runs_is_not_a_requests_to_set() {
        for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "GIT_SSH_COMMAND", "NODE_OPTIONS", "WK_TASK", "DYLD_X"]
        {
            assert!(told(json!({name: "x"})).starts_with("variable_not_allowed"), "{name}");
        }
        assert_eq!(told(json!(["PATH", "LD_PRELOAD"])), "PATH\nLD_PRELOAD", "inherited, they are the user's");
        assert_eq!(told(json!(["GIT_AUTHOR_NAME=Ann"])), "GIT_AUTHOR_NAME=Ann");
    }
}
