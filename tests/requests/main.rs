//! Requests that another orchestrator hands over: the corpus in `testdata/requests`, scenes, and `wk check`.

mod check;
mod containment;
mod corpus;
mod machine;
mod scenes;
mod startable;
