//! A history: the things that clients did and saw.

use std::collections::BTreeMap;

/// The name of a list.
pub type Key = String;

/// The transactions and single commands of all clients, and the lists as they were in the end.
#[derive(Debug, Default)]
pub struct History {
    pub done: Vec<Recorded>,
    /// A list that nobody has appended to may be left out.
    pub lists: BTreeMap<Key, Vec<i64>>,
}

/// A transaction, or a command outside of one.
#[derive(Debug, Default)]
pub struct Recorded {
    pub actions: Vec<Action>,
    pub outcome: Outcome,
    /// Before it began, and after it had ended, by one clock. What has an unknown outcome has ended when it can have no effect
    /// any more; `u64::MAX` where nobody knows when that is.
    pub begun: u64,
    pub ended: u64,
    /// Who did it, for messages.
    pub client: String,
}

/// How a transaction or command ended, as far as its client was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// It was aborted, or refused: nothing of it may ever be seen.
    #[default]
    GivenUp,
    /// The answer was lost. It has happened as a whole, or not at all.
    Unknown,
}

#[derive(Debug)]
pub enum Action {
    /// Appends a value, which nobody else appends anywhere, to the list of a key.
    Append(Key, i64),
    /// Reads the list of a key.
    Read(Key, Vec<i64>),
}
