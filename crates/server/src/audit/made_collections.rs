//! The collections that a command of this thread has made without being asked to: by an insert, an upsert, an index.
//!
//! The database tells of each while the command runs; the audit log takes them when it has ended.

use std::cell::RefCell;

use quarry_database::Namespace;

/// More of one command are not noted: an insert makes one, a bulkWrite those that it names.
const NAMES_MAX: usize = 1000;

thread_local! {
    static MADE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes a collection.
pub fn note(namespace: &Namespace) {
    MADE.with_borrow_mut(|made| {
        if made.len() < NAMES_MAX {
            made.push(namespace.as_str().to_owned());
        }
    });
}

/// Takes what this thread has noted since it was asked last.
pub fn take() -> Vec<String> {
    MADE.take()
}
