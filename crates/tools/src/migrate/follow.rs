//! The changes of a source, one batch after the other, from a place on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_client::{Connection, Cursor};

use super::Migration;
use super::apply::Applier;
use crate::error::{Error, Result};
use crate::server;

/// How long the source waits for a change before it says that there is none.
const WAIT: Duration = Duration::from_millis(500);
/// How often a stream that was lost is opened again without anything coming of it.
const REOPENED_MAX: usize = 5;
/// Codes of a source that has forgotten the place, or cannot go on behind it.
const FORGOTTEN: [i32; 2] = [280, 286];

/// The place in a server's changes as it is now.
pub fn current_token(connection: &mut Connection) -> quarry_client::Result<Document> {
    let cursor = connection.cursor("admin", &command(None))?;
    token_of(cursor.reply()).ok_or_else(|| {
        quarry_client::Error::Protocol("the change stream has no place to resume at".to_owned())
    })
}

fn token_of(reply: &Document) -> Option<Document> {
    let token = reply.get_path("cursor.postBatchResumeToken")?;
    Some(token.as_document()?.to_owned_document())
}

fn command(token: Option<&Document>) -> Document {
    let mut stream = doc! {
        "allChangesForCluster": true, "fullDocument": "updateLookup", "showExpandedEvents": true,
    };
    if let Some(token) = token {
        stream.append("resumeAfter", token);
    }
    doc! { "aggregate": 1, "pipeline": [{ "$changeStream": stream }], "cursor": {} }
}

/// Applies a source's changes to the destination.
pub struct Follower<'f> {
    source: Connection,
    token: Document,
    applier: Applier<'f>,
}

impl<'f> Follower<'f> {
    /// Follows from a place on, over connections of its own.
    pub fn new(migration: &Migration<'f>, token: Document) -> Result<Follower<'f>> {
        Ok(Follower {
            source: server::connect(&migration.source_settings)?,
            token,
            applier: Applier::new(
                migration.selection,
                server::connect(&migration.source_settings)?,
                server::connect(&migration.destination_settings)?,
            ),
        })
    }

    /// From now on index definitions are followed, too.
    pub fn follow_indexes(&mut self) {
        self.applier.follow_indexes();
    }

    /// Applies all changes that were made until now; how many they were. Those that are made meanwhile are not waited for.
    pub fn catch_up(&mut self) -> Result<u64> {
        let hello = self.source.read("admin", &doc! { "hello": 1 });
        let hello = hello.map_err(Error::server("source"))?;
        let now = moment_ms(hello.as_raw(), "localTime").unwrap_or(i64::MAX);
        let changes = self.run(|batch| batch.is_end || batch.latest_ms > Some(now))?;
        self.applier.settle()?;
        Ok(changes)
    }

    /// A document that has not come to rest.
    pub fn refused(&self) -> Option<String> {
        self.applier.refused()
    }

    /// Applies changes, and waits for further ones, until it is asked to stop.
    pub fn follow(&mut self, is_stopped: &AtomicBool) -> Result<u64> {
        self.run(|_| is_stopped.load(Ordering::Relaxed))
    }

    /// Applies changes until `is_done` says so of a batch; how many they were. A stream that is lost is opened again.
    fn run(&mut self, mut is_done: impl FnMut(&Batch) -> bool) -> Result<u64> {
        let mut applied = 0;
        let mut reopened = 0;
        loop {
            let before = applied;
            match self.read_on(&mut applied, &mut is_done) {
                Ok(true) => return Ok(applied),
                // The server has closed the stream: it is opened anew behind the last batch.
                Ok(false) => {}
                Err(Error::Server { why, .. }) if why.is_transient() && reopened < REOPENED_MAX => {
                    self.source.reconnect().map_err(Error::server("source"))?;
                }
                Err(error) => return Err(error),
            }
            reopened = if applied == before { reopened + 1 } else { 0 };
        }
    }

    /// Opens the stream behind the token and applies its batches; false where the stream ends before it is done.
    fn read_on(
        &mut self,
        applied: &mut u64,
        is_done: &mut impl FnMut(&Batch) -> bool,
    ) -> Result<bool> {
        let command = command(Some(&self.token));
        let mut cursor = self.source.cursor("admin", &command).map_err(unreadable)?;
        cursor.set_wait(WAIT);
        // The first batch is empty where there is nothing yet, because nothing is waited for.
        let mut is_first = true;
        while cursor.advance().map_err(unreadable)? {
            let mut batch = apply_batch(&mut self.applier, &cursor)?;
            *applied += batch.changes;
            if let Some(token) = token_of(cursor.reply()) {
                self.token = token;
            }
            batch.is_end &= !std::mem::take(&mut is_first);
            if is_done(&batch) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A batch that has been applied.
struct Batch {
    changes: u64,
    /// Whether the source had no change for as long as it waits.
    is_end: bool,
    /// The time of the last change by the source's clock.
    latest_ms: Option<i64>,
}

fn unreadable(error: quarry_client::Error) -> Error {
    let at = match error.code() {
        Some(code) if FORGOTTEN.contains(&code) => {
            "the source has forgotten the changes since the copy began; begin anew"
        }
        _ => "changes of the source",
    };
    Error::server(at)(error)
}

fn apply_batch(applier: &mut Applier<'_>, cursor: &Cursor<'_>) -> Result<Batch> {
    let mut batch = Batch {
        changes: 0,
        is_end: true,
        latest_ms: None,
    };
    for event in cursor.batch() {
        applier.apply(event)?;
        batch.changes += 1;
        batch.is_end = false;
        batch.latest_ms = moment_ms(event, "wallTime").or_else(|| moment_ms(event, "clusterTime"));
    }
    // The place behind the batch is noted only when everything before it is written.
    applier.flush()?;
    Ok(batch)
}

/// A moment in milliseconds; of a Timestamp the beginning of its second.
fn moment_ms(document: RawDocument<'_>, field: &str) -> Option<i64> {
    match document.get(field)? {
        RawValue::DateTime(ms) => Some(ms),
        RawValue::Timestamp(timestamp) => Some(i64::from(timestamp.time) * 1000),
        _ => None,
    }
}
