//! Lists of databases and their collections, read from one snapshot of the catalog.
//!
//! Leaves out the collections of a database that was dropped and is still being cleaned up (`database_drop`).

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_storage::KeyRange;

use crate::catalog::collection::{Collection, CollectionKind};
use crate::error::{Error, Result};
use crate::keyspace::ident::Ident;
use crate::keyspace::layout;
use crate::keyspace::namespace::Namespace;
use crate::snapshot::reads::{ReadSnapshot, Reads};

/// Entries that one call of `list_collections_behind` walks over at most, those that are not there any more included.
const CHUNK_ENTRIES_MAX: usize = 4096;
/// A chunk ends when its entries have so many bytes.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A catalog entry as it stands in the engine, good until the walk goes on.
pub(crate) struct RawEntry<'e> {
    name: &'e [u8],
    pub document: RawDocument<'e>,
    /// It went with its database.
    pub is_dead: bool,
}

impl<'e> RawEntry<'e> {
    /// The collection's name. It is looked at only here: a walk that adds numbers up has no use for a million names.
    pub fn name(&self) -> Result<&'e str> {
        std::str::from_utf8(self.name).map_err(|_| broken_entry())
    }

    /// The bytes of the name.
    pub fn name_bytes(&self) -> usize {
        self.name.len()
    }
}

/// The error of an entry that cannot be read.
pub(super) fn broken_entry() -> Error {
    Error::Corrupt("a catalog entry is broken".to_owned())
}

/// The entries of one database in a snapshot, behind a key or from the first.
pub(crate) struct Entries<'s> {
    cursor: Box<dyn quarry_storage::Cursor + 's>,
    database: &'s str,
    /// The bytes of a key before the collection's name.
    name_at: usize,
    /// Collections below it went with the database.
    dropped_below: Option<Ident>,
}

impl<'s> Entries<'s> {
    pub fn open(
        snapshot: &'s ReadSnapshot,
        database: &'s str,
        behind: Option<&str>,
    ) -> Result<Entries<'s>> {
        let prefix = layout::catalog_key(database, "");
        let mut cursor = snapshot.cursor(KeyRange::prefix(&prefix))?;
        match behind {
            None => cursor.first()?,
            Some(collection) => {
                let mut key = layout::catalog_key(database, collection);
                key.push(0);
                cursor.seek(&key)?;
            }
        }
        let mut dropped_below = None;
        snapshot.get(&layout::dropped_database_key(database), &mut |value| {
            dropped_below = layout::read_ident(value);
        })?;
        Ok(Entries {
            cursor,
            database,
            name_at: prefix.len(),
            dropped_below,
        })
    }

    /// Whether the database was dropped, and some of what went with it may still have its entries.
    pub fn are_left_of_a_drop(&self) -> bool {
        self.dropped_below.is_some()
    }

    /// The entry under the walk, as bytes: for those that read a million of them.
    pub fn peek(&self) -> Result<Option<RawEntry<'_>>> {
        if !self.cursor.valid() {
            return Ok(None);
        }
        let name = (self.cursor.key().get(self.name_at..)).ok_or_else(broken_entry)?;
        let document = RawDocument::new(self.cursor.value())?;
        let is_dead = match self.dropped_below {
            Some(mark) => read_ident(document)? < mark,
            None => false,
        };
        Ok(Some(RawEntry {
            name,
            document,
            is_dead,
        }))
    }

    pub fn advance(&mut self) -> Result<()> {
        Ok(self.cursor.next()?)
    }

    /// The next collection, and whether it went with its database.
    pub fn next(&mut self) -> Result<Option<(Collection, bool)>> {
        let Some(entry) = self.peek()? else {
            return Ok(None);
        };
        let namespace = Namespace::new(self.database, entry.name()?)?;
        let is_dead = entry.is_dead;
        let document = Document::from_bytes_any_text(entry.document.as_bytes().to_vec())?;
        let collection = Collection::from_entry(namespace, document)?;
        self.advance()?;
        Ok(Some((collection, is_dead)))
    }

    fn next_live(&mut self) -> Result<Option<Collection>> {
        loop {
            match self.next()? {
                Some((_, true)) => {}
                Some((collection, false)) => return Ok(Some(collection)),
                None => return Ok(None),
            }
        }
    }
}

/// Whether the catalog has an entry.
pub fn is_empty(reads: &Reads) -> Result<bool> {
    let snapshot = reads.snapshot()?;
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::CATALOG))?;
    cursor.first()?;
    Ok(!cursor.valid())
}

/// The names of the databases that have collections.
pub fn list_databases(reads: &Reads) -> Result<Vec<String>> {
    let snapshot = reads.snapshot()?;
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::CATALOG))?;
    cursor.first()?;
    let mut names = Vec::new();
    while cursor.valid() {
        let Some((database, _)) = layout::split_catalog_key(cursor.key()) else {
            return Err(Error::Corrupt("a catalog key is broken".to_owned()));
        };
        let mut next = layout::catalog_key(database, "");
        if is_there(&snapshot, database)? {
            names.push(database.to_owned());
        }
        // The byte behind the separator ends the range of this database.
        *next.last_mut().expect("a catalog key ends in a NUL here") = 1;
        cursor.seek(&next)?;
    }
    Ok(names)
}

/// Hands collections of a database to `take` in the order of their names, as much as one walk is to do: from the first
/// on, or from the one after `behind`. Returns where the next call goes on, if there may be more. Between two calls nothing
/// is held: a collection that is there all the time is handed over once.
pub fn list_collections_behind(
    reads: &Reads,
    database: &str,
    behind: Option<&str>,
    take: &mut dyn FnMut(Collection),
) -> Result<Option<String>> {
    walk_behind(reads, database, behind, &mut |entry| {
        let namespace = Namespace::new(database, entry.name()?)?;
        let document = Document::from_bytes_any_text(entry.document.as_bytes().to_vec())?;
        take(Collection::from_entry(namespace, document)?);
        Ok(true)
    })
}

/// Like `list_collections_behind`, but ends where `take` says so.
pub fn list_collections_behind_while(
    reads: &Reads,
    database: &str,
    behind: &str,
    take: &mut dyn FnMut(Collection) -> bool,
) -> Result<Option<String>> {
    walk_behind(reads, database, Some(behind), &mut |entry| {
        let namespace = Namespace::new(database, entry.name()?)?;
        let document = Document::from_bytes_any_text(entry.document.as_bytes().to_vec())?;
        Ok(take(Collection::from_entry(namespace, document)?))
    })
}

/// Like `list_collections_behind`, but hands over the names alone, and what they mean.
pub fn list_names_behind(
    reads: &Reads,
    database: &str,
    behind: Option<&str>,
    take: &mut dyn FnMut(&str, CollectionKind),
) -> Result<Option<String>> {
    walk_behind(reads, database, behind, &mut |entry| {
        let options = entry.document.get_document("options");
        let options = options.unwrap_or(RawDocument::EMPTY);
        take(entry.name()?, CollectionKind::of(options));
        Ok(true)
    })
}

/// `take` answers whether the walk goes on.
fn walk_behind(
    reads: &Reads,
    database: &str,
    behind: Option<&str>,
    take: &mut dyn FnMut(&RawEntry<'_>) -> Result<bool>,
) -> Result<Option<String>> {
    let snapshot = reads.snapshot()?;
    let mut entries = Entries::open(&snapshot, database, behind)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(entry) = entries.peek()? {
        if !entry.is_dead && !take(&entry)? {
            return Ok(None);
        }
        count += 1;
        bytes += entry.document.len_bytes();
        if count == CHUNK_ENTRIES_MAX || bytes >= CHUNK_BYTES_MAX {
            return Ok(Some(entry.name()?.to_owned()));
        }
        entries.advance()?;
    }
    Ok(None)
}

/// The collections of a database, by name.
pub fn list_collections(reads: &Reads, database: &str) -> Result<Vec<Collection>> {
    let snapshot = reads.snapshot()?;
    let mut entries = Entries::open(&snapshot, database, None)?;
    let mut collections = Vec::new();
    while let Some(collection) = entries.next_live()? {
        collections.push(collection);
    }
    Ok(collections)
}

/// Whether the database has a collection.
pub(super) fn is_there(snapshot: &ReadSnapshot, database: &str) -> Result<bool> {
    let mut entries = Entries::open(snapshot, database, None)?;
    Ok(entries.next_live()?.is_some())
}

fn read_ident(entry: RawDocument<'_>) -> Result<Ident> {
    ident_of(entry.get("ident"))
}

/// The ident that a value of an entry means.
pub(super) fn ident_of(value: Option<RawValue<'_>>) -> Result<Ident> {
    match value {
        Some(RawValue::Int64(number)) => {
            u64::try_from(number).map(Ident).map_err(|_| broken_entry())
        }
        _ => Err(broken_entry()),
    }
}

/// An index whose documents expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringIndex {
    /// The index, or the collection itself where its documents expire by their record keys.
    pub ident: Ident,
    /// Its collection.
    pub namespace: Namespace,
}

/// Indexes of which one call of `expiring_indexes` tells.
const EXPIRING_MANY: usize = 1000;

/// The indexes with a mark that their documents expire, behind that of `behind`.
pub fn expiring_indexes(reads: &Reads, behind: Option<Ident>) -> Result<Vec<ExpiringIndex>> {
    let broken = || Error::Corrupt("the mark of an expiring index is broken".to_owned());
    let snapshot = reads.snapshot()?;
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::EXPIRING))?;
    match behind {
        None => cursor.first()?,
        Some(Ident(number)) => cursor.seek(&layout::expiring_key(Ident(number + 1)))?,
    }
    let mut indexes = Vec::new();
    while cursor.valid() && indexes.len() < EXPIRING_MANY {
        let (ident, _) = layout::split_ident(layout::EXPIRING, cursor.key()).ok_or_else(broken)?;
        let name = std::str::from_utf8(cursor.value()).map_err(|_| broken())?;
        let namespace = Namespace::parse(name)?;
        indexes.push(ExpiringIndex { ident, namespace });
        cursor.next()?;
    }
    Ok(indexes)
}
