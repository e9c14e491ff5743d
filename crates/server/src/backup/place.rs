//! The place of a repository: files with names such as `chunks/3f/3fa1...`, and the few things that a repository asks of them.
//!
//! A repository has files that are written once, whole, and never changed; that is what lets it be in a directory and in stores that
//! know no directories. Keeps true: a file is there under its name with all of its bytes or not at all, whatever is killed. Leaves out
//! what is in the files, and in which order they must come and go: that is the repository's.

use std::io;

/// Says that a place is a repository, and of which kind (`mark`).
pub const MARK_FILE: &str = "quarry.backups";
/// The names of chunks and of manifests begin with these.
pub const CHUNKS: &str = "chunks";
pub const MANIFESTS: &str = "backups";

/// How a repository is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To add backups, beside nobody who removes. A place that is missing or empty becomes a repository.
    Add,
    /// To remove backups, alone.
    Remove,
    /// To read beside other readers.
    Read,
}

/// When a file that is there already is believed to have the bytes that its name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// With the right length, where the place checks what it keeps. A directory does not: there the file is read.
    Length,
    /// When it has been read.
    Content,
}

/// Whether a place has a file already.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "object-store"),
    expect(dead_code, reason = "only stores know without reading")
)]
pub enum Held {
    No,
    Whole,
    /// Only the reading of it will tell.
    Unread,
}

/// A file of a place.
pub struct PlacedFile {
    pub name: String,
    pub bytes: u64,
}

/// The files of a repository.
pub trait Place {
    /// The place as messages name it.
    fn address(&self) -> String;

    /// The bytes of the mark, as they were when the place was opened.
    fn mark(&self) -> &[u8];

    /// Reads at most so many bytes of a file. One that is not there is `NotFound`; with `NotConnected` nothing of the place can
    /// be had, and whoever reads many files may stop.
    fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// All files below `CHUNKS` or `MANIFESTS`, in no order, with what is left of those that were being written.
    fn list(&self, part: &str) -> io::Result<Vec<PlacedFile>>;

    /// Writes a file that is there to stay on return.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Begins to write files that need to be there to stay only when all of them are.
    fn begin(&self, trust: Trust) -> io::Result<Box<dyn NewFiles + '_>>;

    /// Removes files. They may come back after a power loss until `sync` has returned.
    fn remove(&self, names: &[String]) -> io::Result<()>;

    /// Returns when the names of files directly in this part are as they are to stay.
    fn sync(&self, part: &str) -> io::Result<()>;
}

/// Files on their way to a place. Dropping them gives up those that are not written yet.
pub trait NewFiles {
    /// Whether a file of this name and length was there before.
    fn look_up(&self, name: &str, bytes: usize) -> Held;

    /// Writes a file, now or later. It may take the place of another one.
    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Has `finish` make sure of a file that was there already.
    fn keep(&mut self, name: &str);

    /// All of the files are there to stay on return.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
