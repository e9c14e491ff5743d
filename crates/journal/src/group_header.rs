//! The header of a group, the unit of atomicity: one checksum over header and body, a chain to the
//! group before, the LSN known durable when it was written, and its place in the history (`stamp`).
//! `docs/formats/journal.md` shows the bytes.
//!
//! The version of a group with a sealed body is another one (`seal`); its header is the same.
//!
//! Version 1 has no stamp and is 32 bytes shorter. It is read and no longer written; all groups of a segment have the
//! version that the segment's header says.

use crate::options::LSN_MAX;
use crate::seal::SealedPlace;
use crate::stamp::{STAMP_BYTES, Stamp};

/// The body of a group that is written begins this far after its header.
pub const GROUP_HEADER_BYTES: usize = 96;
const GROUP_HEADER_BYTES_V1: usize = 64;
/// The checksum covers everything after itself.
const CRC_START: usize = 8;
/// Where the stamp begins, in version 2.
const STAMP_START: usize = 56;
/// Where the digest stands in the stamp.
const DIGEST_START: usize = STAMP_START + 24;

/// The versions of a group's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupFormat {
    /// Without a stamp.
    One,
    /// As it is written.
    #[default]
    Two,
    /// Like the second, with a body that is sealed.
    Sealed,
}

impl GroupFormat {
    /// The bytes of the header.
    pub fn header_bytes(self) -> usize {
        match self {
            GroupFormat::One => GROUP_HEADER_BYTES_V1,
            GroupFormat::Two | GroupFormat::Sealed => GROUP_HEADER_BYTES,
        }
    }

    /// The bytes that the header begins with.
    pub(crate) fn magic(self) -> [u8; 4] {
        match self {
            GroupFormat::One => *b"QJG1",
            GroupFormat::Two => *b"QJG2",
            GroupFormat::Sealed => *b"QJG3",
        }
    }
}

/// The header of a group, as docs/formats/journal.md describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupHeader {
    /// The version of the header.
    pub format: GroupFormat,
    /// CRC32C of the header after this field and of the body.
    pub crc: u32,
    /// The length of the body as it is in the file.
    pub body_bytes: u32,
    /// Records in the body. A group without records only carries a durable mark.
    pub count: u32,
    /// The life of the journal that wrote the group.
    pub incarnation: u64,
    /// The LSN of the first record; of the next record to come if there is none.
    pub first_lsn: u64,
    /// Everything up to this LSN was durable when the group was written.
    pub durable_lsn: u64,
    /// The CRC of the group before, or of the segment header at the start of an incarnation.
    pub previous_crc: u32,
    /// The length of the records if the body holds them compressed with LZ4; 0 = it holds them as they are.
    pub plain_bytes: u32,
    /// When the group was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The group's place in the history, zeros in version 1. A group without records has that of the next one to come.
    pub stamp: Stamp,
}

impl GroupHeader {
    /// The LSN of the record behind the group.
    pub fn next_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.count)
    }

    /// Whether the group says that it ends the log and that all before it is durable, as closing does.
    pub(crate) fn is_mark_of_closing(&self) -> bool {
        self.count == 0 && self.durable_lsn + 1 == self.first_lsn
    }

    /// Header and body together.
    pub fn group_bytes(&self) -> u64 {
        self.format.header_bytes() as u64 + u64::from(self.body_bytes)
    }

    /// Writes the header over the first bytes of `group`, whose body is complete; returns the CRC.
    pub(crate) fn finish(&self, group: &mut [u8]) -> u32 {
        self.write_fields(group);
        let crc = crc32c::crc32c(&group[CRC_START..]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// The header as a seal authenticates it: without the checksum and the digest, which are made of the sealed body.
    pub(crate) fn authenticated(&self) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        self.write_fields(&mut bytes);
        bytes[DIGEST_START..DIGEST_START + 8].fill(0);
        bytes
    }

    /// Where the group stands, for a seal.
    pub(crate) fn place(&self) -> SealedPlace {
        SealedPlace {
            incarnation: self.incarnation,
            first_lsn: self.first_lsn,
        }
    }

    /// Everything but the checksum.
    fn write_fields(&self, group: &mut [u8]) {
        debug_assert!(self.format != GroupFormat::One, "version 1 is only read");
        group[0..4].copy_from_slice(&self.format.magic());
        group[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        group[12..16].copy_from_slice(&self.count.to_le_bytes());
        group[16..24].copy_from_slice(&self.incarnation.to_le_bytes());
        group[24..32].copy_from_slice(&self.first_lsn.to_le_bytes());
        group[32..40].copy_from_slice(&self.durable_lsn.to_le_bytes());
        group[40..44].copy_from_slice(&self.previous_crc.to_le_bytes());
        group[44..48].copy_from_slice(&self.plain_bytes.to_le_bytes());
        group[48..56].copy_from_slice(&self.unix_ms.to_le_bytes());
        group[STAMP_START..STAMP_START + STAMP_BYTES].copy_from_slice(&self.stamp.to_bytes());
        group[STAMP_START + STAMP_BYTES..GROUP_HEADER_BYTES].fill(0);
    }

    /// The header's fields if the magic is there and they can be a group's: positions that can be counted on from, and a
    /// durable mark below the group. `bytes` are as many as the format's header has. Nothing is checked against the
    /// checksum yet.
    pub(crate) fn decode(format: GroupFormat, bytes: &[u8]) -> Option<Self> {
        if bytes.len() < format.header_bytes() || bytes[0..4] != format.magic() {
            return None;
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let stamp = match format {
            GroupFormat::One => Stamp::default(),
            GroupFormat::Two | GroupFormat::Sealed => {
                Stamp::from_bytes(bytes[STAMP_START..].first_chunk()?)?
            }
        };
        let header = GroupHeader {
            format,
            crc: word(4),
            body_bytes: word(8),
            count: word(12),
            incarnation: long(16),
            first_lsn: long(24),
            durable_lsn: long(32),
            previous_crc: word(40),
            plain_bytes: word(44),
            unix_ms: long(48),
            stamp,
        };
        let is_possible = header.first_lsn <= LSN_MAX && header.durable_lsn < header.first_lsn;
        is_possible.then_some(header)
    }

    /// Whether `group`, header and body, is what was finished.
    pub(crate) fn matches(&self, group: &[u8]) -> bool {
        crc32c::crc32c(&group[CRC_START..]) == self.crc
    }
}
