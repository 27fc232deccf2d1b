//! Agents that we start, through the real binary: launched, killed, adopted, in tmux, under attack.
//!
//! Every scene ends with nobody left: `crew::Stage` looks for processes of its own when it is dropped, and
//! fails the scene if it finds one.

#[path = "../scene/mod.rs"]
mod scene;

mod adopt;
mod clumsy;
mod crew;
mod crews;
mod forgery;
mod hidden;
mod identity;
mod injection;
mod kill;
mod launch;
mod logs;
mod presets;
mod prompts;
mod proof;
mod remade;
mod results;
mod secrets;
mod survivors;
mod tmux;
mod wishes;
