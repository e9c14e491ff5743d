//! Tells the files that may lie in a directory in which a store is made from foreign ones.

use std::{fs, path::Path};

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

fn is_rocksdb_file(name: &str) -> bool {
    name.ends_with(".sst") || name.starts_with("MANIFEST-")
}
