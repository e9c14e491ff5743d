//! The first page of a segment file: whose journal it is, which place the segment has, and, when it
//! begins an incarnation, where the history before it ended. `docs/formats/journal.md` shows the bytes.
//!
//! Version 2 adds the stamp that the incarnation goes on from, and says that the segment's groups have one. Its first 128
//! bytes are those of version 1, with their checksum, so that a build that knows version 1 alone refuses it by its version.
//!
//! Version 3 differs from version 2 in nothing but that the segment's groups are sealed (`seal`).
//!
//! A header is synced before its file gets a segment's name, so a named segment always has a whole header.

use crate::error::{Error, Result};
use crate::group_header::GroupFormat;
use crate::options::{ENGINE_NAME_BYTES_MAX, Identity, LSN_MAX};
use crate::stamp::{CLUSTER_TIME_MAX, STAMP_BYTES, Stamp, earliest_at};

/// Groups begin at this offset.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
/// The smallest segment: its header and one page of groups.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 2 * SEGMENT_HEADER_BYTES as u64;
/// No segment is numbered above this, so that the number after one never overflows.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;
/// The bytes of the header that carry something, its CRC last.
pub(crate) const SEGMENT_HEADER_USED_BYTES: usize = STAMP_OFFSET + STAMP_BYTES + 4;
const MAGIC: &[u8; 8] = b"QUARRYJ\0";
const VERSION: u32 = 2;
/// Like version 2, with groups that are sealed.
const VERSION_SEALED: u32 = 3;
/// Where the CRC of version 1 stands, and that of the part which version 2 took over from it.
const CRC_OFFSET: usize = 124;
const STAMP_OFFSET: usize = CRC_OFFSET + 4;
/// Where the CRC of version 2 stands.
const WHOLE_CRC_OFFSET: usize = STAMP_OFFSET + STAMP_BYTES;

/// The header of a segment, as docs/formats/journal.md describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The version of the headers of its groups.
    pub format: GroupFormat,
    /// The database and the engine that the journal belongs to.
    pub identity: Identity,
    /// The segment's place; also its file name.
    pub sequence: u64,
    /// The life of the journal that wrote it: a counter in the high half, salt in the low half.
    pub incarnation: u64,
    /// The length of the file.
    pub segment_bytes: u64,
    /// The LSN of the first group if the segment begins an incarnation; 0 = it continues one.
    pub first_lsn: u64,
    /// The last LSN before this incarnation, all durable. Only with `first_lsn`.
    pub previous_end_lsn: u64,
    /// When the segment was made, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// No record from here on has a lower cluster time, and if the segment begins behind a recorded gap, those in the gap had
    /// lower ones. 0 where `stamp` says as much, and in segments of builds that did not say so.
    pub cluster_time_min: u64,
    /// If the segment begins an incarnation: the place in the history that its first group goes on from. Zeros else, and in
    /// version 1.
    pub stamp: Stamp,
}

impl SegmentHeader {
    /// Whether the segment is the first of its incarnation.
    pub fn begins_incarnation(&self) -> bool {
        self.first_lsn != 0
    }

    /// Whether records are missing before the first one: an engine had them, and the journal had not.
    pub(crate) fn is_behind_gap(&self) -> bool {
        self.begins_incarnation() && self.first_lsn > self.previous_end_lsn + 1
    }

    /// If records are missing before the first one: none of them had this cluster time or a later one.
    pub(crate) fn gap_ends_at(&self) -> Option<u64> {
        let ends_at = match self.cluster_time_min {
            // The records were written before the segment was made.
            0 => earliest_at(self.created_unix_ms.saturating_add(1000)),
            stated => stated,
        };
        self.is_behind_gap().then_some(ends_at)
    }

    /// The counter half of the incarnation.
    pub fn incarnation_number(&self) -> u32 {
        (self.incarnation >> 32) as u32
    }

    /// The first bytes of the file, and the CRC that the first group of an incarnation chains to.
    pub(crate) fn encode(&self) -> ([u8; SEGMENT_HEADER_USED_BYTES], u32) {
        let mut bytes = [0u8; SEGMENT_HEADER_USED_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        let version = match self.format {
            GroupFormat::One | GroupFormat::Two => VERSION,
            GroupFormat::Sealed => VERSION_SEALED,
        };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&(SEGMENT_HEADER_BYTES as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.identity.database);
        let engine = self.identity.engine.as_bytes();
        bytes[32..32 + engine.len()].copy_from_slice(engine);
        for (index, field) in self.words().into_iter().enumerate() {
            bytes[64 + 8 * index..72 + 8 * index].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
        bytes[CRC_OFFSET..STAMP_OFFSET].copy_from_slice(&crc.to_le_bytes());
        bytes[STAMP_OFFSET..WHOLE_CRC_OFFSET].copy_from_slice(&self.stamp.to_bytes());
        let crc = crc32c::crc32c(&bytes[..WHOLE_CRC_OFFSET]);
        bytes[WHOLE_CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    fn words(&self) -> [u64; 7] {
        [
            self.sequence,
            self.incarnation,
            self.segment_bytes,
            self.first_lsn,
            self.previous_end_lsn,
            self.created_unix_ms,
            self.cluster_time_min,
        ]
    }

    /// Reads a header back, with its CRC. `segment` names the file in errors.
    pub(crate) fn decode(segment: &str, bytes: &[u8]) -> Result<(Self, u32)> {
        let damaged = |offset: u64, reason: &str| {
            Err(Error::Damaged {
                segment: segment.to_owned(),
                offset,
                reason: reason.to_owned(),
            })
        };
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER_USED_BYTES>() else {
            return damaged(bytes.len() as u64, "the segment header is cut short");
        };
        if &bytes[0..8] != MAGIC {
            return damaged(
                0,
                "the segment header does not begin with the journal's magic",
            );
        }
        let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
        if bytes[CRC_OFFSET..STAMP_OFFSET] != crc.to_le_bytes() {
            return damaged(CRC_OFFSET as u64, "the segment header fails its checksum");
        }
        let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let (format, stamp, crc) = match version {
            1 => (GroupFormat::One, Stamp::default(), crc),
            VERSION | VERSION_SEALED => {
                let crc = crc32c::crc32c(&bytes[..WHOLE_CRC_OFFSET]);
                if bytes[WHOLE_CRC_OFFSET..] != crc.to_le_bytes() {
                    let reason = "the segment header fails its checksum";
                    return damaged(WHOLE_CRC_OFFSET as u64, reason);
                }
                let stamp = bytes[STAMP_OFFSET..].first_chunk();
                let Some(stamp) = stamp.and_then(Stamp::from_bytes) else {
                    let reason = "the segment header goes on from a place that no journal reaches";
                    return damaged(STAMP_OFFSET as u64, reason);
                };
                let format = match version {
                    VERSION => GroupFormat::Two,
                    _ => GroupFormat::Sealed,
                };
                (format, stamp, crc)
            }
            version => {
                return Err(Error::UnsupportedVersion {
                    segment: segment.to_owned(),
                    version,
                });
            }
        };
        let Some(engine) = engine_name(&bytes[32..32 + ENGINE_NAME_BYTES_MAX]) else {
            return damaged(32, "the engine name is not text");
        };
        let mut database = [0; 16];
        database.copy_from_slice(&bytes[16..32]);
        let word = |index: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[64 + 8 * index..72 + 8 * index]);
            u64::from_le_bytes(field)
        };
        let header = SegmentHeader {
            format,
            identity: Identity { database, engine },
            sequence: word(0),
            incarnation: word(1),
            segment_bytes: word(2),
            first_lsn: word(3),
            previous_end_lsn: word(4),
            created_unix_ms: word(5),
            cluster_time_min: word(6),
            stamp,
        };
        if !header.is_possible() {
            return damaged(
                64,
                "the segment header holds positions that no journal reaches",
            );
        }
        Ok((header, crc))
    }

    /// Whether the header's positions can be counted on from.
    fn is_possible(&self) -> bool {
        let has_place = self.sequence <= SEQUENCE_MAX && self.first_lsn <= LSN_MAX;
        let has_time = self.cluster_time_min <= CLUSTER_TIME_MAX;
        has_place
            && has_time
            && (self.previous_end_lsn == 0 || self.previous_end_lsn < self.first_lsn)
    }
}

fn engine_name(padded: &[u8]) -> Option<String> {
    let end = padded
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(padded.len());
    String::from_utf8(padded[..end].to_vec()).ok()
}
