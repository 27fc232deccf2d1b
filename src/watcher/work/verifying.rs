//! The command that decides whether a merged tree is good, run on a copy of it before the tree itself is published: by a
//! runner of its own, with limits, logs and redaction, and with no environment of any agent.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::shop::LeftOff;
use super::{Fault, wall_now};
use crate::agent::local::LocalRunners;
use crate::bus::layout::AttemptPaths;
use crate::format::order::{Inspection, Order, OrderPaths};
use crate::model::agent::{EnvRule, OWN_COMMAND, ResourceLimits};
use crate::model::handoff::{Check, Criterion, MERGE_VERIFY, Wanted};
use crate::model::preset::Dialect;
use crate::model::{Attempt, BatchId, Finding, Seconds, Settings, TaskKey};
use crate::watcher::afterwards::{mark_of, run_checks};

/// Everything that such a check needs to know.
#[derive(Debug)]
pub(super) struct Verifying {
    pub(super) check: Check,
    pub(super) settings: Settings,
    pub(super) root: PathBuf,
    pub(super) batch: BatchId,
    /// Under whose name it runs: the runner's papers have one.
    pub(super) task: TaskKey,
    pub(super) task_id: String,
    /// What the client adds to every agent's environment.
    pub(super) env: Vec<EnvRule>,
    pub(super) limits: ResourceLimits,
    pub(super) timeout: Seconds,
    /// The folders of these checks are made in it.
    pub(super) place: PathBuf,
    pub(super) workspace: PathBuf,
}

impl Verifying {
    /// Runs the command in the tree. The error is that nobody waits any more, or that the disk fails.
    pub(super) fn run(&self, tree: &Path, left_off: &LeftOff) -> Result<Finding, Fault> {
        let folder = AttemptPaths::at(self.place.join(format!("{MERGE_VERIFY}-{}", wall_now().0)));
        let criterion = Criterion {
            name: MERGE_VERIFY.to_owned(),
            wants: Wanted::Truth(true),
            check: Some(self.check.clone()),
        };
        let criteria = [criterion];
        let order = self.order(tree, &folder, &criteria);
        let runners = LocalRunners::new(&self.settings);
        let is_enough = || left_off.load(Ordering::Relaxed);
        match run_checks(&runners, &is_enough, &order, &folder, &criteria)? {
            Some(findings) => {
                findings.into_iter().next().ok_or_else(|| "nothing was checked".to_owned().into())
            }
            None => Err("nobody waits for this check any more".to_owned().into()),
        }
    }

    fn order(&self, tree: &Path, folder: &AttemptPaths, criteria: &[Criterion]) -> Order {
        let plain = |name: &str, value: &Path| EnvRule {
            name: name.to_owned(),
            value: Some(value.to_string_lossy().into_owned()),
            plain: true,
        };
        let mut env = self.env.clone();
        env.extend([plain("WK_WORKSPACE", &self.workspace), plain("WK_MERGED", tree)]);
        Order {
            batch: self.batch.clone(),
            task: self.task.clone(),
            task_id: self.task_id.clone(),
            attempt: Attempt::FIRST,
            agent: OWN_COMMAND.to_owned(),
            command: vec!["true".to_owned()],
            cwd: tree.to_owned(),
            env,
            stdin: None,
            dialect: Dialect::Plain,
            mark: mark_of(folder),
            paths: OrderPaths {
                attempt: folder.dir().to_owned(),
                root: self.root.clone(),
                spec: folder.spec(),
                heartbeat: folder.heartbeat(),
                result: folder.result(),
                plain_result: None,
                exit: folder.exit(),
            },
            timeout: self.timeout,
            kill_grace: self.settings.kill_grace,
            beat_every: Seconds(10.0),
            limits: self.limits,
            echo: false,
            declared: None,
            inspection: Some(Box::new(Inspection::of_checks(
                tree.to_owned(),
                folder.dir().join("objects"),
                criteria.to_vec(),
            ))),
        }
    }
}
