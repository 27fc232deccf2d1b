//! What things are: ids, tasks, batches, events, reasons, outcomes, and the state that events add up to.
//!
//! Nothing here touches a disk, a clock or a process. The types that derive serde are the ones whose
//! JSON is itself a promise (a journal line, `batch.json`); every other file's shape lives in `format`.

pub mod agent;
pub mod batch;
pub mod claim;
pub mod clock;
pub mod containment;
pub mod ctxp;
pub mod declared;
pub mod defect;
pub mod event;
pub mod evidence;
pub mod exit;
pub mod fold;
pub mod handoff;
pub mod harmless;
pub mod id;
pub mod inspected;
pub mod placement;
pub mod preset;
pub mod reason;
pub mod runner;
pub mod settings;
pub mod state;
pub mod task;
pub mod tree;
pub mod workspace;

pub use batch::{Batch, OnFileConflict, Origin};
pub use claim::Claim;
pub use clock::{Seconds, Tick, WallTime};
pub use defect::{Defect, Place};
pub use event::Event;
pub use evidence::{Finding, Grade, Verdict};
pub use exit::Exit;
pub use id::{Attempt, BatchId, Epoch, TaskKey};
pub use reason::Reason;
pub use runner::RunnerIdentity;
pub use settings::Settings;
pub use task::{Gate, Limits, Task, TaskType};
