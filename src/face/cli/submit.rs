//! `wk submit FILE`: drops a request into the inbox and says what became of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::check::Request;
use super::follow::Interrupt;
use super::{Desk, Exit, Outcome, Trouble, ground, locate, terminal};
use crate::bus::disk::BusError;
use crate::bus::lease::Lease;
use crate::bus::{Content, Disk, Durability, NOTE_BYTES_MAX, Readers, RealDisk, layout, platform};
use crate::intake::Plan;
use crate::model::{BatchId, Defect};
use crate::watcher::kept;

/// Drops a request into the inbox of a running watcher.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk submit plan.md\n  wk submit plan.md --require observed\n  wk submit plan.md --no-wait\n  cp plan.md .ce/orchestration/inbox/     (the same by hand)"
)]
pub struct Submit {
    /// A plan (Markdown with phases, or JSON), an execution request, or assignments
    file: PathBuf,
    /// The least evidence with which a task may succeed: claimed, observed or verified
    #[arg(long, value_name = "GRADE")]
    require: Option<String>,
    /// Does not wait for the watcher's answer
    #[arg(long)]
    no_wait: bool,
}

impl Submit {
    pub fn run(self, desk: &mut Desk) -> Outcome {
        desk.require(self.require.as_deref())?;
        let request = Request::read(&self.file)?;
        let plan = check(desk, &request)?;
        if plan.is_dry_run() {
            let _ = super::check::show(desk, plan);
            return Ok(Exit::Done);
        }
        ground::prepare(desk)?;
        let name = drop_into_inbox(desk, &request)?;
        let watcher = Lease::holder(&desk.layout);
        if watcher.is_none() || self.no_wait {
            say(desk, &name, None);
            if watcher.is_none() && !desk.json {
                terminal::tell(
                    "hint: no watcher runs on this bus; `wk watch` or `wk watch --once` takes it up",
                );
            }
            return Ok(Exit::Done);
        }
        let interrupt = Interrupt::listen(None)?;
        let patience = Duration::from_secs(30);
        match await_answer(desk, &name, Some(patience), &interrupt)? {
            Answer::Accepted(id) => say(desk, &name, Some(&id)),
            Answer::Refused(defects) => return Err(Trouble::refused(&request.name, &defects)),
            Answer::None => say(desk, &name, None),
            Answer::Interrupted => return Ok(Exit::Interrupted),
        }
        Ok(Exit::Done)
    }
}

fn say(desk: &Desk, name: &str, batch: Option<&BatchId>) {
    if desk.json {
        let batch = batch.map(BatchId::to_json);
        super::print_json(&serde_json::json!({ "request": name, "batch_id": batch }));
        return;
    }
    match batch {
        Some(id) => terminal::print(&format!("Batch {id} accepted\n")),
        None => terminal::print(&format!("{name} is in the inbox\n")),
    }
}

/// Refuses a request here, with all its defects, before anybody else has to.
pub fn check(desk: &Desk, request: &Request) -> Result<Plan, Trouble> {
    let plan = request.read_plan(desk, &desk.surroundings_of_others());
    plan.map_err(|defects| Trouble::refused(&request.name, &defects))
}

/// Publishes the request in the inbox under a name of its own.
pub fn drop_into_inbox(desk: &Desk, request: &Request) -> Result<String, Trouble> {
    let stamp = crate::watcher::run::wall_now().0;
    // What the caller demands travels in the name: one file, which appears at once.
    let name = layout::demanding(desk.demanded, &request.name);
    let name = format!("{stamp}-{}-{name}", std::process::id());
    let path = desk.layout.inbox().join(&name);
    let plan = request.read_plan(desk, &desk.surroundings_of_others());
    let carries_values = plan.map_or(true, |plan| plan.carries_values());
    let readers = Readers::of_values(carries_values);
    let published = desk.disk().publish_for(readers, &path, &request.bytes, Durability::Synced);
    published.map_err(BusError::of("publish", &path))?;
    Ok(name)
}

/// What became of a request.
pub enum Answer {
    Accepted(BatchId),
    Refused(Vec<Defect>),
    Interrupted,
    /// Nobody has looked at it.
    None,
}

/// Waits until a watcher has taken the request, or none is there any more.
pub fn await_answer(
    desk: &Desk,
    name: &str,
    patience: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Answer, Trouble> {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let disk = RealDisk::default();
    let started = platform::monotonic_ms();
    loop {
        if let Some(answer) = answer_to(desk, &disk, name)? {
            return Ok(answer);
        }
        if interrupt.came() {
            return Ok(Answer::Interrupted);
        }
        let waited = Duration::from_millis(platform::monotonic_ms() - started);
        if patience.is_some_and(|patience| waited > patience) || Lease::holder(&desk.layout).is_none() {
            return Ok(answer_to(desk, &disk, name)?.unwrap_or(Answer::None));
        }
        #[expect(clippy::disallowed_methods, reason = "a follower looks now and then; nothing waits for it")]
        std::thread::sleep(LOOK_EVERY);
    }
}

fn answer_to(desk: &Desk, disk: &RealDisk, name: &str) -> Result<Option<Answer>, Trouble> {
    for found in locate::active(desk)?.into_iter().chain(locate::archived(desk)?.into_iter().rev()) {
        if kept::read_batch(disk, &found.paths).is_ok_and(|batch| batch.source.name == name) {
            return Ok(Some(Answer::Accepted(found.id)));
        }
    }
    Ok(refusal_of(desk, disk, name))
}

fn refusal_of(desk: &Desk, disk: &RealDisk, name: &str) -> Option<Answer> {
    let listed = disk.list(&desk.layout.quarantine()).ok()?;
    let refused = listed.iter().find(|entry| entry.name.to_string_lossy().ends_with(&format!("-{name}")))?;
    let reason = layout::reason_beside(&desk.layout.quarantine().join(&refused.name));
    let Ok(Content::Bytes { bytes, .. }) = disk.read(&reason, NOTE_BYTES_MAX * 16) else { return None };
    let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let defects = serde_json::from_value(value.get("defects")?.clone()).ok()?;
    Some(Answer::Refused(defects))
}
