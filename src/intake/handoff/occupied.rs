//! What stands already in a workspace under a name that the batch will write. Papers of an earlier batch make way;
//! what anybody else made there would be lost, so it speaks against the request.

use std::path::Path;

use super::Reading;
use crate::intake::EntryKind;
use crate::model::workspace::WorkspacePaths;

/// Keys that stand at the beginning of each paper; of the report two sets, one for each dialect.
const STATUS: &[&[&str]] = &[&["execution_id", "stage"]];
const REPORT: &[&[&str]] = &[&["execution_id", "start_timestamp"], &["summary", "failed_tasks"]];
const CONFLICTS: &[&[&str]] = &[&["execution_id", "detection_timestamp"]];
const RECEIPT: &[&[&str]] = &[&["execution_id", "merged_at"]];
const REMEDY: &str = "move it away, or choose another workspace";

/// Refuses a workspace in which something of somebody else's would be overwritten.
pub(super) fn judge(workspace: &Path, place: &str, reading: &mut Reading<'_>) {
    let paths = WorkspacePaths::new(workspace);
    let papers = [
        (paths.status(), STATUS),
        (paths.report(), REPORT),
        (paths.conflicts(), CONFLICTS),
        (paths.receipt(), RECEIPT),
    ];
    for (paper, keys) in papers {
        if !is_free(&paper, keys, reading) {
            refuse(&paper, place, reading);
        }
    }
    let merged = paths.merged();
    let is_earlier_batchs = is_paper(&paths.receipt(), RECEIPT, reading)
        // Its receipt was put aside with a checkpoint.
        || reading.around.entry(&paths.checkpoint_manifest()).is_some();
    if reading.around.entry(&merged).is_some()
        && !reading.around.is_empty_directory(&merged)
        && !is_earlier_batchs
    {
        refuse(&merged, place, reading);
    }
}

fn refuse(path: &Path, place: &str, reading: &mut Reading<'_>) {
    let message = format!("{} stands where the batch writes, and no batch made it", path.display());
    reading.report.refuse("workspace_occupied", place, message, REMEDY);
}

/// Whether nothing is lost where a paper is written.
fn is_free(path: &Path, keys: &[&[&str]], reading: &Reading<'_>) -> bool {
    reading.around.entry(path).is_none() || is_paper(path, keys, reading)
}

fn is_paper(path: &Path, keys: &[&[&str]], reading: &Reading<'_>) -> bool {
    let is_file =
        reading.around.entry(path).is_some_and(|entry| !entry.is_link && entry.kind == EntryKind::File);
    let text = if is_file { reading.around.beginning(path) } else { None };
    text.is_some_and(|text| {
        let holds = |key: &&str| text.contains(&format!("\"{key}\""));
        keys.iter().any(|set| set.iter().all(holds))
    })
}
