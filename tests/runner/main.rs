//! The runner, played with real processes: what it starts, keeps, ends and leaves behind.

mod beats;
mod begin;
mod ends;
mod limits;
mod outcome;
mod output;
mod stage;
