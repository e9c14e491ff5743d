//! Index entries that go and come with a piece of changes: made, locked and checked where unique, and staged where they
//! differ.

use quarry_bson::RawDocument;
use quarry_timing::Phase;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Piece;
use super::duplicate::duplicate_key;
use super::modify::{Modified, StagedChange};
use crate::collection::{Collection, Detail};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::index_entry::split_unique_value;
use crate::index_keys::Target;
use crate::key_buffer::{Entry, KeyBuffer};
use crate::operation::Operation;
use crate::record_locks::{Locks, lock_hash};

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

    pub(super) fn lock_uniques<'d>(
        &self,
        database: &'d Database,
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
        database.unique_locks.lock(hashes, operation).map(Some)
    }

    /// The first change whose unique key another document has, as the piece would find it in order. Of an index that
    /// is being built, entries that `unique_build` leaves alone are left out.
    pub(super) fn refuse_taken(
        &mut self,
        database: &Database,
        collection: &Collection,
        detail: &Detail,
        staged: &[StagedChange],
        record_keys: &[Vec<u8>],
    ) -> Result<Option<(usize, Error)>> {
        let _read = quarry_timing::phase(Phase::EngineRead);
        let prefix = collection.prefix.as_bytes().len();
        // What the piece itself has done to a unique key so far: its new owner, or none.
        let mut owners: FxHashMap<&[u8], Option<usize>> = FxHashMap::default();
        let (mut old_left, mut new_left) = (FxHashSet::default(), FxHashSet::default());
        let mut refused = None;
        let is_unique = |entry: &&Entry| detail.indexes[usize::from(entry.index)].unique;
        'piece: for position in 0..staged.len() {
            let record_key = &record_keys[staged[position].key];
            let own = &record_key[prefix..];
            let mine = |entry: &&Entry| entry.document as usize == position;
            for entry in self.old.entries.iter().filter(mine).filter(is_unique) {
                let key = self.old.key(entry);
                if detail.indexes[usize::from(entry.index)].is_unique_build()
                    && (owners.contains_key(key) || !database.owns_entry(key, own)?)
                {
                    old_left.insert(entry.key.start);
                    continue;
                }
                owners.insert(key, None);
            }
            for entry in self.new.entries.iter().filter(mine).filter(is_unique) {
                let key = self.new.key(entry);
                let taken = match owners.get(key) {
                    Some(owner) => owner.is_some_and(|owner| owner != position),
                    None => {
                        let mut taken = false;
                        database.reads.get(key, &mut |value| {
                            taken = split_unique_value(value).is_none_or(|(owner, _)| owner != own);
                        })?;
                        taken
                    }
                };
                if taken {
                    let index = &detail.indexes[usize::from(entry.index)];
                    let value = self.new.value(entry);
                    if index.is_unique_build() {
                        database.note_duplicate(collection, index, record_key, (key, value));
                        new_left.insert(entry.key.start);
                        continue;
                    }
                    refused = Some((position, duplicate_key(collection, index, key, value)));
                    break 'piece;
                }
                owners.insert(key, Some(position));
            }
        }
        if !(old_left.is_empty() && new_left.is_empty()) {
            let stays = |left: &FxHashSet<u32>, entry: &Entry| !left.contains(&entry.key.start);
            self.old.entries.retain(|entry| stays(&old_left, entry));
            self.new.entries.retain(|entry| stays(&new_left, entry));
        }
        Ok(refused)
    }

    /// Puts what differs between the old and the new entries of one change.
    pub(super) fn stage(&self, position: usize, detail: &Detail, piece: &mut Piece) {
        let mine = |entry: &&Entry| entry.document as usize == position;
        let new: FxHashMap<&[u8], &[u8]> = self
            .new
            .entries
            .iter()
            .filter(mine)
            .map(|entry| (self.new.key(entry), self.new.value(entry)))
            .collect();
        let mut same: FxHashSet<&[u8]> = FxHashSet::default();
        for entry in self.old.entries.iter().filter(mine) {
            let key = self.old.key(entry);
            match new.get(key) {
                None => piece.deletes.delete(key),
                Some(value) if *value == self.old.value(entry) => {
                    same.insert(key);
                }
                Some(_) => {}
            }
        }
        for entry in self.new.entries.iter().filter(mine) {
            let key = self.new.key(entry);
            if !same.contains(key) {
                piece.puts.put(key, self.new.value(entry));
            }
        }
        for (_, number, components) in self
            .marks
            .iter()
            .filter(|(document, ..)| *document as usize == position)
        {
            piece.mark_multikey(&detail.indexes[*number], *components);
        }
    }
}
