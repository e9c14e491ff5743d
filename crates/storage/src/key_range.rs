//! A half-open range of keys, compared as unsigned bytes.
//!
//! An empty `end` means "to the last key". A range whose end is not above its start is empty, not
//! an error: bounds arrive from planners.

/// Keys `k` with `start <= k`, and `k < end` unless `end` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest key that is in the range.
    pub start: Vec<u8>,
    /// Exclusive; empty means unbounded.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// The keys from `start` up to and without `end`; an empty `end` is no bound.
    #[must_use]
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self {
            start: start.into(),
            end: end.into(),
        }
    }

    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            start: prefix.to_vec(),
            end: prefix_end(prefix),
        }
    }

    /// Whether the key lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_before_end(key)
    }

    /// Whether the key lies below the range's end, whatever its start.
    #[must_use]
    pub fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    /// No key can be in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }
}

/// The smallest byte string above every extension of `prefix`; empty when there is none.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|&byte| byte != 0xff) else {
        return Vec::new();
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_its_extensions_and_nothing_else() {
        let range = KeyRange::prefix(&[0x10, 0xff]);
        assert_eq!(range.end, [0x11]);
        assert!(range.contains(&[0x10, 0xff]));
        assert!(range.contains(&[0x10, 0xff, 0xff, 0xff]));
        assert!(!range.contains(&[0x10, 0xfe]));
        assert!(!range.contains(&[0x11]));
    }

    #[test]
    fn a_prefix_of_ones_is_unbounded() {
        let range = KeyRange::prefix(&[0xff, 0xff]);
        assert!(range.end.is_empty());
        assert!(range.contains(&[0xff, 0xff, 0x01]));
        assert!(!range.contains(&[0xff, 0xfe]));
    }

    #[test]
    fn emptiness() {
        assert!(KeyRange::new([2], [2]).is_empty());
        assert!(KeyRange::new([3], [2]).is_empty());
        assert!(!KeyRange::new([3], []).is_empty());
        assert!(!KeyRange::all().is_empty());
    }
}
