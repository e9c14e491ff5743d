//! Databases whose names differ by case alone: as in MongoDB, none is made beside another one. Letters beyond ASCII are not
//! compared.
//!
//! The catalog has no names without their case. What is looked for is found by a walk down the names that are there, letter by
//! letter: a few seeks a letter, however many databases there are.

use quarry_storage::KeyRange;

use crate::definitions::changes::Definitions;
use crate::definitions::listing::{Entries, is_there};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::layout;
use crate::operation::Operation;
use crate::snapshot::reads::ReadSnapshot;

/// The databases of MongoDB's that are there before anybody makes them.
const ALWAYS_THERE: [&str; 3] = ["admin", "config", "local"];

impl Definitions {
    /// Refuses to make a collection in a database that is not there, where there is one whose name differs by case alone. The
    /// caller has the DDL mutex of the database, which is that of the other one, too; a transaction has none, and may find its
    /// database beside another one that was made meanwhile.
    pub(crate) fn check_case(&self, database: &str, operation: &Operation) -> Result<()> {
        let snapshot = self.reads().snapshot()?;
        let entries = Entries::open(&snapshot, database, None)?;
        if entries.peek()?.is_some_and(|first| !first.is_dead) {
            return Ok(());
        }
        let other = match always_there(database) {
            Some(other) => Some(other.to_owned()),
            None => find(&snapshot, database, operation)?,
        };
        match other {
            // Behind entries that went with its database there may be others that are there.
            Some(other) if !is_there(&snapshot, database)? => Err(Error::invalid(
                ErrorCode::DATABASE_DIFFER_CASE,
                format!(
                    "db already exists with different case already have: [{other}] trying to create [{database}]"
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn always_there(database: &str) -> Option<&'static str> {
    let differs = |name: &&str| *name != database && name.eq_ignore_ascii_case(database);
    ALWAYS_THERE.into_iter().find(differs)
}

/// The name of a database that differs from this one by case alone.
fn find(snapshot: &ReadSnapshot, name: &str, operation: &Operation) -> Result<Option<String>> {
    let broken = || Error::Corrupt("a catalog key is broken".to_owned());
    let mut cursor = snapshot.cursor(KeyRange::prefix(layout::CATALOG))?;
    // Beginnings of names that are still to be looked at.
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    let mut steps = 0;
    while let Some(beginning) = open.pop() {
        operation.step(&mut steps)?;
        cursor.seek(&[layout::CATALOG, &beginning[..]].concat())?;
        if !cursor.valid() {
            continue;
        }
        let (found, _) = layout::split_catalog_key(cursor.key()).ok_or_else(broken)?;
        if !found.as_bytes().starts_with(&beginning) {
            continue;
        }
        let Some(letter) = name.as_bytes().get(beginning.len()) else {
            // The shortest name with this beginning comes first.
            if found.len() == name.len() && found != name && is_there(snapshot, found)? {
                return Ok(Some(found.to_owned()));
            }
            continue;
        };
        let next = found.as_bytes().get(beginning.len()).copied();
        let (upper, lower) = (letter.to_ascii_uppercase(), letter.to_ascii_lowercase());
        let variants = [lower, upper];
        let differ = usize::from(lower != upper);
        // The names come in order: below the first one there is none.
        let may_be_there = |letter: &&u8| next.is_none_or(|next| next <= **letter);
        for letter in variants[..=differ].iter().filter(may_be_there) {
            open.push([&beginning[..], &[*letter]].concat());
        }
    }
    Ok(None)
}
