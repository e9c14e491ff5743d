//! The subcommands of `quarry` that are no server: `journal` works on a data directory at rest, `top` watches a running
//! server as one of its clients, `backup` reads the files that one names, `archive` looks into the archive of a journal,
//! `restore` makes a data directory, and `rotate-key` locks one anew. This wing must not know the server's state.

pub mod archive;
pub mod backup;
pub mod journal;
mod journal_renewal;
mod link;
pub mod manual;
mod moment;
pub mod restore;
mod restored_directory;
pub mod rotate_key;
mod say;
pub mod top;
