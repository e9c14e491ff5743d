//! `quarry rotate-key`: locks an encrypted data directory with another key.
//!
//! The data stays as it is, because it is encrypted with a key of the directory's own, and that key alone is wrapped anew. No server may use
//! the directory meanwhile. The old key opens nothing of the directory any more, but it opens older copies of the keystore: those
//! of backups keep the key that they were made with.

use std::process::ExitCode;

use quarry_seal::{Keystore, MasterKey};

use crate::process::config::{EXIT_BAD_OPTIONS, EXIT_DATA_DIRECTORY, RotateKey};
use crate::process::data_directory::DataDirectory;
use crate::tools::say::say;

/// Runs the command; the exit code of the process.
pub fn run(options: &RotateKey) -> ExitCode {
    match rotate(options) {
        Ok(generation) => {
            say!(
                "`{}` is locked with the new key: generation {generation}",
                options.dbpath.display()
            );
            ExitCode::SUCCESS
        }
        Err((code, why)) => {
            eprintln!("quarry rotate-key: {why}");
            ExitCode::from(code)
        }
    }
}

fn rotate(options: &RotateKey) -> Result<u64, (u8, String)> {
    let bad_key = |error: quarry_seal::Error| (EXIT_BAD_OPTIONS, error.to_string());
    let bad_data = |why: String| (EXIT_DATA_DIRECTORY, why);
    let directory = &options.dbpath;
    let old = MasterKey::read(&options.encryption_key_file).map_err(bad_key)?;
    let new = MasterKey::read(&options.new_key_file).map_err(bad_key)?;
    let is_encrypted = Keystore::is_in(directory).map_err(|error| bad_data(error.to_string()))?;
    if !is_encrypted {
        let place = directory.display();
        return Err(bad_data(format!(
            "data directory `{place}`: it is not encrypted, or not there"
        )));
    }
    let _locked = DataDirectory::lock(directory).map_err(bad_data)?;
    let rotated = quarry_seal::rotate(directory, &old, &new);
    rotated.map_err(|error| bad_data(error.to_string()))
}
