//! How a database is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quarry_journal::Seal;

use crate::catalog::validation::OnInvalid;
use crate::index::document_filter::{FilterLanguage, NoFilterLanguage};
use crate::index::kind::{IndexKinds, NoIndexKinds};

/// How a database is opened: its journal, its cache and its shortcuts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the journal lives; `None` keeps it in memory, as the memory engine does.
    pub journal_directory: Option<PathBuf>,
    /// The interval of the background sync; 0 = none.
    pub commit_interval_ms: u64,
    /// `None`: the journal's default on a disk, less in memory.
    pub journal_segment_bytes: Option<u64>,
    /// The journal's segments are kept so long after their last write though no checkpoint needs them, for change streams.
    pub journal_retain_ms: u64,
    /// As long as all of them take no more bytes than this, and the disk has room for other things.
    pub journal_retain_bytes_max: u64,
    /// An archive of the journal is kept: segments stay until it has them, as long as those that wait take no more bytes than
    /// this. `None`: none is kept.
    pub journal_archive_hold_bytes: Option<u64>,
    /// Groups of more bytes are compressed; `None`: none is.
    pub journal_compress_above_bytes: Option<usize>,
    /// Encrypts the groups of a journal on a disk; `None`: they are written as they are.
    pub journal_seal: Option<Arc<dyn Seal>>,
    /// Memory for records that were written or read lately; 0 for an engine whose gets cost little.
    pub record_cache_bytes: usize,
    /// The shortcuts that commits take.
    pub shortcuts: Shortcuts,
    /// The language of the filters of partial indexes and of validators. Without one there can be neither.
    pub filter_language: Arc<dyn FilterLanguage>,
    /// The kinds of indexes beside those of plain values. Without them there can be no such index.
    pub index_kinds: Arc<dyn IndexKinds>,
    /// Is told of documents that are written although they do not suit their collection's validator, which only warns.
    pub on_invalid: OnInvalid,
    /// Once it is set, an opening that replays the journal ends with `Error::ShuttingDown`.
    pub give_up: Arc<AtomicBool>,
}

/// The shortcuts of a commit, each of which can be switched off alone to measure what it wins. None changes a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// The shortcuts within the journal.
    pub journal: quarry_journal::Shortcuts,
    /// The engine is written behind the reply of a connection that writes alone.
    pub late_writes: bool,
    /// An insert of one document that is to be durable keeps its locks until its sync is over, and wakes once.
    pub locks_over_sync: bool,
}

impl Default for Shortcuts {
    fn default() -> Self {
        Shortcuts {
            journal: quarry_journal::Shortcuts::default(),
            late_writes: true,
            locks_over_sync: true,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            journal_directory: None,
            commit_interval_ms: 100,
            journal_segment_bytes: None,
            journal_retain_ms: 0,
            journal_retain_bytes_max: u64::MAX,
            journal_archive_hold_bytes: None,
            journal_compress_above_bytes: None,
            journal_seal: None,
            record_cache_bytes: 0,
            shortcuts: Shortcuts::default(),
            filter_language: Arc::new(NoFilterLanguage),
            index_kinds: Arc::new(NoIndexKinds),
            on_invalid: |_, _| {},
            give_up: Arc::default(),
        }
    }
}
