//! What a runner looks at around a handed-over attempt: how the outputs were before the agent began, how they
//! are when it has ended, and whether the criteria are met.
//!
//! It finds and keeps; what follows from it is decided by the watcher, which reads the finding with the exit
//! record and never without.

mod checks;
mod outputs;
mod tampered;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::beats::{Beats, Said};
use super::environment::Environment;
use super::{files, stubbornly};
use crate::agent::tree::Cgroup;
use crate::bus::layout::AttemptPaths;
use crate::bus::platform::monotonic_ms;
use crate::format::order::{Inspection, Order};
use crate::model::declared::DeclaredPlace;
use crate::model::evidence::About;
use crate::model::exit::Exit;
use crate::model::handoff::Criterion;
use crate::model::inspected::Inspected;
use crate::model::{Attempt, Finding, Grade};
use outputs::Outputs;
pub(super) use tampered::CheckFiles;

/// What of a terminal's log is handed on to the client.
const SESSION_LOG_BYTES_MAX: u64 = 256 << 20;

pub(super) struct Inspector<'a> {
    order: &'a Order,
    inspection: &'a Inspection,
    paths: &'a AttemptPaths,
    outputs: Outputs<'a>,
}

impl<'a> Inspector<'a> {
    /// Keeps the outputs as they are without the agent. The error is a sentence for people.
    pub(super) fn begin(
        order: &'a Order,
        inspection: &'a Inspection,
        paths: &'a AttemptPaths,
    ) -> Result<Self, String> {
        let beats = beat(order, "looking at the outputs before the agent begins");
        let outputs = Outputs::begin(inspection, paths, &paths.sibling(Attempt::FIRST));
        beats.stop();
        // The agent's own words are to follow, not ours: what stands there now would be repeated as if it had said it.
        let _ = files::publish(paths.dir(), &order.paths.heartbeat, b"");
        Ok(Inspector { order, inspection, paths, outputs: outputs? })
    }

    /// Looks at what the agent left, and writes it down. A request to stop that comes meanwhile is noted in the
    /// exit.
    pub(super) fn conclude(
        &mut self,
        exit: &mut Exit,
        (declared, check_files): (Vec<DeclaredPlace>, Option<CheckFiles>),
        environment: &Environment,
        cgroup: Option<&Cgroup>,
    ) {
        let beats = beat(self.order, "keeping the outputs");
        let mut inspected = self.outputs.end().unwrap_or_else(|why| self.outputs.unseen(&why));
        beats.stop();
        inspected.declared = declared;
        exit.baseline_sha256.get_or_insert_with(|| self.outputs.base_sha256());
        let outputs = inspected.findings.iter().filter(|found| found.about == About::Output && found.met);
        exit.produced = outputs.map(|found| found.subject.clone()).collect();
        if exit.is_clean() {
            let check_files = check_files.or_else(|| CheckFiles::of_workspace(self.inspection));
            match checks::run_all(self.order, self.inspection, self.paths, environment, cgroup) {
                Ok(mut findings) => {
                    self.cap(&mut findings, check_files.as_ref());
                    inspected.findings.extend(findings);
                }
                Err(stopped) => exit.stopped = Some(stopped),
            }
        }
        self.hand_on_session_log(exit);
        exit.inspected_sha256 = write(self.paths, &inspected);
    }

    /// A check of which the agent changed a part without declaring it verifies nothing: what it says was only observed.
    fn cap(&self, findings: &mut [Finding], check_files: Option<&CheckFiles>) {
        for finding in findings.iter_mut().filter(|finding| finding.grade == Grade::Verified && finding.met) {
            let is_it = |criterion: &&Criterion| criterion.name == finding.subject;
            let check = self.inspection.criteria.iter().find(is_it).and_then(|one| one.check.as_ref());
            let Some((check, files)) = check.zip(check_files) else { continue };
            let changed = files.tampered(&check.command);
            if !changed.is_empty() {
                finding.grade = Grade::Observed;
                let what = changed.join(", ");
                finding.saw =
                    format!("{}; but {what}, of which it consists, changed undeclared", finding.saw);
            }
        }
    }

    /// What the terminal showed, under its session's name, where the client looks for it.
    fn hand_on_session_log(&self, exit: &Exit) {
        let (Some(session), Some(mirrors)) = (&exit.session, &self.inspection.mirrors) else { return };
        let folder = &mirrors.sessions;
        let is_plain = Path::new(session).components().count() == 1 && !session.contains('/');
        if let (true, Ok(Some(bytes))) = (is_plain, files::read(&self.paths.pane(), SESSION_LOG_BYTES_MAX)) {
            let path = folder.join(format!("{session}.log"));
            // The attempt's own folder has it in any case.
            let _ = files::open_anew_below(&self.inspection.workspace, &path)
                .and_then(|mut log| log.write_all(&bytes));
        }
    }
}

/// Writes down what was found. Returns the hash by which it is known from now on.
pub(super) fn write(paths: &AttemptPaths, inspected: &Inspected) -> Option<String> {
    let bytes = serde_json::to_vec(inspected).unwrap_or_default();
    let is_written = stubbornly(|| files::publish(paths.dir(), &paths.inspected(), &bytes));
    is_written.then(|| crate::bus::sha256(&bytes))
}

/// Beats while nobody else does.
fn beat(order: &Order, progress: &str) -> Beats {
    let said = Said { progress: Some(progress.to_owned()), tokens_used: None };
    Beats::start(order, Arc::from([]), monotonic_ms(), said)
}
