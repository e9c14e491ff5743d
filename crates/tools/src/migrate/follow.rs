//! The changes of a source, one batch after the other, from a place on.
//!
//! The place is noted behind a batch when all of it has been applied. A stream that is lost is opened again there, so that changes may come twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quarry_bson::{Document, doc};
use quarry_client::{Connection, Cursor};

use super::Migration;
use super::apply::Applier;
use super::documents::Sides;
use super::places::Places;
use crate::change_stream::{self, FORGOTTEN, current_token, has_reached, token_of};
use crate::error::{Error, Result};
use crate::server;

/// How long the source waits for a change before it says that there is none.
const WAIT: Duration = Duration::from_millis(500);
/// How often a stream that was lost is opened again without anything coming of it.
const REOPENED_MAX: u32 = 5;
/// Before a stream is opened again, for each time that nothing came of it.
const BEFORE_REOPENING: Duration = Duration::from_millis(200);
/// Batches without a change, and without another place, that are the end of what there is. The first of a stream does not wait, and counts for nothing.
const STILL_MAX: u32 = 3;
const CLOSED: &str = "the source closes its stream of changes again and again";

/// Documents are not looked up by the source, and what an update has changed is left out: an event that had both could be larger than a
/// document may be.
fn command(token: &Document) -> Document {
    let without = doc! { "$unset": "updateDescription" };
    change_stream::command(Some(token), &[without])
}

/// Applies a source's changes to the destination.
pub struct Follower<'f> {
    source: Connection,
    followed: Followed<'f>,
}

/// How far the changes have been applied.
struct Followed<'f> {
    token: Document,
    /// Batches since the last one that had a change or another place.
    still: u32,
    /// Changes of this run.
    applied: u64,
    applier: Applier<'f>,
}

impl<'f> Follower<'f> {
    /// Follows from a place on, over connections of its own.
    pub fn new(migration: &Migration<'f>, token: Document, places: Places) -> Result<Follower<'f>> {
        let sides = Sides {
            source: server::connect(&migration.source_settings)?,
            destination: server::connect(&migration.destination_settings)?,
        };
        Ok(Follower {
            source: server::connect(&migration.source_settings)?,
            followed: Followed {
                token,
                still: 0,
                applied: 0,
                applier: Applier::new(migration.selection, sides, places),
            },
        })
    }

    /// From now on index definitions are followed, too.
    pub fn follow_indexes(&mut self) {
        self.followed.applier.follow_indexes();
    }

    /// Where the collections are by the changes that have been applied.
    pub fn places(&self) -> &Places {
        self.followed.applier.places()
    }

    /// Applies all changes that were made until now; how many they were. Those that are made meanwhile are not waited for.
    pub fn catch_up(&mut self) -> Result<u64> {
        let goal = current_token(&mut self.source);
        let goal = goal.map_err(Error::server("changes of the source"))?;
        self.followed.still = 0;
        let changes = self.run(&mut |followed| {
            has_reached(&followed.token, &goal) || followed.still >= STILL_MAX
        })?;
        match self.followed.applier.settle() {
            // Whatever waits does so still.
            Err(Error::Server { why, .. }) if why.is_transient() => {
                self.followed.applier.settle()?;
            }
            settled => settled?,
        }
        Ok(changes)
    }

    /// A document that has not come to rest.
    pub fn refused(&self) -> Option<String> {
        self.followed.applier.refused()
    }

    /// Applies changes, and waits for further ones, until it is asked to stop.
    pub fn follow(&mut self, is_stopped: &AtomicBool) -> Result<u64> {
        self.run(&mut |_| is_stopped.load(Ordering::Relaxed))
    }

    /// Applies changes until `is_done` says so behind a batch; how many they were. A stream that is lost is opened again.
    fn run(&mut self, is_done: &mut dyn FnMut(&Followed<'f>) -> bool) -> Result<u64> {
        self.followed.applied = 0;
        let mut reopened = 0;
        loop {
            let before = self.followed.applied;
            let lost = match self.read_on(is_done) {
                Ok(true) => return Ok(self.followed.applied),
                // The server has closed the stream: it is opened anew behind the last batch.
                Ok(false) => Error::Incomplete(CLOSED.to_owned()),
                // One of the connections; whoever uses it next makes it anew.
                Err(Error::Server { at, why }) if why.is_transient() => Error::Server { at, why },
                Err(error) => return Err(error),
            };
            reopened = match self.followed.applied == before {
                true => reopened + 1,
                false => 0,
            };
            if reopened > REOPENED_MAX {
                return Err(lost);
            }
            thread::sleep(BEFORE_REOPENING * reopened);
        }
    }

    /// Opens the stream behind the token and applies its batches; false where the stream ends before it is done.
    fn read_on(&mut self, is_done: &mut dyn FnMut(&Followed<'f>) -> bool) -> Result<bool> {
        let command = command(&self.followed.token);
        let mut cursor = self.source.cursor("admin", &command).map_err(unreadable)?;
        cursor.set_wait(WAIT);
        while cursor.advance().map_err(unreadable)? {
            self.followed.apply(&cursor)?;
            if is_done(&self.followed) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Followed<'_> {
    /// Applies the batch that the cursor has, and notes the place behind it.
    fn apply(&mut self, cursor: &Cursor<'_>) -> Result<()> {
        let mut changes = 0;
        for event in cursor.batch() {
            self.applier.apply(event)?;
            changes += 1;
        }
        // The place behind the batch is noted only when everything before it is written.
        self.applier.flush()?;
        self.applied += changes;
        let token = token_of(cursor.reply());
        let is_elsewhere = token
            .as_ref()
            .is_some_and(|token| token.get_str("_data") != self.token.get_str("_data"));
        match changes > 0 || is_elsewhere {
            true => self.still = 0,
            false => self.still += 1,
        }
        if let Some(token) = token {
            self.token = token;
        }
        Ok(())
    }
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
