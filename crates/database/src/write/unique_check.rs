//! Unique keys of a piece: locked together, and given to its documents one after the other.
//!
//! Every writer of index entries checks them here: inserts, changes, and builds. A key is taken if another document of the
//! piece has it by now, or if it stands and names another document. In an index that is being built a taken key is noted
//! and its entry left out (`unique_build`); in any other one it is refused. Keys that entries could share are looked for among the
//! entries themselves (`shared_keys`).

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::duplicate::{duplicate_key, note_duplicate};
use super::latest::Latest;
use super::shared_keys::{is_of_another, shared_key};

use crate::catalog::collection::{Collection, IndexCatalog};
use crate::definitions::builds::Builds;
use crate::error::{Error, Result};
use crate::index::definition::Index;
use crate::index::entry::split_unique_value;
use crate::index::key_buffer::{Entry, KeyBuffer};
use crate::keyspace::key_hash::key_hash;
use crate::snapshot::reads::ReadSnapshot;

/// The hashes of the keys in these buffers that no two documents may have, to be locked by one call.
pub(crate) fn lock_hashes(
    index_catalog: &IndexCatalog,
    buffers: &[&KeyBuffer],
) -> SmallVec<[u64; 4]> {
    let mut hashes = SmallVec::new();
    for buffer in buffers {
        for entry in &buffer.entries {
            let index = index_of(index_catalog, entry);
            if index.unique_entries {
                hashes.push(key_hash(buffer.key(entry)));
            } else if index.refuses_shared_keys() {
                let shared = shared_key(index, buffer.key(entry), buffer.value(entry));
                hashes.push(key_hash(&shared));
            }
        }
    }
    hashes
}

/// Whether an entry stands under its key alone, as those of a unique index do.
pub(super) fn is_unique(index_catalog: &IndexCatalog, entry: &Entry) -> bool {
    index_of(index_catalog, entry).unique_entries
}

fn index_of<'c>(index_catalog: &'c IndexCatalog, entry: &Entry) -> &'c Index {
    &index_catalog.indexes[usize::from(entry.index)]
}

/// The check of one piece. The caller has locked its unique keys and shows its documents in their order.
pub(crate) struct UniqueCheck<'c> {
    latest: Latest<'c>,
    builds: &'c Builds,
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    /// The unique keys that the piece has changed so far, each with the document that has it now, or none.
    owners: HashMap<&'c [u8], Option<u32>>,
    /// The keys that stand, where the caller has asked for all that its new documents bring at once.
    standing: Option<HashSet<&'c [u8]>>,
    left: LeftOut,
    shared: SharedKeys<'c>,
}

/// The keys of a piece in indexes whose entries could share them (`shared_keys`).
#[derive(Default)]
struct SharedKeys<'c> {
    /// Made when the first one is looked for.
    snapshot: Option<ReadSnapshot>,
    /// The entries that the piece has taken away so far.
    gone: HashSet<&'c [u8]>,
    /// The keys that its documents have, each with the last one of them.
    claimed: HashMap<Vec<u8>, u32>,
}

/// The entries that stay as they are, by where their keys begin in their buffers.
#[derive(Default)]
pub(crate) struct LeftOut {
    pub old: FxHashSet<u32>,
    pub new: FxHashSet<u32>,
}

/// The entries of one document that go and that come.
pub(crate) struct Changed<'c> {
    pub document: u32,
    pub record_key: &'c [u8],
    pub old: (&'c KeyBuffer, &'c [Entry]),
    pub new: (&'c KeyBuffer, &'c [Entry]),
}

impl<'c> UniqueCheck<'c> {
    pub fn new(
        latest: Latest<'c>,
        builds: &'c Builds,
        collection: &'c Collection,
        index_catalog: &'c IndexCatalog,
    ) -> UniqueCheck<'c> {
        UniqueCheck {
            latest,
            builds,
            collection,
            index_catalog,
            owners: HashMap::new(),
            standing: None,
            left: LeftOut::default(),
            shared: SharedKeys::default(),
        }
    }

    /// Asks for all these keys at once, which no document of the piece has yet.
    pub fn ask_for_all(&mut self, keys: &[&'c [u8]]) -> Result<()> {
        let mut standing = HashSet::with_capacity(keys.len());
        let mut note = |at: usize| {
            standing.insert(keys[at]);
        };
        self.latest.find_present(keys, &mut note)?;
        self.standing = Some(standing);
        Ok(())
    }

    /// The refusal of the document whose entries these are, if one of its keys is taken; else the keys are its own. After
    /// a refusal a piece goes on only with documents that have no old entries.
    pub fn check(&mut self, changed: &Changed<'c>) -> Result<Option<Error>> {
        let prefix = self.collection.prefix.as_bytes();
        debug_assert!(
            changed.record_key.starts_with(prefix),
            "a record is of the collection whose unique keys are checked"
        );
        let own = &changed.record_key[prefix.len()..];
        let (buffer, old) = changed.old;
        for entry in old {
            let (index, key) = (index_of(self.index_catalog, entry), buffer.key(entry));
            if index.unique_entries {
                self.give_up(index, (entry, key), own)?;
            } else if index.refuses_shared_keys() {
                self.shared.gone.insert(key);
            }
        }
        let (buffer, new) = changed.new;
        for entry in new {
            let index = index_of(self.index_catalog, entry);
            let (key, value) = (buffer.key(entry), buffer.value(entry));
            let is_refused = match index.unique_entries {
                true => self.is_taken(key, changed.document, own)?,
                false if index.refuses_shared_keys() => {
                    self.is_shared(index, (key, value), changed.document, own)?
                }
                false => false,
            };
            if !is_refused {
                continue;
            }
            if !index.is_unique_build() {
                return Ok(Some(duplicate_key(self.collection, index, key, value)));
            }
            let (builds, collection) = (self.builds, self.collection);
            note_duplicate(builds, collection, index, changed.record_key, (key, value));
            self.left.new.insert(entry.key.start);
        }
        Ok(None)
    }

    /// Gives the key of an old entry up. One of a build that names another document is that one's to delete.
    fn give_up(
        &mut self,
        index: &Index,
        (entry, key): (&Entry, &'c [u8]),
        own: &[u8],
    ) -> Result<()> {
        let is_build = index.is_unique_build();
        if is_build && (self.owners.contains_key(key) || !self.owns(key, own)?) {
            self.left.old.insert(entry.key.start);
        } else {
            self.owners.insert(key, None);
        }
        Ok(())
    }

    /// Whether another document has the key of an entry that could be shared. An entry that the document has had before is none that it
    /// brings, whoever shares it.
    fn is_shared(
        &mut self,
        index: &Index,
        (key, value): (&'c [u8], &[u8]),
        document: u32,
        own: &[u8],
    ) -> Result<bool> {
        if self.shared.gone.remove(key) {
            return Ok(false);
        }
        let shared = shared_key(index, key, value);
        if let Some(owner) = self.shared.claimed.get(&shared) {
            return Ok(*owner != document);
        }
        let snapshot = match &mut self.shared.snapshot {
            Some(snapshot) => snapshot,
            none => none.insert(self.latest.snapshot()?),
        };
        let gone = &self.shared.gone;
        is_of_another(self.latest, snapshot, index, &shared, own, &|key| {
            gone.contains(key)
        })
    }

    /// Gives the document the keys that `check` has let through, so that those behind it find them taken.
    pub fn claim(&mut self, changed: &Changed<'c>) {
        let (buffer, new) = changed.new;
        for entry in new {
            let (index, key) = (index_of(self.index_catalog, entry), buffer.key(entry));
            if index.refuses_shared_keys() {
                let shared = shared_key(index, key, buffer.value(entry));
                self.shared.claimed.insert(shared, changed.document);
            }
            let is_left = !self.left.new.is_empty() && self.left.new.contains(&entry.key.start);
            if index.unique_entries && !is_left {
                let before = self.owners.insert(key, Some(changed.document));
                debug_assert!(
                    before
                        .flatten()
                        .is_none_or(|owner| owner == changed.document),
                    "two documents of a piece own one unique key"
                );
            }
        }
    }

    /// The keys to be left out of the entries that go and come.
    pub fn into_left_out(self) -> LeftOut {
        self.left
    }

    fn is_taken(&self, key: &[u8], document: u32, own: &[u8]) -> Result<bool> {
        if let Some(owner) = self.owners.get(key) {
            return Ok(owner.is_some_and(|owner| owner != document));
        }
        if let Some(standing) = &self.standing {
            return Ok(standing.contains(key));
        }
        let mut is_taken = false;
        self.latest.get(key, &mut |value| {
            is_taken = split_unique_value(value).is_none_or(|(owner, _)| owner != own);
        })?;
        Ok(is_taken)
    }

    /// Whether the unique entry `key` stands and names the record with the suffix `own`.
    fn owns(&self, key: &[u8], own: &[u8]) -> Result<bool> {
        let mut owns = false;
        self.latest.get(key, &mut |value| {
            owns = split_unique_value(value).is_some_and(|(owner, _)| owner == own);
        })?;
        Ok(owns)
    }
}

impl LeftOut {
    /// Takes the entries out of the buffers that they stand in.
    pub fn take_from(self, old: &mut KeyBuffer, new: &mut KeyBuffer) {
        let stays = |left: &FxHashSet<u32>, entry: &Entry| !left.contains(&entry.key.start);
        if !self.old.is_empty() {
            old.entries.retain(|entry| stays(&self.old, entry));
        }
        if !self.new.is_empty() {
            new.entries.retain(|entry| stays(&self.new, entry));
        }
    }
}
