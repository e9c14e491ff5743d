//! The history: what the server's figures were within the last day, so that a page that is opened, or a server that was started
//! again, shows what was before.
//!
//! A thread of its own reads the figures (`figures`) every step and writes them to a ring in the data directory (`ring`). Nothing of it is
//! held in memory and nothing that serves clients waits for it; who asks reads the file. A moment that was not written (the server was down,
//! the disk was full) is a gap, and is shown as one.

pub mod answer;
pub mod figures;
pub mod kept;
pub mod recorder;
mod ring;
