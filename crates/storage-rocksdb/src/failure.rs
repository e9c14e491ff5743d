//! RocksDB's errors as ours.
//!
//! RocksDB's C interface gives text only. What callers tell apart (full, out of descriptors, damaged, in use, foreign)
//! is read off its fixed beginnings and the operating system's wording.

use quarry_storage::Error;

pub(crate) fn from_rocksdb(error: rust_rocksdb::Error) -> Error {
    from_text(error.into_string())
}

pub(crate) fn from_text(text: String) -> Error {
    if text.contains("No space left on device")
        || text.contains("Space limit reached")
        || text.contains("NoSpace")
    {
        return Error::NoSpace(text);
    }
    if text.contains("Too many open files") {
        return Error::Stalled(text);
    }
    match text.split(':').next().unwrap_or_default() {
        // The latter from a request for a flush while writes are stopped.
        "Result incomplete" | "Operation failed. Try again." => Error::Stalled(text),
        "Corruption" => Error::Corruption(text),
        "Not implemented" | "Invalid argument" => Error::Incompatible(text),
        "IO error" if is_lock(&text) => Error::Locked(text),
        "IO error" if text.contains("No such file or directory") => Error::Corruption(text),
        "IO error" => Error::Io(text),
        "Shutdown in progress" => Error::Closed,
        _ => Error::Engine(text),
    }
}

fn is_lock(text: &str) -> bool {
    text.contains("lock hold by current process") || text.contains("While lock file")
}
