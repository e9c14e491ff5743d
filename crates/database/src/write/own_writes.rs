//! The writes that the pieces of a unit have staged, which it reads over the state beneath, and what its record will say of them.
//!
//! A document that several statements change has a change in the record for each, and is in the batch as each of them left it,
//! so that a reader of changes meets what they did and in their order. The last one counts for the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_bson::Value;
use quarry_storage::{KeyRange, Overlay, WriteBatch};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::piece::Piece;
use crate::catalog::collection::Collection;
use crate::commit::changes::{ChangeDetails, ChangeKind, Changes};
use crate::commit::definition_event::{DefinitionEvent, DefinitionKind};
use crate::commit::payload::Delta;
use crate::definitions::changes::creation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::namespace::Namespace;
use crate::locks::recent_changes::OpenSnapshot;
use crate::snapshot::reads::ReadSnapshot;

/// The bytes that a transaction may stage: keys, values, and what its record says of the changes. The journal takes records
/// of 256 MiB.
pub const TRANSACTION_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 240 << 20 };

/// The collections that a transaction may write to: a record numbers them in two bytes.
pub(super) const COLLECTIONS_MAX: usize = if cfg!(test) { 4 } else { 1 << 16 };

/// The bytes that a record has for a collection in which documents change, beside its name, and some more.
const TALLY_BYTES: usize = 48;

/// The writes that the pieces of a unit have staged so far, and the state that it reads beneath.
pub(super) struct OwnWrites {
    pub overlay: Overlay,
    pub snapshot: Option<(ReadSnapshot, OpenSnapshot)>,
    /// The snapshot was made before the unit began: nobody has noted what was changed in between, and bytes are compared.
    pub is_snapshot_older: bool,
    /// The changes of documents in the order in which they were made.
    pub changed: Vec<OwnChange>,
    /// The number of each record's last change, by its key.
    pub touched: BTreeMap<Vec<u8>, usize>,
    pub tallies: SmallVec<[Tally; 2]>,
    /// The collections that it makes.
    pub made: BTreeMap<Namespace, Arc<Collection>>,
    /// The collections that it holds, and that are in its snapshot what they are now. They stay so.
    pub compared: FxHashSet<Ident>,
    pub bytes: usize,
}

/// A collection that a unit changes, and by how much its count and size change.
pub(super) struct Tally {
    pub namespace: Namespace,
    pub ident: Ident,
    pub uuid: [u8; 16],
    pub documents: i64,
    pub bytes: i64,
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
pub(super) struct OwnChange {
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

impl OwnWrites {
    /// Counts bytes that are about to be staged.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        let bytes = self.bytes + bytes;
        if bytes > TRANSACTION_BYTES_MAX {
            let message = format!("a transaction writes at most {TRANSACTION_BYTES_MAX} bytes");
            return Err(Error::invalid(ErrorCode::TRANSACTION_TOO_LARGE, message));
        }
        self.bytes = bytes;
        Ok(())
    }

    pub fn add(&mut self, collection: &Collection, piece: Piece) -> Result<()> {
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
    pub fn take_whole(&mut self) -> Option<Whole> {
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
    pub fn get(
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
    pub fn check_entries(&self, latest: &ReadSnapshot, range: &KeyRange, hash: u64) -> Result<()> {
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
