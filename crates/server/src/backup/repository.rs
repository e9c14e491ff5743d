//! A directory of backups: chunks named by what they hold, and a manifest for each backup.
//!
//! What two backups have in common is kept once: a second one costs what has changed. Keeps true: a chunk under its name is whole and
//! synced, whatever was killed; a manifest appears when all of its chunks are there and their names survive a power loss, and goes before any of
//! them. One process adds or removes at a time. docs/formats/backup.md describes the files.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use quarry_journal::files::real::create_durably;
use rustix::fs::{FlockOperation, flock};

use crate::backup::batch::{Batch, DRAFT_SUFFIX, Disk, RealDisk};
use crate::backup::manifest::{CHUNK_BYTES, ChunkName, Manifest};
use crate::backup::steps;

/// Names the directory as ours, and is locked while it is used.
const MARK_FILE: &str = "quarry.backups";
const MARK: &str = "quarry backups 1\n";
const CHUNKS: &str = "chunks";
const MANIFESTS: &str = "backups";

/// An open repository.
pub struct Repository {
    path: PathBuf,
    _lock: File,
}

/// How a repository is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To add and remove, alone. A directory that is missing or empty becomes one.
    Change,
    /// To read beside other readers.
    Read,
}

/// A file of a backup that lacks something or has it wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    pub id: String,
    pub file: String,
    pub why: String,
}

type Result<T> = std::result::Result<T, String>;

impl Repository {
    /// Opens the directory; the error is one line that names it.
    pub fn open(path: &Path, access: Access) -> Result<Repository> {
        let bad = |why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
        let mark = path.join(MARK_FILE);
        if access == Access::Change && !mark.exists() {
            if !is_unused(path) {
                return Err(bad(&"it holds files and is no repository of backups"));
            }
            for part in [CHUNKS, MANIFESTS] {
                create_durably(&path.join(part)).map_err(|error| bad(&error))?;
            }
            write_durably(&mark, MARK.as_bytes()).map_err(|error| bad(&error))?;
        }
        let mut lock = File::open(&mark).map_err(|_| bad(&"it is no repository of backups"))?;
        let operation = match access {
            Access::Change => FlockOperation::NonBlockingLockExclusive,
            Access::Read => FlockOperation::NonBlockingLockShared,
        };
        flock(&lock, operation).map_err(|_| bad(&"another process uses it"))?;
        let mut found = String::new();
        lock.read_to_string(&mut found)
            .map_err(|error| bad(&error))?;
        if found != MARK {
            return Err(bad(&"it is a repository of another version"));
        }
        Ok(Repository {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    fn chunk_path(&self, name: ChunkName) -> PathBuf {
        let name = name.to_string();
        self.path.join(CHUNKS).join(&name[..2]).join(name)
    }

    fn manifest_path(&self, id: &str) -> PathBuf {
        self.path.join(MANIFESTS).join(id)
    }

    /// Begins to add the chunks of a backup.
    pub fn begin<'r>(&'r self, disk: &'r dyn Disk) -> NewChunks<'r> {
        NewChunks {
            repository: self,
            batch: Batch::new(disk),
            believed: HashSet::new(),
        }
    }

    /// Reads a chunk of `bytes` bytes and checks it; otherwise what is wrong with it.
    pub fn chunk(&self, name: ChunkName, bytes: usize) -> Result<Vec<u8>> {
        let mut found = Vec::with_capacity(bytes + 1);
        let read = File::open(self.chunk_path(name))
            .and_then(|mut file| steps::read(&mut file, bytes + 1, &mut found));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("chunk {name} is missing"))
            }
            Err(error) => Err(format!("chunk {name} cannot be read: {error}")),
            Ok(_) if found.len() != bytes || ChunkName::of(&found) != name => {
                Err(format!("chunk {name} is damaged"))
            }
            Ok(_) => Ok(found),
        }
    }

    /// Makes the backup one of the repository: all of its chunks are there.
    pub fn add(&self, manifest: &Manifest) -> io::Result<()> {
        write_durably(
            &self.manifest_path(&manifest.id),
            manifest.write().as_bytes(),
        )
    }

    /// The names of all backups, oldest first.
    pub fn ids(&self) -> Result<Vec<String>> {
        let bad = |error: io::Error| format!("`{}`: {error}", self.path.display());
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.path.join(MANIFESTS)).map_err(bad)? {
            let name = entry
                .map_err(bad)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if !name.ends_with(DRAFT_SUFFIX) {
                ids.push(name);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// The manifest of a backup.
    pub fn manifest(&self, id: &str) -> Result<Manifest> {
        let bad = |why: &dyn std::fmt::Display| format!("backup `{id}`: {why}");
        let is_name = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
        if !is_name {
            return Err(bad(&"that is no name of a backup"));
        }
        let text = fs::read_to_string(self.manifest_path(id)).map_err(|error| bad(&error))?;
        let manifest = Manifest::parse(&text).map_err(|why| bad(&why))?;
        match manifest.id == id {
            true => Ok(manifest),
            false => Err(bad(&"its manifest is another's")),
        }
    }

    /// Reads every chunk of a backup; the first damage of each file. `read` is told the bytes of each chunk.
    pub fn verify(&self, manifest: &Manifest, read: &mut dyn FnMut(u64)) -> Vec<Damage> {
        let mut damages = Vec::new();
        for file in &manifest.files {
            let mut check = |(number, name)| {
                let bytes = chunk_bytes(file.bytes, number);
                read(bytes as u64);
                self.chunk(name, bytes).map(|_| ())
            };
            let chunks = file.chunks.iter().copied().enumerate();
            if let Some(why) = chunks.map(&mut check).find_map(std::result::Result::err) {
                damages.push(Damage {
                    id: manifest.id.clone(),
                    file: file.name.clone(),
                    why,
                });
            }
        }
        damages
    }

    /// Removes these backups, and every chunk that no other one needs; the bytes that became free.
    pub fn remove(&self, ids: &[String]) -> Result<u64> {
        let bad = |error: io::Error| format!("`{}`: {error}", self.path.display());
        let mut needed = HashSet::new();
        for id in self.ids()?.iter().filter(|id| !ids.contains(id)) {
            let files = self.manifest(id)?.files;
            needed.extend(files.into_iter().flat_map(|file| file.chunks));
        }
        for id in ids.iter().collect::<BTreeSet<_>>() {
            fs::remove_file(self.manifest_path(id)).map_err(bad)?;
        }
        sync(&self.path.join(MANIFESTS)).map_err(bad)?;
        let mut freed = 0;
        for directory in fs::read_dir(self.path.join(CHUNKS)).map_err(bad)? {
            for entry in fs::read_dir(directory.map_err(bad)?.path()).map_err(bad)? {
                let entry = entry.map_err(bad)?;
                let name = ChunkName::parse(&entry.file_name().to_string_lossy());
                if name.is_some_and(|name| needed.contains(&name)) {
                    continue;
                }
                freed += entry.metadata().map_err(bad)?.len();
                fs::remove_file(entry.path()).map_err(bad)?;
            }
        }
        Ok(freed)
    }
}

/// The chunks that a backup adds to a repository.
pub struct NewChunks<'r> {
    repository: &'r Repository,
    batch: Batch<'r>,
    /// Those that it has read or written.
    believed: HashSet<ChunkName>,
}

impl NewChunks<'_> {
    /// Keeps the chunk; whether it was new. One that another backup has left is read and believed only if it is whole: a backup
    /// can be restored when it is done, whatever a disk did to those before it.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<(ChunkName, bool)> {
        let name = ChunkName::of(bytes);
        if !self.believed.insert(name) {
            return Ok((name, false));
        }
        let path = self.repository.chunk_path(name);
        let directory = path.parent().unwrap_or(&self.repository.path);
        if self.repository.chunk(name, bytes.len()).is_ok() {
            // Whoever wrote it may have been killed before its name was synced.
            self.batch.sync_directory(directory);
            return Ok((name, false));
        }
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut draft = self.batch.create(&path)?;
        draft.write(bytes)?;
        self.batch.add(draft)?;
        Ok((name, true))
    }

    /// All chunks survive a power loss on return.
    pub fn finish(mut self) -> io::Result<()> {
        let chunks = self.repository.path.join(CHUNKS);
        self.batch.sync_directory(&chunks);
        self.batch.finish()
    }
}

/// The length of chunk `number` of a file of `file_bytes`.
pub fn chunk_bytes(file_bytes: u64, number: usize) -> usize {
    let left = file_bytes.saturating_sub(number as u64 * CHUNK_BYTES as u64);
    left.min(CHUNK_BYTES as u64) as usize
}

/// Whether the directory is missing or empty, or has nothing but what the making of a repository leaves that is cut off before its mark.
fn is_unused(path: &Path) -> bool {
    let is_left_over = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| match entry.file_name().to_str() {
            Some(CHUNKS | MANIFESTS) => {
                fs::read_dir(entry.path()).is_ok_and(|mut within| within.next().is_none())
            }
            name => name.and_then(|name| name.strip_suffix(DRAFT_SUFFIX)) == Some(MARK_FILE),
        })
    };
    fs::read_dir(path).map_or(true, |mut entries| entries.all(is_left_over))
}

/// Writes a file that has its name only when it is whole, and survives power loss on return.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut batch = Batch::new(&RealDisk);
    let mut draft = batch.create(path)?;
    draft.write(bytes)?;
    batch.add(draft)?;
    batch.finish()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::BackedUpFile;

    fn repository() -> (tempfile::TempDir, Repository) {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::open(directory.path(), Access::Change).unwrap();
        (directory, repository)
    }

    fn backup(repository: &Repository, id: &str, contents: &[&[u8]]) -> Manifest {
        let mut manifest = Manifest {
            id: id.into(),
            ..Manifest::default()
        };
        let mut new = repository.begin(&RealDisk);
        for (number, content) in contents.iter().enumerate() {
            let chunks = content.chunks(CHUNK_BYTES);
            let chunks = chunks.map(|chunk| new.put(chunk).unwrap().0);
            manifest.files.push(BackedUpFile {
                name: format!("file{number}"),
                bytes: content.len() as u64,
                chunks: chunks.collect(),
            });
        }
        new.finish().unwrap();
        repository.add(&manifest).unwrap();
        manifest
    }

    fn damages(repository: &Repository, id: &str) -> Vec<Damage> {
        let manifest = repository.manifest(id).unwrap();
        repository.verify(&manifest, &mut |_| {})
    }

    #[test]
    fn what_two_backups_share_is_kept_once_and_as_long_as_one_needs_it() {
        let (_directory, repository) = repository();
        let large = vec![7; CHUNK_BYTES + 5];
        backup(&repository, "a", &[&large, b"only a"]);
        let mut new = repository.begin(&RealDisk);
        assert!(!new.put(&large[..CHUNK_BYTES]).unwrap().1);
        new.finish().unwrap();
        backup(&repository, "b", &[&large, b"only b"]);
        assert_eq!(repository.ids().unwrap(), ["a", "b"]);
        assert_eq!(repository.remove(&["a".into()]).unwrap(), 6);
        assert_eq!(repository.ids().unwrap(), ["b"]);
        assert_eq!(damages(&repository, "b"), []);
        assert_eq!(
            repository.remove(&["b".into()]).unwrap(),
            large.len() as u64 + 6
        );
    }

    #[test]
    fn damage_is_found_and_named() {
        let (_directory, repository) = repository();
        let manifest = backup(&repository, "a", &[b"first", b"second", b"third"]);
        let path = |file: usize| repository.chunk_path(manifest.files[file].chunks[0]);
        fs::write(path(0), b"fiRst").unwrap();
        fs::remove_file(path(2)).unwrap();
        let found = damages(&repository, "a");
        let files: Vec<&str> = found.iter().map(|damage| &*damage.file).collect();
        assert_eq!(files, ["file0", "file2"]);
        assert!(found[0].why.contains("damaged") && found[1].why.contains("missing"));
        // The next backup that needs a chunk mends it for all.
        backup(&repository, "b", &[b"first", b"third"]);
        assert_eq!(damages(&repository, "a"), []);
    }

    /// The mark comes last: whatever a beginning has left, a second one goes on with it.
    #[test]
    fn a_repository_whose_making_was_cut_off_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let draft = format!("{MARK_FILE}{DRAFT_SUFFIX}");
        let steps: [&dyn Fn(); 3] = [
            &|| fs::create_dir(path.join(CHUNKS)).unwrap(),
            &|| fs::create_dir(path.join(MANIFESTS)).unwrap(),
            &|| fs::write(path.join(&draft), "quarry ba").unwrap(),
        ];
        for cut in 0..=steps.len() {
            steps[..cut].iter().for_each(|step| step());
            let repository = Repository::open(path, Access::Change).unwrap();
            backup(&repository, "a", &[b"first"]);
            assert_eq!(damages(&repository, "a"), []);
            drop(repository);
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap().path();
                match entry.is_dir() {
                    true => fs::remove_dir_all(entry).unwrap(),
                    false => fs::remove_file(entry).unwrap(),
                }
            }
        }
        // Chunks without a mark are somebody's.
        fs::create_dir_all(path.join(CHUNKS).join("ab")).unwrap();
        assert!(Repository::open(path, Access::Change).is_err());
    }

    #[test]
    fn a_backup_that_is_named_twice_is_removed_once() {
        let (_directory, repository) = repository();
        backup(&repository, "a", &[b"first"]);
        let freed = repository.remove(&["a".into(), "a".into()]);
        assert_eq!(freed, Ok(5));
        assert!(repository.ids().unwrap().is_empty());
    }

    #[test]
    fn other_directories_are_not_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Repository::open(directory.path(), Access::Read).is_err());
        fs::write(directory.path().join("letter"), b"dear").unwrap();
        let error = Repository::open(directory.path(), Access::Change)
            .err()
            .unwrap();
        assert!(error.contains("no repository"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_changes_it_at_a_time() {
        let (directory, repository) = repository();
        for access in [Access::Change, Access::Read] {
            assert!(Repository::open(directory.path(), access).is_err());
        }
        drop(repository);
        let _reader = Repository::open(directory.path(), Access::Read).unwrap();
        assert!(Repository::open(directory.path(), Access::Read).is_ok());
        assert!(Repository::open(directory.path(), Access::Change).is_err());
    }
}
