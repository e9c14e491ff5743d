//! A repository of backups: chunks named by what they hold, and a manifest for each backup.
//!
//! What two backups have in common is kept once: a second one costs what has changed. Keeps true: a manifest appears when all of its chunks are
//! there to stay, and goes before any of them. Where the files are is the place's (`place`), which keeps each of them whole, and whether they
//! are encrypted is the mark's (`mark`, `sealed`).
//! docs/formats/backup.md describes the files.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::path::Path;

use quarry_seal::ObjectSeal;

use crate::backup::address::{Address, StoreAddress};
use crate::backup::batch::DRAFT_SUFFIX;
use crate::backup::directory::Directory;
use crate::backup::manifest::{CHUNK_BYTES, ChunkName, Manifest};
use crate::backup::mark;
use crate::backup::place::{Access, CHUNKS, Held, MANIFESTS, MARK_FILE, NewFiles, Place, Trust};
use crate::backup::sealed::Sealed;
use crate::backup::steps::steps;

/// A longer manifest is none: it would be of more than ten terabytes.
const MANIFEST_BYTES_MAX: usize = 256 << 20;

/// An open repository.
pub struct Repository {
    place: Box<dyn Place>,
    /// Names chunks, in a repository that is encrypted.
    seal: Option<ObjectSeal>,
}

/// A file of a backup that lacks something or has it wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    pub id: String,
    pub file: String,
    pub why: String,
}

/// Why something of a repository could not be read.
#[derive(Debug)]
pub struct Failure {
    why: String,
    /// Nothing else of the repository could be read either.
    pub is_gone: bool,
}

impl Failure {
    fn of(error: &io::Error, why: String) -> Failure {
        let is_gone = error.kind() == io::ErrorKind::NotConnected;
        Failure { why, is_gone }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        let is_gone = false;
        Failure { why, is_gone }
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.why
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.why)
    }
}

type Result<T> = std::result::Result<T, String>;

impl Repository {
    /// Opens the repository, with the key in this file if it is encrypted, or is to be made and encrypted. The error is one line that
    /// names it.
    pub fn open(address: &Address, access: Access, key_file: Option<&Path>) -> Result<Repository> {
        let key = key_file.map(mark::read_key).transpose()?;
        let place = open_place(address, access, &mark::new(key.as_ref())?)?;
        let name = place.address();
        let data_key = mark::unlock(place.mark(), key.as_ref(), &name);
        let data_key = data_key.map_err(|why| format!("`{name}`: {why}"))?;
        Ok(match data_key {
            None => Repository::of(place),
            Some(key) => Repository {
                place: Box::new(Sealed::new(place, ObjectSeal::new(key.clone()))),
                seal: Some(ObjectSeal::new(key)),
            },
        })
    }

    /// The repository whose files are in this place, as they are.
    pub fn of(place: Box<dyn Place>) -> Repository {
        Repository { place, seal: None }
    }

    /// Locks an encrypted repository, which nobody uses meanwhile, with another key. The files are not written again, and whoever had the old key and
    /// the old mark can read them. Returns the repository's name in messages.
    pub fn rotate(address: &Address, old: &Path, new: &Path) -> Result<String> {
        let (old, new) = (mark::read_key(old)?, mark::read_key(new)?);
        let place = open_place(address, Access::Remove, "")?;
        let name = place.address();
        let bad = |why: &dyn fmt::Display| format!("`{name}`: {why}");
        let again = mark::rewrapped(place.mark(), &old, &new, &name);
        let again = again.map_err(|why| bad(&why))?;
        let written = place.write(MARK_FILE, again.as_bytes());
        written.map_err(|error| bad(&error))?;
        Ok(name)
    }

    /// The name of a chunk of these bytes.
    fn name_of(&self, bytes: &[u8]) -> ChunkName {
        match &self.seal {
            None => ChunkName::of(bytes),
            Some(seal) => ChunkName(seal.digest(steps(bytes))),
        }
    }

    /// Begins to add the chunks of a backup.
    pub fn begin(&self, trust: Trust) -> Result<NewChunks<'_>> {
        let files = self.place.begin(trust);
        Ok(NewChunks {
            repository: self,
            files: files.map_err(|error| self.failed(&error))?,
            believed: HashSet::new(),
        })
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("`{}`: {error}", self.place.address())
    }

    /// Reads a chunk of `bytes` bytes and checks it; otherwise what is wrong with it.
    pub fn chunk(&self, name: ChunkName, bytes: usize) -> std::result::Result<Vec<u8>, Failure> {
        match self.place.read(&chunk_file(name), bytes + 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("chunk {name} is missing").into())
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(format!("chunk {name} is damaged").into())
            }
            Err(error) => {
                let why = format!("chunk {name} cannot be read: {error}");
                Err(Failure::of(&error, why))
            }
            Ok(found) if found.len() != bytes || self.name_of(&found) != name => {
                Err(format!("chunk {name} is damaged").into())
            }
            Ok(found) => Ok(found),
        }
    }

    /// Makes the backup one of the repository: all of its chunks are there.
    pub fn add(&self, manifest: &Manifest) -> Result<()> {
        let (file, text) = (manifest_file(&manifest.id), manifest.write());
        let added = self.place.write(&file, text.as_bytes());
        added.map_err(|error| self.failed(&error))
    }

    /// The names of all backups, oldest first.
    pub fn ids(&self) -> Result<Vec<String>> {
        let files = self.place.list(MANIFESTS);
        let files = files.map_err(|error| self.failed(&error))?;
        let names = files.iter().map(|file| last_part(&file.name));
        let is_whole = |name: &&str| !name.ends_with(DRAFT_SUFFIX);
        let mut ids: Vec<String> = names.filter(is_whole).map(str::to_owned).collect();
        ids.sort();
        Ok(ids)
    }

    /// The manifest of a backup.
    pub fn manifest(&self, id: &str) -> std::result::Result<Manifest, Failure> {
        let bad = |why: &dyn fmt::Display| format!("backup `{id}`: {why}");
        let is_name = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
        if !is_name {
            return Err(bad(&"that is no name of a backup").into());
        }
        let bytes = self.place.read(&manifest_file(id), MANIFEST_BYTES_MAX);
        let bytes = bytes.map_err(|error| Failure::of(&error, bad(&error)))?;
        let text = String::from_utf8(bytes).map_err(|_| bad(&"it is no text"))?;
        let manifest = Manifest::parse(&text).map_err(|why| bad(&why))?;
        match manifest.id == id {
            true => Ok(manifest),
            false => Err(bad(&"its manifest is another's").into()),
        }
    }

    /// Reads every chunk of a backup; the first damage of each file. `read` is told the bytes of each chunk. Fails where the place is gone.
    pub fn verify(&self, manifest: &Manifest, read: &mut dyn FnMut(u64)) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for file in &manifest.files {
            let mut check = |(number, name)| {
                let bytes = chunk_bytes(file.bytes, number);
                read(bytes as u64);
                self.chunk(name, bytes).map(|_| ())
            };
            let chunks = file.chunks.iter().copied().enumerate();
            match chunks.map(&mut check).find_map(std::result::Result::err) {
                None => {}
                Some(failure) if failure.is_gone => return Err(failure.into()),
                Some(failure) => damages.push(Damage {
                    id: manifest.id.clone(),
                    file: file.name.clone(),
                    why: failure.into(),
                }),
            }
        }
        Ok(damages)
    }

    /// Removes these backups, and every chunk that no other one needs; the bytes that became free.
    pub fn remove(&self, ids: &[String]) -> Result<u64> {
        let bad = |error: io::Error| self.failed(&error);
        let mut needed = HashSet::new();
        for id in self.ids()?.iter().filter(|id| !ids.contains(id)) {
            let files = self.manifest(id)?.files;
            needed.extend(files.into_iter().flat_map(|file| file.chunks));
        }
        let ids: BTreeSet<&String> = ids.iter().collect();
        let mut manifests: Vec<String> = ids.into_iter().map(|id| manifest_file(id)).collect();
        // Nobody else writes now: a draft was left by somebody who was killed.
        let drafts = self.place.list(MANIFESTS).map_err(bad)?.into_iter();
        let drafts = drafts.filter(|file| file.name.ends_with(DRAFT_SUFFIX));
        manifests.extend(drafts.map(|file| file.name));
        self.place.remove(&manifests).map_err(bad)?;
        self.place.sync(MANIFESTS).map_err(bad)?;
        let mut unneeded = self.place.list(CHUNKS).map_err(bad)?;
        unneeded.retain(|file| {
            let name = ChunkName::parse(last_part(&file.name));
            !name.is_some_and(|name| needed.contains(&name))
        });
        let freed = unneeded.iter().map(|file| file.bytes).sum();
        let names: Vec<String> = unneeded.into_iter().map(|file| file.name).collect();
        self.place.remove(&names).map_err(bad)?;
        Ok(freed)
    }
}

/// The chunks that a backup adds to a repository.
pub struct NewChunks<'r> {
    repository: &'r Repository,
    files: Box<dyn NewFiles + 'r>,
    /// Those that it has read or written.
    believed: HashSet<ChunkName>,
}

impl NewChunks<'_> {
    /// Keeps the chunk; whether it was new. One that another backup has left is believed only if it is whole, as far as the place
    /// vouches for that or else when it has been read: a backup can be restored when it is done, whatever became of those before it.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(ChunkName, bool)> {
        let name = self.repository.name_of(bytes);
        if !self.believed.insert(name) {
            return Ok((name, false));
        }
        let file = chunk_file(name);
        let is_whole = match self.files.look_up(&file, bytes.len()) {
            Held::No => false,
            Held::Whole => true,
            Held::Unread => self.repository.chunk(name, bytes.len()).is_ok(),
        };
        if is_whole {
            self.files.keep(&file);
            return Ok((name, false));
        }
        let written = self.files.write(&file, bytes);
        written.map_err(|error| self.repository.failed(&error))?;
        Ok((name, true))
    }

    /// All chunks are there to stay on return.
    pub fn finish(self) -> Result<()> {
        let finished = self.files.finish();
        finished.map_err(|error| self.repository.failed(&error))
    }
}

/// The length of chunk `number` of a file of `file_bytes`.
pub fn chunk_bytes(file_bytes: u64, number: usize) -> usize {
    let left = file_bytes.saturating_sub(number as u64 * CHUNK_BYTES as u64);
    left.min(CHUNK_BYTES as u64) as usize
}

fn open_place(address: &Address, access: Access, new_mark: &str) -> Result<Box<dyn Place>> {
    Ok(match address {
        Address::Directory(path) => Box::new(Directory::open(path, access, new_mark)?),
        Address::Store(url) => open_store(&StoreAddress::parse(url)?, access, new_mark)?,
    })
}

#[cfg(feature = "object-store")]
fn open_store(address: &StoreAddress, access: Access, new_mark: &str) -> Result<Box<dyn Place>> {
    Ok(Box::new(crate::backup::store::Store::open(
        address, access, new_mark,
    )?))
}

#[cfg(not(feature = "object-store"))]
fn open_store(address: &StoreAddress, _: Access, _: &str) -> Result<Box<dyn Place>> {
    Err(format!("`{address}`: this build knows no object stores"))
}

fn chunk_file(name: ChunkName) -> String {
    let name = name.to_string();
    format!("{CHUNKS}/{}/{name}", &name[..2])
}

fn manifest_file(id: &str) -> String {
    format!("{MANIFESTS}/{id}")
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::backup::manifest::BackedUpFile;
    use crate::backup::place::MARK_FILE;

    fn open(path: &Path, access: Access) -> Result<Repository> {
        Repository::open(&Address::Directory(path.to_owned()), access, None)
    }

    fn repository() -> (tempfile::TempDir, Repository) {
        let directory = tempfile::tempdir().unwrap();
        let repository = open(directory.path(), Access::Add).unwrap();
        (directory, repository)
    }

    fn backup(repository: &Repository, id: &str, contents: &[&[u8]]) -> Manifest {
        let mut manifest = Manifest {
            id: id.into(),
            ..Manifest::default()
        };
        let mut new = repository.begin(Trust::Length).unwrap();
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
        repository.verify(&manifest, &mut |_| {}).unwrap()
    }

    #[test]
    fn what_two_backups_share_is_kept_once_and_as_long_as_one_needs_it() {
        let (_directory, repository) = repository();
        let large = vec![7; CHUNK_BYTES + 5];
        backup(&repository, "a", &[&large, b"only a"]);
        let mut new = repository.begin(Trust::Length).unwrap();
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
        let (directory, repository) = repository();
        let manifest = backup(&repository, "a", &[b"first", b"second", b"third"]);
        let file = |file: usize| chunk_file(manifest.files[file].chunks[0]);
        let path = |number: usize| directory.path().join(file(number));
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
            let repository = open(path, Access::Add).unwrap();
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
        assert!(open(path, Access::Add).is_err());
    }

    #[test]
    fn a_backup_that_is_named_twice_is_removed_once() {
        let (_directory, repository) = repository();
        backup(&repository, "a", &[b"first"]);
        let freed = repository.remove(&["a".into(), "a".into()]);
        assert_eq!(freed, Ok(5));
        assert!(repository.ids().unwrap().is_empty());
    }

    fn key_file(directory: &Path, name: &str, byte: u8) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, STANDARD.encode([byte; 32])).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    #[test]
    fn an_encrypted_repository_shows_nothing_to_who_has_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let [key, new_key] =
            [("old", 1), ("new", 2)].map(|(name, byte)| key_file(directory.path(), name, byte));
        let address = Address::Directory(directory.path().join("repository"));
        let open = |access, key: Option<&Path>| Repository::open(&address, access, key);
        let repository = open(Access::Add, Some(&key)).unwrap();
        let large = vec![7; CHUNK_BYTES + 5];
        backup(&repository, "a", &[&large, b"only a"]);
        let b = backup(&repository, "b", &[b"only b", &large]);
        assert_eq!(damages(&repository, "a"), []);
        assert_eq!(repository.manifest("b").unwrap(), b);
        let mut seen = 0;
        for part in [CHUNKS, MANIFESTS] {
            for file in repository.place.list(part).unwrap() {
                let path = directory.path().join("repository").join(&file.name);
                let bytes = fs::read(&path).unwrap();
                for plain in [&b"only"[..], b"quarry backup", &[7; 16]] {
                    let shows = bytes.windows(plain.len()).any(|window| window == plain);
                    assert!(!shows, "{}", file.name);
                }
                let digest = ChunkName::of(b"only a").to_string();
                assert!(!file.name.contains(&digest));
                seen += 1;
            }
        }
        assert_eq!(seen, 6, "of each content one, and two manifests");
        // One chunk under another's name is damage, as is a manifest under another's.
        let chunk = |file: usize| {
            let name = chunk_file(b.files[file].chunks[0]);
            directory.path().join("repository").join(name)
        };
        fs::copy(chunk(1), chunk(0)).unwrap();
        assert_eq!(damages(&repository, "b").len(), 1);
        backup(&repository, "c", &[b"only b"]);
        assert_eq!(damages(&repository, "b"), []);
        repository.remove(&["a".into()]).unwrap();
        drop(repository);
        assert!(open(Access::Read, None).is_err());
        assert!(open(Access::Add, Some(&new_key)).is_err());
        Repository::rotate(&address, &key, &new_key).unwrap();
        assert!(open(Access::Read, Some(&key)).is_err());
        let repository = open(Access::Read, Some(&new_key)).unwrap();
        assert_eq!(damages(&repository, "b"), []);
        assert_eq!(repository.ids().unwrap(), ["b", "c"]);
    }

    #[test]
    fn other_directories_are_not_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        assert!(open(directory.path(), Access::Read).is_err());
        fs::write(directory.path().join("letter"), b"dear").unwrap();
        let error = open(directory.path(), Access::Add).err().unwrap();
        assert!(error.contains("no repository"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_changes_it_at_a_time() {
        let (directory, repository) = repository();
        for access in [Access::Add, Access::Remove, Access::Read] {
            assert!(open(directory.path(), access).is_err());
        }
        drop(repository);
        let _reader = open(directory.path(), Access::Read).unwrap();
        assert!(open(directory.path(), Access::Read).is_ok());
        assert!(open(directory.path(), Access::Add).is_err());
    }
}
