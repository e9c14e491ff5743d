//! A place between two changes, to go on from later: what resume tokens carry.
//!
//! A place behind a change names its record by LSN and cluster time and the life of the journal that wrote it. A record of
//! another life under the same LSN, after a tail was lost or an older copy of the data was put in place, has another life or
//! another time, so that nobody goes on from it by mistake. A place behind all changes up to a time has no LSN: only where the
//! journal has no record yet, or whoever began gave a time. It names the life where that time had not come yet.

/// The place behind a change, or behind all changes up to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangePoint {
    /// The record's own cluster time, which may be earlier than that of the commit that it became visible with; or the time up to which nothing is left.
    pub cluster_time: u64,
    /// How many changes of the record come before this one.
    pub index: u32,
    /// The record; 0 where the place is behind a time.
    pub lsn: u64,
    /// The life of the journal that wrote the record; 0 where the place is behind a time that had come.
    pub incarnation: u64,
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
        bytes[20..].copy_from_slice(&self.incarnation.to_be_bytes());
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
            incarnation: long(20),
        }
    }

    /// The place behind all changes up to a time.
    pub(super) fn behind_time(cluster_time: u64) -> ChangePoint {
        ChangePoint {
            cluster_time,
            index: WHOLE_RECORD,
            lsn: 0,
            incarnation: 0,
        }
    }

    /// Whether the place is behind a time, and not behind a record or a change in it.
    pub fn is_behind_time(&self) -> bool {
        self.lsn == 0
    }
}
