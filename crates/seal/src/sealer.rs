//! One key of AES-256-GCM, and the form in which everything sealed with it stands.
//!
//! Sealing draws 12 random bytes for a nonce each time. Two sealings under one key meet in their nonces with a probability of
//! about n^2 / 2^97 for n sealings; whoever makes keys sees to it that n stays far below 2^32, for which that is 2^-33.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// The bytes of every key.
pub(crate) const KEY_BYTES: usize = 32;
/// The bytes of the tag by which a change is found.
pub(crate) const TAG_BYTES: usize = 16;
pub(crate) const NONCE_BYTES: usize = NONCE_LEN;
/// Sealing makes bytes so much longer: they end in a tag of 16 bytes and a nonce of 12.
pub const ADDED_BYTES: usize = TAG_BYTES + NONCE_BYTES;

/// A key that seals and opens.
#[derive(Clone)]
pub struct Sealer {
    key: LessSafeKey,
}

/// Fills the bytes from the system's source of randomness.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    (SystemRandom::new().fill(bytes)).map_err(|_| Error::NoRandomness)
}

impl Sealer {
    pub(crate) fn new(key: UnboundKey) -> Sealer {
        Sealer {
            key: LessSafeKey::new(key),
        }
    }

    /// A random key that is kept nowhere: what it seals can be opened as long as it is held.
    pub fn of_this_process() -> Result<Sealer> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill_random(&mut *bytes)?;
        Ok(Sealer::of_bytes(&bytes))
    }

    pub(crate) fn of_bytes(bytes: &[u8; KEY_BYTES]) -> Sealer {
        let key = UnboundKey::new(&AES_256_GCM, bytes);
        Sealer::new(key.expect("a key of 32 bytes is one of AES-256"))
    }

    /// Encrypts `buffer` from `from` on where it stands, and appends tag and nonce: `ADDED_BYTES` more. `place` is not
    /// stored, and has to be given to open what was sealed.
    pub fn seal(&self, place: &[u8], buffer: &mut Vec<u8>, from: usize) -> Result<()> {
        let mut nonce = [0; NONCE_BYTES];
        fill_random(&mut nonce)?;
        let tag = self.key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place),
            &mut buffer[from..],
        );
        let tag = tag.expect("no block is as long as 64 GiB");
        buffer.extend_from_slice(tag.as_ref());
        buffer.extend_from_slice(&nonce);
        Ok(())
    }

    /// Decrypts what `seal` has made, where it stands. `None` if a bit of it or of `place` differs, and the bytes mean nothing then.
    pub fn open<'b>(&self, place: &[u8], sealed: &'b mut [u8]) -> Option<&'b mut [u8]> {
        if sealed.len() < ADDED_BYTES {
            return None;
        }
        let (sealed, nonce) = sealed.split_at_mut(sealed.len() - NONCE_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        (self.key.open_in_place(nonce, Aad::from(place), sealed)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_at_its_place_alone_and_only_as_it_was() {
        let sealer = Sealer::of_this_process().unwrap();
        let mut sealed = b"head".to_vec();
        sealed.extend_from_slice(b"a plain text");
        sealer.seal(b"here", &mut sealed, 4).unwrap();
        assert_eq!(sealed.len(), 4 + 12 + ADDED_BYTES);
        assert_eq!(&sealed[..4], b"head");
        let sealed = sealed.split_off(4);
        let open = |place: &[u8], mut bytes: Vec<u8>| {
            sealer.open(place, &mut bytes).map(|plain| plain.to_vec())
        };
        assert_eq!(open(b"here", sealed.clone()).unwrap(), b"a plain text");
        assert!(open(b"there", sealed.clone()).is_none());
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(open(b"here", changed).is_none(), "bit {bit}");
        }
        for cut in 0..sealed.len() {
            assert!(open(b"here", sealed[..cut].to_vec()).is_none(), "{cut}");
        }
        let other = Sealer::of_this_process().unwrap();
        assert!(other.open(b"here", &mut sealed.clone()).is_none());
    }

    #[test]
    fn one_text_is_never_sealed_to_the_same_bytes_again() {
        let sealer = Sealer::of_this_process().unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let mut sealed = b"a plain text".to_vec();
            sealer.seal(b"here", &mut sealed, 0).unwrap();
            assert!(seen.insert(sealed[sealed.len() - NONCE_BYTES..].to_vec()));
        }
    }
}
