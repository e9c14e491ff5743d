//! `local.oplog.rs`: the first and the last entry of the journal, as clients look for them in a set's log of operations.
//!
//! There is no such collection: the journal is the log, and change streams read it. The view has no more than what tools ask
//! for to tell how far back the log reaches: an entry that does nothing at either end.

use quarry_bson::{Document, RawValue, doc};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};
use crate::replication::cluster_clock::{ClusterTimes, date_of};
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

/// Refuses to write where a set shows its log, which is the journal.
pub fn refuse_write(database: &str, collection: &str) -> Result<()> {
    if !is_view(database, collection) {
        return Ok(());
    }
    let message = "cannot write to local.oplog.rs: it is a view of the journal";
    Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message))
}

/// The entries, the oldest first; a log of a single moment has one.
pub fn entries(set: &ReplicaSet, times: ClusterTimes) -> Vec<Document> {
    let first = entry("initiating set", set.elected);
    match times.written == set.elected {
        true => vec![first],
        false => vec![first, entry("last write", times.written)],
    }
}

fn entry(what: &str, time: quarry_bson::Timestamp) -> Document {
    doc! {
        "op": "n", "ns": "", "o": { "msg": what },
        "ts": (RawValue::Timestamp(time)), "t": TERM, "v": ENTRY_VERSION, "wall": (date_of(time)),
    }
}
