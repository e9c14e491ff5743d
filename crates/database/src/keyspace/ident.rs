//! Idents: the numbers that name a collection or an index in the keyspace, and their ordered prefix form.
//!
//! A prefix is an ordered varint: values below 240 are one byte; a larger value is a byte `0xF0 + (n - 1)` and its
//! `n` big-endian bytes without leading zeros. No prefix is the beginning of another, and byte order is number order.
//! Idents are never reused: the next one is stored as the high-water mark.

/// The first ident given to a collection or an index; smaller numbers are prefixes of the system.
pub const FIRST_IDENT: u64 = 16;

const ONE_BYTE_MAX: u64 = 0xEF;
const PREFIX_BYTES_MAX: usize = 9;

/// The number of one collection or one index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ident(pub u64);

/// An ident in its ordered form, as every key of its collection or index begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    bytes: [u8; PREFIX_BYTES_MAX],
    len: u8,
}

impl Ident {
    /// The ordered form, which keys begin with.
    pub fn prefix(self) -> Prefix {
        let mut bytes = [0; PREFIX_BYTES_MAX];
        if self.0 <= ONE_BYTE_MAX {
            bytes[0] = u8::try_from(self.0).expect("at most 0xEF");
            return Prefix { bytes, len: 1 };
        }
        let big = self.0.to_be_bytes();
        let skip = (self.0.leading_zeros() / 8) as usize;
        let n = 8 - skip;
        bytes[0] = 0xF0 + u8::try_from(n - 1).expect("at most 7");
        bytes[1..=n].copy_from_slice(&big[skip..]);
        Prefix {
            bytes,
            len: u8::try_from(n + 1).expect("at most 9"),
        }
    }
}

impl Prefix {
    /// The prefix that the key begins with; None where it is cut.
    pub fn of_key(key: &[u8]) -> Option<Prefix> {
        let first = u64::from(*key.first()?);
        let len = 1 + (first + 1).saturating_sub(0xF0).min(8) as usize;
        let mut bytes = [0; PREFIX_BYTES_MAX];
        bytes[..len].copy_from_slice(key.get(..len)?);
        Some(Prefix {
            bytes,
            len: len as u8,
        })
    }

    /// The bytes that keys begin with.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// All bytes in one move, and those behind the prefix cut off.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + usize::from(self.len);
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }

    /// The first key behind every key with this prefix.
    pub fn end(&self) -> Vec<u8> {
        let mut end = self.as_bytes().to_vec();
        for i in (0..end.len()).rev() {
            if end[i] < 0xFF {
                end[i] += 1;
                end.truncate(i + 1);
                return end;
            }
        }
        vec![0xFF; PREFIX_BYTES_MAX + 1]
    }
}

/// A random (version 4) UUID.
pub(crate) fn new_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    getrandom::fill(&mut uuid).expect("the kernel gives random bytes");
    uuid[6] = (uuid[6] & 0x0F) | 0x40;
    uuid[8] = (uuid[8] & 0x3F) | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_bytes_is_order_of_numbers_and_no_prefix_begins_another() {
        let mut numbers: Vec<u64> = (0..70)
            .flat_map(|s| [1u64 << (s % 64), (1u64 << (s % 64)) - 1])
            .collect();
        numbers.extend([0, 239, 240, 241, 255, 256, u64::MAX]);
        numbers.sort_unstable();
        numbers.dedup();
        for pair in numbers.windows(2) {
            let (a, b) = (Ident(pair[0]).prefix(), Ident(pair[1]).prefix());
            assert!(a.as_bytes() < b.as_bytes(), "{pair:?}");
            assert!(!b.as_bytes().starts_with(a.as_bytes()), "{pair:?}");
            assert!(a.end().as_slice() <= b.as_bytes(), "{pair:?}");
            let key = [b.as_bytes(), &[0xFF; 9]].concat();
            assert!(Prefix::of_key(&key) == Some(b), "{pair:?}");
            assert!(Prefix::of_key(&b.as_bytes()[..b.as_bytes().len() - 1]).is_none());
        }
    }
}
