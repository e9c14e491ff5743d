//! Tells the files that may lie in a directory in which a store is made from foreign ones.

use std::{fs, io, io::Read, path::Path};

use quarry_seal::engine_file::MAGIC as SEALED_MAGIC;
use quarry_storage::{Error, Result};

/// RocksDB would make a new store beside whatever else lies there, or over the remains of one
/// whose `CURRENT` is gone.
pub(crate) fn refuse_foreign_files(directory: &Path) -> Result<()> {
    if directory.join("CURRENT").exists() {
        return Ok(());
    }
    let Some(entry) = fs::read_dir(directory)?.next() else {
        return Ok(());
    };
    let name = entry?.file_name();
    let (name, place) = (name.to_string_lossy(), directory.display());
    if fs::read_dir(directory)?
        .flatten()
        .any(|entry| is_rocksdb_file(&entry.file_name().to_string_lossy()))
    {
        return Err(Error::Corruption(format!(
            "`{place}` holds RocksDB's files without `CURRENT`"
        )));
    }
    Err(Error::Incompatible(format!(
        "`{place}` holds `{name}`, which is not RocksDB's"
    )))
}

/// A store is encrypted as a whole or not at all, and is opened as it was made.
pub(crate) fn refuse_other_encryption(directory: &Path, has_key: bool) -> Result<()> {
    let mut start = Vec::new();
    match fs::File::open(directory.join("CURRENT")) {
        Ok(current) => current
            .take(SEALED_MAGIC.len() as u64)
            .read_to_end(&mut start)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let reason = match (start == SEALED_MAGIC, has_key) {
        (true, false) => "is encrypted, and no key was given",
        (false, true) => "is not encrypted, and a key was given",
        (true, true) | (false, false) => return Ok(()),
    };
    let place = directory.display();
    Err(Error::Incompatible(format!("`{place}` {reason}")))
}

fn is_rocksdb_file(name: &str) -> bool {
    name.ends_with(".sst") || name.starts_with("MANIFEST-")
}
