//! What there is: databases and their collections, read from one snapshot of the catalog.
//!
//! Leaves out the collections of a database that was dropped and is still being cleaned up (`database_drop`).

use quarry_bson::Document;
use quarry_storage::KeyRange;

use crate::collection::Collection;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::ident::Ident;
use crate::layout;
use crate::namespace::Namespace;
use crate::reads::ReadSnapshot;

/// The entries of one database in a snapshot, behind a key or from the first.
pub(crate) struct Entries<'s> {
    cursor: Box<dyn quarry_storage::Cursor + 's>,
    database: &'s str,
    /// Collections below it went with the database.
    dropped_below: Option<Ident>,
}

impl<'s> Entries<'s> {
    pub fn open(
        snapshot: &'s ReadSnapshot,
        database: &'s str,
        behind: Option<&str>,
    ) -> Result<Entries<'s>> {
        let range = KeyRange::prefix(&layout::catalog_key(database, ""));
        let mut cursor = snapshot.cursor(range)?;
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
            dropped_below,
        })
    }

    /// The next collection, and whether it went with its database.
    pub fn next(&mut self) -> Result<Option<(Collection, bool)>> {
        if !self.cursor.valid() {
            return Ok(None);
        }
        let Some((_, name)) = layout::split_catalog_key(self.cursor.key()) else {
            return Err(Error::Corrupt("a catalog key is broken".to_owned()));
        };
        let namespace = Namespace::new(self.database, name)?;
        let entry = Document::from_bytes(self.cursor.value().to_vec())?;
        let collection = Collection::from_entry(namespace, entry)?;
        self.cursor.next()?;
        let is_dead = self
            .dropped_below
            .is_some_and(|mark| collection.ident < mark);
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

impl Database {
    pub fn list_databases(&self) -> Result<Vec<String>> {
        let snapshot = self.reads.snapshot()?;
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

    /// The collections of a database, by name.
    pub fn list_collections(&self, database: &str) -> Result<Vec<Collection>> {
        let snapshot = self.reads.snapshot()?;
        let mut entries = Entries::open(&snapshot, database, None)?;
        let mut collections = Vec::new();
        while let Some(collection) = entries.next_live()? {
            collections.push(collection);
        }
        Ok(collections)
    }

    pub(crate) fn has_collections(&self, database: &str) -> Result<bool> {
        is_there(&self.reads.snapshot()?, database)
    }
}

/// Whether the database has a collection.
fn is_there(snapshot: &ReadSnapshot, database: &str) -> Result<bool> {
    let mut entries = Entries::open(snapshot, database, None)?;
    Ok(entries.next_live()?.is_some())
}
