//! The key file: base64 of 32 bytes, which only its owner may read. The rules are mongod's for `encryptionKeyFile`.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::sealer::{KEY_BYTES, fill_random};

/// A longer file holds no key.
const FILE_BYTES_MAX: u64 = 1024;
/// Reading and writing by group and others.
const OTHERS_MAY: u32 = 0o077;

/// The key that wraps data keys.
pub struct MasterKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl MasterKey {
    /// Reads a key file. Refuses one that group or others may use, and whatever is not base64 of 32 bytes; white space around
    /// and between counts for nothing.
    pub fn read(path: &Path) -> Result<MasterKey> {
        let refused = |reason: String| Error::KeyFile {
            path: path.to_owned(),
            reason,
        };
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        let about = file.metadata().map_err(|error| Error::io(path, error))?;
        if !about.is_file() {
            return Err(refused("it is no file".to_owned()));
        }
        let mode = about.permissions().mode() & 0o777;
        if mode & OTHERS_MAY != 0 {
            return Err(refused(format!(
                "permissions {mode:o} are too open: only its owner may use it (chmod 600)"
            )));
        }
        // Never moved while it is filled, so that no copy of it stays behind.
        let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| Error::io(path, error))?;
        text.retain(|byte| !byte.is_ascii_whitespace());
        let decoded = STANDARD.decode(&*text).map(Zeroizing::new);
        let decoded = decoded.map_err(|_| refused("it is not base64".to_owned()))?;
        let Some(&bytes) = decoded.first_chunk().filter(|_| decoded.len() == KEY_BYTES) else {
            return Err(refused(format!(
                "it holds {} bytes in base64, not {KEY_BYTES} (openssl rand -base64 32)",
                decoded.len()
            )));
        };
        Ok(MasterKey::of(bytes))
    }

    /// A random one.
    pub fn random() -> Result<MasterKey> {
        let mut bytes = [0; KEY_BYTES];
        fill_random(&mut bytes)?;
        let key = MasterKey::of(bytes);
        bytes.zeroize();
        Ok(key)
    }

    fn of(bytes: [u8; KEY_BYTES]) -> MasterKey {
        MasterKey {
            bytes: Zeroizing::new(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }
}

/// Tells nothing of the key.
impl fmt::Debug for MasterKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MasterKey")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<MasterKey> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        MasterKey::read(&path)
    }

    #[test]
    fn a_key_is_base64_of_32_bytes_that_its_owner_alone_may_read() {
        let text = STANDARD.encode([7u8; 32]);
        for (text, mode) in [
            (text.clone(), 0o600),
            (format!(" {text}\n"), 0o400),
            (format!("{}\n{}", &text[..20], &text[20..]), 0o600),
        ] {
            assert_eq!(read(&text, mode).unwrap().bytes(), &[7; 32]);
        }
        for mode in [0o640, 0o604, 0o620, 0o666, 0o610] {
            let error = read(&text, mode).unwrap_err().to_string();
            assert!(error.contains("too open"), "{mode:o}: {error}");
        }
        for (bad, why) in [
            (String::new(), "0 bytes"),
            (STANDARD.encode([7u8; 31]), "31 bytes"),
            (STANDARD.encode([7u8; 33]), "33 bytes"),
            ("~".repeat(44), "not base64"),
            (STANDARD.encode([7u8; 3000]), "bytes"),
        ] {
            let error = read(&bad, 0o600).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(matches!(
            MasterKey::read(Path::new("/nonexistent/key")),
            Err(Error::Io { .. })
        ));
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", MasterKey::of([7; 32])), "MasterKey");
    }
}
