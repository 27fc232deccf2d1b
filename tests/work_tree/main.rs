//! Work trees on a real disk: scans, contents, checkpoints, and the way back from whatever an agent did.

mod captures;
mod checkpoints;
mod crashes;
mod hostile;
mod scans;
mod scene;
mod undoing;
