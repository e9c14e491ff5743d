//! Encryption at rest, as the server uses it: the data directory is unlocked with the key file before anything of it is opened.
//!
//! Keeps true: a data directory is encrypted as a whole or not at all, from its first start on. One that is, is opened with its key
//! or not at all; one that is not, is never opened with a key. What `quarry_seal` seals is the engine's and the journal's; this file only
//! brings it together with them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use quarry_journal::{Files, RealFiles, Seal, SealedFiles, SealedPlace};
use quarry_seal::{ADDED_BYTES, DataKey, Error, GroupSeal, KEYSTORE_FILE, Keystore, MasterKey};
use quarry_storage::creation;

use crate::observe::log;
use crate::process::config::{BadOptions, Config, EngineName, KeyFileOption};
use crate::process::engine::JOURNAL;

/// The key that the key file holds; none on a server that does not encrypt.
pub fn master_key(config: &Config) -> Result<Option<MasterKey>, BadOptions> {
    let read = (config.encryption.as_ref()).map(|options| MasterKey::read(&options.key_file));
    read.transpose()
        .map_err(|error| BadOptions(format!("encryptionKeyFile: {error}")))
}

/// The key of the server's data directory, which is locked; none where it is not encrypted, or nothing is written to it. Makes the
/// keystore of a directory without data.
pub fn unlock(config: &Config, master: Option<&MasterKey>) -> Result<Option<DataKey>, String> {
    let directory: &Path = &config.data_directory;
    let Some(master) = master else {
        refuse_without_key(directory)?;
        return Ok(None);
    };
    if config.engine == EngineName::Memory {
        return Ok(None);
    }
    let keystore = match Keystore::is_in(directory).map_err(told)? {
        true => Keystore::open(directory, master).map_err(told)?,
        false => {
            refuse_plain(directory, config.engine)?;
            Keystore::create(directory, master).map_err(told)?
        }
    };
    let id = u128::from_be_bytes(keystore.id());
    log::info(
        "storage",
        "the data is encrypted at rest",
        &[
            ("cipher", "AES256-GCM".into()),
            ("keystore", format!("{id:032x}").into()),
            ("generation", (keystore.generation() as i64).into()),
        ],
    );
    Ok(Some(keystore.key().clone()))
}

/// The key of a data directory for a tool that looks at it.
pub fn key_of(directory: &Path, key: &KeyFileOption) -> Result<Option<DataKey>, String> {
    let Some(key_file) = &key.encryption_key_file else {
        refuse_without_key(directory)?;
        return Ok(None);
    };
    let master = MasterKey::read(key_file).map_err(told)?;
    if !Keystore::is_in(directory).map_err(told)? {
        return Err("it is not encrypted, and a key was given".to_owned());
    }
    let keystore = Keystore::open(directory, &master).map_err(told)?;
    Ok(Some(keystore.key().clone()))
}

fn refuse_without_key(directory: &Path) -> Result<(), String> {
    match Keystore::is_in(directory).map_err(told)? {
        true => Err(format!(
            "it is encrypted, as `{KEYSTORE_FILE}` says: give --enableEncryption and --encryptionKeyFile"
        )),
        false => Ok(()),
    }
}

/// A key makes nothing secret that was written without one.
fn refuse_plain(directory: &Path, engine: EngineName) -> Result<(), String> {
    let has_store = creation::holds_a_store(&directory.join(engine.as_str()));
    let has_journal = directory.join(JOURNAL).exists();
    match has_store || has_journal {
        true => Err(format!(
            "it holds data and no `{KEYSTORE_FILE}`, so that it is not encrypted, or has lost its key: dump it and restore the dump \
             into a new directory; nothing was changed"
        )),
        false => Ok(()),
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

/// The seal of a journal.
pub fn journal_seal(key: &DataKey) -> Arc<dyn Seal> {
    Arc::new(JournalSeal(GroupSeal::new(key.clone())))
}

/// The files of a journal that is sealed if there is a key.
pub fn journal_files(files: RealFiles, key: Option<&DataKey>) -> Arc<dyn Files> {
    let files: Arc<dyn Files> = Arc::new(files);
    match key {
        Some(key) => Arc::new(SealedFiles::new(files, journal_seal(key))),
        None => files,
    }
}

#[derive(Debug)]
struct JournalSeal(GroupSeal);

impl Seal for JournalSeal {
    fn added_bytes(&self) -> usize {
        ADDED_BYTES
    }

    fn seal(
        &self,
        place: SealedPlace,
        header: &[u8],
        buffer: &mut Vec<u8>,
        from: usize,
    ) -> io::Result<()> {
        let (incarnation, first_lsn) = (place.incarnation, place.first_lsn);
        let sealed = (self.0).seal(incarnation, first_lsn, header, buffer, from);
        sealed.map_err(io::Error::other)
    }

    fn open(&self, place: SealedPlace, header: &[u8], body: &mut Vec<u8>) -> bool {
        let (incarnation, first_lsn) = (place.incarnation, place.first_lsn);
        let opened = (self.0).open(incarnation, first_lsn, header, body);
        let plain_bytes = opened.map(|plain| plain.len());
        body.truncate(plain_bytes.unwrap_or(0));
        plain_bytes.is_some()
    }
}
