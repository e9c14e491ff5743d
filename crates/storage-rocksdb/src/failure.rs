//! RocksDB's errors as ours.
//!
//! RocksDB's C interface gives text only. What callers tell apart (full, damaged, in use, foreign)
//! is read off its fixed beginnings and the operating system's wording.

use quarry_storage::Error;
use rust_rocksdb::ErrorKind;

pub(crate) fn from_rocksdb(error: rust_rocksdb::Error) -> Error {
    let kind = error.kind();
    let text = error.into_string();
    if text.contains("No space left on device")
        || text.contains("Space limit reached")
        || text.contains("NoSpace")
    {
        return Error::NoSpace(text);
    }
    match kind {
        ErrorKind::Corruption => Error::Corruption(text),
        ErrorKind::NotSupported | ErrorKind::InvalidArgument => Error::Incompatible(text),
        ErrorKind::IOError if is_lock(&text) => Error::Locked(text),
        ErrorKind::IOError if text.contains("No such file or directory") => Error::Corruption(text),
        ErrorKind::IOError => Error::Io(text),
        ErrorKind::ShutdownInProgress => Error::Closed,
        _ => Error::Engine(text),
    }
}

fn is_lock(text: &str) -> bool {
    text.contains("lock hold by current process") || text.contains("While lock file")
}
