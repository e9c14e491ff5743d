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
//! A document that several statements change has a change in the record for each, and is in the batch as each of them left it,
//! so that a reader of changes meets what they did and in their order. The last one counts for the engine.
//!
//! A collection that a unit makes is its own until the commit (`unit_collections`): nobody else finds it, and its name is
//! held, so that nobody makes another one there.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use quarry_bson::{RawDocument, Value};
use quarry_storage::{Cursor, KeyRange, Overlay, WriteBatch};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::catalog::collection::{Collection, IndexCatalog};
use crate::commit::changes::{ChangeDetails, ChangeKind, Changes};
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::Delta;
use crate::definitions::changes::creation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::Index;
use crate::keyspace::counts::{Counts, decode_counts};
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
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

/// The bytes that a transaction may stage: keys, values, and what its record says of the changes. The journal takes records
/// of 256 MiB.
pub const TRANSACTION_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 240 << 20 };

/// The collections that a transaction may write to: a record numbers them in two bytes.
const COLLECTIONS_MAX: usize = if cfg!(test) { 4 } else { 1 << 16 };

/// The bytes that a record has for a collection in which documents change, beside its name, and some more.
const TALLY_BYTES: usize = 48;

/// The bytes that a record has for the change of a definition, beside names, options and specifications, and some more.
const EVENT_BYTES: usize = 64;

/// About the bytes in memory for each record that a unit has touched, beside its key and value: nodes of two ordered maps, a
/// second key, and what the allocator rounds up.
const TOUCHED_BYTES: usize = 350;

/// About the bytes in memory for a further change of a record, beside its parts.
const CHANGED_AGAIN_BYTES: usize = 250;

/// About the bytes in memory for each key that a unit has locked: a hash in the table, one in the unit, and their free room.
const LOCK_BYTES: usize = 60;

/// The changes that one piece of one collection will commit. Deletes come before puts.
#[derive(Default)]
pub(super) struct Piece {
    pub deletes: WriteBatch,
    pub puts: WriteBatch,
    pub documents: i64,
    pub bytes: i64,
    /// The changes of documents; their positions are those among the deletes or the puts.
    pub changes: Changes,
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

    #[inline]
    pub fn insert_document(&mut self, key: &[u8], document: &[u8]) {
        self.changes.push(ChangeKind::Insert, self.puts.len());
        self.puts.put(key, document);
        self.bytes += signed(document.len());
        self.documents += 1;
    }

    /// Puts a document in the place of `old`.
    pub fn change_document(
        &mut self,
        key: &[u8],
        old: &[u8],
        new: &[u8],
        kind: ChangeKind,
        details: &ChangeDetails<'_>,
    ) {
        self.changes.push_with(kind, 0, self.puts.len(), details);
        self.puts.put(key, new);
        self.bytes += signed(new.len()) - signed(old.len());
    }

    /// Deletes `old`; what comes after it can tell its `_id` by the record alone.
    pub fn delete_document(
        &mut self,
        key: &[u8],
        old: RawDocument<'_>,
        kind: ChangeKind,
        keeps_pre_image: bool,
    ) {
        let document_key = document_key(old);
        let details = ChangeDetails {
            key: Some(&document_key),
            pre_image: keeps_pre_image.then_some(old.as_bytes()),
            ..ChangeDetails::default()
        };
        (self.changes).push_with(kind, 0, self.deletes.len(), &details);
        self.deletes.delete(key);
        self.documents -= 1;
        self.bytes -= signed(old.as_bytes().len());
    }
}

/// The bytes of the document with the `_id` alone: its length, the element as it stands, a NUL.
fn document_key(document: RawDocument<'_>) -> SmallVec<[u8; 48]> {
    let id = document.get_element("_id");
    let element = id.as_ref().map_or(&[][..], |id| id.as_bytes());
    let bytes = i32::try_from(4 + element.len() + 1).expect("it is no longer than its document");
    let mut key = SmallVec::new();
    key.extend_from_slice(&bytes.to_le_bytes());
    key.extend_from_slice(element);
    key.push(0);
    key
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
    /// The error of the first statement that ended with one.
    failed: Option<Error>,
}

/// The writes that the pieces of a unit have staged so far, and the state that it reads beneath.
struct OwnWrites {
    overlay: Overlay,
    snapshot: Option<(ReadSnapshot, OpenSnapshot)>,
    /// The snapshot was made before the unit began: nobody has noted what was changed in between, and bytes are compared.
    is_snapshot_older: bool,
    /// The changes of documents in the order in which they were made.
    changed: Vec<OwnChange>,
    /// The number of each record's last change, by its key.
    touched: BTreeMap<Vec<u8>, usize>,
    tallies: SmallVec<[Tally; 2]>,
    /// The collections that it makes.
    made: BTreeMap<Namespace, Arc<Collection>>,
    /// The collections that it holds, and that are in its snapshot what they are now. They stay so.
    compared: FxHashSet<Ident>,
    bytes: usize,
}

/// A collection that a unit changes, and by how much its count and size change.
pub(super) struct Tally {
    namespace: Namespace,
    ident: Ident,
    uuid: [u8; 16],
    documents: i64,
    bytes: i64,
}

impl Tally {
    pub fn delta(&self) -> Delta<'_> {
        Delta {
            ident: self.ident,
            uuid: self.uuid,
            namespace: self.namespace.as_str().as_bytes(),
            documents: self.documents,
            bytes: self.bytes,
        }
    }
}

/// A change that a statement of a unit made of a document.
struct OwnChange {
    kind: ChangeKind,
    /// The number of its collection in `tallies`.
    collection: usize,
    key: Option<Vec<u8>>,
    description: Option<Vec<u8>>,
    pre_image: Option<Vec<u8>>,
    /// None of the last change of a record: what that left stands in the overlay.
    overtaken: Option<Box<Overtaken>>,
}

/// A document that the unit changed again, as an earlier change left it: the key of its record, and nothing else where it had gone.
struct Overtaken {
    record_key: Vec<u8>,
    document: Option<Vec<u8>>,
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
    pub tallies: SmallVec<[Tally; 2]>,
    pub changes: Changes,
    /// Whether it changes a document several times.
    pub repeats: bool,
    /// The collections that it makes, and their indexes.
    pub definitions: Vec<DefinitionEvent>,
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

impl OwnWrites {
    /// Counts bytes that are about to be staged.
    fn grow(&mut self, bytes: usize) -> Result<()> {
        let bytes = self.bytes + bytes;
        if bytes > TRANSACTION_BYTES_MAX {
            let message = format!("a transaction writes at most {TRANSACTION_BYTES_MAX} bytes");
            return Err(Error::invalid(ErrorCode::TRANSACTION_TOO_LARGE, message));
        }
        self.bytes = bytes;
        Ok(())
    }

    fn add(&mut self, collection: &Collection, piece: Piece) -> Result<()> {
        // Else the record would name a collection in which nothing has changed, and wake its readers.
        if piece.deletes.is_empty() && piece.puts.is_empty() {
            return Ok(());
        }
        let ident = collection.ident;
        let known = self.tallies.iter().position(|tally| tally.ident == ident);
        if known.is_none() && self.tallies.len() == COLLECTIONS_MAX {
            let message = format!("a transaction writes to at most {COLLECTIONS_MAX} collections");
            return Err(Error::invalid(ErrorCode::TRANSACTION_TOO_LARGE, message));
        }
        let bytes = piece.deletes.bytes_len() + piece.puts.bytes_len();
        let tally = match known {
            Some(_) => 0,
            None => collection.namespace.as_str().len() + TALLY_BYTES,
        };
        self.grow(bytes + piece.changes.bytes_len() + tally)?;
        // From here on nothing is refused.
        let number = match known {
            Some(number) => number,
            None => {
                self.tallies.push(Tally {
                    namespace: collection.namespace.clone(),
                    ident,
                    uuid: collection.uuid,
                    documents: 0,
                    bytes: 0,
                });
                self.tallies.len() - 1
            }
        };
        self.tallies[number].documents += piece.documents;
        self.tallies[number].bytes += piece.bytes;
        self.touch(number, &piece);
        self.overlay.extend(&piece.deletes);
        self.overlay.extend(&piece.puts);
        Ok(())
    }

    /// Notes what a piece of the collection with that number does to each of its documents, and what earlier ones left of them,
    /// before the overlay has the piece. A piece changes no document twice.
    fn touch(&mut self, collection: usize, piece: &Piece) {
        let pieces_first = self.changed.len();
        let deletes: Vec<_> = piece.deletes.iter().collect();
        let puts: Vec<_> = piece.puts.iter().collect();
        for change in piece.changes.iter() {
            let position = change.position.expect("a staged change has one");
            let op = match change.kind.is_delete() {
                true => deletes[position],
                false => puts[position],
            };
            let number = self.changed.len();
            let before = self.touched.insert(op.key().to_vec(), number);
            if let Some(before) = before {
                debug_assert!(before < pieces_first, "the overlay has what it left");
                let left = self.overlay.peek(op.key()).flatten();
                self.changed[before].overtaken = Some(Box::new(Overtaken {
                    record_key: op.key().to_vec(),
                    document: left.map(<[u8]>::to_vec),
                }));
            }
            let details = change.details;
            self.changed.push(OwnChange {
                kind: change.kind,
                collection,
                key: details.key.map(<[u8]>::to_vec),
                description: details.description.map(<[u8]>::to_vec),
                pre_image: details.pre_image.map(<[u8]>::to_vec),
                overtaken: None,
            });
        }
    }

    /// The events of the collections that it makes.
    fn definitions(&self) -> Vec<DefinitionEvent> {
        let mut events = Vec::with_capacity(self.made.len());
        for collection in self.made.values() {
            events.push(creation(collection));
            let index_catalog = collection.index_catalog.get();
            let indexes = index_catalog
                .into_iter()
                .flat_map(|catalog| &catalog.indexes);
            let specs: Vec<Value> = indexes.map(|index| index.spec.clone().into()).collect();
            if !specs.is_empty() {
                let namespace = collection.namespace.as_str();
                let kind = DefinitionKind::CreateIndexes;
                let event = DefinitionEvent::new(kind, namespace, Some(collection.uuid));
                events.push(event.with("indexes", specs));
            }
        }
        events
    }

    /// Everything that all pieces staged. What was changed again stands before what counts in the end.
    fn take_whole(&mut self) -> Option<Whole> {
        let overlay = std::mem::take(&mut self.overlay);
        let touched = std::mem::take(&mut self.touched);
        let changed = std::mem::take(&mut self.changed);
        let mut batch = WriteBatch::with_capacity(self.bytes);
        let mut positions = vec![0; changed.len()];
        for (position, change) in positions.iter_mut().zip(&changed) {
            if let Some(overtaken) = &change.overtaken {
                *position = batch.len();
                stage(
                    &overtaken.record_key,
                    overtaken.document.as_deref(),
                    &mut batch,
                );
            }
        }
        let deletes = overlay.iter().filter(|(_, value)| value.is_none());
        let puts = overlay.iter().filter(|(_, value)| value.is_some());
        for (key, value) in deletes.chain(puts) {
            if let Some(last) = touched.get(key) {
                positions[*last] = batch.len();
            }
            stage(key, value, &mut batch);
        }
        if batch.is_empty() {
            return None;
        }
        let mut changes = Changes::default();
        for (change, position) in changed.iter().zip(positions) {
            let details = ChangeDetails {
                key: change.key.as_deref(),
                description: change.description.as_deref(),
                pre_image: change.pre_image.as_deref(),
            };
            changes.push_with(change.kind, change.collection, position, &details);
        }
        Some(Whole {
            batch,
            tallies: std::mem::take(&mut self.tallies),
            changes,
            repeats: changed.len() > touched.len(),
            definitions: self.definitions(),
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
            Some((_, open)) if open.is_changed(key_hash(key)) => Err(Error::WriteConflict),
            Some((snapshot, _)) if self.is_snapshot_older => {
                let (mut then, mut now): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
                snapshot.get(key, &mut |bytes| then = Some(bytes.to_vec()))?;
                latest(&mut |bytes| now = Some(bytes.to_vec()))?;
                if then != now {
                    return Err(Error::WriteConflict);
                }
                if let Some(bytes) = &now {
                    read(bytes);
                }
                Ok(now.is_some())
            }
            _ => latest(read),
        }
    }
}

impl OwnWrites {
    /// Fails where somebody has changed entries in `range`, of the key that is locked under `hash`, since the unit's snapshot.
    fn check_entries(&self, latest: &ReadSnapshot, range: &KeyRange, hash: u64) -> Result<()> {
        let is_changed = match &self.snapshot {
            Some((_, open)) if open.is_changed(hash) => true,
            Some((snapshot, _)) if self.is_snapshot_older => {
                entries_in(snapshot, range)? != entries_in(latest, range)?
            }
            _ => false,
        };
        match is_changed {
            true => Err(Error::WriteConflict),
            false => Ok(()),
        }
    }
}

/// The keys and values in a range.
fn entries_in(snapshot: &ReadSnapshot, range: &KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = snapshot.cursor(range.clone())?;
    let mut entries = Vec::new();
    cursor.first()?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(entries)
}

/// Stages what a key has from now on: a value, or nothing.
fn stage(key: &[u8], value: Option<&[u8]>, batch: &mut WriteBatch) {
    match value {
        Some(value) => batch.put(key, value),
        None => batch.delete(key),
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

    /// A snapshot of the latest state, for `entries`.
    pub fn snapshot(&self) -> Result<ReadSnapshot> {
        self.reads.snapshot()
    }

    /// A cursor over index entries in `range`, those of one key that is locked under `hash`. The snapshot is of the latest state and
    /// was made behind the lock.
    pub fn entries<'s>(
        &'s self,
        snapshot: &'s ReadSnapshot,
        range: KeyRange,
        hash: u64,
    ) -> Result<Box<dyn Cursor + 's>> {
        let Some(own) = self.own else {
            return snapshot.cursor(range);
        };
        own.check_entries(snapshot, &range, hash)?;
        let engine = snapshot.cursor(range.clone())?;
        Ok(own.overlay.cursor_over(range, engine))
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

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};
    use quarry_journal::Level;

    use super::*;
    use crate::commit::payload::Header;
    use crate::database::Database;

    #[test]
    fn a_piece_that_changes_nothing_leaves_no_trace_in_the_record() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let names = ["db.changed", "db.looked_at"].map(|name| Namespace::parse(name).unwrap());
        let [changed, looked_at] = &names;
        let collections = names
            .each_ref()
            .map(|name| database.collection_or_create(name, &operation).unwrap());
        let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
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
        assert_eq!(whole.tallies.len(), 1);
        assert_eq!(whole.tallies[0].uuid, collections[0].uuid);
    }

    #[test]
    fn a_unit_is_bounded() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let namespace = Namespace::parse("db.c").unwrap();
        let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
        let filler = "x".repeat(TRANSACTION_BYTES_MAX / 4);
        let mut insert = |id: i32, filler: &str| {
            let document = doc! { "_id": id, "filler": filler };
            let documents = [document.as_raw()];
            database.insert_in(&mut unit, &operation, &namespace, &documents, true)
        };
        let refused = (0..5).find_map(|id| insert(id, &filler).err());
        assert_eq!(refused.unwrap().code(), 257);
        // What was refused does not count; the unit is to be given up nevertheless.
        insert(10, "").unwrap();
        let committed = database.commit(unit, &operation, Level::Written);
        assert_eq!(committed.unwrap_err().code(), 257);
        assert!(database.collection(&namespace).unwrap().is_none());
    }

    #[test]
    fn the_collections_of_a_unit_are_bounded() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
        let document = doc! { "_id": 1 };
        let documents = [document.as_raw()];
        let mut insert = |number: usize| {
            let namespace = Namespace::parse(&format!("db.c{number}")).unwrap();
            database.insert_in(&mut unit, &operation, &namespace, &documents, true)
        };
        for number in 0..COLLECTIONS_MAX {
            insert(number).unwrap();
        }
        assert_eq!(insert(COLLECTIONS_MAX).unwrap_err().code(), 257);
    }

    #[test]
    fn all_that_the_record_has_is_counted() {
        let database = Database::open_in_memory().unwrap();
        let operation = Operation::default();
        let mut unit = database.begin(&operation, UnitReads::Latest).unwrap();
        let specs: Vec<Document> = (0..16)
            .map(|number| {
                let name = format!("index_{number}_{}", "n".repeat(64));
                doc! { "key": { "a": 1, (format!("b{number}")): 1 }, "name": name }
            })
            .collect();
        for number in 0..COLLECTIONS_MAX {
            let name = format!("db.{}{number}", "c".repeat(200));
            let namespace = Namespace::parse(&name).unwrap();
            (database.writer())
                .create_indexes_in(&mut unit, &namespace, &specs[..number * 5], &operation)
                .unwrap();
            let document = doc! { "_id": (number as i32) };
            database
                .insert_in(
                    &mut unit,
                    &operation,
                    &namespace,
                    &[document.as_raw()],
                    true,
                )
                .unwrap();
        }
        let staged = unit.staged_bytes();
        let whole = unit.take_whole().unwrap();
        let deltas: Vec<Delta<'_>> = whole.tallies.iter().map(Tally::delta).collect();
        let header = Header {
            deltas: &deltas,
            changes: Some(&whole.changes),
            definitions: &whole.definitions,
            ..Header::PLAIN
        };
        let record_bytes = header.record(&whole.batch).len();
        assert!(record_bytes <= staged, "{record_bytes} of {staged} bytes");
    }
}
