//! Projections: files that people and programs read instead of the journal. They can be deleted at any time
//! and are made again from the states; nothing is ever read back from them.
