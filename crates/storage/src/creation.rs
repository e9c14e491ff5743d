//! A store that is being made in an empty directory carries a mark until it is whole: a process that was killed meanwhile
//! leaves what no engine opens, and its remains go before the store is made again.
//!
//! Kept true: the mark is put into an empty directory only, and is gone for good before anything is written to the store, so that
//! what stands beside a mark is never anybody's data. Callers see to it that one process at a time opens a directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const MARK: &str = "quarry.unfinished";

/// The mark of a store under construction. It stays when this is dropped without `finish`.
#[must_use = "the store is whole only after `finish`"]
pub struct Creation {
    directory: PathBuf,
}

/// Makes the directory if it is missing. `None`: there is a store in it, or something foreign.
pub fn begin(directory: &Path) -> io::Result<Option<Creation>> {
    fs::create_dir_all(directory)?;
    let mark = directory.join(MARK);
    if mark.exists() {
        remove_remains(directory)?;
    } else if fs::read_dir(directory)?.next().is_some() {
        return Ok(None);
    } else {
        File::create_new(&mark)?;
        sync(directory)?;
    }
    let directory = directory.to_owned();
    Ok(Some(Creation { directory }))
}

/// Whether the directory holds anything but the remains of an unfinished store: a store, or something foreign.
#[must_use]
pub fn holds_a_store(directory: &Path) -> bool {
    let has_files = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    has_files && !directory.join(MARK).exists()
}

impl Creation {
    /// The store is whole, and nothing was written to it yet.
    pub fn finish(self) -> io::Result<()> {
        fs::remove_file(self.directory.join(MARK))?;
        sync(&self.directory)
    }
}

/// Engines make files only: a directory was put there by somebody else, and is an error.
fn remove_remains(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() != MARK {
            fs::remove_file(entry.path())?;
        }
    }
    sync(directory)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_unfinished_creation_left_is_removed() {
        let name = format!("quarry-creation-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let names = || {
            let entries = fs::read_dir(&directory).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        // Killed while the store was made.
        drop(begin(&directory).unwrap().unwrap());
        fs::write(directory.join("half"), b"a store").unwrap();
        let creation = begin(&directory).unwrap().unwrap();
        assert_eq!(names(), [MARK]);
        fs::write(directory.join("whole"), b"a store").unwrap();
        creation.finish().unwrap();
        assert!(begin(&directory).unwrap().is_none());
        assert_eq!(names(), ["whole"]);
        fs::remove_dir_all(&directory).unwrap();
    }
}
