//! The names wanted at one place of a path tree, and the hints about their order.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::layout;

/// Names of one level that one walk looks for; a level with more walks again.
pub(super) const NAMES_MAX: usize = 64;

/// Beyond any slice of slots.
const NO_SLOT: usize = usize::MAX;

#[derive(Debug, Default)]
pub(super) struct Level {
    pub names: Vec<Name>,
    /// A bit for each name.
    pub all: u64,
    /// A bit for each wanted key's hash.
    filter: u64,
    /// The name that the last document had first.
    first: AtomicU8,
    /// A further level for the same documents, where one mask of found names is too small.
    pub more: Option<usize>,
}

impl Level {
    pub fn push(&mut self, name: &[u8]) {
        let (key, at) = (layout::name_key(name), self.names.len());
        self.filter |= 1 << key_hash(key);
        self.all |= 1 << at;
        self.names.push(Name {
            sight: Sight::of(name),
            is_plain: true,
            bit: 1 << at,
            next: AtomicU8::new(at as u8 + 1),
            key,
            name: name.into(),
            slot: NO_SLOT,
            more_slots: Vec::new(),
            below: None,
        });
    }

    /// The name to expect first.
    pub fn first(&self) -> Option<&Name> {
        self.names.get(self.first.load(Relaxed) as usize)
    }

    /// The name to expect after another.
    #[inline(always)]
    pub fn after(&self, name: &Name) -> Option<&Name> {
        self.names.get(name.next.load(Relaxed) as usize)
    }

    /// Notes that `found` came after `before`, or came first.
    pub fn remember(&self, before: Option<&Name>, found: &Name) {
        let hint = before.map_or(&self.first, |name| &name.next);
        hint.store(found.bit.trailing_zeros() as u8, Relaxed);
    }

    /// Whether a name of this key could be wanted.
    #[inline(always)]
    pub fn may_want(&self, key: u64) -> bool {
        self.filter >> key_hash(key) & 1 == 1
    }

    /// The wanted and missing name that an element has.
    #[inline(never)]
    pub fn search(&self, key: u64, name: &[u8], missing: u64) -> Option<&Name> {
        let mut left = missing;
        while left != 0 {
            let wanted = self.names.get(left.trailing_zeros() as usize)?;
            if wanted.is(key, name) {
                return Some(wanted);
            }
            left &= left - 1;
        }
        None
    }
}

/// Aligned so that its place in the list takes a shift: a walk waits for it at each name found.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Name {
    pub sight: Sight,
    /// Whether the name leads to one slot and no further.
    pub is_plain: bool,
    /// This name in a mask of its level's names.
    pub bit: u64,
    /// The wanted name that followed this one in the last document.
    next: AtomicU8,
    /// `NO_SLOT` where only longer paths go through this name.
    pub slot: usize,
    key: u64,
    name: Box<[u8]>,
    /// Slots of the same path given again.
    pub more_slots: Vec<usize>,
    pub below: Option<usize>,
}

impl Name {
    pub fn fills(&mut self, slot: usize) {
        if self.slot == NO_SLOT {
            self.slot = slot;
        } else {
            self.more_slots.push(slot);
            self.branches();
        }
    }

    /// Makes a level below this name's.
    pub fn leads_on(&mut self, below: usize) {
        self.below = Some(below);
        self.branches();
    }

    fn branches(&mut self) {
        self.is_plain = false;
        self.sight = Sight::NONE;
    }

    pub fn is_named(&self, name: &[u8]) -> bool {
        *self.name == *name
    }

    #[inline(always)]
    pub fn is(&self, key: u64, name: &[u8]) -> bool {
        // Below eight bytes the key holds the whole name and its end.
        self.key == key && (name.len() < 8 || self.is_named(name))
    }
}

/// A name that one or two words tell from every other, its NUL included: so that where it is expected it need
/// not be searched for its end, and costs no call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    head: u64,
    head_mask: u64,
    /// The eight bytes that end with the NUL, of a name of eight bytes or more.
    tail: u64,
    pub name_len: usize,
}

impl Sight {
    /// Two words hold no longer name.
    const NAME_BYTES_MAX: usize = 15;

    /// No bytes are this name.
    const NONE: Self = Self {
        head: 1,
        head_mask: 0,
        tail: 0,
        name_len: 0,
    };

    fn of(name: &[u8]) -> Self {
        let name_len = name.len();
        if name_len > Self::NAME_BYTES_MAX {
            return Self::NONE;
        }
        let mut ended = [0; Self::NAME_BYTES_MAX + 1];
        ended[..name_len].copy_from_slice(name);
        let tail_at = (name_len + 1).saturating_sub(8);
        Self {
            head: layout::name_key(name),
            head_mask: u64::MAX >> (56 - 8 * name_len.min(7)),
            tail: layout::read_u64(&ended, tail_at).unwrap_or_default(),
            name_len,
        }
    }

    /// Whether `bytes` start with this name and its NUL.
    #[inline(always)]
    pub fn begins(&self, bytes: &[u8]) -> bool {
        let Some(head) = layout::read_u64(bytes, 0) else {
            return false;
        };
        head & self.head_mask == self.head
            && (self.name_len < 8 || layout::read_u64(bytes, self.name_len - 7) == Some(self.tail))
    }
}

/// Six bits of a key.
#[inline(always)]
fn key_hash(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_seen_where_it_stands_and_nowhere_else() {
        for len in 0..20 {
            let name = vec![b'x'; len];
            let sight = Sight::of(&name);
            for other in 0..20 {
                let mut bytes = vec![b'x'; other];
                bytes.extend([0; 9]);
                assert_eq!(
                    sight.begins(&bytes),
                    len == other && len <= Sight::NAME_BYTES_MAX,
                    "{len} {other}"
                );
            }
            let mut bytes = [name.as_slice(), &[0; 9]].concat();
            if let Some(last) = len.checked_sub(1) {
                bytes[last] = b'y';
                assert!(!sight.begins(&bytes));
            }
            assert!(!sight.begins(&name));
        }
    }
}
