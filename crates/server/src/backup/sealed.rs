//! The place of a sealed repository: another place, in which every file is encrypted and authenticated with its name.
//!
//! A file is sealed in blocks that take a tenth of a millisecond each, for the reason of `steps`. Keeps true: a file that is read is the one that was written
//! under its name, as a whole, or it is damage. The mark, and the leases of a store, are not sealed. docs/formats/backup.md shows the bytes.

use std::io;
use std::thread;

use quarry_seal::{ADDED_BYTES, ObjectSeal, Sealer};

use crate::backup::place::{Held, NewFiles, Place, PlacedFile, Trust};

/// The bytes of a block; the last one of a file may have fewer.
const BLOCK_BYTES: usize = 128 << 10;

/// A place whose files are sealed.
pub struct Sealed {
    place: Box<dyn Place>,
    seal: ObjectSeal,
}

impl Sealed {
    pub fn new(place: Box<dyn Place>, seal: ObjectSeal) -> Sealed {
        Sealed { place, seal }
    }
}

impl Place for Sealed {
    fn address(&self) -> String {
        self.place.address()
    }

    fn mark(&self) -> &[u8] {
        self.place.mark()
    }

    fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let sealed_max = sealed_bytes(bytes_max);
        let found = self.place.read(name, sealed_max + 1)?;
        // The end of a longer one is not there to be authenticated.
        let whole = Some(found).filter(|found| found.len() <= sealed_max);
        let opened = whole.and_then(|found| open(&self.seal.sealer(name), found));
        opened.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))
    }

    fn list(&self, part: &str) -> io::Result<Vec<PlacedFile>> {
        self.place.list(part)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let sealed = seal(&self.seal.sealer(name), bytes)?;
        self.place.write(name, &sealed)
    }

    fn begin(&self, trust: Trust) -> io::Result<Box<dyn NewFiles + '_>> {
        Ok(Box::new(NewSealed {
            seal: &self.seal,
            files: self.place.begin(trust)?,
        }))
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        self.place.remove(names)
    }

    fn sync(&self, part: &str) -> io::Result<()> {
        self.place.sync(part)
    }
}

/// Files on their way to a place in which they are sealed.
struct NewSealed<'p> {
    seal: &'p ObjectSeal,
    files: Box<dyn NewFiles + 'p>,
}

impl NewFiles for NewSealed<'_> {
    fn look_up(&self, name: &str, bytes: usize) -> Held {
        self.files.look_up(name, sealed_bytes(bytes))
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let sealed = seal(&self.seal.sealer(name), bytes)?;
        self.files.write(name, &sealed)
    }

    fn keep(&mut self, name: &str) {
        self.files.keep(name);
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.files.finish()
    }
}

/// The length of so many bytes once they are sealed.
fn sealed_bytes(bytes: usize) -> usize {
    bytes + bytes.div_ceil(BLOCK_BYTES).max(1) * ADDED_BYTES
}

/// Tells a block from its neighbours, and the last one from others.
fn block_place(number: usize, is_last: bool) -> [u8; 5] {
    let [a, b, c, d] = (number as u32).to_le_bytes();
    [a, b, c, d, u8::from(is_last)]
}

fn seal(sealer: &Sealer, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut sealed = Vec::with_capacity(sealed_bytes(bytes.len()));
    let (mut rest, mut number) = (bytes, 0);
    loop {
        thread::yield_now();
        let (block, behind) = rest.split_at(rest.len().min(BLOCK_BYTES));
        let (from, is_last) = (sealed.len(), behind.is_empty());
        sealed.extend_from_slice(block);
        let done = sealer.seal(&block_place(number, is_last), &mut sealed, from);
        done.map_err(|error| io::Error::other(error.to_string()))?;
        if is_last {
            return Ok(sealed);
        }
        (rest, number) = (behind, number + 1);
    }
}

/// The bytes that were sealed to these; none if they are others.
fn open(sealer: &Sealer, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(sealed.len());
    let blocks = sealed.chunks_mut(BLOCK_BYTES + ADDED_BYTES);
    let last = blocks.len().checked_sub(1)?;
    for (number, block) in blocks.enumerate() {
        thread::yield_now();
        let place = block_place(number, number == last);
        bytes.extend_from_slice(sealer.open(&place, block)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use quarry_seal::{DataKey, MasterKey};

    use super::*;
    use crate::backup::directory::Directory;
    use crate::backup::mark;
    use crate::backup::place::{Access, MANIFESTS};

    const NAME: &str = "backups/name";
    const FILE_BYTES_MAX: usize = 3 * BLOCK_BYTES;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at / 7) as u8).collect()
    }

    fn sealed() -> (tempfile::TempDir, Sealed) {
        let directory = tempfile::tempdir().unwrap();
        let key = MasterKey::random().unwrap();
        let mark = mark::new(Some(&key)).unwrap();
        let place = Directory::open(directory.path(), Access::Add, &mark).unwrap();
        let seal = ObjectSeal::new(DataKey::random().unwrap());
        (directory, Sealed::new(Box::new(place), seal))
    }

    #[test]
    fn files_of_every_length_are_read_as_they_were_written_and_show_nothing() {
        let (directory, place) = sealed();
        for count in [
            0,
            1,
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            FILE_BYTES_MAX,
        ] {
            let written = bytes(count);
            place.write(NAME, &written).unwrap();
            assert!(place.read(NAME, FILE_BYTES_MAX).unwrap() == written);
            let stored = std::fs::read(directory.path().join(NAME)).unwrap();
            assert_eq!(stored.len(), sealed_bytes(count));
            let shown = &bytes(64);
            assert!(!stored.windows(64).any(|window| window == shown));
            assert_eq!(place.list(MANIFESTS).unwrap().len(), 1);
        }
    }

    #[test]
    fn what_is_changed_moved_cut_or_longer_than_asked_for_is_damage() {
        let (directory, place) = sealed();
        place.write(NAME, &bytes(FILE_BYTES_MAX)).unwrap();
        place.write("backups/other", &bytes(5)).unwrap();
        let path = directory.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        let sealed_block = BLOCK_BYTES + ADDED_BYTES;
        let damaged = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            place
                .read(NAME, FILE_BYTES_MAX)
                .is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
        };
        for at in [0, sealed_block - 1, sealed_block, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(damaged(&changed), "byte {at}");
        }
        for blocks in 0..3 {
            assert!(damaged(&whole[..blocks * sealed_block]), "{blocks} blocks");
        }
        let (first, behind) = whole.split_at(sealed_block);
        let (second, third) = behind.split_at(sealed_block);
        assert!(damaged(&[second, first, third].concat()), "exchanged");
        assert!(damaged(&[&whole[..], third].concat()), "more");
        let other = std::fs::read(directory.path().join("backups/other")).unwrap();
        assert!(damaged(&other), "another file");
        assert!(!damaged(&whole));
        assert!(place.read(NAME, FILE_BYTES_MAX - 1).is_err());
    }
}
