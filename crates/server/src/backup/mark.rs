//! The mark of a repository: it says that a place is one, of which version, and whether its files are sealed.
//!
//! A repository is sealed from its making on or never, so that nobody finds plain files in one that they gave a key for. The data key is in
//! the mark itself, wrapped by that of the key file: the one file that another key changes, and that no other file can come before.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quarry_seal::{DataKey, Keystore, MasterKey};

use crate::backup::place::MARK_FILE;

const PLAIN: &str = "quarry backups 1\n";
const SEALED: &str = "quarry backups 1 sealed\nkeystore ";
/// A longer file is no mark.
pub const MARK_BYTES_MAX: usize = 1024;

type Result<T> = std::result::Result<T, String>;

/// The key of a key file.
pub fn read_key(path: &Path) -> Result<MasterKey> {
    MasterKey::read(path).map_err(|error| format!("backupKeyFile: {error}"))
}

/// The mark of a new repository, with a new data key if there is a key to wrap it.
pub fn new(key: Option<&MasterKey>) -> Result<String> {
    match key {
        None => Ok(PLAIN.to_owned()),
        Some(key) => {
            let keystore = Keystore::new_bytes(key).map_err(|error| error.to_string())?;
            Ok(with_keystore(&keystore))
        }
    }
}

/// Refuses the mark of a version that this build does not know.
pub fn check(mark: &[u8]) -> Result<()> {
    match mark == PLAIN.as_bytes() || mark.starts_with(SEALED.as_bytes()) {
        true => Ok(()),
        false => Err("it is a repository of another version".into()),
    }
}

/// The data key of the repository with this mark, and none of one that is not sealed; otherwise why it is not to be used.
pub fn unlock(mark: &[u8], key: Option<&MasterKey>, address: &str) -> Result<Option<DataKey>> {
    match (keystore_of(mark, address)?, key) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("it is not encrypted, and a --backupKeyFile was given".into()),
        (Some(_), None) => Err("it is encrypted: give --backupKeyFile".into()),
        (Some(keystore), Some(key)) => {
            let keystore = open(&keystore, key, address)?;
            Ok(Some(keystore.key().clone()))
        }
    }
}

/// The mark with its data key wrapped by another key.
pub fn rewrapped(mark: &[u8], old: &MasterKey, new: &MasterKey, address: &str) -> Result<String> {
    let keystore = keystore_of(mark, address)?.ok_or("it is not encrypted")?;
    let again = open(&keystore, old, address)?.wrapped_again(new);
    let again = again.map_err(|error| error.to_string())?;
    Ok(with_keystore(&again))
}

fn with_keystore(keystore: &[u8]) -> String {
    format!("{SEALED}{}\n", STANDARD.encode(keystore))
}

/// The keystore's bytes of a sealed repository.
fn keystore_of(mark: &[u8], address: &str) -> Result<Option<Vec<u8>>> {
    check(mark)?;
    let Some(text) = mark.strip_prefix(SEALED.as_bytes()) else {
        return Ok(None);
    };
    let text = text.strip_suffix(b"\n");
    let keystore = text.and_then(|text| STANDARD.decode(text).ok());
    let place = place(address);
    let damaged = || format!("its `{}` is damaged", place.display());
    keystore.map(Some).ok_or_else(damaged)
}

fn open(keystore: &[u8], key: &MasterKey, address: &str) -> Result<Keystore> {
    let opened = Keystore::of_bytes(place(address), keystore, key);
    opened.map_err(|error| error.to_string())
}

fn place(address: &str) -> PathBuf {
    PathBuf::from(format!("{address}/{MARK_FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlocked(mark: &[u8], key: Option<&MasterKey>) -> Result<bool> {
        unlock(mark, key, "here").map(|key| key.is_some())
    }

    #[test]
    fn a_mark_is_opened_as_it_was_made_and_by_its_key_alone() {
        let (key, other) = (MasterKey::random().unwrap(), MasterKey::random().unwrap());
        let plain = new(None).unwrap();
        assert_eq!(plain, "quarry backups 1\n");
        assert_eq!(unlocked(plain.as_bytes(), None), Ok(false));
        let error = unlocked(plain.as_bytes(), Some(&key)).unwrap_err();
        assert!(error.contains("not encrypted"), "{error}");
        let sealed = new(Some(&key)).unwrap();
        assert!(sealed.len() <= MARK_BYTES_MAX);
        assert_eq!(unlocked(sealed.as_bytes(), Some(&key)), Ok(true));
        for (key, why) in [
            (None, "give --backupKeyFile"),
            (Some(&other), "another key"),
        ] {
            let error = unlocked(sealed.as_bytes(), key).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let again = rewrapped(sealed.as_bytes(), &key, &other, "here").unwrap();
        assert_eq!(unlocked(again.as_bytes(), Some(&other)), Ok(true));
        assert!(unlocked(again.as_bytes(), Some(&key)).is_err());
        assert!(rewrapped(plain.as_bytes(), &key, &other, "here").is_err());
    }

    #[test]
    fn every_changed_byte_and_every_cut_of_a_mark_is_refused() {
        let key = MasterKey::random().unwrap();
        let sealed = new(Some(&key)).unwrap().into_bytes();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(unlocked(&changed, Some(&key)).is_err(), "byte {at}");
            assert!(unlocked(&sealed[..at], Some(&key)).is_err(), "cut at {at}");
        }
        for other in [&b""[..], b"quarry backups 2\n", b"\xff"] {
            let error = unlocked(other, None).unwrap_err();
            assert!(error.contains("another version"), "{error}");
        }
    }
}
