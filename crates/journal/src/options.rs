//! The options that a journal is opened with: sizes, intervals, the retention window, and the identity that every
//! segment carries. Bounds of the format stand here as constants.

use crate::error::{Error, Result};

/// The largest record: a document of 16 MiB with room for its index entries, many times over.
pub const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// No record is numbered above this. What is read from a disk is checked against it once, so that sums of positions never
/// overflow.
pub(crate) const LSN_MAX: u64 = 1 << 62;
/// The longest engine name that a segment header can hold.
pub const ENGINE_NAME_BYTES_MAX: usize = 32;

/// How a journal behaves. `Default` is what a server wants.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a segment file. Every segment is zero-written to this length before its first group.
    pub segment_bytes: u64,
    /// A group takes records until it holds this many bytes; a larger record makes its own group.
    pub group_bytes_max: usize,
    /// Interval of the background sync. 0 = off: only waiters and `sync` sync.
    pub commit_interval_ms: u64,
    /// Refuses to begin a journal where there is none: its owner knows that there was one.
    pub must_exist: bool,
    /// Runs the threads `journal-sync` and `journal-space`. Without them nothing happens in the background.
    pub background: bool,
    /// Freed segments beyond this number are deleted instead of kept for reuse.
    pub spare_segments_max: usize,
    /// Groups with more bytes of records than this are compressed with LZ4 if that makes them shorter.
    /// `None` = no group is.
    pub compress_above_bytes: Option<usize>,
    /// Keep checkpointed segments this long after their last write, within `retain_bytes_max`.
    pub retain_ms: u64,
    /// No segment is kept for `retain_ms` while all together take more than this. What a checkpoint still needs is kept
    /// in any case.
    pub retain_bytes_max: u64,
    /// An archive is kept (`Journal::archive`): segments stay until it has them, as long as those that wait take no more bytes
    /// than this. `None`: none is kept.
    pub archive_hold_bytes: Option<u64>,
    /// A record submitted without waiting is appended at the latest when a later submission finds it this old; at once
    /// while a lone durable record is being synced.
    pub gather_ns: u64,
    /// The shortcuts that commits take.
    pub shortcuts: Shortcuts,
}

/// The shortcuts of a commit. Each changes when things happen and never what is promised; one is switched off alone to
/// measure what it wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// A writer that finds nobody about takes the turn for its own record, past the queue.
    pub lone_writers: bool,
    /// With many writers about, a group waits for half of those of late.
    pub gathering: bool,
    /// One of the writers that wait for Durable syncs while the leader applies their group.
    pub early_sync: bool,
}

impl Default for Shortcuts {
    fn default() -> Self {
        Shortcuts {
            lone_writers: true,
            gathering: true,
            early_sync: true,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 64 * 1024 * 1024,
            group_bytes_max: 1024 * 1024,
            commit_interval_ms: 100,
            must_exist: false,
            background: true,
            spare_segments_max: 2,
            compress_above_bytes: None,
            retain_ms: 0,
            retain_bytes_max: u64::MAX,
            archive_hold_bytes: None,
            gather_ns: 400,
            shortcuts: Shortcuts::default(),
        }
    }
}

/// Whose journal this is. A mismatch refuses the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database UUID.
    pub database: [u8; 16],
    /// The engine's name, at most `ENGINE_NAME_BYTES_MAX` bytes.
    pub engine: String,
}

impl Identity {
    pub(crate) fn check(&self) -> Result<()> {
        if self.engine.len() <= ENGINE_NAME_BYTES_MAX {
            return Ok(());
        }
        Err(Error::ForeignJournal {
            segment: String::new(),
            reason: format!(
                "engine name `{}` exceeds {ENGINE_NAME_BYTES_MAX} bytes",
                self.engine
            ),
        })
    }
}
