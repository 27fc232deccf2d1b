//! The ways in and out for people and programs. No rules live here: a face reads through `bus` and
//! `watcher::kept`, asks through files on the bus, and prints what `view` and `outcome` say.

pub mod cli;
