//! Index entries that go and come with a piece of changes: made, locked and checked where unique, and staged where they
//! differ.

use hashbrown::HashMap;
use quarry_bson::RawDocument;
use quarry_timing::Phase;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::duplicate::{duplicate_key, note_duplicate, owns_entry};
use super::modify::{Modified, StagedChange};
use super::{Piece, Writer};
use crate::catalog::collection::{Collection, Detail};
use crate::error::{Error, Result};
use crate::index::entry::split_unique_value;
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::index::keys::Target;
use crate::locks::record_locks::{Locks, lock_hash};
use crate::operation::Operation;

/// Index entries that go and come with a piece of changes.
#[derive(Default)]
pub(super) struct ModifiedKeys {
    old: KeyBuffer,
    new: KeyBuffer,
    marks: Vec<(u32, usize, u64)>,
}

impl ModifiedKeys {
    /// Makes the entries of every staged change; the first one that fails cuts the piece.
    pub(super) fn make(
        &mut self,
        collection: &Collection,
        detail: &Detail,
        record_keys: &[Vec<u8>],
        mut staged: Vec<StagedChange>,
        outcome: &mut Modified,
    ) -> Vec<StagedChange> {
        let _key_gen = quarry_timing::phase(Phase::KeyGen);
        if detail.keys.is_empty() {
            return staged;
        }
        let failed = staged.iter().enumerate().find_map(|(position, change)| {
            self.make_one(
                collection,
                detail,
                &record_keys[change.key],
                position,
                change,
            )
            .err()
            .map(|error| (position, error))
        });
        if let Some((position, error)) = failed {
            staged.truncate(position);
            self.old
                .entries
                .retain(|entry| (entry.document as usize) < position);
            self.new
                .entries
                .retain(|entry| (entry.document as usize) < position);
            outcome.error = Some(error);
        }
        debug_assert!(self.old.entries.is_sorted_by_key(|entry| entry.document));
        debug_assert!(self.new.entries.is_sorted_by_key(|entry| entry.document));
        debug_assert!(self.marks.is_sorted_by_key(|(document, ..)| *document));
        staged
    }

    pub(super) fn make_one(
        &mut self,
        collection: &Collection,
        detail: &Detail,
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
        let old_found = detail.keys.extract(old);
        let new_found = new.map(|new| detail.keys.extract(new));
        for (number, index) in detail.indexes.iter().enumerate() {
            if let Some(new_found) = &new_found {
                if detail.keys.unchanged(number, &old_found, new_found) {
                    continue;
                }
                let multikey =
                    detail
                        .keys
                        .entries(number, index, new_found, target, &mut self.new)?;
                if multikey != 0 {
                    self.marks.push((target.document, number, multikey));
                }
            }
            detail
                .keys
                .entries(number, index, &old_found, target, &mut self.old)?;
        }
        Ok(())
    }

    /// Of all entries, those that go and those that come.
    pub(super) fn bytes_len(&self) -> usize {
        self.old.bytes.len() + self.new.bytes.len()
    }

    pub(super) fn lock_uniques<'d>(
        &self,
        writer: &'d Writer,
        detail: &Detail,
        operation: &Operation,
    ) -> Result<Option<Locks<'d>>> {
        let of = |buffer: &KeyBuffer| -> Vec<u64> {
            let unique = buffer
                .entries
                .iter()
                .filter(|entry| detail.indexes[usize::from(entry.index)].unique);
            unique.map(|entry| lock_hash(buffer.key(entry))).collect()
        };
        let hashes: SmallVec<[u64; 4]> = of(&self.old).into_iter().chain(of(&self.new)).collect();
        if hashes.is_empty() {
            return Ok(None);
        }
        writer.parts.locks.uniques.lock(hashes, operation).map(Some)
    }

    /// The first change whose unique key another document has, as the piece would find it in order. Of an index that
    /// is being built, entries that `unique_build` leaves alone are left out.
    pub(super) fn refuse_taken(
        &mut self,
        writer: &Writer,
        collection: &Collection,
        detail: &Detail,
        staged: &[StagedChange],
        record_keys: &[Vec<u8>],
    ) -> Result<Option<(usize, Error)>> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let prefix = collection.prefix.as_bytes().len();
        // What the piece itself has done to a unique key so far: its new owner, or none.
        let mut owners: HashMap<&[u8], Option<usize>> = HashMap::new();
        // By where their keys begin.
        let (mut old_left, mut new_left) = (FxHashSet::default(), FxHashSet::default());
        let mut refused = None;
        let is_unique = |entry: &&Entry| detail.indexes[usize::from(entry.index)].unique;
        'piece: for position in 0..staged.len() {
            let record_key = &record_keys[staged[position].key];
            let own = &record_key[prefix..];
            for entry in self.old.of_document(position).iter().filter(is_unique) {
                let key = self.old.key(entry);
                if detail.indexes[usize::from(entry.index)].is_unique_build()
                    && (owners.contains_key(key) || !owns_entry(&writer.parts.reads, key, own)?)
                {
                    old_left.insert(entry.key.start);
                    continue;
                }
                owners.insert(key, None);
            }
            for entry in self.new.of_document(position).iter().filter(is_unique) {
                let key = self.new.key(entry);
                let taken = match owners.get(key) {
                    Some(owner) => owner.is_some_and(|owner| owner != position),
                    None => {
                        let mut taken = false;
                        writer.parts.reads.get(key, &mut |value| {
                            taken = split_unique_value(value).is_none_or(|(owner, _)| owner != own);
                        })?;
                        taken
                    }
                };
                if taken {
                    let index = &detail.indexes[usize::from(entry.index)];
                    let value = self.new.value(entry);
                    if index.is_unique_build() {
                        note_duplicate(
                            &writer.parts.builds,
                            collection,
                            index,
                            record_key,
                            (key, value),
                        );
                        new_left.insert(entry.key.start);
                        continue;
                    }
                    refused = Some((position, duplicate_key(collection, index, key, value)));
                    break 'piece;
                }
                owners.insert(key, Some(position));
            }
        }
        drop(owners);
        if !(old_left.is_empty() && new_left.is_empty()) {
            let stays = |left: &FxHashSet<u32>, entry: &Entry| !left.contains(&entry.key.start);
            self.old.entries.retain(|entry| stays(&old_left, entry));
            self.new.entries.retain(|entry| stays(&new_left, entry));
        }
        Ok(refused)
    }

    /// Puts what differs between the old and the new entries of one change.
    pub(super) fn stage(&self, position: usize, detail: &Detail, piece: &mut Piece) {
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
            piece.mark_multikey(&detail.indexes[*number], *components);
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
