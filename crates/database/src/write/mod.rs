//! Writes of documents, a piece at a time: at most `PIECE_DOCUMENTS_MAX` documents in one atomic batch.
//!
//! A piece locks its records, reads the latest, makes all its index keys, locks and checks its unique keys, and commits
//! once. The order of loops (keys of the whole piece before its one commit) is what makes batches cheap. A document
//! that fails takes none of its entries into the batch; in an ordered insert and in an update nothing behind it counts.

mod capped;
pub(crate) mod duplicate;
#[cfg(test)]
mod hostile_keys;
mod insert;
mod modified_keys;
mod modify;

use std::sync::Arc;

use parking_lot::Mutex;
use quarry_journal::Until;
use quarry_storage::{Engine, WriteBatch};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::build::builds::Builds;
use crate::catalog::cache::Catalog;
use crate::catalog::collection::Collection;
use crate::catalog::collection_holds::CollectionHolds;
use crate::catalog::definitions::Definitions;
use crate::commit::commits::Commits;
use crate::commit::payload::{Delta, Header, OperationKind, SYSTEM, now_ms};
use crate::error::Result;
use crate::index::definition::Index;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::locks::WriteLocks;
use crate::locks::large_batches::Admitted;
use crate::operation::Operation;
use crate::snapshot::reads::Reads;

pub use insert::Inserted;
pub use modify::{Change, Compute, Modified};

/// Documents and bytes that one commit takes at most.
pub const PIECE_DOCUMENTS_MAX: usize = 500;
pub const PIECE_BYTES_MAX: usize = 1024 * 1024;

/// What one piece will commit. Deletes come before puts.
#[derive(Default)]
struct Piece {
    deletes: WriteBatch,
    puts: WriteBatch,
    documents: i64,
    bytes: i64,
    /// Records deleted, and what the puts of records are, in their order.
    deleted: usize,
    operations: Vec<OperationKind>,
    marks: SmallVec<[(Ident, u8); 2]>,
}

impl Piece {
    fn mark_multikey(&mut self, index: &Index, components: u64) {
        let new = components & !index.marks();
        for component in 0..64u8 {
            if new & (1 << component) != 0 {
                self.puts
                    .put(&layout::multikey_key(index.ident, component), &[]);
                self.marks.push((index.ident, component));
            }
        }
    }

    fn put_document(&mut self, key: &[u8], document: &[u8], old_bytes: Option<usize>) {
        self.puts.put(key, document);
        self.bytes += signed(document.len());
        match old_bytes {
            Some(old) => {
                self.bytes -= signed(old);
                self.operations.push(OperationKind::Update);
            }
            None => {
                self.documents += 1;
                self.operations.push(OperationKind::Insert);
            }
        }
    }

    fn delete_document(&mut self, key: &[u8], old_bytes: usize) {
        self.deletes.delete(key);
        self.documents -= 1;
        self.bytes -= signed(old_bytes);
        self.deleted += 1;
    }
}

/// What a write or an index build may use. A clone is of the same database.
#[derive(Clone)]
pub struct WriteParts {
    pub engine: Arc<dyn Engine>,
    pub catalog: Arc<Catalog>,
    pub definitions: Arc<Definitions>,
    pub holds: Arc<CollectionHolds>,
    pub locks: Arc<WriteLocks>,
    pub reads: Reads,
    pub commits: Arc<Commits>,
    pub builds: Arc<Builds>,
}

/// Who writes documents.
pub struct Writer {
    parts: WriteParts,
    /// The last RecordId that each capped collection has given. Read and changed under its exclusive hold.
    record_ids: Mutex<FxHashMap<Ident, u64>>,
    keeps_locks_over_sync: bool,
}

impl Writer {
    pub fn new(parts: WriteParts, keeps_locks_over_sync: bool) -> Writer {
        Writer {
            parts,
            record_ids: Mutex::default(),
            keeps_locks_over_sync,
        }
    }

    #[cfg(test)]
    pub(crate) fn locks(&self) -> &WriteLocks {
        &self.parts.locks
    }

    /// Returns when a batch of that size may be made and committed.
    fn admit(&self, bytes: usize, operation: &Operation) -> Result<Option<Admitted<'_>>> {
        let journal = self.parts.commits.journal();
        self.parts
            .locks
            .large_batches
            .admit(bytes, self.parts.engine.as_ref(), journal, operation)
    }

    /// Commits a piece, if it changes anything. `until` matters to a writer that waits for its sync afterwards. With
    /// `Until::Applied` the next writer of a record goes on before the sync. With `Until::Synced` this writer is woken once
    /// instead of twice, and its locks are held over the sync: a writer that wants to change the same document, or wants the
    /// collection for itself, waits for the sync too.
    fn commit_piece(
        &self,
        operation: &Operation,
        collection: &Collection,
        mut piece: Piece,
        until: Until,
    ) -> Result<Option<u64>> {
        if piece.puts.is_empty() && piece.deletes.is_empty() {
            return Ok(None);
        }
        let batch = if piece.deletes.is_empty() {
            piece.puts
        } else {
            piece.deletes.append(&piece.puts);
            piece.deletes
        };
        let deleted = std::iter::repeat_n(OperationKind::Delete, piece.deleted);
        piece.operations.splice(0..0, deleted);
        let delta = [Delta {
            ident: collection.ident,
            documents: piece.documents,
            bytes: piece.bytes,
        }];
        let header = Header {
            flags: if piece.marks.is_empty() { 0 } else { SYSTEM },
            wall_ms: now_ms(),
            collection: Some(collection.uuid),
            deltas: if piece.operations.is_empty() {
                &[]
            } else {
                &delta
            },
            operations: &piece.operations,
        };
        let syncing = operation.awaits_sync().then_some(until);
        self.parts
            .commits
            .commit_whole(syncing, &header, batch)
            .map(Some)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("documents are at most 16 MiB")
}
