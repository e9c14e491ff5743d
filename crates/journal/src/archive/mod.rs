//! The archive of a journal: a copy of all that became durable, in a directory of its own, kept after the journal has freed it.
//! A backup and the archive together give the data as it was behind any group.
//!
//! The archive is a set of *pieces*. A piece is a range of the bytes of one segment, as the journal has them, behind a header
//! that says which. While a segment is written its durable groups come into the archive as piece after piece; a new piece takes
//! over those before it that are no longer than itself, so that a segment has a handful of them however slowly it fills up. When
//! it is full one piece has all of it. `docs/formats/archive.md` shows the bytes.
//!
//! Keeps true: a file under a piece's name is whole and synced; no byte leaves the archive before another piece has it; only
//! groups that are durable in the journal and whole by their checksums come into it; an archive is of one database.
//!
//! A history may fork: data that was restored to a moment goes on from there in a life of its own, and the archive keeps what
//! both lives wrote. A *line* is one way through the archive, from its first segment to one behind which nothing comes.
//!
//! Leaves out: when a copy is made and what waits for it, which is the server's, and what records mean.

mod directory;
mod history;
mod line;
mod piece;
mod rebuild;
mod tip;
mod verify;
mod writer;

pub use history::History;
pub use line::{Cut, Line, Moment, Range};
pub use rebuild::Rebuilt;
pub use tip::Tip;
pub use writer::{Archive, Archived};
pub(crate) use writer::{Round, Settled};
