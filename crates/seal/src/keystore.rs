//! The keystore of a data directory: its data key, wrapped by the master key.
//!
//! Kept true: the file under its name is whole, because it is written under another one, synced, renamed, and its directory
//! synced; so a rotation that a crash ends leaves the old master key or the new one, and never neither. Wrapping again changes
//! nothing but this file. A checksum that anybody could make tells damage from a wrong key.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::data_key::{DataKey, derive};
use crate::error::{Error, Result};
use crate::master_key::MasterKey;
use crate::sealer::{ADDED_BYTES, KEY_BYTES, Sealer, fill_random};

/// The name of the keystore in a data directory.
pub const KEYSTORE_FILE: &str = "quarry.keystore";
/// A keystore that is being written; it means nothing.
const NEW_FILE: &str = "quarry.keystore.new";

const MAGIC: &[u8; 8] = b"QUARRYK\0";
const VERSION: u32 = 1;
/// AES-256 in Galois/counter mode.
const CIPHER: u32 = 1;
const PURPOSE: &[u8] = b"quarry keystore 1";
/// The bytes in the clear, which are authenticated with the key.
const HEAD_BYTES: usize = 72;
const SALT_START: usize = 40;
const SALT_BYTES: usize = 32;
const CRC_START: usize = HEAD_BYTES + KEY_BYTES + ADDED_BYTES;
const FILE_BYTES: usize = CRC_START + 4;

/// An open keystore.
#[derive(Debug)]
pub struct Keystore {
    path: PathBuf,
    /// Names the data key, in files that are sealed with it and in messages.
    id: [u8; 16],
    /// How often the key was wrapped.
    generation: u64,
    key: DataKey,
}

/// Whether the data directory has a keystore.
fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| Error::io(path, error))
}

impl Keystore {
    /// Whether the data directory is one of an encrypted server.
    pub fn is_in(directory: &Path) -> Result<bool> {
        is_there(&directory.join(KEYSTORE_FILE))
    }

    /// Makes the keystore of a directory that has none, with a new data key; durable on return.
    pub fn create(directory: &Path, master: &MasterKey) -> Result<Keystore> {
        let path = directory.join(KEYSTORE_FILE);
        if is_there(&path)? {
            let error = io::ErrorKind::AlreadyExists.into();
            return Err(Error::io(&path, error));
        }
        let keystore = Keystore::random(path)?;
        keystore.write(directory, master)?;
        Ok(keystore)
    }

    fn random(path: PathBuf) -> Result<Keystore> {
        let mut id = [0; 16];
        fill_random(&mut id)?;
        Ok(Keystore {
            path,
            id,
            generation: 1,
            key: DataKey::random()?,
        })
    }

    /// The bytes of a keystore with a new data key, for who keeps them elsewhere than in a data directory.
    pub fn new_bytes(master: &MasterKey) -> Result<Vec<u8>> {
        Keystore::random(PathBuf::new())?.encode(master)
    }

    /// The bytes of a keystore with the same data key, wrapped by another master key.
    pub fn wrapped_again(mut self, master: &MasterKey) -> Result<Vec<u8>> {
        self.generation += 1;
        self.encode(master)
    }

    /// Opens the keystore of a directory. Changes nothing.
    pub fn open(directory: &Path, master: &MasterKey) -> Result<Keystore> {
        let path = directory.join(KEYSTORE_FILE);
        let mut bytes = Vec::with_capacity(FILE_BYTES + 1);
        let read = File::open(&path)
            .and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| Error::io(&path, error))?;
        Keystore::of_bytes(path, &bytes, master)
    }

    /// The key that the directory's files are sealed with.
    pub fn key(&self) -> &DataKey {
        &self.key
    }

    /// Names the data key: it stays when the master key changes.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// How often the data key was wrapped: 1 in a new directory, and one more with each rotation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn write(&self, directory: &Path, master: &MasterKey) -> Result<()> {
        let bytes = self.encode(master)?;
        let draft = directory.join(NEW_FILE);
        let written = write_durably(&draft, &self.path, directory, &bytes);
        written.map_err(|error| Error::io(&self.path, error))
    }

    fn encode(&self, master: &MasterKey) -> Result<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        fill_random(&mut salt)?;
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&CIPHER.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&salt);
        debug_assert_eq!(bytes.len(), HEAD_BYTES);
        let head = bytes.clone();
        bytes.extend_from_slice(self.key.bytes());
        wrapping_key(master, &salt).seal(&head, &mut bytes, HEAD_BYTES)?;
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(bytes.len(), FILE_BYTES);
        Ok(bytes)
    }

    /// Opens the bytes of a keystore, which errors call by this path.
    pub fn of_bytes(path: PathBuf, bytes: &[u8], master: &MasterKey) -> Result<Keystore> {
        let refused = |path: PathBuf, reason: String| Err(Error::Keystore { path, reason });
        if bytes.len() != FILE_BYTES || &bytes[..8] != MAGIC {
            return refused(path, "it is damaged: it is none".to_owned());
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if word(CRC_START) != crc32c::crc32c(&bytes[..CRC_START]) {
            return refused(path, "it is damaged: it fails its checksum".to_owned());
        }
        if (word(8), word(12)) != (VERSION, CIPHER) {
            let reason = format!(
                "version {} with cipher {} is unknown to this build",
                word(8),
                word(12)
            );
            return refused(path, reason);
        }
        let (head, wrapped) = bytes[..CRC_START].split_at(HEAD_BYTES);
        let mut wrapped = Zeroizing::new(wrapped.to_vec());
        let opened = wrapping_key(master, &head[SALT_START..]).open(head, &mut wrapped);
        let Some(key) = opened.and_then(|key| key.first_chunk::<KEY_BYTES>()) else {
            return Err(Error::WrongKey { path });
        };
        let mut id = [0; 16];
        id.copy_from_slice(&head[16..32]);
        Ok(Keystore {
            path,
            id,
            generation: u64::from(word(32)) | u64::from(word(36)) << 32,
            key: DataKey::of_bytes(Zeroizing::new(*key)),
        })
    }
}

/// Wraps the data key of a directory with another master key: the old one opens nothing from then on. Durable on return. Whoever calls
/// it sees to it that no server uses the directory. Returns the new generation.
pub fn rotate(directory: &Path, old: &MasterKey, new: &MasterKey) -> Result<u64> {
    let mut keystore = Keystore::open(directory, old)?;
    keystore.generation += 1;
    keystore.write(directory, new)?;
    // Read back as a start would, while the old file's contents are still known to whoever asked for it.
    Keystore::open(directory, new).map(|keystore| keystore.generation)
}

fn wrapping_key(master: &MasterKey, salt: &[u8]) -> Sealer {
    derive(master.bytes(), salt, PURPOSE, &[])
}

fn write_durably(draft: &Path, path: &Path, directory: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that a crash has left is written over.
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> (MasterKey, MasterKey) {
        (MasterKey::random().unwrap(), MasterKey::random().unwrap())
    }

    #[test]
    fn a_keystore_opens_with_its_key_alone_and_keeps_its_data_key_over_rotations() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = keys();
        assert!(!Keystore::is_in(directory.path()).unwrap());
        let made = Keystore::create(directory.path(), &old).unwrap();
        assert!(Keystore::create(directory.path(), &old).is_err());
        let opened = Keystore::open(directory.path(), &old).unwrap();
        assert_eq!(opened.key().bytes(), made.key().bytes());
        assert_eq!((opened.id(), opened.generation()), (made.id(), 1));
        let before = fs::read(directory.path().join(KEYSTORE_FILE)).unwrap();
        assert!(matches!(
            rotate(directory.path(), &new, &old),
            Err(Error::WrongKey { .. })
        ));
        assert_eq!(
            fs::read(directory.path().join(KEYSTORE_FILE)).unwrap(),
            before
        );
        assert_eq!(rotate(directory.path(), &old, &new).unwrap(), 2);
        assert!(matches!(
            Keystore::open(directory.path(), &old),
            Err(Error::WrongKey { .. })
        ));
        let rotated = Keystore::open(directory.path(), &new).unwrap();
        assert_eq!(rotated.key().bytes(), made.key().bytes());
        assert_eq!((rotated.id(), rotated.generation()), (made.id(), 2));
    }

    #[test]
    fn every_flipped_bit_is_told_as_damage_and_one_with_a_right_checksum_as_a_wrong_key() {
        let (master, _) = keys();
        let directory = tempfile::tempdir().unwrap();
        Keystore::create(directory.path(), &master).unwrap();
        let path = directory.path().join(KEYSTORE_FILE);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let opened = Keystore::of_bytes(path.clone(), &damaged, &master);
            assert!(matches!(opened, Err(Error::Keystore { .. })), "bit {bit}");
            let crc = crc32c::crc32c(&damaged[..CRC_START]);
            damaged[CRC_START..].copy_from_slice(&crc.to_le_bytes());
            let opened = Keystore::of_bytes(path.clone(), &damaged, &master);
            let is_checksum = bit / 8 >= CRC_START;
            assert_eq!(opened.is_ok(), is_checksum, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Keystore::of_bytes(path.clone(), &bytes[..cut], &master).is_err());
        }
    }

    #[test]
    fn a_keystore_of_bytes_keeps_its_data_key_when_it_is_wrapped_again() {
        let (old, new) = keys();
        let open = |bytes: &[u8], master| Keystore::of_bytes("elsewhere".into(), bytes, master);
        let bytes = Keystore::new_bytes(&old).unwrap();
        let made = open(&bytes, &old).unwrap();
        let key = made.key().clone();
        let again = made.wrapped_again(&new).unwrap();
        let opened = open(&again, &new).unwrap();
        assert_eq!(opened.key().bytes(), key.bytes());
        assert_eq!(opened.generation(), 2);
        let refused = open(&again, &old).unwrap_err();
        assert!(refused.to_string().contains("elsewhere"), "{refused}");
    }

    /// A rotation writes beside the keystore and renames: whatever step a crash ends it at, one of the two keys opens.
    #[test]
    fn a_rotation_that_a_crash_ends_leaves_one_key_or_the_other() {
        let (old, new) = keys();
        let directory = tempfile::tempdir().unwrap();
        Keystore::create(directory.path(), &old).unwrap();
        let path = directory.path().join(KEYSTORE_FILE);
        let draft = directory.path().join(NEW_FILE);
        let mut rotated = Keystore::open(directory.path(), &old).unwrap();
        rotated.generation += 1;
        let bytes = rotated.encode(&new).unwrap();
        // Before the rename: however much of the draft is there, the old key opens, and the rotation can be made again.
        for written in [0, 1, bytes.len() / 2, bytes.len()] {
            fs::write(&draft, &bytes[..written]).unwrap();
            let opened = Keystore::open(directory.path(), &old).unwrap();
            assert_eq!(opened.generation(), 1);
            assert!(Keystore::open(directory.path(), &new).is_err());
        }
        assert_eq!(rotate(directory.path(), &old, &new).unwrap(), 2);
        assert!(!draft.exists());
        // Behind it: the new one.
        assert!(path.exists() && Keystore::open(directory.path(), &old).is_err());
        assert_eq!(rotate(directory.path(), &new, &old).unwrap(), 3);
    }
}
