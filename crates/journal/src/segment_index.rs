//! The index of a segment: where some of its groups begin, in the room behind the segment's header.
//!
//! It is written once the segment is full and durable, or the journal closes, so that the next life finds a record or a time
//! without reading the segment. It is a help and no more: it is not synced, a segment may be without one, and one that
//! is torn or of the file's older life fails its checksum. Its first 512 bytes from the header's beginning on are left alone, so that no
//! torn write of an index touches the header.

use crate::segment_header::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// Where the index begins in its file, on a sector of its own.
pub(crate) const INDEX_OFFSET: usize = 512;
/// The room for an index.
pub(crate) const INDEX_BYTES: usize = SEGMENT_HEADER_BYTES - INDEX_OFFSET;

const MAGIC: &[u8; 4] = b"QJIX";
const START_BYTES: usize = 16;
const MARK_BYTES: usize = 24;
/// The marks that an index has room for.
const MARKS_MAX: usize = (INDEX_BYTES - START_BYTES) / MARK_BYTES;

/// Where a group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub lsn: u64,
    pub cluster_time: u64,
    pub offset: u64,
}

/// Keeps each second mark, or each third, where there are more than an index has room for.
pub(crate) fn thin(marks: &mut Vec<Mark>) {
    let step = marks.len().div_ceil(MARKS_MAX).max(1);
    if step > 1 {
        *marks = marks.iter().step_by(step).copied().collect();
    }
}

/// The bytes of an index, from `INDEX_OFFSET` on, of no more marks than it has room for.
pub(crate) fn encode(header: &SegmentHeader, marks: &[Mark]) -> Vec<u8> {
    assert!(marks.len() <= MARKS_MAX, "thinned before");
    let count = marks.len() as u32;
    let mut bytes = Vec::with_capacity(START_BYTES + marks.len() * MARK_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for mark in marks {
        for word in [mark.lsn, mark.cluster_time, mark.offset] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    let crc = checksum(header, &bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The marks of the index that begins `bytes`; none where there is no index of this segment.
pub(crate) fn decode(header: &SegmentHeader, bytes: &[u8]) -> Vec<Mark> {
    decode_whole(header, bytes).unwrap_or_default()
}

fn decode_whole(header: &SegmentHeader, bytes: &[u8]) -> Option<Vec<Mark>> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let count = word(8)? as usize;
    if bytes.get(..4)? != MAGIC || count > MARKS_MAX {
        return None;
    }
    let bytes = bytes.get(..START_BYTES + count * MARK_BYTES)?;
    if word(4)? != checksum(header, bytes) {
        return None;
    }
    let marks = bytes[START_BYTES..].chunks_exact(MARK_BYTES).map(|mark| {
        let long = |index: usize| {
            let mut long = [0; 8];
            long.copy_from_slice(&mark[8 * index..8 * index + 8]);
            u64::from_le_bytes(long)
        };
        Mark {
            lsn: long(0),
            cluster_time: long(1),
            offset: long(2),
        }
    });
    let marks: Vec<Mark> = marks.collect();
    let rises = |pair: &[Mark]| pair[0].offset < pair[1].offset && pair[0].lsn < pair[1].lsn;
    let is_inside =
        |mark: &Mark| (SEGMENT_HEADER_BYTES as u64..header.segment_bytes).contains(&mark.offset);
    (marks.windows(2).all(rises) && marks.iter().all(is_inside)).then_some(marks)
}

/// Over all bytes but the checksum's own, and over what tells this life of the file from others.
fn checksum(header: &SegmentHeader, bytes: &[u8]) -> u32 {
    let of_life = crc32c::crc32c(&header.incarnation.to_le_bytes());
    let of_place = crc32c::crc32c_append(of_life, &header.sequence.to_le_bytes());
    crc32c::crc32c_append(of_place, &bytes[8..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_header::GroupFormat;
    use crate::options::Identity;
    use crate::stamp::Stamp;

    fn header(sequence: u64) -> SegmentHeader {
        SegmentHeader {
            format: GroupFormat::default(),
            identity: Identity {
                database: [1; 16],
                engine: "memory".to_owned(),
            },
            sequence,
            incarnation: 7 << 32 | 99,
            segment_bytes: 1 << 30,
            first_lsn: 0,
            previous_end_lsn: 0,
            created_unix_ms: 0,
            cluster_time_min: 0,
            stamp: Stamp::default(),
        }
    }

    fn marks(count: u64) -> Vec<Mark> {
        (0..count)
            .map(|number| Mark {
                lsn: 10 + number,
                cluster_time: number << 32,
                offset: 4096 + 100 * number,
            })
            .collect()
    }

    #[test]
    fn an_index_is_read_back_and_a_part_or_a_flipped_bit_is_none() {
        let (header, marks) = (header(3), marks(64));
        let bytes = encode(&header, &marks);
        assert_eq!(decode(&header, &bytes), marks);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&header, &bytes[..cut]), []);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(decode(&header, &damaged), [], "byte {at}");
        }
        assert_eq!(decode(&self::header(4), &bytes), [], "of another segment");
        assert_eq!(decode(&header, &[0; INDEX_BYTES]), []);
    }

    #[test]
    fn an_index_of_very_many_marks_fits_its_room_and_reaches_as_far() {
        let (header, marks) = (header(3), marks(1000));
        let mut thinned = marks.clone();
        thin(&mut thinned);
        let bytes = encode(&header, &thinned);
        assert!(bytes.len() <= INDEX_BYTES);
        let kept = decode(&header, &bytes);
        assert!(kept.len() > MARKS_MAX / 2 && kept.iter().all(|mark| marks.contains(mark)));
        assert_eq!(kept[0], marks[0]);
    }

    #[test]
    fn marks_that_do_not_rise_or_lie_outside_are_no_index() {
        let header = header(3);
        let mut few = marks(3);
        thin(&mut few);
        assert_eq!(few, marks(3));
        let mut falling = marks(3);
        falling.swap(0, 2);
        assert_eq!(decode(&header, &encode(&header, &falling)), []);
        let mut outside = marks(3);
        outside[2].offset = header.segment_bytes;
        assert_eq!(decode(&header, &encode(&header, &outside)), []);
    }
}
