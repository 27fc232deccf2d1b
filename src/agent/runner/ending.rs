//! The end of an attempt's processes: all of them, confirmed, or the runner stays.

use std::time::Duration;

use super::attend::Attendant;
use crate::agent::tree::{self, Cgroup, Confirmation, Tree};
use crate::model::exit::Stopped;

/// What an agent left running behind it is not asked for longer than this.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
/// After this long without success it is said, and tried again.
const CONFIRM: Duration = Duration::from_secs(10);

/// Ends whoever is left. Returns only when nobody is: an exit record must be true, and while there is none
/// the watcher starts no other attempt.
pub(super) fn end_everyone(attendant: &mut Attendant, cgroup: Option<&Cgroup>, stopped: Option<&Stopped>) {
    let kill_grace = Duration::from_millis(attendant.order.kill_grace.millis());
    let mut grace = match stopped {
        None => kill_grace.min(LEFTOVER_GRACE),
        // Whoever looked on is gone, and nobody will wait.
        Some(Stopped::HungUp) => Duration::ZERO,
        Some(_) => kill_grace,
    };
    let mut is_said = false;
    while !is_gone(attendant, cgroup) {
        let leader = attendant.agent;
        // Whoever says something while it ends is still heard.
        let mut tick = || _ = attendant.pass_on(0);
        let ended = tree::end_tree(&Tree { leader, cgroup }, grace, CONFIRM, &mut tick);
        if let (Some(pid), Some(status)) = (leader, ended.leader) {
            attendant.note_end(pid, status);
        }
        match ended.confirmation {
            Confirmation::Gone => attendant.is_alone = true,
            // Where nobody can know, the agent's own end has to do.
            Confirmation::Unknown(_) if attendant.agent.is_none() => attendant.is_alone = true,
            left => {
                if !is_said {
                    attendant.err.remark(&cannot_kill(&left));
                }
                is_said = true;
            }
        }
        grace = Duration::ZERO;
    }
    let leftover = Duration::min(kill_grace, LEFTOVER_GRACE);
    tree::end_rest_of_group(attendant.group, leftover, &mut || _ = attendant.pass_on(0));
}

fn is_gone(attendant: &Attendant, cgroup: Option<&Cgroup>) -> bool {
    attendant.is_alone && !cgroup.is_some_and(Cgroup::is_populated)
}

fn cannot_kill(left: &Confirmation) -> String {
    match left {
        Confirmation::Survivors(survivors) => {
            let pids: Vec<String> = survivors.iter().map(|process| process.pid.to_string()).collect();
            format!("cannot kill {}; trying on", pids.join(", "))
        }
        Confirmation::Unknown(doubt) => format!("cannot kill the agent's processes: {doubt}; trying on"),
        Confirmation::Gone => String::new(),
    }
}
