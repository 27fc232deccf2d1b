//! What a runner leaves behind: the result that its agent did not write, and the exit record.
//!
//! Pure: what was seen goes in, bytes come out. Whatever is quoted from the agent has lost its secrets before.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::{Map, Value, json};

use super::kept::Kept;
use crate::format::json as strict_json;
use crate::format::order::Order;
use crate::format::result::{self, Done};
use crate::format::transcript::Spoken;
use crate::model::exit::Stopped;
use crate::model::preset::Dialect;
use crate::model::{Attempt, Claim, Seconds};

/// Of an output that is no object, so many lines are told.
const OUTPUT_LINES_MAX: usize = 20;
/// Of an error that cannot stand in a result as it is, so much.
const ERROR_CHARS_MAX: usize = 1_000;
/// Of what it complained about, so many.
const ERROR_LINES_MAX: usize = 5;

/// What was measured stands under this name.
const RUN: &str = "run";

/// How an agent ended.
pub(super) struct Ended<'a> {
    pub(super) status: ExitStatus,
    /// Why the runner ended it, if it did.
    pub(super) stopped: Option<&'a Stopped>,
    pub(super) out: &'a Kept,
    pub(super) err: &'a Kept,
    /// Without secrets.
    pub(super) spoken: &'a Spoken,
    pub(super) run: Run,
}

/// What the whole tree of an agent used.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) wall: Seconds,
    pub(super) cpu: Seconds,
    pub(super) peak_memory_kb: u64,
}

impl Ended<'_> {
    /// Exit code or signal, time and memory, as the exit record tells them.
    fn measured(&self) -> Value {
        let Run { wall, cpu, peak_memory_kb } = self.run;
        let mut run = json!({"wall_seconds": wall.0, "cpu_seconds": cpu.0, "peak_memory_kb": peak_memory_kb});
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => run["exit_code"] = code.into(),
            (None, Some(signal)) => run["signal"] = signal.into(),
            (None, None) => {}
        }
        run
    }
}

/// A valid result of an agent that wrote none.
pub(super) fn result_of(order: &Order, ended: &Ended) -> Vec<u8> {
    let errors = errors_of(ended);
    let done = Done {
        task_id: order.task_id.clone(),
        attempt: Some(order.attempt),
        status: Some(if errors.is_empty() { "success" } else { "failed" }.to_owned()),
        errors,
        tokens_used: ended.spoken.tokens_used,
        elapsed_seconds: Some(ended.run.wall.0),
        ..Done::default()
    };
    let told = answer(order, ended).and_then(|text| told_by_object(order, &done, ended, &text));
    let told = told.or_else(|| told_by_words(&done, ended));
    told.and_then(|told| with_warnings(told, &ended.spoken.warnings)).unwrap_or_else(|| {
        // Its words cannot stand in a result; that it ended, and how, can.
        let errors = done.errors.iter().take(1).map(|error| wording(error)).collect();
        let done = Done { errors, tokens_used: None, elapsed_seconds: None, ..done };
        result::render(&done, Map::new()).unwrap_or_else(|_| bare_result(&done))
    })
}

/// What its output made look doubtful stands in the result too.
fn with_warnings(told: Vec<u8>, warnings: &[String]) -> Option<Vec<u8>> {
    if warnings.is_empty() {
        return Some(told);
    }
    let mut object = strict_json::parse_object(&told).ok()?;
    object.entry("warnings").or_insert_with(|| warnings.into());
    let mut bytes = serde_json::to_vec_pretty(&object).ok()?;
    bytes.push(b'\n');
    result::read(&bytes).is_ok().then_some(bytes)
}

/// A line of an agent's, short enough for any report.
fn wording(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}

/// What is left where nothing else can be told: whose it is, and how it ended.
fn bare_result(done: &Done) -> Vec<u8> {
    let status = done.status.as_deref().unwrap_or("failed");
    let attempt = done.attempt.map(Attempt::number);
    let bare = json!({ "task_id": done.task_id, "status": status, "output": {}, "attempt": attempt });
    bare.to_string().into_bytes()
}

/// Whether these bytes are a result of this attempt.
pub(super) fn is_valid(order: &Order, bytes: &[u8]) -> bool {
    let is_current = |claim: &Claim| claim.attempt.is_none_or(|said| said == order.attempt);
    result::read(bytes).is_ok_and(|claim| is_for(order, &claim) && is_current(&claim))
}

fn is_for(order: &Order, claim: &Claim) -> bool {
    claim.task_id == order.task_id || claim.task_id == order.task.as_str()
}

/// Empty if all is well.
fn errors_of(ended: &Ended) -> Vec<String> {
    let mut errors = Vec::new();
    match (ended.status.code(), ended.status.signal()) {
        _ if ended.stopped.is_some() => errors.extend(ended.stopped.map(stop_words)),
        (Some(0), _) => {}
        (Some(code), _) => errors.push(format!("the agent ended with exit code {code}")),
        (None, Some(signal)) => {
            errors.push(format!("the agent was ended by signal {signal}{}", name_of(signal)));
        }
        (None, None) => errors.push("the agent ended in an unknown way".to_owned()),
    }
    errors.extend(ended.spoken.failure.clone());
    if !errors.is_empty() {
        errors.extend(ended.err.last_lines(ERROR_LINES_MAX));
    }
    errors
}

fn stop_words(stopped: &Stopped) -> String {
    let why = match stopped {
        Stopped::Timeout { limit } => format!("its {limit} were up"),
        Stopped::Limit { what, limit } => format!("it reached its limit {what} = {limit}"),
        Stopped::Asked { why } | Stopped::NotStarted { why } => why.clone(),
        Stopped::Superseded => "a later attempt exists".to_owned(),
        Stopped::Lingered => "it stayed after its result".to_owned(),
        Stopped::HungUp => "its terminal is gone".to_owned(),
    };
    format!("the agent was ended: {why}")
}

fn name_of(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!(" ({name})"),
        None => String::new(),
    }
}

/// What may be one JSON object: all that a plain agent printed, or else its last line, or the last words of one
/// that tells a story.
fn answer(order: &Order, ended: &Ended) -> Option<Vec<u8>> {
    match order.dialect {
        Dialect::Plain => {
            let is_object = |text: &&[u8]| text.starts_with(b"{") && strict_json::parse_object(text).is_ok();
            let whole = ended.out.whole().filter(is_object);
            whole.or_else(|| ended.out.parting_line().filter(is_object)).map(<[u8]>::to_vec)
        }
        _ => ended.spoken.final_message.as_ref().map(|text| text.trim().as_bytes().to_vec()),
    }
}

/// An object that is a result of this task is the result; any other is what the task produced.
fn told_by_object(order: &Order, done: &Done, ended: &Ended, text: &[u8]) -> Option<Vec<u8>> {
    if text.first() != Some(&b'{') {
        return None;
    }
    let mut object = strict_json::parse_object(text).ok()?;
    if result::read(text).is_ok_and(|claim| is_for(order, &claim)) {
        // Its own word stands, unless it ended badly.
        let status = done.status.clone().filter(|_| !done.errors.is_empty());
        let tokens_used = done.tokens_used.filter(|_| !object.contains_key("tokens_used"));
        object.entry(RUN).or_insert_with(|| ended.measured());
        return result::render(&Done { status, tokens_used, ..done.clone() }, object).ok();
    }
    result::render(done, partial(ended, object)).ok()
}

fn told_by_words(done: &Done, ended: &Ended) -> Option<Vec<u8>> {
    let mut output = Map::new();
    if let Some(message) = ended.spoken.final_message.as_deref().filter(|text| !text.trim().is_empty()) {
        output.insert("message".to_owned(), message.into());
    } else {
        let lines = ended.out.last_lines(OUTPUT_LINES_MAX);
        if !lines.is_empty() {
            output.insert("stdout_tail".to_owned(), lines.join("\n").into());
        }
    }
    result::render(done, partial(ended, output)).ok()
}

fn partial(ended: &Ended, output: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([("output".to_owned(), Value::Object(output)), (RUN.to_owned(), ended.measured())])
}
