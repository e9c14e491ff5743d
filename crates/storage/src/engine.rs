//! The trait that every storage engine implements, and the small types that it speaks.
//!
//! An engine is an ordered map of bytes with atomic batches and snapshots. It keeps no log: what
//! was written is visible at once and durable only as of the last durable point (a flush, a steady
//! point), which [`Engine::durable_lsn`] names. The journal above makes up the difference.
//!
//! Calls block and may come from any thread. Writes come from one thread at a time: the commit
//! path has a single leader. An engine still stays correct when they do not.

use std::path::Path;

use crate::{Error, KeyRange, Result, WriteBatch};

/// Called with the highest LSN that is about to become durable, before it does.
///
/// An error stops the durable point: the engine keeps serving what it has and reports the error.
/// The hook must not wait for a write to this engine, which may itself wait for the durable point.
pub type BeforeDurable = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// An ordered map of bytes.
pub trait Engine: Send + Sync + 'static {
    /// `rocksdb`, `mdbx` or `memory`: written into the data, checked at start.
    fn name(&self) -> &'static str;

    /// Bytes of the longest key; the same number for all engines.
    fn key_bytes_max(&self) -> usize {
        crate::KEY_BYTES_MAX
    }

    /// Hands the latest value to `read` and says whether there is one. The bytes are the engine's
    /// own and stay put during the call only.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `found` with the position in `keys` of each key that has a value. Counts as that many gets.
    fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        for (position, key) in keys.iter().enumerate() {
            if self.get(key, &mut |_| {})? {
                found(position);
            }
        }
        Ok(())
    }

    /// A view of everything written before the call and nothing after. It pins the engine's old
    /// versions: hold it briefly.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>>;

    /// Applies the batch as one: visible on return, not yet durable. On an error nothing of it is.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Like [`Engine::write`], but never waits: fails with [`Error::Stalled`] when the engine is stalled or somebody else writes. An engine whose
    /// writes never wait need not tell the two apart.
    fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        self.write(batch)
    }

    /// Whether a write is durable on return: it must then not be put off.
    fn syncs_writes(&self) -> bool {
        false
    }

    /// Whether a write would be taken now. Cheap: asked before every group.
    fn ready(&self) -> Readiness;

    /// Whether so much waits for its flush that large writes had better wait too, so that small ones meet no stall.
    fn is_pressed(&self) -> bool {
        false
    }

    /// Whether the engine makes each write wait a little because its background work falls behind. It may then count a
    /// [`Engine::try_write`] that it refuses as if it had been written.
    fn paces_writes(&self) -> bool {
        false
    }

    /// The bytes of a batch that suits an owner who writes one behind the other while nobody waits: the journal's replay.
    fn bulk_batch_bytes(&self) -> usize {
        1 << 20
    }

    /// Begins to bring to the disk what was written, without waiting for it: for an owner that writes much and will sync. It
    /// promises nothing, and what fails of it fails the sync.
    fn begin_sync(&self) {}

    /// Nothing is replayed into the engine any more: background work that an engine which was opened for a replay has put off begins.
    fn end_replay(&self) {}

    /// Makes everything written before the call durable.
    fn sync(&self) -> Result<()>;

    /// The applied LSN as of the last durable point: what a reopened engine shows at least.
    fn durable_lsn(&self) -> Result<u64>;

    /// Makes `directory`, which does not exist yet, hold what an engine needs that is opened there: everything that is durable
    /// at the call, and perhaps batches behind it, in their order and each as a whole. The caller has them all in its journal, so that
    /// nothing is made durable for a copy, and the copy itself need not survive a power loss. Writes go on meanwhile. It is for
    /// the same device: files that never change may be shared by name. What is left behind by a failure is the caller's to remove.
    fn copy_to(&self, directory: &Path) -> Result<()> {
        let _ = directory;
        let name = self.name();
        Err(Error::Engine(format!(
            "the engine `{name}` has no files to copy"
        )))
    }

    /// Changes no file until `let_files_move`, for somebody who copies them: background work ends first, and none is begun.
    /// Everything is durable before, and nothing is written meanwhile; reads go on. A failure leaves the files free.
    fn hold_files_still(&self) -> Result<()> {
        Ok(())
    }

    /// Lets files change again.
    fn let_files_move(&self) -> Result<()> {
        Ok(())
    }

    /// Removes about `step_bytes` of what is in `range` and gives the space back; again until
    /// `done`. Restartable at any point.
    ///
    /// Nobody may begin to read the range any more, or write it. A snapshot that was made before the first step goes on
    /// reading it as it was, with cursors made before, between and after the steps; it may hold back the space, not `done`.
    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed>;

    /// Bytes that the range takes on disk, roughly.
    fn size_estimate(&self, range: &KeyRange) -> Result<u64>;

    /// The engine's work and state so far.
    fn counters(&self) -> EngineCounters;

    /// The bytes on disk that writes have taken out of the latest state since the engine was opened, and that it keeps as long as
    /// a snapshot from before them lives: about as many, and not fewer. None where the engine does not count them, so that its owner,
    /// who knows what its batches replace, has to.
    fn retired_bytes(&self) -> Option<u64> {
        None
    }

    /// Ends what waits inside the engine for its journal, for space or for background work; such a call fails, and from
    /// now on nothing more becomes durable. For an owner that closes and cannot wait; `close` follows.
    fn stop_waiting(&self) {}

    /// Syncs, stops background work and refuses further calls. Idempotent.
    fn close(&self) -> Result<()>;

    /// Sets the hook of the write-ahead rule, before the first write.
    fn set_before_durable(&self, hook: BeforeDurable);
}

/// A consistent view of an engine.
pub trait Snapshot: Send {
    /// As [`Engine::get`], as of the snapshot.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// A cursor over `range`, on no key until it is moved.
    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>>;

    /// Another view of the same state. Each lasts as long as its own owner, on whatever thread that is: a snapshot that
    /// several reads need is shared once for each, since two threads may not read through one view at the same time.
    fn share(&mut self) -> Result<Box<dyn Snapshot>>;
}

/// A position in a range of a snapshot. All moves stay inside the range; a move that finds no key
/// leaves the cursor invalid, and so does `next` or `prev` of an invalid one.
pub trait Cursor {
    /// To the first key at or above `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the last key below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the first key of the range.
    fn first(&mut self) -> Result<()>;
    /// Moves to the last key of the range.
    fn last(&mut self) -> Result<()>;
    /// Moves to the next key.
    fn next(&mut self) -> Result<()>;
    /// Moves to the key before.
    fn prev(&mut self) -> Result<()>;
    /// Whether the cursor stands on a key.
    fn valid(&self) -> bool;
    /// The key under the cursor, good until it moves; empty when invalid.
    fn key(&self) -> &[u8];
    /// The value under the cursor, good until it moves; empty when invalid.
    fn value(&self) -> &[u8];
}

/// Whether an engine takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It takes writes now.
    Ready,
    /// It will again by itself; `cause` says what it waits for.
    Stalled {
        /// The engine's own words for what it waits for.
        cause: String,
    },
    /// It will not without help (or, for [`Error::NoSpace`], without freed space).
    Failed(Error),
}

/// The outcome of one step of [`Engine::reclaim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Nothing is left in the range.
    pub done: bool,
}

/// The work of an engine since it was opened. A counter is zero when the engine does no such work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Gets of single keys.
    pub gets: u64,
    /// Cursor positionings: seek, seek_before, first, last.
    pub seeks: u64,
    /// Cursor steps: next and prev.
    pub nexts: u64,
    /// Batches written.
    pub writes: u64,
    /// Bytes of values handed out by gets, and of keys and values stood upon by cursors.
    pub bytes_read: u64,
    /// Bytes of batches.
    pub bytes_written: u64,
    /// Blocks that the engine's cache had.
    pub cache_hits: u64,
    /// Blocks that had to be read.
    pub cache_misses: u64,
    /// Durable points made, by [`Engine::sync`] or by the engine itself.
    pub flushes: u64,
    /// Compactions that have ended.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_bytes_read: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: u64,
    /// How long the engine slowed writes down or took none, ns.
    pub stall_ns: u64,
    /// Bytes written and not yet durable.
    pub unflushed_bytes: u64,
    /// Bytes of memory held for caching.
    pub cache_bytes: u64,
    /// Bytes of files.
    pub disk_bytes: u64,
}
