//! Signs of life: which heartbeat files changed since the last look, and into what.
//!
//! A beat is an observed change of a file that holds a JSON object; what its times say is never asked.

use std::collections::HashSet;
use std::path::Path;

use super::act::exists;
use super::kept::Kept;
use super::look::unreadable;
use super::{Context, TurnError};
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, Look, NodeKind};
use crate::decide::{Glance, Now, Observed, SignSeen};
use crate::format::heartbeat::{self, Beat};
use crate::model::event::Sign;
use crate::model::state::{Phase, TaskIx};
use crate::model::{Attempt, Defect};

/// Looks at the heartbeat of every live attempt.
pub(super) fn look_at_heartbeats<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let live: Vec<(TaskIx, Attempt)> = kept
        .state
        .live
        .iter()
        .filter_map(|task| Some((*task, kept.state.tasks[*task].live_attempt()?)))
        .collect();
    for (task, attempt) in live {
        let glance = glance(kept, context, task, attempt)?;
        // Also a beat of an earlier turn that could not be journaled.
        let has_beaten = matches!(glance, Glance::Beat { .. })
            || kept.pulses.get(task).is_some_and(|pulse| pulse.attempt == attempt && pulse.has_beaten);
        if has_beaten && matches!(kept.state.tasks[task].phase, Phase::Offered { .. }) {
            observed.signs.push(SignSeen { task, attempt, sign: Sign::Beat });
        }
        kept.pulses.note(task, glance, now.clock, true);
    }
    Ok(())
}

/// Looks at the heartbeat that an event named, where it may be the first one of an attempt.
pub(super) fn look_at_first_beat<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    now: Now,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let Phase::Offered { attempt, .. } = kept.state.tasks[task].phase else { return Ok(()) };
    if observed.signs.iter().any(|seen| seen.task == task) {
        return Ok(());
    }
    let glance = glance(kept, context, task, attempt)?;
    if matches!(glance, Glance::Beat { .. }) {
        observed.signs.push(SignSeen { task, attempt, sign: Sign::Beat });
    }
    kept.pulses.note(task, glance, now.clock, false);
    Ok(())
}

/// An offered spec that is gone was removed by an agent: nobody else can find the offer any more, so that the time in
/// which it must beat has begun.
pub(super) fn look_at_removed_specs<D: Disk>(
    kept: &Kept,
    context: &Context<'_, D>,
    observed: &mut Observed,
) -> Result<(), TurnError> {
    let seen: HashSet<TaskIx> = observed.signs.iter().map(|seen| seen.task).collect();
    for task in kept.state.live.iter().copied() {
        let Phase::Offered { attempt, .. } = kept.state.tasks[task].phase else { continue };
        if !seen.contains(&task) && !exists(context, &kept.paths.spec(kept.state.key(task)))? {
            observed.signs.push(SignSeen { task, attempt, sign: Sign::SpecRemoved });
        }
    }
    Ok(())
}

/// The last looks at both places where an attempt may beat.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct SeenBeats {
    pub(super) outbox: Option<Look>,
    pub(super) plain: Option<Look>,
}

/// What both places show: a beat in either of them is one.
fn glance<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
) -> Result<Glance, TurnError> {
    let seen = kept.heartbeats.get(&task).copied().unwrap_or_default();
    let key = kept.state.key(task).clone();
    let (outbox, own) =
        read_beat(context, &kept.paths.outbox(&key, attempt).heartbeat(), seen.outbox, attempt)?;
    let (plain, shared) = read_beat(context, &kept.paths.heartbeat(&key), seen.plain, attempt)?;
    kept.heartbeats.insert(task, SeenBeats { outbox, plain });
    let beat = match (own, shared) {
        (Some(Ok(beat)), _) | (_, Some(Ok(beat))) => beat,
        (Some(Err(defect)), _) | (_, Some(Err(defect))) => return Ok(Glance::Malformed(defect)),
        (None, None) => return Ok(Glance::Nothing),
    };
    let said_end = beat.said_end();
    let progress = beat.progress.map(|said| veiled(kept, context, task, said));
    Ok(Glance::Beat { progress, tokens: beat.tokens_used, said_end })
}

/// How a heartbeat looks now, where that is to be remembered, and what it says, where it changed.
type Read = (Option<Look>, Option<Result<Beat, Defect>>);

/// Reads a heartbeat that changed since the last look. Returns how it looks now, where that is to be remembered.
fn read_beat<D: Disk>(
    context: &Context<'_, D>,
    path: &Path,
    seen: Option<Look>,
    attempt: Attempt,
) -> Result<Read, TurnError> {
    let look = context.disk.look(path).map_err(BusError::of("look at", path))?;
    match look {
        // Never opened: a pipe would keep us, and a link leads anywhere.
        Some(look) if look.kind != NodeKind::File => {
            let defect = unreadable(&Content::NotAFile(look.kind), bus::HEARTBEAT_BYTES_MAX);
            return Ok((seen, Some(Err(defect))));
        }
        Some(look) if look.size > 0 && seen != Some(look) => {}
        _ => return Ok((seen, None)),
    }
    let content = context.disk.read(path, bus::HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", path))?;
    let (bytes, look) = match content {
        Content::Bytes { bytes, look } if !bytes.is_empty() => (bytes, look),
        Content::TooLarge { .. } | Content::Foreign { .. } => {
            return Ok((seen, Some(Err(unreadable(&content, bus::HEARTBEAT_BYTES_MAX)))));
        }
        _ => return Ok((seen, None)),
    };
    Ok(match heartbeat::read(&bytes) {
        // A torn beat is not remembered: it is read again at the next look.
        Err(defect) => (seen, Some(Err(defect))),
        // Not remembered either: a beat of this attempt may look just the same on a coarse clock.
        Ok(Beat { attempt: Some(said), .. }) if said != attempt => {
            (seen, Some(Err(of_other_attempt(said, attempt))))
        }
        Ok(beat) => (Some(look), Some(Ok(beat))),
    })
}

fn of_other_attempt(said: Attempt, current: Attempt) -> Defect {
    let message = format!("speaks for attempt {said}, and attempt {current} is out");
    Defect::field("other_attempt", "attempt", message, "repeat the attempt that the spec names")
}

/// What a beat says, without secrets. Most say what the last one said: that is not looked through again.
fn veiled<D: Disk>(kept: &mut Kept, context: &Context<'_, D>, task: TaskIx, said: String) -> String {
    match kept.progress.get(&task) {
        Some((before, veiled)) if *before == said => veiled.clone(),
        _ => {
            let veiled = context.veil.text(&said);
            kept.progress.insert(task, (said, veiled.clone()));
            veiled
        }
    }
}
