//! The terminal handoff through the real binary: another orchestrator's request goes in, agents of its own
//! directories work, and a report comes back.

#[path = "../agents/crew.rs"]
#[allow(dead_code)]
mod crew;
#[path = "../scene/mod.rs"]
mod scene;

mod again;
mod assignments;
mod client;
mod containment;
mod continued;
mod crash;
mod forgery;
mod given;
mod kept_out;
mod merge;
mod preparing;
mod recovery;
mod requests;
mod resolve;
mod second;
mod secrets;
mod shared;
mod told;
mod undo;
mod validated;
mod verify;
mod waiting;
