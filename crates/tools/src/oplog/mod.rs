//! Entries of a set's oplog, as `mongodump --oplog` puts those into a dump that were made meanwhile: what they say (`entry.rs`), the changes that they make
//! of documents (`change.rs`, `diff.rs`), the transactions that their parts make up (`transactions.rs`), and entries made of a change stream
//! (`event.rs`,
//! `diff_of_event.rs`), where a server keeps no oplog.
//!
//! ```text
//! {op: "i" | "u" | "d" | "c" | "n", ns: "db.collection" | "db.$cmd", o, o2, ui, ts, t, v: 2, wall, lsid, txnNumber, prevOpTime}
//! ```

mod change;
mod diff;
mod diff_of_event;
mod entry;
mod event;
mod transactions;

pub use change::Change;
pub use entry::{Entry, Operation};
pub use event::entries_of;
pub use transactions::Transactions;

/// The name of the file with the entries, and of the collection without a database in an archive.
pub const NAME: &str = "oplog";
