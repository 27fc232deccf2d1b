//! Merges of what several agents wrote: golden cases, conflicts, graphs, reports, receipts, and every crash.

mod conflicts;
mod git;
mod golden;
mod graphs;
mod kinds;
mod publication;
mod random;
mod receipts;
mod scene;
