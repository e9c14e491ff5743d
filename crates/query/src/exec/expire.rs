//! Documents that have expired: those whose date in the field of an index with `expireAfterSeconds` is old enough, and those of a
//! clustered collection with that option whose `_id` is such a date. Those of a time series are measurements, by their time.
//!
//! They are found by the entries of that index, a piece at a time, and deleted like any others: under their locks, after a
//! second look at the date, with what change streams are told of a delete. An array expires with its earliest date; a value
//! that is no date never does.

use quarry_bson::{DateTime, Document, RawDocument, RawValue, doc};
use quarry_database::{
    Change, Collection, CollectionSnapshot, ExpiringIndex, Index, KeyRange, Level, Operation,
    PIECE_BYTES_MAX, PIECE_DOCUMENTS_MAX, Scope, index_record_key,
};
use quarry_keystring::{Direction, TypeBits, encode_value};

use super::error::stored;
use super::modify::{Target, Totals};
use crate::error::Result;

/// The outcome of one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// The documents that went.
    pub deleted: u64,
    /// The last entry that was looked at, where there may be more behind it.
    pub behind: Option<Vec<u8>>,
}

/// Deletes documents of the collection that have expired at `now` by that index, at most as many as a piece has: from the
/// first entry on, or from the one behind `behind`, so that a document that stays is not in the way of the others. Does
/// nothing if the index is being built, is not there any more, or does not let documents expire.
pub fn expire(
    scope: Scope<'_>,
    operation: &Operation,
    expiring: &ExpiringIndex,
    behind: Option<&[u8]>,
    now: DateTime,
) -> Result<Expired> {
    let none = Expired::default();
    let Some(snapshot) = scope.snapshot(&expiring.namespace, operation)? else {
        return Ok(none);
    };
    let Some((dates, seconds)) = dates(&snapshot, expiring)? else {
        return Ok(none);
    };
    let before = now.0.saturating_sub(seconds * 1000);
    let filter = due_before(dates.path(), before);
    let due = Due::read(&snapshot, dates, before, behind)?;
    let ident = snapshot.collection.ident;
    drop(snapshot);
    if due.records.is_empty() {
        return Ok(none);
    }
    operation.count_examined(due.entries, due.records.len() as u64);
    let (namespace, level) = (&expiring.namespace, Level::Written);
    let filter = filter.as_raw();
    let target = Target::new(scope, operation, level, namespace, filter, None, None);
    let mut totals = Totals::default();
    let matcher = Some(&target.parsed()?.matcher);
    let mut delete = |_: RawDocument<'_>, _: &_, _: &mut _| Ok(Change::Delete);
    target.piece(ident, &due.records, matcher, &mut delete, &mut totals)?;
    totals.settle(scope, level)?;
    Ok(Expired {
        deleted: totals.deleted,
        behind: due.behind,
    })
}

/// Where the dates are in order by which documents expire.
#[derive(Clone, Copy)]
enum Dates<'i> {
    /// In the first field of an index.
    Index(&'i Index),
    /// In the field that the records of a collection are ordered by.
    Records(&'i str),
}

impl<'i> Dates<'i> {
    fn path(self) -> &'i str {
        match self {
            Dates::Index(index) => &index.pattern.fields[0].path,
            Dates::Records(path) => path,
        }
    }
}

/// The dates by which documents of the collection expire, and after how many seconds.
fn dates<'s>(
    snapshot: &'s CollectionSnapshot,
    expiring: &ExpiringIndex,
) -> Result<Option<(Dates<'s>, i64)>> {
    if expiring.ident == snapshot.collection.ident {
        let collection = &snapshot.collection;
        let dates = collection.records_path().map(Dates::Records);
        return Ok(dates.zip(collection.expire_after_s()));
    }
    let mut indexes = snapshot.index_catalog()?.indexes.iter();
    let index = indexes.find(|index| index.ident == expiring.ident && !index.building);
    let expires = |index: &'s Index| Some((Dates::Index(index), i64::from(index.expire_after_s?)));
    Ok(index.and_then(expires))
}

/// The records that a piece of an index's entries names.
#[derive(Default)]
struct Due {
    /// Their keys, each once: an array of dates is met once for each of them.
    records: Vec<Vec<u8>>,
    entries: u64,
    /// The last entry, where the piece ended before the range.
    behind: Option<Vec<u8>>,
}

impl Due {
    /// Reads the entries with dates up to that one, until their documents fill a piece.
    fn read(
        snapshot: &CollectionSnapshot,
        dates: Dates<'_>,
        before: i64,
        behind: Option<&[u8]>,
    ) -> Result<Due> {
        let (mut due, mut bytes) = (Due::default(), 0);
        let range = match dates {
            Dates::Index(index) => range_before(index, before),
            Dates::Records(_) => records_before(&snapshot.collection, before),
        };
        let mut cursor = snapshot.cursor(range)?;
        match behind {
            None => stored(cursor.first())?,
            Some(key) => stored(cursor.seek(&[key, &[0]].concat()))?,
        }
        while cursor.valid() && due.behind.is_none() {
            let (key, value) = (cursor.key(), cursor.value());
            let record = match dates {
                Dates::Index(index) => {
                    let record = index_record_key(index, &snapshot.collection, key, value)?;
                    snapshot.get(&record, &mut |document| bytes += document.len())?;
                    record
                }
                Dates::Records(_) => {
                    bytes += value.len();
                    key.to_vec()
                }
            };
            due.records.push(record);
            due.entries += 1;
            let is_full = due.records.len() == PIECE_DOCUMENTS_MAX || bytes >= PIECE_BYTES_MAX;
            due.behind = is_full.then(|| key.to_vec());
            stored(cursor.next())?;
        }
        due.records.sort_unstable();
        due.records.dedup();
        Ok(due)
    }
}

/// The filter of documents that have a date at the path up to that one.
fn due_before(path: &str, before: i64) -> Document {
    let mut filter = Document::new();
    filter.append(
        path,
        doc! {
            "$gte": (RawValue::DateTime(i64::MIN)),
            "$lte": (RawValue::DateTime(before)),
        },
    );
    filter
}

/// The records whose keys begin with dates up to that one.
fn records_before(collection: &Collection, before: i64) -> KeyRange {
    KeyRange {
        start: collection.date_key(i64::MIN),
        ..KeyRange::prefix(&collection.date_key(before))
    }
}

/// The entries with dates up to that one.
fn range_before(index: &Index, before: i64) -> KeyRange {
    let direction = index.pattern.fields[0].direction;
    let encoded = |ms: i64| {
        let mut key = index.prefix.as_bytes().to_vec();
        let date = RawValue::DateTime(ms);
        encode_value(&mut key, &mut TypeBits::default(), date, direction);
        key
    };
    let (first, last) = match direction {
        Direction::Ascending => (i64::MIN, before),
        Direction::Descending => (before, i64::MIN),
    };
    KeyRange {
        start: encoded(first),
        ..KeyRange::prefix(&encoded(last))
    }
}
