//! Directories for a run. Whoever is done with one removes it; after a failure it stays, to be looked at.

use std::io;
use std::path::PathBuf;

/// An empty directory of this process.
pub fn fresh_directory(name: &str) -> io::Result<PathBuf> {
    let name = format!("quarry-order-matching-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    if directory.exists() {
        // Of an earlier process with this number.
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
