//! The phases that the time of an operation is split over, in the order an operation meets them.

/// A phase of an operation. The names are the public ones: they stand in replies and log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Reading the request from the socket, from its first byte on.
    Read,
    /// Decompressing, parsing and validating the message.
    Decode,
    /// Checking who asks and whether they may.
    Auth,
    /// Parsing the query and choosing a plan.
    Plan,
    /// Waiting for a collection or a record, or for the turn of a long read.
    LockWait,
    /// Running the operation, apart from the parts of it named next.
    Execute,
    /// Matching documents against a filter.
    Match,
    /// Building projected documents.
    Project,
    /// Sorting.
    Sort,
    /// Grouping.
    Group,
    /// Building updated documents from the bytes of old ones.
    Splice,
    /// Making index keys.
    KeyGen,
    /// Point reads in the engine.
    EngineRead,
    /// Cursor steps in the engine.
    EngineScan,
    /// Waiting for the group that carries the write.
    CommitWait,
    /// Appending the group to the journal.
    JournalAppend,
    /// Applying the group to the engine.
    EngineWrite,
    /// Waiting for an engine that cannot take writes.
    Stall,
    /// Waiting for the journal to be synced.
    SyncWait,
    /// Building the reply.
    Encode,
    /// Handing the reply to the kernel.
    Send,
}

/// How many phases there are.
pub const PHASE_COUNT: usize = 21;

impl Phase {
    /// All phases, in order: `ALL[p as usize] == p`.
    pub const ALL: [Phase; PHASE_COUNT] = [
        Phase::Read,
        Phase::Decode,
        Phase::Auth,
        Phase::Plan,
        Phase::LockWait,
        Phase::Execute,
        Phase::Match,
        Phase::Project,
        Phase::Sort,
        Phase::Group,
        Phase::Splice,
        Phase::KeyGen,
        Phase::EngineRead,
        Phase::EngineScan,
        Phase::CommitWait,
        Phase::JournalAppend,
        Phase::EngineWrite,
        Phase::Stall,
        Phase::SyncWait,
        Phase::Encode,
        Phase::Send,
    ];

    /// The name used in replies and log lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Read => "read",
            Phase::Decode => "decode",
            Phase::Auth => "auth",
            Phase::Plan => "plan",
            Phase::LockWait => "lock_wait",
            Phase::Execute => "execute",
            Phase::Match => "match",
            Phase::Project => "project",
            Phase::Sort => "sort",
            Phase::Group => "group",
            Phase::Splice => "splice",
            Phase::KeyGen => "key_gen",
            Phase::EngineRead => "engine_read",
            Phase::EngineScan => "engine_scan",
            Phase::CommitWait => "commit_wait",
            Phase::JournalAppend => "journal_append",
            Phase::EngineWrite => "engine_write",
            Phase::Stall => "stall",
            Phase::SyncWait => "sync_wait",
            Phase::Encode => "encode",
            Phase::Send => "send",
        }
    }

    #[inline]
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Says that the phase was entered and left again without a look at the clock. Not every phase has one.
    #[inline]
    pub(crate) const fn passed_bit(self) -> u32 {
        assert!((self as u32) < PASSABLE);
        1 << (PASSED_SHIFT + self as u32)
    }
}

/// Above the bits of the phases and that of the time without one.
const PASSED_SHIFT: u32 = PHASE_COUNT as u32 + 1;
/// The first so many phases can be passed.
const PASSABLE: u32 = u32::BITS - PASSED_SHIFT;

/// The bits of slots that the clock has run for.
pub(crate) fn touched(bits: u32) -> u32 {
    bits & ((1 << PASSED_SHIFT) - 1)
}

/// The bits of phases that were passed and not entered otherwise.
pub(crate) fn passed(bits: u32) -> u32 {
    (bits >> PASSED_SHIFT) & !bits
}

/// The bits of phases that were entered.
pub(crate) fn entered(bits: u32) -> u32 {
    touched(bits) | passed(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_stands_at_its_own_place() {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, index);
        }
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = Phase::ALL.iter().map(|phase| phase.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PHASE_COUNT);
    }
}
