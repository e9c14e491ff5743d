//! The file layer under the journal: a directory of named files, written at offsets, synced one by one.
//!
//! It is a seam: `RealFiles` is the operating system, `SimulatedFiles` loses, tears and reorders what was
//! not synced. Calls behave like the system's: a write may be short or interrupted, and the journal copes.

pub mod real;
pub mod simulated;

use std::io;
use std::sync::Arc;

use crate::seal::Seal;

/// One directory of files.
pub trait Files: Send + Sync {
    /// Every file in the directory, in no order.
    fn list(&self) -> io::Result<Vec<FileEntry>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Creates an empty file; an existing one is an error.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Replaces `to` if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes the name. Those who have the file open keep it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals survive power loss.
    fn sync_directory(&self) -> io::Result<()>;
    /// The seal of the journal in these files; none where its groups are written as they are.
    fn seal(&self) -> Option<Arc<dyn Seal>> {
        None
    }
}

/// One open file. It stays usable after its name is gone.
pub trait File: Send + Sync {
    /// Like pwrite: may write less than asked, may be interrupted.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Like pread: 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Like fdatasync: contents and length survive power loss afterwards.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to this length, or makes it longer with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Makes the file at least so long, with room on the disk for all of it; what was not written reads as zeros. A file
    /// layer that cannot answers `Unsupported`, and zeros are written instead.
    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file as [`Files::list`] gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileEntry {
    /// The name, without the directory.
    pub name: String,
    /// The file's length.
    pub bytes: u64,
}

/// Writes all of `bytes`, going on after short and interrupted writes. An error may leave a part.
pub(crate) fn write_all_at(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills as much of `bytes` as the file holds from `offset`; returns how much that is.
pub(crate) fn read_full_at(file: &dyn File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Syncs, going on after an interruption: an interrupted sync has not failed.
pub(crate) fn sync_file(file: &dyn File) -> io::Result<()> {
    loop {
        match file.sync() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
