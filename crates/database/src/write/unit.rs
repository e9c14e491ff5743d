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
//! What a unit of several pieces does not stage:
//! - *Multikey marks* of a collection that others see. They are committed at once and apart from the unit
//!   (`Writer::mark_now`), so that every plan made in the unit knows them; a mark too many, of a unit that is given up,
//!   only makes plans more careful.
//! - Writes to capped collections, which are refused as MongoDB refuses them.
//!
//! A collection that a unit makes is its own until the commit (`unit_collections`): nobody else finds it, and its name is
//! held, so that nobody makes another one there.
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use quarry_storage::{Overlay, WriteBatch};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::latest::Latest;
use super::own_writes::{OwnWrites, Whole};
use super::piece::Piece;
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::error::{Error, Result};
use crate::keyspace::counts::{Counts, decode_counts};
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::locks::WriteLocks;
#[cfg(test)]
use crate::locks::mutant::Mutant;
use crate::locks::recent_changes::OpenSnapshot;
use crate::locks::unit_locks::UnitLocks;
use crate::operation::Operation;
use crate::snapshot::collection_snapshot::{entry_in, snapshot_unavailable};
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// The bytes that a record has for the change of a definition, beside names, options and specifications, and some more.
const EVENT_BYTES: usize = 64;

/// About the bytes in memory for each record that a unit has touched, beside its key and value: nodes of two ordered maps, a
/// second key, and what the allocator rounds up.
const TOUCHED_BYTES: usize = 350;

/// About the bytes in memory for a further change of a record, beside its parts.
const CHANGED_AGAIN_BYTES: usize = 250;

/// About the bytes in memory for each key that a unit has locked: a hash in the table, one in the unit, and their free room.
const LOCK_BYTES: usize = 60;

/// Locks and, in a unit of several pieces, what they have staged. `L` is a borrow of the lock tables or a share in them.
pub(super) struct Unit<L: Deref<Target = WriteLocks>> {
    pub locks: UnitLocks<L>,
    own: Option<OwnWrites>,
}

/// A unit of several pieces. Dropped, it has changed nothing and gives its locks back.
pub struct WriteUnit {
    pub(super) unit: Unit<Arc<WriteLocks>>,
    /// The error of the first statement that ended with one.
    failed: Option<Error>,
}

/// The state that a unit of several pieces reads beneath its own writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitReads {
    /// Whatever was committed last.
    Latest,
    /// The state that was committed when the unit began.
    Snapshot,
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
        Ok(WriteUnit::over(locks, snapshot, false))
    }

    /// Begins a unit over a snapshot that was made before.
    pub(super) fn begin_at(
        tables: &Arc<WriteLocks>,
        snapshot: ReadSnapshot,
        applied_lsn: impl Fn() -> u64,
    ) -> WriteUnit {
        let locks = UnitLocks::of_many_pieces(Arc::clone(tables));
        let open = OpenSnapshot::begin(Arc::clone(tables), applied_lsn());
        WriteUnit::over(locks, Some((snapshot, open)), true)
    }

    fn over(
        locks: UnitLocks<Arc<WriteLocks>>,
        snapshot: Option<(ReadSnapshot, OpenSnapshot)>,
        is_snapshot_older: bool,
    ) -> WriteUnit {
        let own = OwnWrites {
            overlay: Overlay::default(),
            snapshot,
            is_snapshot_older,
            changed: Vec::new(),
            touched: BTreeMap::new(),
            tallies: SmallVec::new(),
            made: BTreeMap::new(),
            compared: FxHashSet::default(),
            bytes: 0,
        };
        WriteUnit {
            unit: Unit {
                locks,
                own: Some(own),
            },
            failed: None,
        }
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

    /// Holds a collection for the rest of the unit.
    pub(super) fn hold(&mut self, collection: &Collection, operation: &Operation) -> Result<()> {
        let database = collection.namespace.database();
        (self.unit.locks).hold_within_patience(database, collection.ident, operation)
    }

    /// Holds the database of a collection, and not the collection, for the rest of the unit.
    pub(super) fn hold_database(
        &mut self,
        collection: &Collection,
        operation: &Operation,
    ) -> Result<()> {
        let database = collection.namespace.database();
        self.unit.locks.hold_database(database, operation)
    }

    /// Whether it reads one snapshot rather than the latest state.
    pub(super) fn reads_a_snapshot(&self) -> bool {
        self.own().snapshot.is_some()
    }

    /// Keeps others from making a collection of that name, in which there is none, for the rest of the unit.
    pub(super) fn hold_name(&mut self, namespace: &Namespace, operation: &Operation) -> Result<()> {
        self.unit.locks.hold_name(namespace, operation)
    }

    /// Fails where the unit's snapshot has another collection under that name than this one, or none. One that the unit
    /// holds is compared once.
    pub(super) fn compare(&mut self, collection: &Collection) -> Result<()> {
        if self.own().compared.contains(&collection.ident) {
            return Ok(());
        }
        let is_held = self.unit.locks.holds_collection(collection.ident);
        let own = self.own_mut();
        if let Some((snapshot, _)) = &own.snapshot {
            let entry = entry_in(snapshot, &collection.namespace)?;
            if entry.as_deref() != Some(collection.entry.as_bytes()) {
                return Err(snapshot_unavailable(&collection.namespace));
            }
        }
        if is_held {
            own.compared.insert(collection.ident);
        }
        Ok(())
    }

    /// Fails where the unit's snapshot has a collection under a name that means none now.
    pub(super) fn compare_absent(&self, namespace: &Namespace) -> Result<()> {
        match &self.own().snapshot {
            Some((snapshot, _)) if entry_in(snapshot, namespace)?.is_some() => {
                Err(snapshot_unavailable(namespace))
            }
            _ => Ok(()),
        }
    }

    /// The collection of that name that the unit makes.
    pub(super) fn made(&self, namespace: &Namespace) -> Option<&Arc<Collection>> {
        self.own().made.get(namespace)
    }

    /// Stages a collection that the unit makes, or the new entry of one that it has made, with what stands beside the entry.
    pub(super) fn make_with(
        &mut self,
        collection: Collection,
        mut batch: WriteBatch,
    ) -> Result<Arc<Collection>> {
        let namespace = collection.namespace.clone();
        let key = layout::catalog_key(namespace.database(), namespace.collection());
        let own = self.own_mut();
        batch.put(&key, collection.entry.as_bytes());
        // Its events say the options and the specifications of the indexes a second time.
        let events =
            2 * (collection.entry.as_bytes().len() + namespace.as_str().len() + EVENT_BYTES);
        own.grow(batch.bytes_len() + events)?;
        own.overlay.extend(&batch);
        let collection = Arc::new(collection);
        own.made.insert(namespace, Arc::clone(&collection));
        Ok(collection)
    }

    /// The documents of a collection and their bytes, as the unit sees them. `latest` asks for what is committed.
    pub(super) fn counts(
        &self,
        ident: Ident,
        latest: impl FnOnce() -> Result<Counts>,
    ) -> Result<Counts> {
        let own = self.own();
        let mut counts = Counts::default();
        match &own.snapshot {
            None => counts = latest()?,
            Some((snapshot, _)) => {
                // Every group carries the counts of the collections that it changes.
                snapshot.get(&layout::counters_key(ident), &mut |value| {
                    counts = decode_counts(value);
                })?;
            }
        }
        if let Some(tally) = own.tallies.iter().find(|tally| tally.ident == ident) {
            counts.documents = counts.documents.saturating_add_signed(tally.documents);
            counts.bytes = counts.bytes.saturating_add_signed(tally.bytes);
        }
        Ok(counts)
    }

    /// About the bytes that the unit takes in memory: what is staged, and what it notes of each record and lock.
    pub(super) fn memory_bytes(&self) -> usize {
        let own = self.own();
        let again = own.changed.len() - own.touched.len();
        own.bytes
            + own.touched.len() * TOUCHED_BYTES
            + again * CHANGED_AGAIN_BYTES
            + self.unit.locks.keys_len() * LOCK_BYTES
    }

    /// The bytes that are staged.
    pub(super) fn staged_bytes(&self) -> usize {
        self.own().bytes
    }

    /// The state that reads of the unit see from now until it stages something more: the one beneath, and its own writes.
    pub(super) fn state(&mut self, reads: &Reads) -> Result<(ReadSnapshot, Overlay)> {
        #[cfg(test)]
        if self.unit.locks.is_mutant(Mutant::ReadsLatest) {
            return Ok((reads.snapshot()?, self.own().overlay.clone()));
        }
        #[cfg(test)]
        if self.unit.locks.is_mutant(Mutant::ForgetsOwnWrites) {
            return Ok((reads.snapshot()?, Overlay::default()));
        }
        let own = self.own_mut();
        let beneath = match &mut own.snapshot {
            Some((snapshot, _)) => snapshot.share()?,
            None => reads.snapshot()?,
        };
        Ok((beneath, own.overlay.clone()))
    }

    /// Reads a record of a collection that the unit holds; false if there is none.
    pub(super) fn get_record(
        &self,
        reads: &Reads,
        key: &[u8],
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let own = self.own();
        match (own.overlay.peek(key), &own.snapshot) {
            (Some(value), _) => Ok(value.map(read).is_some()),
            (None, Some((snapshot, _))) => snapshot.get_record(key, read),
            (None, None) => reads.get_record(key, read),
        }
    }

    /// Adds a piece to what the unit will commit.
    pub(super) fn add(
        &mut self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        piece: Piece,
    ) -> Result<()> {
        let own = self.own_mut();
        debug_assert!(
            piece.marks.is_empty() || own.made.contains_key(&collection.namespace),
            "marks that others need are committed before"
        );
        // Of a collection that only the unit knows: no record tells its plans.
        for (ident, component) in &piece.marks {
            let mut indexes = index_catalog.indexes.iter();
            if let Some(index) = indexes.find(|index| index.ident == *ident) {
                index.mark(*component);
            }
        }
        own.add(collection, piece)
    }

    /// Everything that was staged; none if nothing was. The locks stay.
    pub(super) fn take_whole(&mut self) -> Option<Whole> {
        self.own_mut().take_whole()
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
