//! The seam through which the bodies of groups are encrypted. The journal knows no key and no cipher: whoever opens it on files
//! that have a [`Seal`] ([`SealedFiles`]) has every group sealed before it is written and opened after it is read.
//!
//! Kept true: a journal is sealed as a whole or not at all, which the version of its segments says: opening it the other way is
//! refused. A seal authenticates the group's header with the body, so that a group stands only in its place. A group whose checksum holds
//! and whose seal does not was changed by somebody: it is damage wherever it stands, and never the torn end of the log.
//! Headers are in the clear: their numbers and lengths, and times, are not kept secret.
//!
//! What is written again in place, after an unclean end, is the sealed bytes as they are; nothing is ever sealed to be written
//! where something else may have been sealed with the same nonce, as long as the seal draws a new one for each group: a group
//! that is cut off is appended again with the position that it had, and other records.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::files::{File, FileEntry, Files};

/// The place of a group, from which a seal may derive its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPlace {
    /// The life of the journal that writes the group.
    pub incarnation: u64,
    /// The LSN of its first record, or of the next one to come.
    pub first_lsn: u64,
}

/// Encrypts and authenticates the bodies of groups.
pub trait Seal: fmt::Debug + Send + Sync {
    /// A sealed body is always so much longer.
    fn added_bytes(&self) -> usize;

    /// Encrypts `buffer` from `from` on where it stands, and appends `added_bytes` more. `header` is authenticated with it and has to
    /// be given to open it. Two calls never use one nonce under one key, whatever they are given.
    fn seal(
        &self,
        place: SealedPlace,
        header: &[u8],
        buffer: &mut Vec<u8>,
        from: usize,
    ) -> io::Result<()>;

    /// Decrypts a sealed body and takes away what was added. False if a bit of it, of `header` or of `place` is not what it was,
    /// and `body` means nothing then.
    fn open(&self, place: SealedPlace, header: &[u8], body: &mut Vec<u8>) -> bool;

    /// Whether bodies are opened at all. Where they are not, as in an archive that is read without a key, checksums, the chain and
    /// digests are what groups are checked by, and records are not to be had.
    fn opens(&self) -> bool {
        true
    }
}

/// Stands in the place of a seal where nobody has the key.
#[derive(Debug)]
pub(crate) struct Unopened;

impl Seal for Unopened {
    fn added_bytes(&self) -> usize {
        0
    }

    fn seal(
        &self,
        _place: SealedPlace,
        _header: &[u8],
        _buffer: &mut Vec<u8>,
        _from: usize,
    ) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn open(&self, _place: SealedPlace, _header: &[u8], _body: &mut Vec<u8>) -> bool {
        false
    }

    fn opens(&self) -> bool {
        false
    }
}

/// Files of a sealed journal for somebody without its key, who copies groups and never opens one.
pub(crate) struct UnopenedFiles<'f>(pub &'f dyn Files);

impl Files for UnopenedFiles<'_> {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.0.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.0.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn seal(&self) -> Option<Arc<dyn Seal>> {
        Some(Arc::new(Unopened))
    }
}

/// Files of a journal that is sealed.
pub struct SealedFiles {
    files: Arc<dyn Files>,
    seal: Arc<dyn Seal>,
}

impl SealedFiles {
    /// The journal in these files is sealed so, or is to be if there is none.
    pub fn new(files: Arc<dyn Files>, seal: Arc<dyn Seal>) -> SealedFiles {
        SealedFiles { files, seal }
    }
}

impl Files for SealedFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }

    fn seal(&self) -> Option<Arc<dyn Seal>> {
        Some(Arc::clone(&self.seal))
    }
}
