//! Copies of the data: the one that a backup cursor keeps while somebody reads it, and the repository that `quarry backup` puts it
//! into.
//!
//! A server makes the copy (`live_copy`) within its data directory and names the files; it writes nowhere else, and whoever
//! asked reads them with their own rights. `journal_archive` keeps the archive of the journal, if one was asked for, in the directory
//! that was named. The repository (`repository`, `manifest`) knows no server; its files are in a `place` that has an `address`. That is a `directory`, where what is written goes to the disk in
//! batches (`batch`) and in steps (`steps`) that keep out of a server's way, or a `store`: objects of a `bucket`, which one of the `clients`
//! speaks to, and the `lease` of who changes them. A repository whose `mark` has a key is `sealed`: every file is encrypted on its way to the place.
//! Leaves out: how a copy is
//! made of engine and journal, which is the database's.

pub mod address;
pub mod archiving;
pub mod batch;
#[cfg(feature = "object-store")]
mod bucket;
#[cfg(feature = "object-store")]
mod clients;
pub mod directory;
pub mod give_way;
pub mod journal_archive;
#[cfg(feature = "object-store")]
mod lease;
pub mod live_copy;
pub mod manifest;
mod mark;
pub mod place;
pub mod repository;
mod sealed;
pub mod steps;
#[cfg(feature = "object-store")]
mod store;
