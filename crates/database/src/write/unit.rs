//! A unit of writes: what is staged together, what it holds locked, and what it reads meanwhile.
//!
//! Inserts and changes *stage* puts, deletes and what became of each document; a commit gives all of it to the journal as
//! one record, so that it is visible as a whole or not at all. A unit that is dropped without a commit has changed nothing.
//!
//! A unit of one piece is what a single command commits: it lives on the stack of its writer, waits for locks, and reads the
//! latest state. A unit of several pieces (`WriteUnit`) outlives commands and threads. It reads the latest state or one
//! snapshot, and its own writes over that; it never waits for a lock; and where it reads a snapshot, a document or a unique
//! key that somebody has changed since is a WriteConflict, even if it was changed back (`recent_changes`), so that of two
//! units that change it the first one wins. A statement that ends with an error has staged nothing, and the unit can then
//! only be given up: its commit answers that error. A refused document (a unique key that is taken) is no such error; whoever
//! runs the unit decides about it.
//!
//! Left out, and wanted by transactions:
//! - creating collections and writing to capped ones from a unit of several pieces;
//! - counts that see what it has staged;
//! - its own multikey marks: they are in what it commits, and a plan made before that does not know them, so that an index
//!   scan over its own new arrays would take the index for one without;
//! - reads of `query`: they run over a `CollectionSnapshot`, not yet over the reader of a unit;
//! - a place for a session's record in the same journal record: only what a unit stages in collections is there, and a unit
//!   of one piece has no place for it at all;
//! - a bound on the age of a unit: its locks, epoch and snapshot last until somebody drops it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use quarry_journal::Level;
use quarry_storage::{Cursor, KeyRange, Overlay, WriteBatch};
use smallvec::SmallVec;

use crate::catalog::collection::Collection;
use crate::commit::payload::{Delta, OperationKind};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::locks::WriteLocks;
use crate::locks::recent_changes::OpenSnapshot;
use crate::locks::record_locks::lock_hash;
use crate::locks::unit_locks::UnitLocks;
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// The bytes that a unit of several pieces may stage, keys and values together.
const UNIT_BYTES_MAX: usize = 64 << 20;

/// The changes that one piece of one collection will commit. Deletes come before puts.
#[derive(Default)]
pub(super) struct Piece {
    pub deletes: WriteBatch,
    pub puts: WriteBatch,
    pub documents: i64,
    pub bytes: i64,
    /// Records deleted, and what the puts of records are, in their order.
    pub deleted: usize,
    pub operations: Vec<OperationKind>,
    pub marks: SmallVec<[(Ident, u8); 2]>,
}

impl Piece {
    pub fn mark_multikey(&mut self, index: &Index, components: u64) {
        let new = components & !index.marks();
        for component in 0..64u8 {
            if new & (1 << component) != 0 {
                self.puts
                    .put(&layout::multikey_key(index.ident, component), &[]);
                self.marks.push((index.ident, component));
            }
        }
    }

    pub fn put_document(&mut self, key: &[u8], document: &[u8], old_bytes: Option<usize>) {
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

    pub fn delete_document(&mut self, key: &[u8], old_bytes: usize) {
        self.deletes.delete(key);
        self.documents -= 1;
        self.bytes -= signed(old_bytes);
        self.deleted += 1;
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("documents are at most 16 MiB")
}

/// Locks and, in a unit of several pieces, what they have staged. `L` is a borrow of the lock tables or a share in them.
pub(super) struct Unit<L: Deref<Target = WriteLocks>> {
    pub locks: UnitLocks<L>,
    own: Option<OwnWrites>,
}

/// A unit of several pieces. Dropped, it has changed nothing and gives its locks back.
pub struct WriteUnit {
    pub(super) unit: Unit<Arc<WriteLocks>>,
    /// The level that its commit will be waited for.
    pub(super) level: Level,
    /// The error of the first statement that ended with one.
    failed: Option<Error>,
}

/// The writes that the pieces of a unit have staged so far, and the state that it reads beneath.
struct OwnWrites {
    overlay: Overlay,
    snapshot: Option<(ReadSnapshot, OpenSnapshot)>,
    /// Whether each record that was touched existed before the unit.
    existed: BTreeMap<Vec<u8>, bool>,
    deltas: SmallVec<[Delta; 2]>,
    /// The UUIDs of the collections in `deltas`.
    uuids: SmallVec<[[u8; 16]; 2]>,
    has_marks: bool,
    bytes: usize,
}

/// The state that a unit of several pieces reads beneath its own writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitReads {
    /// Whatever was committed last.
    Latest,
    /// The state that was committed when the unit began.
    Snapshot,
}

/// Everything that a unit of several pieces commits.
pub(super) struct Whole {
    pub batch: WriteBatch,
    pub deltas: SmallVec<[Delta; 2]>,
    pub operations: Vec<OperationKind>,
    /// The UUID of the only collection; none where there are several.
    pub collection: Option<[u8; 16]>,
    pub has_marks: bool,
}

impl<'w> Unit<&'w WriteLocks> {
    pub fn of_one_piece(tables: &'w WriteLocks) -> Unit<&'w WriteLocks> {
        Unit {
            locks: UnitLocks::of_one_piece(tables),
            own: None,
        }
    }
}

impl WriteUnit {
    pub(super) fn begin(
        tables: &Arc<WriteLocks>,
        reads: &Reads,
        applied_lsn: impl Fn() -> u64,
        over: UnitReads,
        level: Level,
    ) -> Result<WriteUnit> {
        // The epoch of the locks comes first: what the catalog names from here on is not reclaimed.
        let locks = UnitLocks::of_many_pieces(Arc::clone(tables));
        let snapshot = match over {
            UnitReads::Latest => None,
            UnitReads::Snapshot => {
                // In this order: a commit that is not in the snapshot has a higher LSN, and its writer sees it counted.
                let open = OpenSnapshot::begin(Arc::clone(tables), applied_lsn());
                Some((reads.snapshot()?, open))
            }
        };
        let own = OwnWrites {
            overlay: Overlay::default(),
            snapshot,
            existed: BTreeMap::new(),
            deltas: SmallVec::new(),
            uuids: SmallVec::new(),
            has_marks: false,
            bytes: 0,
        };
        Ok(WriteUnit {
            unit: Unit {
                locks,
                own: Some(own),
            },
            level,
            failed: None,
        })
    }

    /// Runs a statement, and keeps its error for the commit.
    pub(super) fn run<T>(
        &mut self,
        statement: impl FnOnce(&mut WriteUnit) -> Result<T>,
    ) -> Result<T> {
        let outcome = statement(self);
        if let Err(error) = &outcome {
            self.failed.get_or_insert_with(|| error.clone());
        }
        outcome
    }

    /// Answers the error of the first statement that ended with one.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn own(&self) -> &OwnWrites {
        let own = self.unit.own.as_ref();
        own.expect("a unit of several pieces is made with it")
    }

    fn own_mut(&mut self) -> &mut OwnWrites {
        let own = self.unit.own.as_mut();
        own.expect("a unit of several pieces is made with it")
    }

    /// Holds a collection for the rest of the unit. Its definition must be the one that the unit's snapshot has.
    pub(super) fn hold(&mut self, collection: &Collection) -> Result<()> {
        let namespace = &collection.namespace;
        if !collection.is_clustered() {
            let message = format!(
                "Collection '{namespace}' is a capped collection. Writes in transactions are not allowed on capped collections."
            );
            return Err(Error::invalid(
                ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                message,
            ));
        }
        self.unit
            .locks
            .try_hold(namespace.database(), collection.ident)?;
        let Some((snapshot, _)) = self.own().snapshot.as_ref() else {
            return Ok(());
        };
        let mut is_same = false;
        let key = layout::catalog_key(namespace.database(), namespace.collection());
        snapshot.get(&key, &mut |entry| {
            is_same = entry == collection.entry.as_bytes();
        })?;
        if !is_same {
            let message = format!(
                "Unable to read from a snapshot due to pending collection catalog changes to collection '{namespace}'; please retry the operation."
            );
            return Err(Error::invalid(ErrorCode::SNAPSHOT_UNAVAILABLE, message));
        }
        Ok(())
    }

    /// Adds a piece to what the unit will commit.
    pub(super) fn add(&mut self, collection: &Collection, piece: Piece) -> Result<()> {
        self.own_mut().add(collection, piece)
    }

    /// Everything that was staged; none if nothing was. The locks stay.
    pub(super) fn take_whole(&mut self) -> Option<Whole> {
        self.own_mut().take_whole()
    }

    /// The reader of the unit: it sees the unit's own writes over the latest state or over its snapshot.
    pub(crate) fn reader<'u>(&'u self, reads: &Reads) -> Result<UnitReader<'u>> {
        let own = self.own();
        let base = match &own.snapshot {
            Some((snapshot, _)) => Base::Kept(snapshot),
            None => Base::Fresh(reads.snapshot()?),
        };
        Ok(UnitReader {
            base,
            overlay: &own.overlay,
        })
    }
}

impl<L: Deref<Target = WriteLocks>> Unit<L> {
    /// The reader for what the unit is about to change and has locked.
    #[inline]
    pub fn latest<'u>(&'u self, reads: &'u Reads) -> Latest<'u> {
        Latest {
            reads,
            own: self.own.as_ref(),
        }
    }
}

impl OwnWrites {
    fn add(&mut self, collection: &Collection, piece: Piece) -> Result<()> {
        // Else the record would name a collection in which nothing has changed, and wake its readers.
        if piece.deletes.is_empty() && piece.puts.is_empty() {
            return Ok(());
        }
        let bytes = self.bytes + piece.deletes.bytes_len() + piece.puts.bytes_len();
        if bytes > UNIT_BYTES_MAX {
            let message = format!("a transaction writes at most {UNIT_BYTES_MAX} bytes");
            return Err(Error::invalid(ErrorCode::TRANSACTION_TOO_LARGE, message));
        }
        self.bytes = bytes;
        let prefix = collection.prefix.as_bytes();
        let is_record = |op: &quarry_storage::Op<'_>| op.key().starts_with(prefix);
        for op in piece.deletes.iter().filter(is_record) {
            self.existed.entry(op.key().to_vec()).or_insert(true);
        }
        let puts = piece.puts.iter().filter(is_record);
        for (op, kind) in puts.zip(&piece.operations) {
            let existed = *kind != OperationKind::Insert;
            self.existed.entry(op.key().to_vec()).or_insert(existed);
        }
        self.overlay.extend(&piece.deletes);
        self.overlay.extend(&piece.puts);
        self.has_marks |= !piece.marks.is_empty();
        let ident = collection.ident;
        let delta = match self.deltas.iter_mut().find(|delta| delta.ident == ident) {
            Some(delta) => delta,
            None => {
                self.uuids.push(collection.uuid);
                self.deltas.push(Delta {
                    ident,
                    documents: 0,
                    bytes: 0,
                });
                self.deltas.last_mut().expect("it was pushed")
            }
        };
        delta.documents += piece.documents;
        delta.bytes += piece.bytes;
        Ok(())
    }

    /// The net of all pieces, with one operation a document: one that the unit inserted and deleted leaves none.
    fn take_whole(&mut self) -> Option<Whole> {
        let overlay = std::mem::take(&mut self.overlay);
        let mut batch = WriteBatch::with_capacity(self.bytes);
        let mut operations = Vec::with_capacity(self.existed.len());
        for (key, _) in overlay.iter().filter(|(_, value)| value.is_none()) {
            match self.existed.get(key) {
                Some(false) => continue,
                Some(true) => operations.push(OperationKind::Delete),
                None => {}
            }
            batch.delete(key);
        }
        for (key, value) in overlay.iter() {
            let Some(value) = value else {
                continue;
            };
            match self.existed.get(key) {
                Some(true) => operations.push(OperationKind::Update),
                Some(false) => operations.push(OperationKind::Insert),
                None => {}
            }
            batch.put(key, value);
        }
        if batch.is_empty() {
            return None;
        }
        let collection = match self.uuids.as_slice() {
            [uuid] => Some(*uuid),
            _ => None,
        };
        Some(Whole {
            batch,
            deltas: std::mem::take(&mut self.deltas),
            operations,
            collection,
            has_marks: self.has_marks,
        })
    }

    /// Reads a key that the unit has locked: from its own writes, or the latest state, where nobody has changed it since the
    /// unit's snapshot.
    fn get(
        &self,
        key: &[u8],
        latest: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<bool>,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        match self.overlay.peek(key) {
            Some(Some(value)) => {
                read(value);
                return Ok(true);
            }
            Some(None) => return Ok(false),
            None => {}
        }
        match &self.snapshot {
            Some((_, open)) if open.is_changed(lock_hash(key)) => Err(Error::WriteConflict),
            _ => latest(read),
        }
    }
}

/// The state that a writer changes: keys that it has locked, as they are now, its own writes among them.
#[derive(Clone, Copy)]
pub(crate) struct Latest<'u> {
    reads: &'u Reads,
    own: Option<&'u OwnWrites>,
}

impl<'u> Latest<'u> {
    /// The reader of a writer that has staged nothing.
    pub fn of(reads: &'u Reads) -> Latest<'u> {
        Latest { reads, own: None }
    }

    /// Reads an index entry; false if there is none.
    #[inline]
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.own {
            None => self.reads.get(key, read),
            Some(own) => own.get(key, |read| self.reads.get(key, read), read),
        }
    }

    /// Reads a record; false if there is none.
    #[inline]
    pub fn get_record(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.own {
            None => self.reads.get_record(key, read),
            Some(own) => own.get(key, |read| self.reads.get_record(key, read), read),
        }
    }

    /// Calls `found` with the position of each of `keys` that has a value.
    #[inline]
    pub fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        if self.own.is_none() {
            return self.reads.find_present(keys, found);
        }
        for (position, key) in keys.iter().enumerate() {
            if self.get(key, &mut |_| {})? {
                found(position);
            }
        }
        Ok(())
    }
}

/// A unit's own writes over the state that it reads, as they are when this is made.
pub struct UnitReader<'u> {
    base: Base<'u>,
    overlay: &'u Overlay,
}

enum Base<'u> {
    Kept(&'u ReadSnapshot),
    Fresh(ReadSnapshot),
}

impl UnitReader<'_> {
    /// Reads a record or an index entry; false if there is none.
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.overlay.peek(key) {
            Some(Some(value)) => {
                read(value);
                Ok(true)
            }
            Some(None) => Ok(false),
            None => self.snapshot().get(key, read),
        }
    }

    /// A cursor over `range`, on no key until it is moved.
    pub fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let beneath = self.snapshot().cursor(range.clone())?;
        Ok(self.overlay.cursor_over(range, beneath))
    }

    fn snapshot(&self) -> &ReadSnapshot {
        match &self.base {
            Base::Kept(snapshot) => snapshot,
            Base::Fresh(snapshot) => snapshot,
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::database::Database;
    use crate::keyspace::namespace::Namespace;
    use crate::operation::Operation;

    #[test]
    fn a_piece_that_changes_nothing_leaves_no_trace_in_the_record() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let names = ["db.changed", "db.looked_at"].map(|name| Namespace::parse(name).unwrap());
        let [changed, looked_at] = &names;
        let collections = names
            .each_ref()
            .map(|name| database.collection_or_create(name, &operation).unwrap());
        let mut unit = (database.begin(&operation, UnitReads::Latest, Level::Written)).unwrap();
        let document = doc! { "_id": 1 };
        database
            .insert_in(&mut unit, &operation, changed, &[document.as_raw()], true)
            .unwrap();
        let keys = [b"nothing".to_vec()];
        let ident = collections[1].ident;
        database
            .modify_in(
                &mut unit,
                &operation,
                looked_at,
                ident,
                &keys,
                &mut |_, _, _| panic!("there is no such record"),
            )
            .unwrap();
        let whole = unit.take_whole().unwrap();
        assert_eq!(whole.deltas.len(), 1);
        assert_eq!(whole.collection, Some(collections[0].uuid));
    }
}
