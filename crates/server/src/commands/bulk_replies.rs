//! The answer of a `bulkWrite`: what came of each operation, as documents of a cursor, and the sums over all of them.
//!
//! ```text
//! {ok: 1.0, idx: 3, n: 1, nModified: 0, upserted: {_id: 5}}
//! {ok: 0.0, idx: 4, code: 11000, keyPattern: .., keyValue: .., errmsg: "..", n: 0}
//! ```
//! Keeps true: the documents hold a bounded number of bytes. Once that is reached, no further operation is run.

use std::collections::VecDeque;

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::ErrorCode;
use quarry_query::exec::UpdateOutcome;

use super::write_errors::append_error;
use crate::dispatch::error::CommandError;
use crate::sessions::client_cursor::Source;

/// The documents of one command hold so much at most, as MongoDB bounds them.
const REPLIES_BYTES_MAX: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };

/// The kind of an operation, which decides what is counted for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Documents,
    /// Those that were found, and those of them that were changed.
    Changes,
}

/// The replies to the operations that were run.
#[derive(Default)]
pub struct BulkReplies {
    /// Operations that have done what they were asked for are only counted.
    is_errors_only: bool,
    documents: VecDeque<Document>,
    bytes: usize,
    totals: BulkTotals,
}

/// The sums over all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkTotals {
    pub errors: u64,
    pub inserted: u64,
    /// Without upserted documents.
    pub matched: u64,
    pub modified: u64,
    pub upserted: u64,
    pub deleted: u64,
}

impl BulkReplies {
    /// No replies yet.
    pub fn new(is_errors_only: bool) -> BulkReplies {
        BulkReplies {
            is_errors_only,
            ..BulkReplies::default()
        }
    }

    /// Adds the reply to the operation at that place, which has inserted its document.
    pub fn inserted(&mut self, place: usize) {
        self.totals.inserted += 1;
        self.done(place, |entry| {
            entry.append("n", 1);
        });
    }

    /// Adds the reply to an update.
    pub fn updated(&mut self, place: usize, outcome: &UpdateOutcome) {
        self.totals.matched += outcome.matched;
        self.totals.modified += outcome.modified;
        self.totals.upserted += u64::from(outcome.upserted.is_some());
        self.done(place, |entry| {
            let upserted = u64::from(outcome.upserted.is_some());
            entry.append("n", shown(outcome.matched + upserted));
            entry.append("nModified", shown(outcome.modified));
            if let Some(id) = &outcome.upserted {
                let mut upserted = entry.document("upserted");
                upserted.append("_id", id);
                upserted.finish();
            }
        });
    }

    /// Adds the reply to a delete that has removed so many documents.
    pub fn deleted(&mut self, place: usize, count: u64) {
        self.totals.deleted += count;
        self.done(place, |entry| {
            entry.append("n", shown(count));
        });
    }

    /// Adds the reply to an operation that has failed.
    pub fn failed(&mut self, place: usize, counted: Counted, error: &CommandError) {
        self.totals.errors += 1;
        self.push(Document::build(|entry| {
            begin(0.0, place, entry);
            append_error(error, &error.message, entry);
            entry.append("n", 0);
            if counted == Counted::Changes {
                entry.append("nModified", 0);
            }
        }));
    }

    /// The error of the next operation, where there is no room for its reply.
    pub fn room_error(&self) -> Option<CommandError> {
        (self.bytes >= REPLIES_BYTES_MAX).then(|| {
            let message = format!(
                "BulkWrite response size exceeded limit ({} bytes)",
                self.bytes
            );
            CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message)
        })
    }

    /// The sums so far.
    pub fn totals(&self) -> BulkTotals {
        self.totals
    }

    /// The documents of the cursor.
    pub fn into_source(self) -> Source {
        Source::Documents(self.documents)
    }

    fn done(&mut self, place: usize, append: impl FnOnce(&mut DocumentBuilder<'_>)) {
        if self.is_errors_only {
            return;
        }
        self.push(Document::build(|entry| {
            begin(1.0, place, entry);
            append(entry);
        }));
    }

    fn push(&mut self, document: Document) {
        self.bytes += document.as_bytes().len();
        self.documents.push_back(document);
    }
}

impl BulkTotals {
    /// Appends the sums to the command's reply.
    pub fn append(&self, reply: &mut DocumentBuilder<'_>) {
        for (name, count) in [
            ("nErrors", self.errors),
            ("nInserted", self.inserted),
            ("nMatched", self.matched),
            ("nModified", self.modified),
            ("nUpserted", self.upserted),
            ("nDeleted", self.deleted),
        ] {
            reply.append(name, shown(count));
        }
    }
}

fn begin(ok: f64, place: usize, entry: &mut DocumentBuilder<'_>) {
    entry.append("ok", ok);
    entry.append("idx", i32::try_from(place).unwrap_or(i32::MAX));
}

fn shown(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
