//! What the outside may tell a runner by signal.
//!
//! A signal sets a flag and ends the wait that it comes upon. One that comes just before a wait is seen at
//! the next turn, at most a second later, like the watcher's request in a file; the end of the agent is
//! waited for in another way, which misses nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

/// Signals since the last look.
pub(super) struct Signals {
    asked: Arc<AtomicUsize>,
    hung_up: Arc<AtomicBool>,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// TERM, or INT where nobody types it.
    End(i32),
    HangUp,
}

impl Signals {
    /// On a terminal of its own, a runner hears the keys of those who look on: they end nobody, and the agent,
    /// which leads another group, does not hear them.
    pub(super) fn catch(is_on_terminal: bool) -> io::Result<Self> {
        let asked = Arc::new(AtomicUsize::new(0));
        let hung_up = Arc::new(AtomicBool::new(false));
        flag::register_usize(SIGTERM, Arc::clone(&asked), SIGTERM as usize)?;
        if is_on_terminal {
            // Heard and forgotten. Were they ignored, the agent would inherit that.
            for signal in [SIGINT, SIGQUIT] {
                flag::register(signal, Arc::new(AtomicBool::new(false)))?;
            }
        } else {
            flag::register_usize(SIGINT, Arc::clone(&asked), SIGINT as usize)?;
        }
        flag::register(SIGHUP, Arc::clone(&hung_up))?;
        // Nobody reads this one. But whoever started us may have chosen to ignore the ends of children, and
        // then nobody would learn how the agent ended.
        flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
        Ok(Signals { asked, hung_up })
    }

    /// What was asked since the last call, the strongest first.
    pub(super) fn take(&self) -> Option<Call> {
        if self.hung_up.swap(false, Ordering::Relaxed) {
            return Some(Call::HangUp);
        }
        match self.asked.swap(0, Ordering::Relaxed) {
            0 => None,
            signal => Some(Call::End(signal as i32)),
        }
    }
}
