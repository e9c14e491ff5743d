//! The last slow operations, for those who look at single ones on the console.

use std::collections::VecDeque;

use parking_lot::Mutex;
use quarry_bson::Document;

/// Operations kept.
const OPERATIONS_MAX: usize = 50;
/// A longer document is not kept: it is the command that makes it long.
const DOCUMENT_BYTES_MAX: usize = 8 << 10;

/// Only slow operations take the lock.
#[derive(Default)]
pub struct SlowOperations(Mutex<VecDeque<Document>>);

impl SlowOperations {
    /// Keeps the operation's profile document.
    pub fn note(&self, document: &Document) {
        if document.as_bytes().len() > DOCUMENT_BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() == OPERATIONS_MAX {
            kept.pop_back();
        }
        kept.push_front(document.clone());
    }

    /// The latest first.
    pub fn list(&self) -> Vec<Document> {
        self.0.lock().iter().cloned().collect()
    }
}
