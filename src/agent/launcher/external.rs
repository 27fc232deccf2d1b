//! Not by us: tasks of an agent with this launcher are offered to outsiders, and nothing is ever submitted.

use std::path::PathBuf;

use super::{Capabilities, Hint, Job, Launcher};
use crate::bus::layout::AttemptPaths;
use crate::model::agent::EXTERNAL;

pub(super) struct External;

impl Launcher for External {
    fn name(&self) -> &'static str {
        EXTERNAL
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { can_attach: false, has_pipe: false }
    }

    fn submit(&self, jobs: &[Job<'_>]) -> Vec<Result<(), String>> {
        jobs.iter().map(|_| Err("an outsider is to do it".to_owned())).collect()
    }

    fn poll(&self, attempts: &[AttemptPaths]) -> Vec<Hint> {
        attempts.iter().map(|_| Hint::Unknown).collect()
    }

    fn cancel(&self, _: &[AttemptPaths]) {}

    fn reconcile(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}
