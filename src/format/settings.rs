//! The settings file `watchkeeper.toml`, read into the settings table and written as its own manual.
//!
//! Knows TOML and line numbers; which keys there are and what they may hold is the table's business.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};

use crate::model::settings::{Given, SETTINGS, Setting, SettingDefect, SettingKind};
use crate::model::{Defect, Place, Settings};

/// Puts everything that a file says into the settings, or tells all that is wrong with it and puts nothing.
pub fn read_toml(text: &str, into: &mut Settings) -> Result<(), Vec<Defect>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut defects: Vec<Defect> = errors.iter().map(|error| syntax_defect(text, error)).collect();
    let mut settings = into.clone();
    for (key, value) in table.get_ref() {
        if key.get_ref() == "agents" {
            super::agents::read(value, text, &mut settings.agents, &mut defects);
            continue;
        }
        if key.get_ref() == "criteria" {
            super::criteria::read(value, text, &mut settings.criteria, &mut defects);
            continue;
        }
        if key.get_ref() == "merge" {
            super::criteria::read_merge(value, text, &mut settings.merge_verify, &mut defects);
            continue;
        }
        if let Err((rule, message, remedy)) = put(&mut settings, key.get_ref(), value.get_ref()) {
            defects.push(Defect::new(rule, line_of(text, key.span().start), message, remedy));
        }
    }
    if !defects.is_empty() {
        defects.sort_by_key(line_in);
        return Err(defects);
    }
    *into = settings;
    Ok(())
}

/// Puts one entry in its place, or says which rule it breaks, how, and what to do.
fn put(
    settings: &mut Settings,
    key: &str,
    value: &DeValue<'_>,
) -> Result<(), (&'static str, String, String)> {
    let takes_users = SETTINGS.iter().any(|setting| setting.key == key && setting.kind == SettingKind::Users);
    let given = match value {
        DeValue::Array(values) if takes_users => {
            let numbers = values.iter().map(|value| match given_of(value.get_ref()) {
                Ok(Given::Number(number)) => number,
                // No user has it: the table says what may stand here.
                _ => f64::NAN,
            });
            Ok(Given::Numbers(numbers.collect()))
        }
        other => given_of(other),
    };
    let given = match given {
        Ok(given) => given,
        // An unknown name explains more than the type of its value does; `put` tells of it below.
        Err(_) if !SETTINGS.iter().any(|setting| setting.key == key) => Given::Switch(true),
        Err(found) => {
            let message = format!("'{key}' cannot be {found}");
            return Err(("bad_setting", message, "write a number, a word or true/false".to_owned()));
        }
    };
    settings.put(key, given).map_err(|defect| {
        let (rule, remedy) = match defect {
            SettingDefect::Unknown { nearest: Some(name), .. } => {
                ("unknown_setting", format!("write '{name}'"))
            }
            SettingDefect::Unknown { nearest: None, .. } => ("unknown_setting", "remove it".to_owned()),
            SettingDefect::Bad { .. } => ("bad_setting", "choose a value that fits".to_owned()),
        };
        (rule, defect.to_string(), remedy)
    })
}

/// The file that `wk init` writes: every setting with its meaning, all of them commented out.
pub fn default_toml() -> String {
    let mut text = String::from(
        "# Settings of Watchkeeper. Every line below is a comment that shows a default;\n\
         # remove the '#' at its beginning to change one.\n",
    );
    for setting in SETTINGS {
        let _ = write!(text, "\n# {}\n", setting.about);
        let _ = match literal(setting) {
            Some(value) => writeln!(text, "#{} = {value}", setting.key),
            None => writeln!(text, "# {} is not set; then: {}", setting.key, setting.default),
        };
    }
    text.push_str(super::agents::EXAMPLE);
    text.push_str(super::criteria::EXAMPLE);
    text
}

/// The settings as a JSON Schema, for editors that check TOML by one.
pub fn schema() -> Value {
    let properties: Map<String, Value> =
        SETTINGS.iter().map(|setting| (setting.key.to_owned(), schema_of(setting))).collect();
    let mut properties = properties;
    properties.insert("agents".to_owned(), super::agents::schema());
    properties.insert("criteria".to_owned(), super::criteria::schema());
    properties.insert("merge".to_owned(), super::criteria::merge_schema());
    json!({
        "$schema": super::schema::DIALECT,
        "title": "Settings: .ce/watchkeeper.toml",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn schema_of(setting: &Setting) -> Value {
    let off = json!({"enum": ["off", false]});
    let mut schema = match setting.kind {
        SettingKind::Span { least } | SettingKind::Number { least } => {
            json!({"type": "number", "minimum": least})
        }
        SettingKind::OptionalSpan { least } | SettingKind::OptionalNumber { least } => {
            json!({"anyOf": [{"type": "number", "minimum": least}, off]})
        }
        SettingKind::Count { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
        SettingKind::OptionalCount { least, most } => {
            json!({"anyOf": [{"type": "integer", "minimum": least, "maximum": most}, off]})
        }
        SettingKind::Switch => json!({"type": "boolean"}),
        SettingKind::Word(words) => json!({"enum": words}),
        SettingKind::Users => json!({"type": "array", "items": {"type": "integer", "minimum": 0}}),
        SettingKind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"}),
    };
    schema["description"] = format!("{}; default: {}", setting.about, setting.default).into();
    schema
}

/// The default as TOML, where putting it in changes nothing. An optional setting that is not set is not
/// the same as one that is set to what then happens.
fn literal(setting: &Setting) -> Option<String> {
    match setting.kind {
        SettingKind::OptionalSpan { .. }
        | SettingKind::OptionalCount { .. }
        | SettingKind::OptionalNumber { .. } => {
            (setting.default == "off").then(|| format!("\"{}\"", setting.default))
        }
        SettingKind::Name => None,
        SettingKind::Word(_) => Some(format!("\"{}\"", setting.default)),
        _ => Some(setting.default.to_owned()),
    }
}

fn given_of(value: &DeValue<'_>) -> Result<Given, &'static str> {
    match value {
        DeValue::String(text) => Ok(Given::Text(text.to_string())),
        DeValue::Boolean(switch) => Ok(Given::Switch(*switch)),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix());
            number.map(|number| Given::Number(number as f64)).map_err(|_| "a number of that size")
        }
        DeValue::Float(float) => {
            float.as_str().parse().map(Given::Number).map_err(|_| "a number of that spelling")
        }
        DeValue::Datetime(_) => Err("a time"),
        DeValue::Array(_) => Err("an array"),
        DeValue::Table(_) => Err("a table"),
    }
}

pub(super) fn syntax_defect(text: &str, error: &toml::de::Error) -> Defect {
    let place = error.span().map_or(Place::File, |span| line_of(text, span.start));
    Defect::new("toml_syntax", place, error.message(), "correct the TOML there")
}

fn line_in(defect: &Defect) -> usize {
    match defect.place {
        Place::Line(line) => line,
        _ => 0,
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> Place {
    Place::Line(text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Seconds;

    fn told(text: &str) -> Vec<String> {
        let defects = read_toml(text, &mut Settings::default()).unwrap_err();
        defects.iter().map(|defect| format!("{}: {defect}", defect.rule)).collect()
    }

    #[test]
    fn a_file_is_put_in_its_place() {
        let mut settings = Settings::default();
        let text = "timeout_seconds = 1_800\nretry_delay_factor = 1.5\nrequire = \"observed\"\nevents = false\n\
                    batch_timeout_seconds = 0x10\n";
        read_toml(text, &mut settings).unwrap();
        assert_eq!((settings.timeout, settings.backoff.factor), (Seconds(1800.0), 1.5));
        assert_eq!((settings.batch_timeout, settings.events), (Some(Seconds(16.0)), false));
    }

    #[test]
    fn every_defect_comes_with_its_line_and_nothing_is_put_in_place() {
        let text = "# ours\nheartbeat_timout_seconds = 3\n\nmax_retries = 11\ntimeout_seconds = [1]\n\
                    require = 2025-11-10\n[agnets.x]\ncommand = [\"true\"]\n";
        assert_eq!(
            told(text),
            [
                "unknown_setting: line 2: unknown setting 'heartbeat_timout_seconds'; \
                 did you mean 'heartbeat_timeout_seconds'?",
                "bad_setting: line 4: 'max_retries' must be a whole number from 0 to 10",
                "bad_setting: line 5: 'timeout_seconds' cannot be an array",
                "bad_setting: line 6: 'require' cannot be a time",
                "unknown_setting: line 7: unknown setting 'agnets'; did you mean 'agent'?",
            ]
        );
        let mut settings = Settings::default();
        assert!(read_toml("timeout_seconds = 5\nmax_retries = 11\n", &mut settings).is_err());
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn broken_toml_is_told_with_its_line_beside_the_rest() {
        let told = told("max_retries = 11\ntimeout_seconds = = 5\nmax_retries = 1\n");
        assert!(told[0].starts_with("bad_setting: line 1"), "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("toml_syntax: line 2")), "{told:?}");
        assert!(told.iter().any(|line| line.starts_with("toml_syntax: line 3: duplicate key")), "{told:?}");
    }

    #[test]
    fn the_default_file_says_what_is_built_in() {
        let text = default_toml();
        let mut untouched = Settings::default();
        read_toml(&text, &mut untouched).unwrap();
        assert_eq!(untouched, Settings::default());

        let uncomment = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        let active: String = text.lines().map(|line| uncomment(line) + "\n").collect();
        let mut settings = Settings { max_retries: 9, timeout: Seconds(1.0), ..Settings::default() };
        read_toml(&active, &mut settings).unwrap();
        // Written down, the launcher is somebody's choice; it is the same one.
        settings.agents.launcher = None;
        // Written down it holds for reviewers too, of whom nobody asks it otherwise.
        settings.declared_files = None;
        assert_eq!(settings, Settings::default());
        for setting in SETTINGS {
            assert!(text.contains(setting.key) && text.contains(setting.about), "{}", setting.key);
        }
    }
}
