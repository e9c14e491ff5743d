//! A place between two changes, to go on from later: what resume tokens carry.
//!
//! A place behind a change names its record by LSN and cluster time and the life of the journal that wrote it. A record of
//! another life under the same LSN, after a tail was lost or an older copy of the data was put in place, has another life or
//! another time, so that nobody goes on from it by mistake. A place behind all changes up to a time has no LSN: only where the
//! journal has no record yet, or whoever began gave a time. It names the life where that time had not come yet.
//!
//! Clients are told places, and must not learn a life's incarnation: whoever knows it can write documents that a start takes
//! for groups of the journal, where a tail is torn or a segment is used again. A life has therefore another number here, a hash
//! of the incarnation and of the database's UUID, which no client is told either. Places of earlier versions name the
//! incarnation itself; they are taken for lives that have ended, so that nobody can try numbers for the one that goes on.

use std::cell::Cell;

use quarry_journal::Journal;
use sha2::{Digest, Sha256};

/// The place behind a change, or behind all changes up to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangePoint {
    /// The record's own cluster time, which may be earlier than that of the commit that it became visible with; or the time up to which nothing is left.
    pub cluster_time: u64,
    /// How many changes of the record come before this one.
    pub index: u32,
    /// The record; 0 where the place is behind a time.
    pub lsn: u64,
    /// The life of the journal that wrote the record, as `Lives` numbers it; 0 where the place is behind a time that had come.
    pub life: u64,
}

/// The index of a place behind all changes of its record.
pub(super) const WHOLE_RECORD: u32 = u32::MAX;

/// The bytes of a place.
pub const CHANGE_POINT_BYTES: usize = 28;

impl ChangePoint {
    /// The place as bytes that order as places do: by cluster time, then within the record.
    pub fn to_bytes(self) -> [u8; CHANGE_POINT_BYTES] {
        let mut bytes = [0; CHANGE_POINT_BYTES];
        bytes[..8].copy_from_slice(&self.cluster_time.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.index.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.lsn.to_be_bytes());
        bytes[20..].copy_from_slice(&self.life.to_be_bytes());
        bytes
    }

    /// Reads a place back.
    pub fn from_bytes(bytes: &[u8; CHANGE_POINT_BYTES]) -> ChangePoint {
        let long = |at: usize| {
            let mut long = [0; 8];
            long.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(long)
        };
        ChangePoint {
            cluster_time: long(0),
            index: u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            lsn: long(12),
            life: long(20),
        }
    }

    /// The place behind all changes up to a time.
    pub(super) fn behind_time(cluster_time: u64) -> ChangePoint {
        ChangePoint {
            cluster_time,
            index: WHOLE_RECORD,
            lsn: 0,
            life: 0,
        }
    }

    /// Whether the place is behind a time, and not behind a record or a change in it.
    pub fn is_behind_time(&self) -> bool {
        self.lsn == 0
    }
}

/// The numbers that places have for the lives of a journal.
pub(super) struct Lives {
    database: [u8; 16],
    /// The life that goes on, by its incarnation.
    current: u64,
    /// The incarnation that was asked for last, and its number.
    last: Cell<(u64, u64)>,
}

impl Lives {
    pub fn of(journal: &Journal) -> Lives {
        let database = journal.identity().map(|identity| identity.database);
        Lives::new(database.unwrap_or_default(), journal.incarnation())
    }

    fn new(database: [u8; 16], current: u64) -> Lives {
        let last = Cell::new((0, 0));
        Lives {
            database,
            current,
            last,
        }
    }

    /// The number of a life; 0 for none.
    pub fn number(&self, incarnation: u64) -> u64 {
        let (last, number) = self.last.get();
        match incarnation {
            0 => return 0,
            _ if incarnation == last => return number,
            _ => {}
        }
        let mut hash = Sha256::new();
        hash.update(b"quarry life of a journal");
        hash.update(self.database);
        hash.update(incarnation.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let number = hash
            .iter()
            .take(8)
            .fold(0, |n, &byte| n << 8 | u64::from(byte));
        self.last.set((incarnation, number));
        number
    }

    /// The number of the life that goes on.
    pub fn current(&self) -> u64 {
        self.number(self.current)
    }

    /// Whether the place was told in that life.
    pub fn is_of(&self, point: &ChangePoint, incarnation: u64) -> bool {
        let has_ended = incarnation != self.current;
        incarnation != 0
            && (point.life == self.number(incarnation) || has_ended && point.life == incarnation)
    }

    /// Whether the place was told in the life that goes on.
    pub fn is_current(&self, point: &ChangePoint) -> bool {
        self.is_of(point, self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURRENT: u64 = 7 << 32 | 0xfeed;
    const EARLIER: u64 = 6 << 32 | 0xbeef;

    #[test]
    fn a_place_names_its_life_and_does_not_tell_its_incarnation() {
        let lives = Lives::new([5; 16], CURRENT);
        let at = |life| ChangePoint {
            life,
            ..ChangePoint::behind_time(3)
        };
        let (current, earlier) = (lives.current(), lives.number(EARLIER));
        assert!(lives.is_current(&at(current)) && lives.is_of(&at(earlier), EARLIER));
        assert!(!lives.is_current(&at(earlier)) && !lives.is_of(&at(current), EARLIER));
        // Without the database's UUID nobody can find the incarnation by trying all of them.
        assert_ne!(current, Lives::new([6; 16], CURRENT).current());
        assert!(![current >> 32, current & 0xffff_ffff].contains(&(CURRENT & 0xffff_ffff)));
        assert_eq!(lives.number(0), 0);
        assert!(!lives.is_of(&at(0), 0));
    }

    #[test]
    fn incarnations_in_places_of_earlier_versions_stand_for_lives_that_have_ended() {
        let lives = Lives::new([5; 16], CURRENT);
        let at = |life| ChangePoint {
            life,
            ..ChangePoint::behind_time(3)
        };
        assert!(lives.is_of(&at(EARLIER), EARLIER));
        assert!(!lives.is_of(&at(CURRENT), CURRENT));
    }
}
