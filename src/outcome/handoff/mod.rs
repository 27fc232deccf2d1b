//! What another orchestrator gets back: its report, the live status, the markers, and where all of it lies.
//!
//! Pure, and of any batch: one that nobody handed over is told in the same words, with its tasks as agents.
//! The fields of each dialect come first and in its order; what we add stands behind them.

mod agent;
pub mod assignments_report;
mod criteria;
pub mod execution_report;
mod notice;
pub mod places;
pub mod progress;
pub mod standing;
pub mod status_file;
mod whole;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::model::claim::Claim;
use crate::model::clock::WallTime;
use crate::model::handoff::Dialect;
use crate::model::state::{BatchState, TaskIx};
use crate::model::workspace::LogPaths;

use super::task_result::Span;

/// The report in the words of a dialect, as `execution_report.json` holds it.
pub fn report_bytes(
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
    logs: &HashMap<TaskIx, LogPaths>,
    dialect: Dialect,
) -> Vec<u8> {
    match dialect {
        Dialect::ExecutionRequest => pretty(&execution_report::report(state, claims, logs)),
        Dialect::Assignments => pretty(&assignments_report::report(state, claims, logs)),
    }
}

/// The same of a batch that was undone since.
pub fn undone_report_bytes(
    state: &BatchState,
    claims: &HashMap<TaskIx, Claim>,
    logs: &HashMap<TaskIx, LogPaths>,
    dialect: Dialect,
    undone_at: WallTime,
) -> Vec<u8> {
    let undone_at = Moment(undone_at);
    match dialect {
        Dialect::ExecutionRequest => {
            pretty(&Undone { report: execution_report::report(state, claims, logs), undone_at })
        }
        Dialect::Assignments => {
            pretty(&Undone { report: assignments_report::report(state, claims, logs), undone_at })
        }
    }
}

/// A report, and behind it when its batch was undone.
#[derive(Serialize)]
struct Undone<R> {
    #[serde(flatten)]
    report: R,
    undone_at: Moment,
}

/// Two spaces a level, and a newline at the end.
fn pretty(value: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and lists only: there is nothing in it that JSON could not hold.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// An object whose names come from the request, in the request's order.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fields<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Fields<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A time as both dialects write it: to the second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moment(WallTime);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.rfc3339_seconds())
    }
}

/// To the thousandth: beyond that the digits are noise.
fn rounded(value: f64) -> Span {
    Span((value * 1000.0).round() / 1000.0)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
