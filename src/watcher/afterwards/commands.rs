//! The commands that decide criteria, run once more after a batch's end: by a runner of their own, with the limits,
//! the environment, the logs and the redaction that they had then.

use std::path::Path;

use crate::agent::runners::{Ours, Runners, Standing};
use crate::bus::disk::BusError;
use crate::bus::layout::{AttemptPaths, BatchPaths};
use crate::bus::{self, Content, Disk, Layout, Readers, RealDisk, platform};
use crate::format::order::{Inspection, Order, OrderPaths};
use crate::model::agent::{OWN_COMMAND, PROCESS};
use crate::model::evidence::About;
use crate::model::handoff::Criterion;
use crate::model::inspected::Inspected;
use crate::model::preset::Dialect;
use crate::model::state::{BatchState, TaskState};
use crate::model::{Finding, Seconds, Settings};
use crate::verify::criteria::not_run;

/// How often the runner is looked at.
const LOOK_MS: u64 = 20;
/// How long a runner may take to begin.
const BEGIN_MS: u64 = 60_000;
/// A finding for each criterion.
const INSPECTED_BYTES_MAX: u64 = 16 << 20;

/// Who runs commands, and where what they print is kept.
pub struct Commands<'a> {
    pub layout: &'a Layout,
    pub settings: &'a Settings,
    pub runners: &'a dyn Runners,
    /// The folder of this verification.
    pub folder: &'a Path,
    /// Whether to leave off.
    pub is_enough: &'a dyn Fn() -> bool,
}

impl Commands<'_> {
    /// One finding for each criterion. `None` if it was to leave off.
    pub(super) fn run(
        &self,
        paths: &BatchPaths,
        state: &BatchState,
        task: &TaskState,
        criteria: &[Criterion],
    ) -> Result<Option<Vec<Finding>>, BusError> {
        let folder = AttemptPaths::at(self.folder.join(task.spec.key.as_str()));
        let order = self.order(paths, state, task, criteria, &folder);
        run_checks(self.runners, self.is_enough, &order, &folder, criteria)
    }

    /// What the attempt's runner was told, with nothing to do but the checks.
    fn order(
        &self,
        paths: &BatchPaths,
        state: &BatchState,
        task: &TaskState,
        criteria: &[Criterion],
        folder: &AttemptPaths,
    ) -> Order {
        let root = self.layout.root();
        let workspace = state.batch.handoff.as_ref().map_or(root, |handoff| Path::new(&handoff.workspace));
        let then = task.tries.last().and_then(|last| order_of(&paths.attempt(&task.spec.key, last.attempt)));
        let (env, limits) = then.map(|order| (order.env, order.limits)).unwrap_or_default();
        Order {
            batch: state.batch.id.clone(),
            task: task.spec.key.clone(),
            task_id: task.spec.task_id.clone(),
            attempt: task.tries.last().map_or(crate::model::Attempt::FIRST, |last| last.attempt),
            agent: OWN_COMMAND.to_owned(),
            command: vec!["true".to_owned()],
            cwd: workspace.to_owned(),
            env,
            stdin: None,
            dialect: Dialect::Plain,
            mark: mark_of(folder),
            paths: OrderPaths {
                attempt: folder.dir().to_owned(),
                root: root.to_owned(),
                spec: folder.spec(),
                heartbeat: folder.heartbeat(),
                result: folder.result(),
                plain_result: None,
                exit: folder.exit(),
            },
            timeout: task.spec.limits.timeout,
            kill_grace: self.settings.kill_grace,
            beat_every: Seconds(10.0),
            limits,
            echo: false,
            declared: None,
            inspection: Some(Box::new(Inspection::of_checks(
                workspace.to_owned(),
                folder.dir().join("objects"),
                criteria.to_vec(),
            ))),
        }
    }
}

/// Has a runner do what the order says, and reads what it found: one finding for each criterion. `None` if it was to
/// leave off.
pub(in crate::watcher) fn run_checks(
    runners: &dyn Runners,
    is_enough: &dyn Fn() -> bool,
    order: &Order,
    folder: &AttemptPaths,
    criteria: &[Criterion],
) -> Result<Option<Vec<Finding>>, BusError> {
    let disk = RealDisk::default();
    disk.make_dirs(folder.dir()).map_err(BusError::of("make", folder.dir()))?;
    let mut bytes = serde_json::to_vec(&order).expect("an order has only string keys");
    bytes.push(b'\n');
    disk.prepare_for(Readers::UserAlone, &folder.order(), &bytes)
        .map_err(BusError::of("write", &folder.order()))?;
    let none = |why: &str| Some(criteria.iter().map(|criterion| not_run(criterion, why)).collect());
    if let Err(why) = runners.launch(PROCESS, order, folder) {
        return Ok(none(&why));
    }
    let ours = Ours { mark: order.mark.clone(), known: None, paths: folder.clone() };
    if !wait_for(runners, is_enough, &ours) {
        runners.force(&ours);
        return Ok(None);
    }
    let path = folder.inspected();
    let content = disk.read(&path, INSPECTED_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let found: Option<Inspected> = match content {
        Content::Bytes { bytes, .. } => serde_json::from_slice(&bytes).ok(),
        _ => None,
    };
    let found = found.unwrap_or_default().findings;
    let of = |criterion: &Criterion| {
        let own = |one: &&Finding| one.about == About::Criterion && one.subject == criterion.name;
        let missing = || not_run(criterion, "its runner ended before it");
        found.iter().find(own).cloned().unwrap_or_else(missing)
    };
    Ok(Some(criteria.iter().map(of).collect()))
}

/// Whether the runner came to its end.
fn wait_for(runners: &dyn Runners, is_enough: &dyn Fn() -> bool, ours: &Ours) -> bool {
    let began_ms = platform::monotonic_ms();
    loop {
        let is_begun = match runners.standing(ours) {
            Standing::Starting | Standing::Alive => true,
            Standing::NotBegun => false,
            Standing::Gone { .. }
            | Standing::Orphans { .. }
            | Standing::Replaced
            | Standing::Unknown { .. } => return true,
        };
        let is_late = !is_begun && platform::monotonic_ms() - began_ms > BEGIN_MS;
        if is_late || is_enough() {
            return is_late;
        }
        runners.reap();
        platform::pause_ms(LOOK_MS);
    }
}

fn order_of(attempt: &AttemptPaths) -> Option<Order> {
    match RealDisk::default().read(&attempt.order(), bus::SPEC_BYTES_MAX * 16) {
        Ok(Content::Bytes { bytes, .. }) => serde_json::from_slice(&bytes).ok(),
        _ => None,
    }
}

/// What marks the processes of this verification, and of no other.
pub(in crate::watcher) fn mark_of(folder: &AttemptPaths) -> String {
    let named = bus::sha256(folder.dir().to_string_lossy().as_bytes());
    named.chars().filter(char::is_ascii_hexdigit).take(24).collect()
}
