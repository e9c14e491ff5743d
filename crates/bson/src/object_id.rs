//! ObjectId: twelve bytes, made of seconds, a number drawn once a process, and a counter.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Error, Result};

/// Twelve bytes that identify a document; ordered by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// The id of twelve bytes as they stand in a document.
    #[inline]
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// The twelve bytes.
    #[inline]
    pub const fn bytes(&self) -> [u8; 12] {
        self.0
    }

    /// A new id: four bytes of seconds, five bytes that differ by process, three bytes that count
    /// (big-endian all, so that ids of one process sort by age).
    pub fn generate() -> Self {
        let origin = origin();
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs()) as u32;
        let count = origin.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..9].copy_from_slice(&origin.process);
        bytes[9..].copy_from_slice(&count[1..]);
        Self(bytes)
    }

    /// Reads 24 hexadecimal digits of either case.
    pub fn parse_hex(hex: &str) -> Result<Self> {
        let digits = hex.as_bytes();
        let mut bytes = [0; 12];
        if digits.len() != 24 {
            return Err(Error::text(0, "24 hexadecimal digits"));
        }
        for (i, pair) in digits.chunks_exact(2).enumerate() {
            let digit = |b: u8| {
                char::from(b)
                    .to_digit(16)
                    .ok_or_else(|| Error::text(2 * i, "hexadecimal digits"))
            };
            bytes[i] = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }

    /// 24 hexadecimal digits in lower case.
    pub fn to_hex(&self) -> String {
        self.to_string()
    }

    /// Seconds since 1970 of the id's making, as its first four bytes say.
    pub const fn seconds(&self) -> u32 {
        u32::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

struct Origin {
    process: [u8; 5],
    counter: AtomicU32,
}

/// The process's part, drawn from the standard library's per-process random hash keys.
fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    ORIGIN.get_or_init(|| {
        let draw =
            |salt: u64| RandomState::new().hash_one((salt, std::process::id(), SystemTime::now()));
        let first = draw(1).to_le_bytes();
        let process = [first[0], first[1], first[2], first[3], first[4]];
        Origin {
            process,
            counter: AtomicU32::new(draw(2) as u32),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways_and_wrong_text_is_refused() {
        let id = ObjectId::parse_hex("507F1f77bcf86cd799439011").unwrap();
        assert_eq!(id.to_hex(), "507f1f77bcf86cd799439011");
        assert_eq!(id.seconds(), 0x507f_1f77);
        assert!(ObjectId::parse_hex("507f1f77bcf86cd79943901").is_err());
        assert!(ObjectId::parse_hex("507f1f77bcf86cd79943901g").is_err());
        assert!(ObjectId::parse_hex("507f1f77bcf86cd79943901é").is_err());
    }

    #[test]
    fn generated_ids_differ_and_share_their_process() {
        let (a, b) = (ObjectId::generate(), ObjectId::generate());
        assert_ne!(a, b);
        assert_eq!(a.bytes()[4..9], b.bytes()[4..9]);
        assert!(a.seconds() > 1_600_000_000);
    }
}
