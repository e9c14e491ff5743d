//! The data key of a directory, and the keys that are derived from it.

use std::fmt;
use std::sync::Arc;

use ring::aead::{AES_256_GCM, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use crate::error::Result;
use crate::sealer::{KEY_BYTES, Sealer, fill_random};

/// The random key of one data directory. It seals nothing by itself: each use has a key that is derived from it.
#[derive(Clone)]
pub struct DataKey {
    bytes: Arc<Zeroizing<[u8; KEY_BYTES]>>,
}

impl DataKey {
    /// A new one.
    pub fn random() -> Result<DataKey> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill_random(&mut *bytes)?;
        Ok(DataKey::of_bytes(bytes))
    }

    pub(crate) fn of_bytes(bytes: Zeroizing<[u8; KEY_BYTES]>) -> DataKey {
        DataKey {
            bytes: Arc::new(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// The key for one use.
    pub(crate) fn derive(&self, salt: &[u8], purpose: &[u8], place: &[u8]) -> Sealer {
        derive(self.bytes(), salt, purpose, place)
    }
}

/// HKDF over SHA-256: `purpose` names what the key is for, and no two purposes of this crate begin alike; `salt` and `place`
/// tell the keys of one purpose apart.
pub(crate) fn derive(
    secret: &[u8; KEY_BYTES],
    salt: &[u8],
    purpose: &[u8],
    place: &[u8],
) -> Sealer {
    let pseudorandom = Salt::new(HKDF_SHA256, salt).extract(secret);
    let info = [purpose, place];
    let derived = pseudorandom.expand(&info, &AES_256_GCM);
    let derived = derived.expect("32 bytes are fewer than HKDF gives");
    Sealer::new(UnboundKey::from(derived))
}

/// Tells nothing of the key.
impl fmt::Debug for DataKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DataKey")
    }
}
