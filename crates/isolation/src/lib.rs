//! Judges histories: whether what clients saw is what strong snapshot isolation allows.
//!
//! Clients append numbers to lists and read lists, in transactions and by single commands, and note what they did, what
//! they saw, and how it ended. [`check`] names everything in such a history that cannot be. The database's own tests hand a
//! [`History`] over in process; the tests over sockets write one as lines of JSON (`lines`), which the program `quarry-judge`
//! reads. Both are judged by the same rules.
//!
//! This crate knows no database: a history is all that it sees.
#![forbid(unsafe_code)]

mod checker;
mod cycle;
mod history;
mod lines;
#[cfg(test)]
mod tests;

pub use checker::check;
pub use history::{Action, History, Key, Outcome, Recorded};
pub use lines::parse;
