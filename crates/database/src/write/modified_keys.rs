//! Index entries that go and come with a piece of changes: made, locked and checked where unique, and staged where they
//! differ.

use hashbrown::HashMap;
use quarry_bson::RawDocument;
use quarry_timing::Phase;
use smallvec::SmallVec;

use super::entries_fill_piece;
use super::latest::Latest;
use super::modify::{Modified, StagedChange};
use super::piece::Piece;
use super::unique_check::{Changed, UniqueCheck, lock_hashes};

use crate::catalog::collection::{Collection, IndexCatalog};
use crate::definitions::builds::Builds;
use crate::error::{Error, Result};
use crate::index::found_fields::Found;
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::keys::Target;

/// Index entries that go and come with a piece of changes.
#[derive(Default)]
pub(super) struct ModifiedKeys {
    old: KeyBuffer,
    new: KeyBuffer,
    marks: Vec<(u32, usize, u64)>,
}

impl ModifiedKeys {
    /// Makes the entries of the staged changes, in order, until they fill the piece: returns the position of the first change
    /// behind it, if so. The first one that fails cuts the piece. Fails where the operation is to end: then nothing of the piece is
    /// written.
    pub(super) fn make(
        &mut self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        record_keys: &[Vec<u8>],
        staged: &mut Vec<StagedChange>,
        outcome: &mut Modified,
    ) -> Result<Option<usize>> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if index_catalog.keys.is_empty() {
            return Ok(None);
        }
        for (position, change) in staged.iter().enumerate() {
            if self.fill_piece() {
                return Ok(Some(position));
            }
            let record_key = &record_keys[change.key];
            let made = self.make_one(collection, index_catalog, record_key, position, change);
            let Err(error) = made else {
                continue;
            };
            if error.ends_operation() {
                return Err(error);
            }
            staged.truncate(position);
            self.old
                .entries
                .retain(|entry| (entry.document as usize) < position);
            self.new
                .entries
                .retain(|entry| (entry.document as usize) < position);
            outcome.error = Some(error);
            break;
        }
        debug_assert!(self.old.entries.is_sorted_by_key(|entry| entry.document));
        debug_assert!(self.new.entries.is_sorted_by_key(|entry| entry.document));
        debug_assert!(self.marks.is_sorted_by_key(|(document, ..)| *document));
        Ok(None)
    }

    fn fill_piece(&self) -> bool {
        let entries = self.old.entries.len() + self.new.entries.len();
        entries_fill_piece(entries, self.bytes_len())
    }

    pub(super) fn make_one(
        &mut self,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        record_key: &[u8],
        position: usize,
        change: &StagedChange,
    ) -> Result<()> {
        let old = RawDocument::new(&change.old)?;
        let new = change.new.as_deref().map(RawDocument::new).transpose()?;
        let suffix = &record_key[collection.prefix.as_bytes().len()..];
        let id = if collection.is_clustered() {
            old.get("_id")
        } else {
            None
        };
        let target = Target {
            document: position as u32,
            record_key: suffix,
            id,
        };
        self.old.begin_standing();
        self.new.begin_coming();
        let (mut old_found, mut new_found) = (Found::default(), Found::default());
        index_catalog.keys.extract_into(old, &mut old_found);
        if let Some(new) = new {
            index_catalog.keys.extract_into(new, &mut new_found);
        }
        for (number, index) in index_catalog.indexes.iter().enumerate() {
            if new.is_some() {
                if index_catalog.keys.unchanged(number, &old_found, &new_found) {
                    continue;
                }
                let multikey =
                    index_catalog
                        .keys
                        .entries(number, index, &new_found, target, &mut self.new)?;
                if multikey != 0 {
                    self.marks.push((target.document, number, multikey));
                }
            }
            index_catalog
                .keys
                .entries_that_go(number, index, &old_found, target, &mut self.old)?;
        }
        Ok(())
    }

    /// The bytes of all entries, those that go and those that come.
    pub(super) fn bytes_len(&self) -> usize {
        self.old.bytes.len() + self.new.bytes.len()
    }

    /// The components that the new entries mark, by the number of the index.
    pub(super) fn marks(&self) -> impl Iterator<Item = (usize, u64)> {
        let marks = self.marks.iter();
        marks.map(|(_, number, components)| (*number, *components))
    }

    /// The hashes of all unique keys, to be locked by one call.
    pub(super) fn lock_hashes(&self, index_catalog: &IndexCatalog) -> SmallVec<[u64; 4]> {
        lock_hashes(index_catalog, &[&self.old, &self.new])
    }

    /// The first change whose unique key another document has, as the piece would find it in order. Of an index that
    /// is being built, entries that `unique_build` leaves alone are left out.
    pub(super) fn refuse_taken(
        &mut self,
        latest: Latest<'_>,
        builds: &Builds,
        collection: &Collection,
        index_catalog: &IndexCatalog,
        staged: &[StagedChange],
        record_keys: &[Vec<u8>],
    ) -> Result<Option<(usize, Error)>> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let mut refused = None;
        let left_out = {
            let (old, new) = (&self.old, &self.new);
            let mut check = UniqueCheck::new(latest, builds, collection, index_catalog);
            for (position, change) in staged.iter().enumerate() {
                let changed = Changed {
                    document: position as u32,
                    record_key: &record_keys[change.key],
                    old: (old, old.of_document(position)),
                    new: (new, new.of_document(position)),
                };
                if let Some(error) = check.check(&changed)? {
                    refused = Some((position, error));
                    break;
                }
                // Nobody comes behind the last one.
                if position + 1 < staged.len() {
                    check.claim(&changed);
                }
            }
            check.into_left_out()
        };
        left_out.take_from(&mut self.old, &mut self.new);
        Ok(refused)
    }

    /// Puts what differs between the old and the new entries of one change.
    pub(super) fn stage(&self, position: usize, index_catalog: &IndexCatalog, piece: &mut Piece) {
        let (old, new) = (
            self.old.of_document(position),
            self.new.of_document(position),
        );
        let new_values = Values::new(&self.new, new);
        for entry in old {
            let key = self.old.key(entry);
            if new_values.get(key).is_none() {
                piece.deletes.delete(key);
            }
        }
        let old_values = Values::new(&self.old, old);
        for entry in new {
            let (key, value) = (self.new.key(entry), self.new.value(entry));
            if old_values.get(key) != Some(value) {
                piece.puts.put(key, value);
            }
        }
        let begin = self
            .marks
            .partition_point(|(document, ..)| (*document as usize) < position);
        let marks = self.marks[begin..].iter();
        for (_, number, components) in
            marks.take_while(|(document, ..)| *document as usize == position)
        {
            piece.mark_multikey(&index_catalog.indexes[*number], *components);
        }
    }
}

/// The values of one document's entries by their keys. A few entries are compared one by one.
enum Values<'k> {
    Few(&'k KeyBuffer, &'k [Entry]),
    Many(HashMap<&'k [u8], &'k [u8]>),
}

impl<'k> Values<'k> {
    const COMPARED_MAX: usize = 8;

    fn new(buffer: &'k KeyBuffer, entries: &'k [Entry]) -> Values<'k> {
        if entries.len() <= Self::COMPARED_MAX {
            return Values::Few(buffer, entries);
        }
        let pair = |entry| (buffer.key(entry), buffer.value(entry));
        Values::Many(entries.iter().map(pair).collect())
    }

    fn get(&self, key: &[u8]) -> Option<&'k [u8]> {
        match self {
            Values::Few(buffer, entries) => {
                let found = entries.iter().find(|entry| buffer.key(entry) == key);
                found.map(|entry| buffer.value(entry))
            }
            Values::Many(values) => values.get(key).copied(),
        }
    }
}
