//! Seals the groups of a journal.
//!
//! A group's key is derived from the data key, the life of the journal that writes the group, and a stretch of 2^20 positions
//! in the log. So one key seals some 2^20 groups, and the groups that are appended again at a position that a failure or a
//! crash has cut off; at 2^24 sealings random nonces meet with a probability of 2^-49. Nothing counts on positions being new: a
//! group that is cut off and appended again at the same place has another nonce, as has one that a restored copy writes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::data_key::DataKey;
use crate::error::Result;
use crate::sealer::Sealer;

const PURPOSE: &[u8] = b"quarry journal group 1";
/// The positions that share a key, as a power of two.
const STRETCH_BITS: u32 = 20;
/// One writer and a few readers that are elsewhere.
const KEYS_KEPT: usize = 8;

/// Incarnation of the journal, and number of the stretch.
type Stretch = (u64, u64);

/// The keys of the groups of one data directory's journal.
pub struct GroupSeal {
    key: DataKey,
    /// Those that were used last, the latest first.
    recent: Mutex<VecDeque<(Stretch, Arc<Sealer>)>>,
}

/// Tells nothing of the keys.
impl fmt::Debug for GroupSeal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("GroupSeal")
    }
}

impl GroupSeal {
    /// With keys derived from this one.
    pub fn new(key: DataKey) -> GroupSeal {
        GroupSeal {
            key,
            recent: Mutex::default(),
        }
    }

    /// Seals `buffer` from `from` on, as [`Sealer::seal`] does, with the key of the group at this position.
    pub fn seal(
        &self,
        incarnation: u64,
        first_lsn: u64,
        place: &[u8],
        buffer: &mut Vec<u8>,
        from: usize,
    ) -> Result<()> {
        (self.sealer(incarnation, first_lsn)).seal(place, buffer, from)
    }

    /// Opens the body of the group at this position, as [`Sealer::open`] does.
    pub fn open<'b>(
        &self,
        incarnation: u64,
        first_lsn: u64,
        place: &[u8],
        sealed: &'b mut [u8],
    ) -> Option<&'b mut [u8]> {
        (self.sealer(incarnation, first_lsn)).open(place, sealed)
    }

    fn sealer(&self, incarnation: u64, first_lsn: u64) -> Arc<Sealer> {
        let stretch = (incarnation, first_lsn >> STRETCH_BITS);
        let mut recent = self.recent.lock();
        let found = recent.iter().position(|(of, _)| *of == stretch);
        if let Some(found) = found {
            // The writer's key stays in front of those of readers that pass.
            recent.swap(0, found);
            return Arc::clone(&recent[0].1);
        }
        let place = [stretch.0.to_le_bytes(), stretch.1.to_le_bytes()].concat();
        let sealer = Arc::new(self.key.derive(&[], PURPOSE, &place));
        recent.push_front((stretch, Arc::clone(&sealer)));
        recent.truncate(KEYS_KEPT);
        sealer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_life_and_stretch_and_are_found_again() {
        let key = DataKey::random().unwrap();
        let seal = GroupSeal::new(key.clone());
        let mut sealed = b"records".to_vec();
        seal.seal(1, 5, b"place", &mut sealed, 0).unwrap();
        let opens = |seal: &GroupSeal, incarnation, first_lsn| {
            let opened = &mut sealed.clone();
            seal.open(incarnation, first_lsn, b"place", opened)
                .is_some_and(|plain| plain == b"records")
        };
        for incarnation in 10..30 {
            assert!(!opens(&seal, incarnation, 5));
        }
        assert!(!opens(&seal, 1, 5 + (1 << STRETCH_BITS)));
        assert!(opens(&seal, 1, 5));
        assert!(seal.recent.lock().len() <= KEYS_KEPT);
        assert!(opens(&GroupSeal::new(key), 1, 5), "after a start");
        let other = GroupSeal::new(DataKey::random().unwrap());
        assert!(!opens(&other, 1, 5));
    }
}
