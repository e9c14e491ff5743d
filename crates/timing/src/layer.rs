//! The four layers that phases belong to, for those who want one line each.

use crate::Phase;

/// A part of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layer {
    /// Messages: from and to the socket, and their form.
    Wire,
    /// Plans, matching, changing documents, index keys, and waiting for other operations' locks.
    Query,
    /// The engine: its reads, its writes and its stalls.
    Engine,
    /// The journal: waiting for a group, appending it, syncing it.
    Journal,
}

impl Layer {
    /// The layers in the order in which a request meets them.
    pub const ALL: [Layer; 4] = [Layer::Wire, Layer::Query, Layer::Engine, Layer::Journal];

    /// The layer that a phase belongs to.
    #[must_use]
    pub fn of(phase: Phase) -> Layer {
        match phase {
            Phase::Read | Phase::Decode | Phase::Auth | Phase::Encode | Phase::Send => Layer::Wire,
            Phase::Plan
            | Phase::LockWait
            | Phase::Execute
            | Phase::Match
            | Phase::Project
            | Phase::Sort
            | Phase::Group
            | Phase::Splice
            | Phase::KeyGen => Layer::Query,
            Phase::EngineRead | Phase::EngineScan | Phase::EngineWrite | Phase::Stall => {
                Layer::Engine
            }
            Phase::CommitWait | Phase::JournalAppend | Phase::SyncWait => Layer::Journal,
        }
    }

    /// The name used in replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Wire => "wire",
            Layer::Query => "query",
            Layer::Engine => "engine",
            Layer::Journal => "journal",
        }
    }
}
