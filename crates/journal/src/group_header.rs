//! The header of a group, the unit of atomicity: one checksum over header and body, a chain to the
//! group before, and the LSN known durable when it was written. `docs/formats/journal.md` shows the bytes.

use crate::options::LSN_MAX;

/// A group's body begins this far after its header.
pub const GROUP_HEADER_BYTES: usize = 64;
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"QJG1";
/// The checksum covers everything after itself.
const CRC_START: usize = 8;

/// The header of a group, as docs/formats/journal.md describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
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
        GROUP_HEADER_BYTES as u64 + u64::from(self.body_bytes)
    }

    /// Writes the header over the first bytes of `group`, whose body is complete; returns the CRC.
    pub(crate) fn seal(&self, group: &mut [u8]) -> u32 {
        group[0..4].copy_from_slice(&GROUP_MAGIC);
        group[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        group[12..16].copy_from_slice(&self.count.to_le_bytes());
        group[16..24].copy_from_slice(&self.incarnation.to_le_bytes());
        group[24..32].copy_from_slice(&self.first_lsn.to_le_bytes());
        group[32..40].copy_from_slice(&self.durable_lsn.to_le_bytes());
        group[40..44].copy_from_slice(&self.previous_crc.to_le_bytes());
        group[44..48].copy_from_slice(&self.plain_bytes.to_le_bytes());
        group[48..56].copy_from_slice(&self.unix_ms.to_le_bytes());
        group[56..64].copy_from_slice(&[0; 8]);
        let crc = crc32c::crc32c(&group[CRC_START..]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// The header's fields if the magic is there and they can be a group's: positions that can be counted on from, and a
    /// durable mark below the group. Nothing is checked against the checksum yet.
    pub(crate) fn decode(bytes: &[u8; GROUP_HEADER_BYTES]) -> Option<Self> {
        if bytes[0..4] != GROUP_MAGIC {
            return None;
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let header = GroupHeader {
            crc: word(4),
            body_bytes: word(8),
            count: word(12),
            incarnation: long(16),
            first_lsn: long(24),
            durable_lsn: long(32),
            previous_crc: word(40),
            plain_bytes: word(44),
            unix_ms: long(48),
        };
        let is_possible = header.first_lsn <= LSN_MAX && header.durable_lsn < header.first_lsn;
        is_possible.then_some(header)
    }

    /// Whether `group`, header and body, is what was sealed.
    pub(crate) fn matches(&self, group: &[u8]) -> bool {
        crc32c::crc32c(&group[CRC_START..]) == self.crc
    }
}
