//! Shapes as JSON Schemas (draft 2020-12), for `wk schema` and for whoever writes files for the bus.
//!
//! A schema says what should be written. We read a little less than it allows, because some rules (a path
//! that leads out, a reserved id) would need a regular expression that nobody can read; and a little more,
//! where a reader ignores what a field says.

use serde_json::{Map, Value, json};

use super::shape::{Field, ITEMS_MAX, Kind, Need, SPAN_MOST, STRING_BYTES_MAX, Shape, Unknown};
use super::{ctxp, handoff, heartbeat, merge_papers, output, report, result, settings, spec, take, wish};

/// The dialect that every schema names.
pub const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Every schema with its name, in the order of the documentation.
pub fn all() -> Vec<(&'static str, Value)> {
    let shapes = [
        &spec::SPEC,
        &heartbeat::HEARTBEAT,
        &result::RESULT,
        &output::BATCH_RESULT,
        &wish::WISH,
        &take::TAKE,
        &output::REASON,
        &output::JOURNAL_ENTRY,
        &output::STATUS,
        &report::EXECUTION_REPORT,
        &report::ASSIGNMENTS_REPORT,
        &report::WORKSPACE_STATUS,
        &merge_papers::CONFLICTS,
        &merge_papers::RECEIPT,
        &handoff::EXECUTION_REQUEST,
        &handoff::ASSIGNMENTS,
        &ctxp::CTXP,
    ];
    let mut all: Vec<(&'static str, Value)> =
        shapes.into_iter().map(|shape| (shape.name, shape.schema())).collect();
    all.insert(4, ("settings", settings::schema()));
    all
}

impl Shape {
    /// The schema of a whole file.
    pub fn schema(&self) -> Value {
        let mut schema = self.object_schema();
        schema.insert("$schema".to_owned(), DIALECT.into());
        Value::Object(schema)
    }

    fn object_schema(&self) -> Map<String, Value> {
        let properties: Map<String, Value> =
            self.fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
        let mut schema = Map::new();
        schema.insert("title".to_owned(), self.title.into());
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        if self.unknown == Unknown::Refuse {
            schema.insert("additionalProperties".to_owned(), false.into());
        }
        schema
    }
}

impl Field {
    fn schema(&self) -> Value {
        let takes_null = match self.need {
            Need::Required => false,
            Need::Optional => self.kind.is_list(),
            Need::Nullable => true,
        };
        let mut schema = self.kind.schema();
        let is_open = schema.as_object().is_some_and(Map::is_empty);
        if takes_null && !is_open {
            schema = json!({"anyOf": [schema, {"type": "null"}]});
        }
        schema["description"] = self.about.into();
        schema
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Kind::Text => json!({"type": "string", "maxLength": STRING_BYTES_MAX}),
            Kind::FilledText => json!({"type": "string", "pattern": "\\S", "maxLength": STRING_BYTES_MAX}),
            Kind::Id => json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "maxLength": 64}),
            Kind::Count { least } => json!({"type": "integer", "minimum": least, "maximum": i64::MAX}),
            Kind::Integer { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Number { least } => json!({"type": "number", "minimum": least}),
            Kind::Span { least } => json!({"type": "number", "minimum": least, "maximum": SPAN_MOST}),
            Kind::Boolean => json!({"type": "boolean"}),
            Kind::Time | Kind::ShownTime => json!({"type": "string", "format": "date-time"}),
            Kind::Any => json!({}),
            Kind::Texts => list_of(json!({"type": "string"})),
            Kind::Ids => list_of(Kind::Id.schema()),
            Kind::Paths | Kind::Files => {
                list_of(json!({"type": "string", "minLength": 1, "maxLength": 4096}))
            }
            Kind::Messages => list_of(json!({"anyOf": [
                {"type": "string"},
                {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}},
            ]})),
            Kind::Command => {
                let mut list = list_of(json!({"type": "string"}));
                list["minItems"] = 1.into();
                list
            }
            Kind::List => json!({"type": "array", "maxItems": ITEMS_MAX}),
            Kind::OneOf(words) => json!({"enum": words}),
            Kind::Loosely(words) => json!({"type": "string", "pattern": in_any_case(words)}),
            Kind::Object(shape) => Value::Object(shape.object_schema()),
            Kind::Objects(shape) => list_of(Value::Object(shape.object_schema())),
            Kind::Items(kind) => list_of(kind.schema()),
            Kind::Each(kind) => json!({"type": "object", "additionalProperties": kind.schema()}),
            Kind::Map => json!({"type": "object"}),
            Kind::Either(kinds) => {
                json!({"anyOf": kinds.iter().map(|kind| kind.schema()).collect::<Vec<_>>()})
            }
        }
    }
}

fn list_of(items: Value) -> Value {
    json!({"type": "array", "items": items, "maxItems": ITEMS_MAX})
}

/// A pattern for these words in any case of letters: JSON Schema knows no flag for that.
fn in_any_case(words: &[super::shape::Synonyms]) -> String {
    let all = words.iter().flat_map(|(own, others)| std::iter::once(own).chain(*others));
    let either = |letter: char| match letter.is_ascii_lowercase() {
        true => format!("[{letter}{}]", letter.to_ascii_uppercase()),
        false => letter.to_string(),
    };
    let spelled: Vec<String> = all.map(|word| word.chars().map(either).collect()).collect();
    format!("^\\s*({})\\s*$", spelled.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_protocol_has_a_schema_whose_fields_are_explained() {
        let names: Vec<&str> = all().iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "task-spec",
                "heartbeat",
                "result",
                "batch-result",
                "settings",
                "wish",
                "take",
                "reason",
                "journal-entry",
                "status",
                "execution-report",
                "assignments-report",
                "workspace-status",
                "conflicts",
                "receipt",
                "execution-request",
                "assignments",
                "ctxp"
            ]
        );
        for (name, schema) in all() {
            for (field, property) in schema["properties"].as_object().unwrap() {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(!about.is_empty(), "{name}.{field}");
            }
        }
    }
}
