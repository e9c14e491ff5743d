//! Changes and deletes: a piece of records that are looked at again under their locks.

use std::ops::{Deref, DerefMut};

use quarry_bson::RawDocument;
use quarry_journal::{Level, Until};
use smallvec::SmallVec;

use super::latest::Latest;
use super::modified_keys::ModifiedKeys;
use super::piece::Piece;
use super::unit::{Unit, WriteUnit};
use super::{Recorded, Writer};
use crate::catalog::collection::{Collection, IndexCatalog};
use crate::catalog::validation::Validation;
use crate::commit::payload::{ChangeDetails, ChangeKind};
use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::key_hash::key_hash;
use crate::keyspace::namespace::Namespace;
use crate::locks::WriteLocks;
use crate::operation::Operation;

/// The outcome of modifying one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The latest document no longer matches.
    NoMatch,
    /// It matches and stays as it is.
    Keep,
    /// Operators have changed the document, and the result was written.
    Update,
    /// Another document was written in its place.
    Replace,
    /// The document was deleted.
    Delete,
}

/// The outcome of modifying a piece of records.
#[derive(Debug, Default)]
pub struct Modified {
    /// How many records the piece has looked at, from the first one on; as for an insert, those behind them begin another
    /// piece. All of them where it has ended with an error.
    pub taken: usize,
    /// Records that still matched under their lock.
    pub matched: u64,
    /// Documents that were changed.
    pub modified: u64,
    /// Documents that were deleted.
    pub deleted: u64,
    /// Why the piece ended early; what came before it is committed.
    pub error: Option<Error>,
    /// The LSN of the commit; none if nothing was written.
    pub lsn: Option<u64>,
}

/// Computes a change from the number of the record key and the latest document.
pub type Compute<'c> = dyn FnMut(usize, RawDocument<'_>, &mut NewDocument) -> Result<Change> + 'c;

/// The document that a change makes, as it is being made; as bytes where nothing else is said.
#[derive(Debug, Default)]
pub struct NewDocument {
    /// The document.
    pub document: Vec<u8>,
    /// Which fields operators have changed ([`describe_path`](crate::describe_path)), if whoever computes the change says so.
    pub description: Vec<u8>,
}

impl Deref for NewDocument {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.document
    }
}

impl DerefMut for NewDocument {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.document
    }
}

impl Writer {
    /// Changes or deletes the records of one collection that still stand under `record_keys`, as one piece.
    pub fn modify_piece(
        &self,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        level: Level,
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        let mut unit = Unit::of_one_piece(&self.parts.locks);
        let (collection, hold) = self
            .parts
            .holds
            .hold_shared(namespace, operation)?
            .filter(|(held, _)| held.ident == expected)
            .ok_or_else(|| has_gone(namespace))?;
        collection.refuse_view()?;
        unit.locks.keep(hold);
        let index_catalog = self.parts.catalog.index_catalog(&collection)?;
        let mut change = ModifyPiece::new(&collection, index_catalog, record_keys);
        change.prepare(self, &mut unit, compute, operation)?;
        let bytes = change.bytes_len();
        let _admitted = match collection.capped.is_none() {
            true => self.admit(bytes, operation)?,
            false => self.admit_under_exclusive_hold(bytes, operation)?,
        };
        let mut piece = change.stage();
        if collection.capped.is_some() {
            self.keep_record_id(&collection, change.deleted(), &mut piece)?;
        }
        let mut outcome = change.outcome;
        let recorded = operation
            .retryable()
            .map_or(Recorded::Nothing, Recorded::All);
        outcome.lsn = self.commit_piece(level, &collection, piece, Until::Applied, recorded)?;
        if let Some(lsn) = outcome.lsn {
            unit.locks.note_commit(lsn);
        }
        Ok(outcome)
    }

    /// Stages changes of the records that still stand under `record_keys` in a unit.
    pub fn modify_in(
        &self,
        unit: &mut WriteUnit,
        operation: &Operation,
        namespace: &Namespace,
        expected: Ident,
        record_keys: &[Vec<u8>],
        compute: &mut Compute<'_>,
    ) -> Result<Modified> {
        unit.run(|unit| {
            let collection = self.collection_to_write(unit, namespace, operation)?;
            if collection.ident != expected {
                return Err(has_gone(namespace));
            }
            let index_catalog = self.parts.catalog.index_catalog(&collection)?;
            let mut change = ModifyPiece::new(&collection, index_catalog, record_keys);
            change.prepare(self, &mut unit.unit, compute, operation)?;
            let marks = change.keys.marks();
            self.mark_now(unit, &collection, index_catalog, marks)?;
            let piece = change.stage();
            unit.add(&collection, index_catalog, piece)?;
            Ok(change.outcome)
        })
    }
}

fn has_gone(namespace: &Namespace) -> Error {
    Error::QueryPlanKilled(format!(
        "collection dropped. UUID of `{namespace}` has changed"
    ))
}

/// The state of one change between its steps.
struct ModifyPiece<'m> {
    collection: &'m Collection,
    index_catalog: &'m IndexCatalog,
    record_keys: &'m [Vec<u8>],
    /// The records that match and stay as they are.
    kept: SmallVec<[usize; 4]>,
    staged: Vec<StagedChange>,
    keys: ModifiedKeys,
    outcome: Modified,
}

impl<'m> ModifyPiece<'m> {
    fn new(
        collection: &'m Collection,
        index_catalog: &'m IndexCatalog,
        record_keys: &'m [Vec<u8>],
    ) -> ModifyPiece<'m> {
        ModifyPiece {
            collection,
            index_catalog,
            record_keys,
            kept: SmallVec::new(),
            staged: Vec::new(),
            keys: ModifiedKeys::default(),
            outcome: Modified {
                taken: record_keys.len(),
                ..Modified::default()
            },
        }
    }

    /// Everything before the staging: locks, computes the changes from the latest documents, makes and checks their keys.
    fn prepare<L: Deref<Target = WriteLocks>>(
        &mut self,
        writer: &Writer,
        unit: &mut Unit<L>,
        compute: &mut Compute<'_>,
        operation: &Operation,
    ) -> Result<()> {
        let hashes = self.record_keys.iter().map(|key| key_hash(key)).collect();
        unit.locks.lock_records(hashes, operation)?;
        let reads = &writer.parts.reads;
        self.compute_changes(unit.latest(reads), compute)?;
        if let Some(validation) = &self.collection.validation {
            self.refuse_invalid(writer, validation, operation)?;
        }
        let (collection, index_catalog, record_keys) =
            (self.collection, self.index_catalog, self.record_keys);
        let outcome = &mut self.outcome;
        let full = self.keys.make(
            collection,
            index_catalog,
            record_keys,
            &mut self.staged,
            outcome,
        )?;
        if let Some(position) = full {
            self.end_before(position);
        }
        let hashes = self.keys.lock_hashes(index_catalog);
        if hashes.is_empty() {
            return Ok(());
        }
        unit.locks.lock_uniques(hashes, operation)?;
        let builds = &writer.parts.builds;
        let (latest, staged) = (unit.latest(reads), &self.staged);
        let refused = self.keys.refuse_taken(
            latest,
            builds,
            collection,
            index_catalog,
            staged,
            record_keys,
        )?;
        if let Some((position, error)) = refused {
            self.staged.truncate(position);
            self.outcome.error = Some(error);
        }
        Ok(())
    }

    /// Ends the piece before a staged change. What was found of records behind it is found again by the next one.
    #[cold]
    fn end_before(&mut self, position: usize) {
        let end = self.staged[position].key;
        self.staged.truncate(position);
        self.kept.retain(|key| *key < end);
        self.outcome.error = None;
        self.outcome.taken = end;
    }

    /// The bytes of all new documents and entries.
    fn bytes_len(&self) -> usize {
        let news = self
            .staged
            .iter()
            .filter_map(|change| change.new.as_deref());
        self.keys.bytes_len() + news.map(<[u8]>::len).sum::<usize>()
    }

    /// The keys of the records that are deleted.
    fn deleted(&self) -> impl Iterator<Item = &[u8]> {
        let deleted = self.staged.iter().filter(|change| change.new.is_none());
        deleted.map(|change| self.record_keys[change.key].as_slice())
    }

    /// Makes room in a piece for the changed documents and what is told of them. Otherwise it grows, and is copied, several times.
    fn make_room(&self, piece: &mut Piece) {
        let keeps_pre_images = self.collection.keeps_pre_images;
        let (mut puts, mut put_bytes, mut deleted_bytes, mut told_bytes) = (0, 0, 0, 0);
        for change in &self.staged {
            let key_bytes = self.record_keys[change.key].len();
            match &change.new {
                Some(new) => {
                    puts += 1;
                    put_bytes += key_bytes + new.len();
                    told_bytes += change.description.len();
                }
                None => {
                    deleted_bytes += key_bytes;
                    // Its `_id` is told, which takes about what the key does.
                    told_bytes += key_bytes + 16;
                }
            }
            if keeps_pre_images {
                told_bytes += change.old.len();
            }
        }
        let deletes = self.staged.len() - puts;
        if puts > 0 {
            piece.puts.reserve(puts, put_bytes);
        }
        if deletes > 0 {
            piece.deletes.reserve(deletes, deleted_bytes);
        }
        piece.changes.reserve(self.staged.len(), told_bytes);
    }

    fn stage(&mut self) -> Piece {
        let mut piece = Piece::default();
        self.make_room(&mut piece);
        let keeps_pre_images = self.collection.keeps_pre_images;
        self.outcome.matched = self.kept.len() as u64;
        for (position, change) in self.staged.iter().enumerate() {
            let key = &self.record_keys[change.key];
            self.outcome.matched += 1;
            match &change.new {
                Some(new) => {
                    let details = ChangeDetails {
                        description: (change.kind == ChangeKind::Update)
                            .then_some(&change.description),
                        pre_image: keeps_pre_images.then_some(&change.old),
                        ..ChangeDetails::default()
                    };
                    piece.change_document(key, &change.old, new, change.kind, &details);
                    self.outcome.modified += 1;
                }
                None => {
                    let old = RawDocument::new(&change.old).expect("it was read as a document");
                    piece.delete_document(key, old, change.kind, keeps_pre_images);
                    self.outcome.deleted += 1;
                }
            }
            self.keys.stage(position, self.index_catalog, &mut piece);
        }
        piece
    }

    fn compute_changes(&mut self, latest: Latest<'_>, compute: &mut Compute<'_>) -> Result<()> {
        let (staged, outcome) = (&mut self.staged, &mut self.outcome);
        staged.reserve(self.record_keys.len());
        let (mut old, mut new) = (Vec::new(), NewDocument::default());
        for (key, record_key) in self.record_keys.iter().enumerate() {
            old.clear();
            new.document.clear();
            new.description.clear();
            if !latest.get_record(record_key, &mut |bytes| old.extend_from_slice(bytes))? {
                continue;
            }
            match compute(key, RawDocument::new(&old)?, &mut new) {
                Ok(Change::NoMatch) => {}
                Ok(Change::Keep) => self.kept.push(key),
                Ok(written @ (Change::Update | Change::Replace)) => {
                    let kind = match written {
                        Change::Update => ChangeKind::Update,
                        _ => ChangeKind::Replace,
                    };
                    staged.push(StagedChange {
                        key,
                        kind,
                        old: std::mem::take(&mut old),
                        new: Some(std::mem::take(&mut new.document)),
                        description: std::mem::take(&mut new.description),
                    });
                }
                Ok(Change::Delete) => staged.push(StagedChange {
                    key,
                    kind: ChangeKind::Delete,
                    old: std::mem::take(&mut old),
                    new: None,
                    description: Vec::new(),
                }),
                Err(error) => {
                    outcome.error = Some(error);
                    break;
                }
            }
        }
        Ok(())
    }
}

impl ModifyPiece<'_> {
    /// Ends the piece before the first changed document that does not suit the collection's validator.
    #[cold]
    #[inline(never)]
    fn refuse_invalid(
        &mut self,
        writer: &Writer,
        validation: &Validation,
        operation: &Operation,
    ) -> Result<()> {
        if operation.bypasses_validation() {
            return Ok(());
        }
        let validators = &writer.parts.catalog.validators;
        for (position, change) in self.staged.iter().enumerate() {
            let Some(new) = &change.new else {
                continue;
            };
            let (old, new) = (RawDocument::new(&change.old)?, RawDocument::new(new)?);
            let namespace = &self.collection.namespace;
            match validators.refuse(validation, namespace, Some(old), new) {
                Ok(()) => {}
                Err(error) if error.ends_operation() => return Err(error),
                Err(error) => {
                    self.staged.truncate(position);
                    self.outcome.error = Some(error);
                    break;
                }
            }
        }
        Ok(())
    }
}

pub(super) struct StagedChange {
    pub key: usize,
    pub kind: ChangeKind,
    pub old: Vec<u8>,
    pub new: Option<Vec<u8>>,
    pub description: Vec<u8>,
}
