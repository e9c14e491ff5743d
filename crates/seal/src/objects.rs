//! Seals the files of a repository of backups, and names them.
//!
//! Each file has a key of its own, derived from the data key and the file's name, and some dozens of blocks; one that is written again under its name is
//! sealed anew with other nonces. A file that is named by its content has a keyed digest for a name: without the key nobody can tell that a
//! repository has a file of bytes that they know.

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;

use crate::data_key::DataKey;
use crate::sealer::Sealer;

const NAMES: &[u8] = b"quarry backup names 1";
const OBJECT: &[u8] = b"quarry backup object 1";

/// The keys of one repository.
pub struct ObjectSeal {
    key: DataKey,
    names: hmac::Key,
}

/// Tells nothing of the keys.
impl std::fmt::Debug for ObjectSeal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ObjectSeal")
    }
}

impl ObjectSeal {
    /// With keys derived from this one.
    pub fn new(key: DataKey) -> ObjectSeal {
        let pseudorandom = Salt::new(HKDF_SHA256, &[]).extract(key.bytes());
        let names = pseudorandom.expand(&[NAMES], hmac::HMAC_SHA256);
        let names = names.expect("32 bytes are fewer than HKDF gives");
        ObjectSeal {
            names: hmac::Key::from(names),
            key,
        }
    }

    /// The keyed digest of these bytes, in whichever steps they come.
    pub fn digest<'b>(&self, steps: impl Iterator<Item = &'b [u8]>) -> [u8; 32] {
        let mut digest = hmac::Context::with_key(&self.names);
        steps.for_each(|step| digest.update(step));
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.sign().as_ref());
        bytes
    }

    /// The key of the file of this name.
    pub fn sealer(&self, name: &str) -> Sealer {
        self.key.derive(&[], OBJECT, name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_all_bytes_and_of_the_key() {
        let key = DataKey::random().unwrap();
        let seal = ObjectSeal::new(key.clone());
        let whole = seal.digest([&b"some bytes"[..]].into_iter());
        assert_eq!(whole, seal.digest([&b"some "[..], b"bytes"].into_iter()));
        assert_ne!(whole, seal.digest([&b"some"[..], b"bytes"].into_iter()));
        assert_eq!(
            whole,
            ObjectSeal::new(key).digest([&b"some bytes"[..]].into_iter())
        );
        let other = ObjectSeal::new(DataKey::random().unwrap());
        assert_ne!(whole, other.digest([&b"some bytes"[..]].into_iter()));
    }

    #[test]
    fn each_file_has_a_key_of_its_own() {
        let key = DataKey::random().unwrap();
        let seal = ObjectSeal::new(key.clone());
        let mut sealed = b"bytes".to_vec();
        seal.sealer("chunks/aa/aa")
            .seal(b"", &mut sealed, 0)
            .unwrap();
        let opens = |seal: &ObjectSeal, name: &str| {
            let opened = &mut sealed.clone();
            seal.sealer(name).open(b"", opened).is_some()
        };
        assert!(opens(&seal, "chunks/aa/aa"));
        assert!(opens(&ObjectSeal::new(key), "chunks/aa/aa"), "later");
        assert!(!opens(&seal, "chunks/aa/ab"));
        let other = ObjectSeal::new(DataKey::random().unwrap());
        assert!(!opens(&other, "chunks/aa/aa"));
    }
}
