//! The last slow operations, for those who look at single ones on the console.

use std::collections::VecDeque;

use parking_lot::Mutex;
use quarry_bson::{Document, RawDocument};

use crate::observe::ended::Ended;

/// Operations kept.
const OPERATIONS_MAX: usize = 50;
/// A longer document is not kept: it is the command that makes it long.
const DOCUMENT_BYTES_MAX: usize = 8 << 10;
/// The statements of an update or a delete that are kept have no more bytes.
const STATEMENTS_BYTES_MAX: usize = 4 << 10;

/// Only slow operations take the lock.
#[derive(Default)]
pub struct SlowOperations(Mutex<VecDeque<Document>>);

impl SlowOperations {
    /// Keeps the operation's profile document. Drivers send the statements of an update or a delete beside its command: the first of them
    /// are kept as `statements`, without their `u` where that is long, and `statementsNotKept` counts the others.
    pub fn note(&self, document: &Document, ended: &Ended<'_>) {
        if document.as_bytes().len() > DOCUMENT_BYTES_MAX {
            return;
        }
        let kept_document = with_statements(document, ended);
        let mut kept = self.0.lock();
        if kept.len() == OPERATIONS_MAX {
            kept.pop_back();
        }
        kept.push_front(kept_document);
    }

    /// The latest first.
    pub fn list(&self) -> Vec<Document> {
        self.0.lock().iter().cloned().collect()
    }
}

fn with_statements(document: &Document, ended: &Ended<'_>) -> Document {
    let mut beside = ended.call.sequences.iter();
    let statements = beside.find(|one| matches!(one.identifier, "updates" | "deletes"));
    let Some(statements) = statements else {
        return document.clone();
    };
    Document::build(|out| {
        for element in document.as_raw() {
            out.append_element(element);
        }
        let (mut bytes, mut left) = (0, 0);
        let mut list = out.array("statements");
        for statement in statements.documents() {
            let fits =
                |part: RawDocument<'_>| bytes + part.as_bytes().len() <= STATEMENTS_BYTES_MAX;
            let shown = match fits(statement) {
                true => Document::from_raw(statement),
                false => without_update(statement),
            };
            if left > 0 || !fits(shown.as_raw()) {
                left += 1;
                continue;
            }
            bytes += shown.as_bytes().len();
            list.push(&shown);
        }
        list.finish();
        if left > 0 {
            out.append("statementsNotKept", left);
        }
    })
}

/// A statement as far as it says which documents it is about.
fn without_update(statement: RawDocument<'_>) -> Document {
    Document::build(|out| {
        for element in statement {
            if element.name() != "u" {
                out.append_element(element);
            }
        }
    })
}
