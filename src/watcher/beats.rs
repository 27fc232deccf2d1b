//! Signs of life: which heartbeat files changed since the last look, and into what.
//!
//! A beat is an observed change of a file that holds a JSON object; what its times say is never asked.

use super::kept::Kept;
use super::look::unreadable;
use super::{Context, TurnError};
use crate::bus::disk::BusError;
use crate::bus::{self, Content, Disk, NodeKind};
use crate::decide::{Glance, Now, Observed, SignSeen};
use crate::format::heartbeat;
use crate::model::Attempt;
use crate::model::event::Sign;
use crate::model::state::{Phase, TaskIx};

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

fn glance<D: Disk>(
    kept: &mut Kept,
    context: &Context<'_, D>,
    task: TaskIx,
    attempt: Attempt,
) -> Result<Glance, TurnError> {
    let path = kept.paths.heartbeat(kept.state.key(task));
    let look = context.disk.look(&path).map_err(BusError::of("look at", &path))?;
    let Some(look) = look.filter(|look| look.kind == NodeKind::File && look.size > 0) else {
        return Ok(Glance::Nothing);
    };
    if kept.heartbeats.get(&task) == Some(&look) {
        return Ok(Glance::Nothing);
    }
    let content = context.disk.read(&path, bus::HEARTBEAT_BYTES_MAX).map_err(BusError::of("read", &path))?;
    let (bytes, look) = match content {
        Content::Bytes { bytes, look } if !bytes.is_empty() => (bytes, look),
        Content::TooLarge { .. } => {
            return Ok(Glance::Malformed(unreadable(&content, bus::HEARTBEAT_BYTES_MAX)));
        }
        _ => return Ok(Glance::Nothing),
    };
    match heartbeat::read(&bytes) {
        // A torn beat is not remembered: it is read again at the next look.
        Err(defect) => Ok(Glance::Malformed(defect)),
        Ok(beat) => {
            if beat.attempt.is_some_and(|said| said != attempt) {
                // Not remembered either: a beat of this attempt may look just the same on a coarse clock.
                return Ok(Glance::Nothing);
            }
            kept.heartbeats.insert(task, look);
            let progress = beat.progress.map(|said| veiled(kept, context, task, said));
            Ok(Glance::Beat { progress, tokens: beat.tokens_used })
        }
    }
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
