//! `local.oplog.rs`: the first and the last entry of the journal, as clients look for them in a set's log of operations.
//!
//! There is no such collection: the journal is the log, and change streams read it. The view has no more than what tools ask
//! for to tell how far back the log reaches: an entry that does nothing at either end.

use quarry_bson::{Document, RawValue, Timestamp, doc};
use quarry_database::Database;

use crate::dispatch::error::Result;
use crate::replication::cluster_clock::date_of;
use crate::replication::replica_set::ReplicaSet;
use crate::replication::set_config::TERM;

/// The database of the view.
pub const DATABASE: &str = "local";
/// The collection of the view.
pub const COLLECTION: &str = "oplog.rs";
/// The version of the entries' form.
const ENTRY_VERSION: i64 = 2;

/// Whether the names are those of the view.
pub fn is_view(database: &str, collection: &str) -> bool {
    collection == COLLECTION && database == DATABASE
}

/// The entries, the oldest first; a log of a single moment has one. The first tells how far back change streams reach.
pub fn entries(set: &ReplicaSet, database: &Database) -> Result<Vec<Document>> {
    let last = set.times(database).written;
    let first = first_time(database)?.unwrap_or(set.elected).min(last);
    let mut entries = vec![entry("oldest record of the journal", first)];
    if first != last {
        entries.push(entry("last write", last));
    }
    Ok(entries)
}

/// The time of the oldest record that the journal has; none if it does not tell the time of that one.
fn first_time(database: &Database) -> Result<Option<Timestamp>> {
    let read = || {
        let journal = database.journal();
        let Some(lsn) = journal.first_since(0)? else {
            return Ok(None);
        };
        let mut groups = journal.log().read(lsn)?;
        let group = groups.next_group()?;
        Ok(group.map(|records| Timestamp::from_u64(records.cluster_time())))
    };
    match read() {
        Err(quarry_journal::Error::HistoryMissing { .. }) => Ok(None),
        time => Ok(time.map_err(quarry_database::Error::from)?),
    }
}

fn entry(what: &str, time: Timestamp) -> Document {
    doc! {
        "op": "n", "ns": "", "o": { "msg": what },
        "ts": (RawValue::Timestamp(time)), "t": TERM, "v": ENTRY_VERSION, "wall": (date_of(time)),
    }
}
