//! The stamp of a group: its place in the one history that all nodes share. Whoever leads gives it, and it is the same
//! wherever the group is kept, unlike incarnations, durable marks and times of writing, which are each node's own.
//!
//! - *Term*: which leader gave it. There is one node, and its term is 1.
//! - *Index*: groups are counted from 0, without gaps, over restarts.
//! - *Cluster time*: the time of the group's first record, in seconds since 1970 in the high 32 bits and a counter in the low
//!   32, as a BSON timestamp has it. Record *i* of a group has the time of the first one plus *i*; so each record has a
//!   time of its own, times rise with LSNs, and they never fall, not even where the system's clock does.
//! - *Digest*: of the group's records and stamp and of the digest before, so that two nodes with the same digest have the
//!   same history since the digest began. It finds what checksums of single groups cannot: a history that went another way.
//!
//! In a journal that is sealed the digest sums up the sealed bodies: one of the records, which stands in the clear, would tell
//! somebody who guesses at them whether the guess is right.
//!
//! The digest is XXH3 with 64 bits. It is no proof against somebody who wants two histories to look alike.

use twox_hash::XxHash3_64;

/// No cluster time that is read from a disk is above this, so that counting on never overflows. It is reached in 2106.
pub(crate) const CLUSTER_TIME_MAX: u64 = (u32::MAX as u64) << 32;
/// Clocks and clients bring the cluster time no further than this, however wrong they are: from here on it is counted, and
/// there are 2^52 records left before `CLUSTER_TIME_MAX`.
const CLUSTER_TIME_GIVEN_MAX: u64 = ((u32::MAX - (1 << 20)) as u64) << 32;
/// No group that is read from a disk is numbered above this.
pub(crate) const INDEX_MAX: u64 = 1 << 62;
/// The term of a node that nobody else leads.
const TERM_ALONE: u64 = 1;

/// The place of a group in the history. Behind the last group it says what the next one will have: its index, the lowest
/// cluster time that it may have, and the digest that its own goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Which leader gave the group its place.
    pub term: u64,
    /// How many groups there are before it.
    pub index: u64,
    /// The cluster time of its first record: seconds since 1970 in the high half, a counter in the low half.
    pub cluster_time: u64,
    /// The digest of the history up to and including the group.
    pub digest: u64,
}

/// Seconds and counter of the first cluster time in the second of that wall time.
pub(crate) fn earliest_at(unix_ms: u64) -> u64 {
    (unix_ms / 1000).min(u32::MAX.into()) << 32 | 1
}

impl Stamp {
    /// With `self` behind the last group: the cluster time of a group that is made now, and not below `lowest`. Neither the clock
    /// nor `lowest` brings it beyond `CLUSTER_TIME_GIVEN_MAX`: a group that says a later time than `CLUSTER_TIME_MAX` would
    /// be written, and not be read.
    pub(crate) fn cluster_time_at(&self, unix_ms: u64, lowest: u64) -> u64 {
        let given = earliest_at(unix_ms).max(lowest);
        self.cluster_time.max(given.min(CLUSTER_TIME_GIVEN_MAX))
    }

    /// Whether a start can go on from it.
    pub(crate) fn is_possible(&self) -> bool {
        self.index <= INDEX_MAX && self.cluster_time <= CLUSTER_TIME_MAX
    }

    /// With `self` behind the last group: the stamp of the next one, which holds these records as they are without
    /// compression, or this sealed body.
    pub(crate) fn of_next(
        &self,
        cluster_time: u64,
        first_lsn: u64,
        count: u32,
        records: &[u8],
    ) -> Stamp {
        debug_assert!(
            cluster_time >= self.cluster_time,
            "cluster time never falls"
        );
        let mut next = Stamp {
            term: self.term.max(TERM_ALONE),
            index: self.index,
            cluster_time,
            digest: self.digest,
        };
        next.digest = next.digest_of(first_lsn, count, records);
        next
    }

    /// The stamp behind a group of `count` records that has this one.
    pub(crate) fn behind(&self, count: u32) -> Stamp {
        Stamp {
            index: self.index + u64::from(count > 0),
            cluster_time: self.cluster_time + u64::from(count),
            ..*self
        }
    }

    /// Whether a group with the stamp `next` can follow; its digest is another matter (`is_digest_of`).
    pub(crate) fn precedes(&self, next: &Stamp) -> bool {
        self.index == next.index && self.cluster_time <= next.cluster_time && self.term <= next.term
    }

    /// With `self` behind the last group: whether the digest of `next` is that of a group with these records, or this sealed
    /// body.
    pub(crate) fn is_digest_of(
        &self,
        next: &Stamp,
        first_lsn: u64,
        count: u32,
        records: &[u8],
    ) -> bool {
        let unfinished = Stamp {
            digest: self.digest,
            ..*next
        };
        next.digest == unfinished.digest_of(first_lsn, count, records)
    }

    /// The digest of a group whose stamp has the digest of the group before in its place. The records are summed up by
    /// themselves, so that this can be done before their place is known. A group without records adds nothing.
    fn digest_of(&self, first_lsn: u64, count: u32, records: &[u8]) -> u64 {
        if count == 0 {
            return self.digest;
        }
        let words = [
            self.digest,
            self.term,
            self.index,
            self.cluster_time,
            first_lsn,
            u64::from(count),
            XxHash3_64::oneshot(records),
        ];
        let mut bytes = [0; 56];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        XxHash3_64::oneshot(&bytes)
    }

    /// As it stands in headers: four words.
    pub(crate) fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        let words = [self.term, self.index, self.cluster_time, self.digest];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// None for one that cannot be counted on from.
    pub(crate) fn from_bytes(bytes: &[u8; STAMP_BYTES]) -> Option<Stamp> {
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
            u64::from_le_bytes(word)
        };
        let stamp = Stamp {
            term: word(0),
            index: word(1),
            cluster_time: word(2),
            digest: word(3),
        };
        stamp.is_possible().then_some(stamp)
    }
}

/// The bytes of a stamp in a header.
pub(crate) const STAMP_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_times_rise_with_records_and_never_fall_with_the_clock() {
        let begun = Stamp::default();
        let first = begun.cluster_time_at(5000, 0);
        assert_eq!(first, 5 << 32 | 1);
        let stamp = begun.of_next(first, 1, 3, b"records");
        let behind = stamp.behind(3);
        assert_eq!(behind.cluster_time_at(5999, 0), 5 << 32 | 4);
        assert_eq!(behind.cluster_time_at(6000, 0), 6 << 32 | 1);
        assert_eq!(
            behind.cluster_time_at(1000, 0),
            5 << 32 | 4,
            "the clock was set back"
        );
        assert_eq!(
            behind.cluster_time_at(1000, 9 << 32),
            9 << 32,
            "a client knows of a later one"
        );
        for (clock, lowest) in [(u64::MAX, 0), (0, u64::MAX)] {
            let latest = behind.cluster_time_at(clock, lowest);
            assert_eq!(latest, CLUSTER_TIME_GIVEN_MAX);
            let last = begun.of_next(latest, 4, u32::MAX, b"records");
            assert!(last.behind(u32::MAX).is_possible());
        }
    }

    #[test]
    fn a_digest_tells_histories_apart_by_records_place_and_past() {
        let begun = Stamp::default();
        let of = |past: &Stamp, time, lsn, count, records: &[u8]| {
            past.of_next(time, lsn, count, records)
        };
        let group = of(&begun, 1, 1, 2, b"records");
        assert!(begun.is_digest_of(&group, 1, 2, b"records"));
        let others = [
            of(&begun, 1, 1, 2, b"recordz"),
            of(&begun, 2, 1, 2, b"records"),
            of(&begun, 1, 2, 2, b"records"),
            of(&begun, 1, 1, 1, b"records"),
            of(&Stamp { digest: 1, ..begun }, 1, 1, 2, b"records"),
            of(&Stamp { index: 1, ..begun }, 1, 1, 2, b"records"),
        ];
        for other in others {
            assert_ne!(other.digest, group.digest, "{other:?}");
        }
        let behind = group.behind(2);
        assert_eq!((behind.index, behind.cluster_time), (1, 3));
        assert_eq!(
            of(&behind, 3, 3, 0, b"").digest,
            group.digest,
            "a mark adds nothing"
        );
    }

    #[test]
    fn a_stamp_that_nobody_can_count_on_from_is_none() {
        let possible = Stamp {
            term: u64::MAX,
            index: INDEX_MAX,
            cluster_time: CLUSTER_TIME_MAX,
            digest: u64::MAX,
        };
        assert_eq!(Stamp::from_bytes(&possible.to_bytes()), Some(possible));
        let _ = possible.behind(u32::MAX);
        for impossible in [
            Stamp {
                index: INDEX_MAX + 1,
                ..possible
            },
            Stamp {
                cluster_time: CLUSTER_TIME_MAX + 1,
                ..possible
            },
        ] {
            assert_eq!(Stamp::from_bytes(&impossible.to_bytes()), None);
        }
    }
}
