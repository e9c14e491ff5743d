//! The data directory that a restore fills: claimed when nothing of anybody's lies in it, marked for as long as it is not whole, and removed again
//! where only its collections were wanted.
//!
//! Keeps true: what lay in it before, as a new file system has it, stays, and so does the directory itself where it was there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::process::data_directory::{DataDirectory, LOCK_FILE, RESTORING_FILE};
use crate::process::foreign_files::is_of_new_file_system;

/// A directory that this process alone uses, with the mark of a restore in it.
pub struct RestoredDirectory {
    /// Without links, so that what is removed is what was filled.
    path: PathBuf,
    /// The names that were in it before; none where it was not there.
    before: Option<Vec<OsString>>,
    _lock: DataDirectory,
}

impl RestoredDirectory {
    /// Makes the directory if there is none, and marks it. One that holds anything of anybody's is refused, and nothing is changed.
    pub fn claim(dbpath: &Path) -> Result<RestoredDirectory, String> {
        let failed = |error: io::Error| format!("`{}`: {error}", dbpath.display());
        let path = match fs::canonicalize(dbpath) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => dbpath.to_owned(),
            path => path.map_err(failed)?,
        };
        let before = unused(&path)?;
        let lock = DataDirectory::lock(&path)?;
        // Another one may have filled it before the lock.
        unused(&path)?;
        File::create(path.join(RESTORING_FILE))
            .and_then(|mark| mark.sync_all())
            .and_then(|()| sync(&path))
            .map_err(failed)?;
        Ok(RestoredDirectory {
            path,
            before,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mark away: the directory is whole.
    pub fn finish(self) -> Result<(), String> {
        fs::remove_file(self.path.join(RESTORING_FILE))
            .and_then(|()| sync(&self.path))
            .map_err(|error| format!("`{}`: {error}", self.path.display()))
    }

    /// Removes what was restored, and the directory if it was not there before.
    pub fn remove(self) -> Result<(), String> {
        let removed = match &self.before {
            None => {
                // The lock goes with the directory.
                empty(&self.path, &[LOCK_FILE.into()]).and_then(|()| fs::remove_dir_all(&self.path))
            }
            Some(before) => empty(&self.path, before),
        };
        removed.map_err(|error| format!("`{}` could not be removed: {error}", self.path.display()))
    }
}

/// The names in a directory without data; none where it is not there. A lock alone is nobody's.
fn unused(path: &Path) -> Result<Option<Vec<OsString>>, String> {
    let names = match names_in(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names.map_err(|error| format!("`{}`: {error}", path.display()))?,
    };
    let is_of_somebody = |name: &&OsString| *name != LOCK_FILE && !is_of_new_file_system(name);
    match names.iter().find(is_of_somebody) {
        None => Ok(Some(names)),
        Some(name) => Err(format!(
            "`{}` is not empty, it holds `{}`: nothing was changed",
            path.display(),
            name.display()
        )),
    }
}

fn names_in(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect()
}

/// Removes all but the names that stay. The mark goes last: a part of a restore is served to nobody.
fn empty(path: &Path, stay: &[OsString]) -> io::Result<()> {
    for name in names_in(path)? {
        let entry = path.join(&name);
        if name == RESTORING_FILE || stay.contains(&name) {
            continue;
        }
        match fs::symlink_metadata(&entry)?.is_dir() {
            true => fs::remove_dir_all(&entry)?,
            false => fs::remove_file(&entry)?,
        }
    }
    sync(path)?;
    fs::remove_file(path.join(RESTORING_FILE))
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn fill(directory: &RestoredDirectory) {
        fs::create_dir(directory.path().join("journal")).unwrap();
        fs::write(directory.path().join("journal/a"), "x").unwrap();
        assert!(directory.path().join(RESTORING_FILE).exists());
    }

    #[test]
    fn what_was_made_is_removed_and_what_was_there_is_emptied() {
        let within = tempfile::tempdir().unwrap();
        let made = within.path().join("a/made");
        let directory = RestoredDirectory::claim(&made).unwrap();
        fill(&directory);
        directory.remove().unwrap();
        assert!(!made.exists());

        let mount = within.path().join("mount");
        fs::create_dir_all(mount.join("lost+found")).unwrap();
        fs::write(mount.join(".snapshot"), "kept").unwrap();
        let directory = RestoredDirectory::claim(&mount).unwrap();
        fill(&directory);
        directory.remove().unwrap();
        let mut names = names_in(&mount).unwrap();
        names.sort();
        assert_eq!(names, [".snapshot", "lost+found"]);

        let link = within.path().join("link");
        symlink(&mount, &link).unwrap();
        let directory = RestoredDirectory::claim(&link).unwrap();
        fill(&directory);
        directory.remove().unwrap();
        assert!(link.is_symlink());
        assert_eq!(names_in(&mount).unwrap().len(), 2);
    }

    #[test]
    fn what_is_somebodys_is_refused_and_stays() {
        let used = tempfile::tempdir().unwrap();
        fs::write(used.path().join("notes"), "kept").unwrap();
        let error = RestoredDirectory::claim(used.path()).err().unwrap();
        assert!(error.contains("it holds `notes`"), "{error}");
        assert_eq!(names_in(used.path()).unwrap(), ["notes"]);
    }

    #[test]
    fn a_whole_one_has_no_mark() {
        let within = tempfile::tempdir().unwrap();
        let directory = RestoredDirectory::claim(within.path()).unwrap();
        fill(&directory);
        directory.finish().unwrap();
        assert!(!within.path().join(RESTORING_FILE).exists());
        assert!(within.path().join("journal/a").exists());
    }

    #[test]
    fn a_removal_that_fails_says_so() {
        let within = tempfile::tempdir().unwrap();
        let directory = RestoredDirectory::claim(&within.path().join("made")).unwrap();
        fs::remove_dir_all(directory.path()).unwrap();
        let error = directory.remove().unwrap_err();
        assert!(error.contains("could not be removed"), "{error}");
    }
}
