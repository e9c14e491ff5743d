//! The slice of the oplog that was made while a dump was: with it applied, everything is as it was at its end.
//!
//! A MongoDB's is copied from `local.oplog.rs`. A Quarry keeps none: its entries are made of the stream of its changes. A slice in which a collection
//! gets another name is refused, as mongodump does: documents may have been looked for under a name that they had no more.

use std::sync::Arc;
use std::time::Duration;

use quarry_bson::{Document, RawDocument, RawValue, Timestamp, Value, doc};
use quarry_client::{Connection, ConnectionString};

use crate::change_stream::{self, FORGOTTEN, NO_CHANGE_STREAMS};
use crate::error::{Error, Result};
use crate::oplog;
use crate::server;

/// How long the server waits for a change before it says that there is none.
const WAIT: Duration = Duration::from_millis(500);
/// Batches without an event and without another place, that are the end of what there is.
const STILL_MAX: u32 = 3;

/// Entries that are handed out in one go.
const CHUNK_BYTES: usize = 4 << 20;

const LOCAL: &str = "local";
const COLLECTION: &str = "oplog.rs";
/// Transactions whose entries may have begun before the dump.
const OPEN_STATES: [&str; 2] = ["prepared", "inProgress"];
/// Commands of which mongorestore, too, knows no way to apply them to a copy.
const REFUSED: [&str; 2] = ["renameCollection", "importCollection"];
/// The collection of a server's own version and of the form of its users.
const VERSIONS: &str = "admin.system.version";

/// The beginning of a slice.
pub struct Slice {
    connection: Connection,
    from: From,
}

enum From {
    /// The first entry in an oplog.
    Entry(Timestamp),
    /// A place in a stream of changes.
    Place(Document),
}

impl Slice {
    /// Takes the place as it is now. `build` is what the server says that it is.
    pub fn begin(settings: &Arc<ConnectionString>, build: &Document) -> Result<Slice> {
        let mut connection = server::connect(settings)?;
        let from = match build.contains("quarry") {
            true => From::Place(place(&mut connection)?),
            false => From::Entry(first_needed(&mut connection)?),
        };
        Ok(Slice { connection, from })
    }

    /// Hands out the entries from the beginning to now, many at once; how many they are.
    pub fn write(self, out: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut writer = Writer {
            out,
            chunk: Vec::new(),
            entries: 0,
        };
        let mut connection = self.connection;
        match self.from {
            From::Entry(from) => copy(&mut connection, from, &mut writer)?,
            From::Place(from) => follow(&mut connection, &from, &mut writer)?,
        }
        writer.flush()?;
        Ok(writer.entries)
    }
}

struct Writer<'w> {
    out: &'w mut dyn FnMut(&[u8]) -> Result<()>,
    chunk: Vec<u8>,
    entries: u64,
}

impl Writer<'_> {
    fn add(&mut self, entry: RawDocument<'_>) -> Result<()> {
        self.chunk.extend_from_slice(entry.as_bytes());
        self.entries += 1;
        match self.chunk.len() >= CHUNK_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.chunk.is_empty() {
            (self.out)(&self.chunk)?;
            self.chunk.clear();
        }
        Ok(())
    }
}

fn place(connection: &mut Connection) -> Result<Document> {
    change_stream::current_token(connection).map_err(|error| match error.code() {
        Some(NO_CHANGE_STREAMS) => Error::usage("--oplog: the server has no change streams"),
        _ => Error::server("changes of the server")(error),
    })
}

/// Writes the entries of a stream's events, up to the place that is the present one now.
fn follow(connection: &mut Connection, from: &Document, writer: &mut Writer<'_>) -> Result<()> {
    let goal = place(connection)?;
    if change_stream::has_reached(from, &goal) {
        return Ok(());
    }
    let failed = |error: quarry_client::Error| {
        let is_forgotten = error.code().is_some_and(|code| FORGOTTEN.contains(&code));
        let at = match is_forgotten {
            true => "the server has forgotten the changes since the dump began",
            false => "changes of the server",
        };
        Error::server(at)(error)
    };
    let command = change_stream::command(Some(from), &[]);
    let mut cursor = connection.cursor("admin", &command).map_err(failed)?;
    cursor.set_wait(WAIT);
    let (mut token, mut still) = (None, 0);
    while cursor.advance().map_err(failed)? {
        let mut has_events = false;
        for event in cursor.batch() {
            has_events = true;
            let place = event.get_document("_id").map(Document::from);
            if place.is_some_and(|place| place.get_str("_data") > goal.get_str("_data")) {
                return Ok(());
            }
            for entry in oplog::entries_of(event).map_err(Error::Incomplete)? {
                writer.add(entry.as_raw())?;
            }
        }
        let before = token;
        token = change_stream::token_of(cursor.reply());
        let is_still = !has_events && before == token;
        still = if is_still { still + 1 } else { 0 };
        let has_reached = |token: &Document| change_stream::has_reached(token, &goal);
        if token.as_ref().is_some_and(has_reached) || still >= STILL_MAX {
            return Ok(());
        }
    }
    Err(Error::Incomplete(
        "the server has closed its stream of changes".to_owned(),
    ))
}

/// The entry that a slice begins with: the last one, or the first of the oldest transaction that is open.
fn first_needed(connection: &mut Connection) -> Result<Timestamp> {
    let last = end_of(connection, -1)?;
    let states: Value = OPEN_STATES.into_iter().map(Value::from).collect();
    let find = doc! {
        "find": "transactions", "filter": { "state": { "$in": states } }, "sort": { "startOpTime": 1 }, "limit": 1,
    };
    let open = connection
        .cursor("config", &find)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server("`config.transactions`"))?;
    let begun = open
        .first()
        .and_then(|one| match one.get_path("startOpTime.ts") {
            Some(RawValue::Timestamp(begun)) => Some(begun),
            _ => None,
        });
    Ok(begun.map_or(last, |begun| begun.min(last)))
}

/// The time of the oplog's first entry, or with -1 of its last.
fn end_of(connection: &mut Connection, order: i32) -> Result<Timestamp> {
    let find = doc! { "find": COLLECTION, "sort": { "$natural": order }, "limit": 1 };
    let found = connection
        .cursor(LOCAL, &find)
        .and_then(quarry_client::Cursor::collect)
        .map_err(Error::server("the oplog"))?;
    match found.first().and_then(|entry| entry.get("ts")) {
        Some(RawValue::Timestamp(time)) => Ok(time),
        _ => Err(Error::usage(
            "--oplog: the server has no oplog, because it is no member of a set",
        )),
    }
}

fn copy(connection: &mut Connection, from: Timestamp, writer: &mut Writer<'_>) -> Result<()> {
    let to = end_of(connection, -1)?;
    let (from_value, to) = (RawValue::Timestamp(from), RawValue::Timestamp(to));
    let find = doc! {
        "find": COLLECTION, "filter": { "ts": { "$gte": from_value, "$lte": to } }, "sort": { "$natural": 1 },
    };
    let failed = Error::server("the oplog");
    let mut cursor = connection.cursor(LOCAL, &find).map_err(&failed)?;
    while cursor.advance().map_err(&failed)? {
        for entry in cursor.batch() {
            check(entry).map_err(Error::Incomplete)?;
            writer.add(entry)?;
        }
    }
    drop(cursor);
    // Entries that went before they were read are missed by nobody else.
    match end_of(connection, 1)? > from {
        true => Err(Error::Incomplete(
            "the oplog was too short for the time that the dump took: its first entries have gone"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Refuses an entry that no restore could apply.
fn check(entry: RawDocument<'_>) -> std::result::Result<(), String> {
    if entry.get_str("ns") == Some(VERSIONS) {
        return Err(format!("`{VERSIONS}` was changed while it was dumped"));
    }
    let command = entry.get_document("o").and_then(|o| o.first());
    let command = command.filter(|_| entry.get_str("op") == Some("c"));
    match command.and_then(|command| command.name().as_str().ok()) {
        Some(name) if REFUSED.contains(&name) => Err(format!(
            "`{name}` of `{}` while it was dumped: a dump of one moment cannot have that",
            entry.get_str("ns").unwrap_or_default()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_no_restore_could_apply_are_refused() {
        let says = |entry: Document| check(entry.as_raw()).unwrap_err();
        let renamed =
            doc! { "op": "c", "ns": "db.$cmd", "o": { "renameCollection": "db.a", "to": "db.b" } };
        assert!(says(renamed).contains("`renameCollection` of `db.$cmd`"));
        let version = doc! { "op": "u", "ns": "admin.system.version", "o": {} };
        assert!(says(version).contains("was changed"));
        let field = doc! { "op": "i", "ns": "db.c", "o": { "renameCollection": 1 } };
        assert_eq!(check(field.as_raw()), Ok(()));
    }
}
