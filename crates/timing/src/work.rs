//! The work of an operation, counted beside its time, and whom it waited for.

/// One thing that is counted. Those from [`Work::Group`] on are names, not amounts: the
/// last one stands, and they are in no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Work {
    /// Gets that the engine answered.
    EngineGets,
    /// Cursor positionings in the engine.
    EngineSeeks,
    /// Cursor steps in the engine.
    EngineNexts,
    /// Bytes that the engine handed out.
    BytesRead,
    /// Bytes of the batches that this thread applied to the engine, as leader those of other writers too.
    BytesWritten,
    /// Blocks that the engine found in its cache.
    CacheHits,
    /// Blocks that it had to read.
    CacheMisses,
    /// Records that were found in the cache of records, which asks no engine.
    RecordCacheHits,
    /// Index keys that the plan looked at.
    KeysExamined,
    /// Documents that the plan looked at.
    DocsExamined,
    /// Documents in the reply.
    Returned,
    /// Bytes of this operation's own journal records.
    JournalBytes,
    /// Records that this operation committed.
    Commits,
    /// Writers of the groups that carried its records, itself included.
    GroupWriters,
    /// The number of the last group.
    Group,
    /// How many syncs the journal had made when this operation's wait for one ended.
    Sync,
    /// The tag of the operation that held the lock that was waited for last.
    LockHolder,
    /// Why the engine was stalled: a number of [`crate::stall_cause`].
    StallCause,
    /// The number of a checkpoint that ran while the journal was waited for.
    Checkpoint,
}

/// How many there are.
pub const WORK_COUNT: usize = 19;
/// Those before this place are amounts and have sums.
pub(crate) const SUMMED_COUNT: usize = Work::Group as usize;

impl Work {
    /// All of them, in order: `ALL[w as usize] == w`.
    pub const ALL: [Work; WORK_COUNT] = [
        Work::EngineGets,
        Work::EngineSeeks,
        Work::EngineNexts,
        Work::BytesRead,
        Work::BytesWritten,
        Work::CacheHits,
        Work::CacheMisses,
        Work::RecordCacheHits,
        Work::KeysExamined,
        Work::DocsExamined,
        Work::Returned,
        Work::JournalBytes,
        Work::Commits,
        Work::GroupWriters,
        Work::Group,
        Work::Sync,
        Work::LockHolder,
        Work::StallCause,
        Work::Checkpoint,
    ];

    /// The name used in replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Work::EngineGets => "engineGets",
            Work::EngineSeeks => "engineSeeks",
            Work::EngineNexts => "engineNexts",
            Work::BytesRead => "bytesRead",
            Work::BytesWritten => "bytesWritten",
            Work::CacheHits => "cacheHits",
            Work::CacheMisses => "cacheMisses",
            Work::RecordCacheHits => "recordCacheHits",
            Work::KeysExamined => "keysExamined",
            Work::DocsExamined => "docsExamined",
            Work::Returned => "returned",
            Work::JournalBytes => "journalBytes",
            Work::Commits => "commits",
            Work::GroupWriters => "groupWriters",
            Work::Group => "group",
            Work::Sync => "sync",
            Work::LockHolder => "lockHolder",
            Work::StallCause => "stallCause",
            Work::Checkpoint => "checkpoint",
        }
    }

    /// Whether it is an amount, which can be summed over operations.
    #[must_use]
    pub fn is_amount(self) -> bool {
        (self as usize) < SUMMED_COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_stands_at_its_own_place() {
        for (index, work) in Work::ALL.into_iter().enumerate() {
            assert_eq!(work as usize, index);
        }
        assert!(Work::GroupWriters.is_amount() && !Work::Group.is_amount());
    }
}
