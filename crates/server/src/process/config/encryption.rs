//! Encryption at rest: mongod's options of the enterprise edition, with a key that is in a file.

use std::path::PathBuf;

use super::values::{BadOptions, EngineName};

/// The options as they are given.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct EncryptionSettings {
    /// Encrypt the engine's files, the journal and what operations write to disk; needs --encryptionKeyFile, and the engine
    /// rocksdb or memory. The log, the audit log and the history of figures are not encrypted
    #[arg(long = "enableEncryption")]
    pub is_enabled: bool,
    #[command(flatten)]
    pub key: KeyFileOption,
}

/// The key file, which tools take as well.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct KeyFileOption {
    /// File with the key of an encrypted data directory: base64 of 32 bytes, which only its owner may read
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
}

/// The options of a server that encrypts what it writes.
#[derive(Debug, Clone)]
pub struct EncryptionOptions {
    /// Where the key is.
    pub key_file: PathBuf,
}

impl EncryptionSettings {
    /// The command line's settings, completed by the file's.
    pub fn over(self, file: EncryptionSettings) -> EncryptionSettings {
        let key_file = self.key.encryption_key_file;
        EncryptionSettings {
            is_enabled: self.is_enabled || file.is_enabled,
            key: KeyFileOption {
                encryption_key_file: key_file.or(file.key.encryption_key_file),
            },
        }
    }

    /// The options that the settings come to; none for a server that does not encrypt.
    pub fn options(self, engine: EngineName) -> Result<Option<EncryptionOptions>, BadOptions> {
        let refused = |why: &str| Err(BadOptions(why.to_owned()));
        match (self.is_enabled, self.key.encryption_key_file) {
            (false, None) => Ok(None),
            (false, Some(_)) => refused("encryptionKeyFile: it needs --enableEncryption"),
            (true, None) => refused("enableEncryption: it needs --encryptionKeyFile"),
            (true, Some(_)) if engine == EngineName::Mdbx => refused(
                "enableEncryption: the engine `mdbx` maps its file into memory, where it cannot be encrypted; use `--engine rocksdb`",
            ),
            (true, Some(key_file)) => Ok(Some(EncryptionOptions { key_file })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        is_enabled: bool,
        key_file: Option<&str>,
        engine: EngineName,
    ) -> Result<bool, String> {
        let settings = EncryptionSettings {
            is_enabled,
            key: KeyFileOption {
                encryption_key_file: key_file.map(PathBuf::from),
            },
        };
        let options = settings.over(EncryptionSettings::default()).options(engine);
        options
            .map(|given| given.is_some())
            .map_err(|error| error.0)
    }

    #[test]
    fn encryption_takes_both_options_and_an_engine_that_can() {
        assert_eq!(options(false, None, EngineName::Mdbx), Ok(false));
        assert_eq!(options(true, Some("key"), EngineName::Rocksdb), Ok(true));
        assert_eq!(options(true, Some("key"), EngineName::Memory), Ok(true));
        for (is_enabled, key_file, engine, why) in [
            (true, None, EngineName::Rocksdb, "needs --encryptionKeyFile"),
            (
                false,
                Some("key"),
                EngineName::Rocksdb,
                "needs --enableEncryption",
            ),
            (true, Some("key"), EngineName::Mdbx, "maps its file"),
        ] {
            let error = options(is_enabled, key_file, engine).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_line_goes_before_the_file() {
        let with = |is_enabled, key_file: &str| EncryptionSettings {
            is_enabled,
            key: KeyFileOption {
                encryption_key_file: Some(key_file.into()),
            },
        };
        let both = with(false, "line").over(with(true, "file"));
        let options = both.options(EngineName::Rocksdb).unwrap().unwrap();
        assert_eq!(options.key_file, PathBuf::from("line"));
    }
}
