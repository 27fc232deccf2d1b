//! The scenes' short form of a plan: one task a line, `KEY <- KEY KEY field=value …`, and plan settings
//! as lines `field = value`.

use serde_json::{Map, Value, json};

/// The plan as JSON.
///
/// ```text
/// batch_id = 43
/// 1
/// 2a <- 1 files_modified=["a.txt"]
/// ```
pub fn json(graph: &str) -> String {
    let mut plan = Map::new();
    let mut phases = Vec::new();
    for line in graph.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once(" = ") {
            Some((field, value)) => {
                plan.insert(field.to_owned(), value_of(value));
            }
            None => phases.push(phase(line)),
        }
    }
    plan.insert("phases".to_owned(), Value::Array(phases));
    serde_json::to_string_pretty(&plan).unwrap()
}

fn phase(line: &str) -> Value {
    let mut words = line.split_whitespace();
    let key = words.next().unwrap();
    let mut phase = json!({
        "id": key, "name": format!("Phase {key}: Part {key}"), "goal": format!("do {key}"),
        "complexity": "low", "estimated_hours": 0.1, "files_modified": [], "dependencies": [],
    });
    for word in words.filter(|word| *word != "<-") {
        match word.split_once('=') {
            Some((field, value)) => phase[field] = value_of(value),
            None => phase["dependencies"].as_array_mut().unwrap().push(word.into()),
        }
    }
    phase
}

fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
