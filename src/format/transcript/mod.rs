//! What a coding CLI prints when nobody sits before it, as progress, tokens, cost and a last message.
//!
//! Total: any bytes in any pieces, in any order, and never a panic; what is not understood is passed
//! over. Memory is bounded, whatever an agent prints. No disk, no process, no clock: the runner brings
//! the bytes. The text in here is an agent's word; secrets are taken out by whoever writes it down.

mod claude;
mod codex;
mod gemini;
mod heard;
mod lines;
mod opencode;
mod wording;

use serde_json::Value;

use crate::model::preset::Dialect;
use heard::Heard;
use lines::Lines;

/// Longest line that is looked at; a longer one is skipped up to its end.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Longest last message that is kept.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Longest line of progress.
pub const PROGRESS_CHARS_MAX: usize = 200;

/// How things stand: totals so far, not increments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// One short line for people.
    pub progress: Option<String>,
    /// All that models read and wrote, cached or not: the one number that every CLI tells.
    pub tokens_used: Option<u64>,
    pub cost_usd: Option<f64>,
}

/// What the whole output said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spoken {
    /// The assistant's last message; for plain text, the end of it.
    pub final_message: Option<String>,
    pub tokens_used: Option<u64>,
    pub cost_usd: Option<f64>,
    /// How often the model was asked.
    pub turns: Option<u32>,
    pub session_id: Option<String>,
    /// The CLI itself says that it did not work, whatever its exit code is.
    pub failure: Option<String>,
    /// What deserves a second look: permissions refused, output that ends too early.
    pub warnings: Vec<String>,
}

/// A reader of one agent's standard output, line by line.
#[derive(Debug)]
pub struct Transcript {
    dialect: Dialect,
    lines: Lines,
    ear: Ear,
    heard: Heard,
    told: Update,
}

/// Who understands the lines, with what it has to remember between them.
#[derive(Debug)]
enum Ear {
    Plain,
    Claude(claude::Ear),
    Codex(codex::Ear),
    Opencode(opencode::Ear),
    Gemini(gemini::Ear),
}

impl Transcript {
    pub fn new(dialect: Dialect) -> Transcript {
        let ear = match dialect {
            Dialect::Plain => Ear::Plain,
            Dialect::Claude => Ear::Claude(claude::Ear::default()),
            Dialect::Codex => Ear::Codex(codex::Ear::default()),
            Dialect::Opencode => Ear::Opencode(opencode::Ear::default()),
            Dialect::Gemini => Ear::Gemini(gemini::Ear::default()),
        };
        Transcript { dialect, lines: Lines::default(), ear, heard: Heard::default(), told: Update::default() }
    }

    /// Takes the next bytes, cut anywhere. How things stand, if that changed.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Update> {
        let (ear, heard) = (&mut self.ear, &mut self.heard);
        self.lines.push(bytes, |line| hear(ear, line, heard));
        let now = self.heard.update();
        if now == self.told {
            return None;
        }
        self.told = now.clone();
        Some(now)
    }

    /// Everything, once the output has ended.
    pub fn finish(self) -> Spoken {
        let Transcript { dialect, lines, mut ear, mut heard, .. } = self;
        let skipped = lines.skipped();
        let is_last_skipped = lines.is_last_skipped() && dialect != Dialect::Plain;
        // The last line may lack its end and be whole all the same.
        lines.finish(|line| hear(&mut ear, line, &mut heard));
        if skipped > 0 {
            let lines = if skipped == 1 { "1 line".to_owned() } else { format!("{skipped} lines") };
            heard.warn(&format!("{lines} of the output skipped: longer than 1 MiB"));
        }
        if is_last_skipped {
            // The last event says how it went, and nobody could read it.
            heard.fail(
                "the last line of its output is longer than 1 MiB, so that nobody can tell how it ended",
            );
        }
        if !heard.has_events {
            if dialect != Dialect::Plain {
                heard.warn(&format!("nothing in the output is of the dialect `{dialect}`"));
            }
            return heard.spoken();
        }
        match &ear {
            Ear::Opencode(ear) => ear.end(&mut heard),
            Ear::Codex(ear) => ear.end(&mut heard),
            Ear::Plain | Ear::Claude(_) | Ear::Gemini(_) => {}
        }
        if !heard.has_ended {
            heard.warn("the output ends before its result");
        }
        heard.spoken()
    }
}

/// Lets one line be understood.
fn hear(ear: &mut Ear, line: &[u8], heard: &mut Heard) {
    let starts_json = line.trim_ascii_start().first().is_some_and(|first| b"{[".contains(first));
    let parsed = match ear {
        Ear::Plain => None,
        // serde_json bounds the depth by itself.
        _ if starts_json => serde_json::from_slice::<Value>(line).ok(),
        _ => None,
    };
    match parsed {
        // Some versions print all events at once, as one array.
        Some(Value::Array(events)) => events.iter().for_each(|event| hear_event(ear, event, heard)),
        Some(event) => hear_event(ear, &event, heard),
        None => {
            // Broken JSON is nothing that people want to read.
            if matches!(ear, Ear::Plain) || !starts_json {
                heard.plain_line(line, matches!(ear, Ear::Plain));
            }
        }
    }
}

fn hear_event(ear: &mut Ear, event: &Value, heard: &mut Heard) {
    let Some(kind) = event.get("type").and_then(Value::as_str) else { return };
    let is_known = match ear {
        Ear::Plain => false,
        Ear::Claude(ear) => ear.hear(kind, event, heard),
        Ear::Codex(ear) => ear.hear(kind, event, heard),
        Ear::Opencode(ear) => ear.hear(kind, event, heard),
        Ear::Gemini(ear) => ear.hear(kind, event, heard),
    };
    heard.has_events |= is_known;
}

#[cfg(test)]
mod tests;
