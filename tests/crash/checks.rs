//! What must hold after every run, wherever its watchers died.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use watchkeeper::bus::{RealDisk, journal, sha256};
use watchkeeper::outcome::aggregate::VOLATILE_FIELDS;

use super::reference::MAX_RETRIES;
use super::run::Played;

/// The batch result with everything masked that is measured.
pub fn masked_result(played: &Played) -> Result<String, String> {
    let path = played.bus().join(format!("batches/batch-{}.result.json", played.way.batch_id()));
    let bytes = fs::read(&path).map_err(|error| format!("no batch result: {error}"))?;
    let mut value = serde_json::from_slice(&bytes).map_err(|error| format!("batch result: {error}"))?;
    mask(&mut value);
    Ok(format!("{value:#}").replace(&*played.root.path().to_string_lossy(), "ROOT"))
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if VOLATILE_FIELDS.contains(&name.as_str()) {
                    *value = Value::from("masked");
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Everything that is wrong with a finished run; `expected` is the undisturbed run's masked result.
pub fn faults(played: &Played, expected: &str) -> Vec<String> {
    let mut faults = Vec::new();
    match masked_result(played) {
        Ok(result) => faults.extend(first_difference(&result, expected)),
        Err(why) => faults.push(why),
    }
    check_directories(played, &mut faults);
    match journal_of(&played.archive()) {
        Ok(lines) => {
            check_order(&lines, played.killed, &mut faults);
            check_attempts(&lines, &mut faults);
            check_kept_files(&lines, &played.archive(), &mut faults);
        }
        Err(why) => faults.push(why),
    }
    faults
}

fn first_difference(result: &str, expected: &str) -> Option<String> {
    let (mut ours, mut theirs) = (result.lines(), expected.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (ours.next(), theirs.next()) {
            (None, None) => return None,
            (found, wanted) if found == wanted => {}
            (found, wanted) => {
                return Some(format!("batch result, line {number}: {found:?} instead of {wanted:?}"));
            }
        }
    }
}

/// Nothing is left over, nothing is there twice.
fn check_directories(played: &Played, faults: &mut Vec<String>) {
    let bus = played.bus();
    let batch = format!("batch-{}", played.way.batch_id());
    let expected: [(&str, Vec<String>); 4] = [
        ("inbox", Vec::new()),
        ("tasks", Vec::new()),
        ("completed-batches", vec![batch.clone()]),
        ("batches", vec![format!("{batch}.result.json")]),
    ];
    for (dir, wanted) in expected {
        let found = names(&bus.join(dir));
        if found != wanted {
            faults.push(format!("{dir}/ holds {found:?} instead of {wanted:?}"));
        }
    }
    let quarantined = names(&bus.join("quarantine"));
    let (reasons, refused): (Vec<_>, Vec<_>) =
        quarantined.iter().partition(|name| name.ends_with(".reason.json"));
    let is_explained = |name: &String| reasons.iter().any(|reason| **reason == format!("{name}.reason.json"));
    if refused.len() != 1 || !refused.iter().all(|name| is_explained(name)) {
        faults
            .push(format!("quarantine/ holds {quarantined:?} instead of one refused result with its reason"));
    }
    for entry in walkdir::WalkDir::new(played.root.path().join(".ce")).into_iter().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".tmp-wk-") {
            faults.push(format!("left over: {}", entry.path().display()));
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn journal_of(archive: &Path) -> Result<Vec<Value>, String> {
    let path = archive.join("journal.jsonl");
    // Once by the product, which checks the sums, and once as what it is.
    journal::read(&RealDisk::default(), &path).map_err(|error| error.to_string())?;
    let text = fs::read_to_string(&path).map_err(|error| format!("no journal: {error}"))?;
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("journal: {error}"))).collect()
}

fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap_or(0)
}

fn check_order(lines: &[Value], killed: usize, faults: &mut Vec<String>) {
    for (index, line) in lines.iter().enumerate() {
        if number(line, "seq") != index as u64 + 1 {
            faults.push(format!("journal line {} has number {}", index + 1, line["seq"]));
        }
    }
    for pair in lines.windows(2) {
        for field in ["epoch", "turn", "clock"] {
            if number(&pair[1], field) < number(&pair[0], field) {
                faults.push(format!("{field} goes back at journal line {}", pair[1]["seq"]));
            }
        }
    }
    let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    for event in ["accepted", "finished"] {
        if count(event) != 1 {
            faults.push(format!("{} times {event}", count(event)));
        }
    }
    if lines.last().is_none_or(|line| line["event"] != "finished") {
        faults.push("the journal does not end with the batch".to_owned());
    }
    if count("resumed") > killed {
        faults.push(format!("resumed {} times after {killed} deaths", count("resumed")));
    }
}

/// Attempts count up one by one, and no more of them than the policy allows.
fn check_attempts(lines: &[Value], faults: &mut Vec<String>) {
    let mut offered: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ended: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for line in lines {
        let Some(task) = line["task"].as_str() else { continue };
        let attempt = number(line, "attempt");
        match line["event"].as_str() {
            Some("offered") => {
                let last = offered.entry(task).or_default();
                if attempt != *last + 1 || attempt > 1 + MAX_RETRIES {
                    faults.push(format!("{task}: attempt {attempt} was offered after attempt {last}"));
                }
                *last = attempt;
            }
            Some("succeeded" | "attempt_failed") => *ended.entry((task, attempt)).or_default() += 1,
            _ => {}
        }
    }
    for ((task, attempt), times) in ended {
        if times != 1 {
            faults.push(format!("{task}: attempt {attempt} ended {times} times"));
        }
    }
}

/// What the journal names by hash is in the archive.
fn check_kept_files(lines: &[Value], archive: &Path, faults: &mut Vec<String>) {
    for line in lines {
        let (Some(task), Some(hash)) = (line["task"].as_str(), line["sha256"].as_str()) else { continue };
        let path = match line["event"].as_str() {
            Some("collected") => archive.join(format!("attempts/{task}/{}/result.json", line["attempt"])),
            Some("late") => archive.join(format!("late/task-{task}.{}.result.json", &hash[..12])),
            _ => continue,
        };
        match fs::read(&path) {
            Ok(bytes) if sha256(&bytes) == hash => {}
            Ok(_) => faults.push(format!("{}: not the bytes that the journal names", path.display())),
            Err(error) => faults.push(format!("{}: {error}", path.display())),
        }
    }
}
