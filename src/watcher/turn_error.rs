//! Why a turn could not be completed, and what that means for the next one. Decides nothing.

use std::path::PathBuf;

use crate::bus::disk::BusError;
use crate::bus::journal::JournalError;
use crate::bus::version::VersionError;
use crate::model::Epoch;
use crate::model::state::FoldError;

/// Why a turn could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The journal could not be written or synced.
    #[error(transparent)]
    Commit(BusError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the journal does not fit the batch: {0}")]
    Fold(FoldError),
    /// A newer wk has been here.
    #[error(transparent)]
    Newer(VersionError),
    #[error("another watcher took this bus over (epoch {current}; this one has {mine})")]
    Superseded { mine: Epoch, current: Epoch },
    #[error(
        "{} was removed or replaced while this watcher held it: the bus may be another one now, with another watcher",
        path.display()
    )]
    LockGone { path: PathBuf },
}

impl From<VersionError> for TurnError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Disk(error) => TurnError::Bus(error),
            newer @ VersionError::Newer { .. } => TurnError::Newer(newer),
        }
    }
}

impl TurnError {
    /// Whether the bus is no longer this watcher's: then it must not touch anything any more.
    pub fn ends_the_watch(&self) -> bool {
        matches!(self, TurnError::Superseded { .. } | TurnError::LockGone { .. })
    }

    /// Whether something that is no directory stands where one belongs.
    pub(super) fn is_blocked(&self) -> bool {
        let is_so = |error: &BusError| error.source.kind() == std::io::ErrorKind::NotADirectory;
        matches!(self, TurnError::Bus(error) if is_so(error))
    }

    /// Whether the cause is the bus itself, not one batch's files.
    pub fn is_bus_wide(&self) -> bool {
        match self {
            TurnError::Bus(error)
            | TurnError::Commit(error)
            | TurnError::Journal(JournalError::Disk(error)) => error.is_bus_wide(),
            _ => false,
        }
    }

    /// Whether waiting may help: the disk is full, the file system read-only, descriptors are used up.
    pub fn is_passing(&self) -> bool {
        match self {
            TurnError::Commit(error) => error.is_passing(),
            // What one file does to us passes when somebody mends it; only the journal must be beyond doubt.
            TurnError::Bus(_) | TurnError::Journal(JournalError::Disk(_)) => true,
            TurnError::Journal(JournalError::Damaged { .. } | JournalError::Newer { .. })
            | TurnError::Newer(_)
            | TurnError::Fold(_)
            | TurnError::Superseded { .. }
            | TurnError::LockGone { .. } => false,
        }
    }
}
