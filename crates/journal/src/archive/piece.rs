//! A piece of the archive: a range of the bytes of one segment, behind a header that says which range, of which segment, and
//! which records its groups hold. `docs/formats/archive.md` shows the bytes.

use std::collections::BTreeMap;

use crate::chain::Link;
use crate::error::{Error, Result};
use crate::files::{File, Files, read_full_at};
use crate::group_header::{GroupFormat, GroupHeader};
use crate::options::LSN_MAX;
use crate::segment_header::{SEGMENT_HEADER_BYTES, SEGMENT_HEADER_USED_BYTES, SegmentHeader};
use crate::stamp::{STAMP_BYTES, Stamp};

/// The bytes of the segment begin this far behind the beginning of a piece.
pub(super) const PIECE_HEADER_BYTES: usize = 256;
const MAGIC: &[u8; 8] = b"QUARRYA\0";
const VERSION: u32 = 1;
const SUFFIX: &str = ".piece";
/// A file that is being written.
pub(super) const NEW_SUFFIX: &str = ".new";
/// The header's checksum covers what comes behind it.
const CRC_START: usize = 16;
const STAMP_OFFSET: usize = 112;
const FINISHED: u32 = 1;
/// So much of a piece is read at a time.
const PART_BYTES: usize = 1 << 20;

/// One segment of one life of a journal. After a fork two lives have segments of the same sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub sequence: u64,
    pub incarnation: u64,
}

/// The header of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub key: Key,
    /// The range of the segment: `from` is 0, so that the segment's header is in it, or the beginning of a group; `to` is the
    /// byte behind a group.
    pub from: u64,
    pub to: u64,
    /// The segment is full: nothing of it comes behind this piece.
    pub is_finished: bool,
    pub body_crc: u32,
    /// The first record; 0 if the piece holds none.
    pub first_lsn: u64,
    /// The CRC that the first group names as that of the group before it.
    pub previous_crc: u32,
    /// The CRC of the last group, which the next one names.
    pub last_crc: u32,
    /// The record behind the last one.
    pub next_lsn: u64,
    /// When the first group was written, and the latest time that any group says, in milliseconds since 1970.
    pub first_unix_ms: u64,
    pub latest_unix_ms: u64,
    /// The place in the history behind the last group.
    pub behind: Stamp,
}

impl Piece {
    /// An empty piece that begins at `from`, behind what `link` says.
    pub fn begin(key: Key, from: u64, link: &Link) -> Piece {
        Piece {
            key,
            from,
            to: from.max(SEGMENT_HEADER_BYTES as u64),
            is_finished: false,
            body_crc: 0,
            first_lsn: 0,
            previous_crc: 0,
            last_crc: link.previous_crc.unwrap_or(0),
            next_lsn: link.next_lsn,
            first_unix_ms: 0,
            latest_unix_ms: 0,
            behind: link.stamp.unwrap_or_default(),
        }
    }

    /// Takes in the group that begins at `to`.
    pub fn note(&mut self, header: &GroupHeader) {
        self.to += header.group_bytes();
        self.last_crc = header.crc;
        self.next_lsn = header.next_lsn();
        if header.format != GroupFormat::One {
            self.behind = header.stamp.behind(header.count);
        }
        self.latest_unix_ms = self.latest_unix_ms.max(header.unix_ms);
        if self.first_lsn == 0 && header.count > 0 {
            self.first_lsn = header.first_lsn;
            self.previous_crc = header.previous_crc;
            self.first_unix_ms = header.unix_ms;
        }
    }

    /// The link that the next group of the segment continues.
    pub fn link(&self) -> Link {
        Link {
            incarnation: self.key.incarnation,
            next_lsn: self.next_lsn,
            previous_crc: (self.last_crc != 0).then_some(self.last_crc),
            stamp: (self.behind != Stamp::default()).then_some(self.behind),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }

    /// Whether this piece has all that the other one has.
    pub fn contains(&self, other: &Piece) -> bool {
        self.key == other.key && self.from <= other.from && other.to <= self.to
    }

    pub fn name(&self) -> String {
        let Key {
            sequence,
            incarnation,
        } = self.key;
        format!(
            "{sequence:010}-{incarnation:016x}-{:010}-{:010}{SUFFIX}",
            self.from, self.to
        )
    }

    pub fn encode(&self) -> [u8; PIECE_HEADER_BYTES] {
        let mut bytes = [0; PIECE_HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let flags = if self.is_finished { FINISHED } else { 0 };
        for (index, word) in [flags, self.body_crc, self.previous_crc, self.last_crc]
            .into_iter()
            .enumerate()
        {
            bytes[16 + 4 * index..20 + 4 * index].copy_from_slice(&word.to_le_bytes());
        }
        for (index, long) in self.longs().into_iter().enumerate() {
            bytes[32 + 8 * index..40 + 8 * index].copy_from_slice(&long.to_le_bytes());
        }
        bytes[STAMP_OFFSET..STAMP_OFFSET + STAMP_BYTES].copy_from_slice(&self.behind.to_bytes());
        let crc = crc32c::crc32c(&bytes[CRC_START..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn longs(&self) -> [u64; 8] {
        [
            self.key.sequence,
            self.key.incarnation,
            self.from,
            self.to,
            self.first_lsn,
            self.next_lsn,
            self.first_unix_ms,
            self.latest_unix_ms,
        ]
    }

    /// Reads a header back; otherwise why it is none.
    fn decode(bytes: &[u8; PIECE_HEADER_BYTES]) -> std::result::Result<Piece, &'static str> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if &bytes[..8] != MAGIC {
            return Err("it does not begin with the archive's magic");
        }
        if word(12) != crc32c::crc32c(&bytes[CRC_START..]) {
            return Err("its header fails its checksum");
        }
        if word(8) != VERSION {
            return Err("it is of another version");
        }
        let stamp = bytes[STAMP_OFFSET..].first_chunk();
        let piece = Piece {
            key: Key {
                sequence: long(32),
                incarnation: long(40),
            },
            from: long(48),
            to: long(56),
            is_finished: word(16) & FINISHED != 0,
            body_crc: word(20),
            previous_crc: word(24),
            last_crc: word(28),
            first_lsn: long(64),
            next_lsn: long(72),
            first_unix_ms: long(80),
            latest_unix_ms: long(88),
            behind: stamp
                .and_then(Stamp::from_bytes)
                .ok_or("its stamp is impossible")?,
        };
        let is_possible = piece.from <= piece.to
            && piece.next_lsn <= LSN_MAX
            && piece.first_lsn <= piece.next_lsn;
        is_possible
            .then_some(piece)
            .ok_or("its range is impossible")
    }

    /// Reads the header of the piece under that name, and of the file its length alone.
    pub fn read(files: &dyn Files, name: &str) -> Result<Piece> {
        let file = files.open(name).map_err(|e| Error::io("open", name, &e))?;
        let mut bytes = [0; PIECE_HEADER_BYTES];
        let filled =
            read_full_at(&*file, &mut bytes, 0).map_err(|e| Error::io("read", name, &e))?;
        let file_bytes = file.len().map_err(|e| Error::io("measure", name, &e))?;
        let decoded = match filled == bytes.len() {
            true => Piece::decode(&bytes),
            false => Err("it is cut short"),
        };
        let piece = decoded.map_err(|why| damaged(name, 0, why))?;
        if file_bytes != PIECE_HEADER_BYTES as u64 + piece.bytes() {
            return Err(damaged(
                name,
                file_bytes,
                "it has another length than its header says",
            ));
        }
        match piece.name() == name {
            true => Ok(piece),
            false => Err(damaged(
                name,
                0,
                "it holds another range than its name says",
            )),
        }
    }

    /// Hands the bytes of the segment to `take`, part by part, and checks them against the header's checksum.
    pub fn read_body(
        &self,
        files: &dyn Files,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let name = self.name();
        let file = files
            .open(&name)
            .map_err(|e| Error::io("open", &name, &e))?;
        let mut part = vec![0; PART_BYTES.min(self.bytes() as usize)];
        let (mut done, mut crc) = (0, 0);
        while done < self.bytes() {
            let wanted = part.len().min((self.bytes() - done) as usize);
            let at = PIECE_HEADER_BYTES as u64 + done;
            let filled = read_full_at(&*file, &mut part[..wanted], at)
                .map_err(|e| Error::io("read", &name, &e))?;
            if filled < wanted {
                return Err(damaged(&name, at, "it is cut short"));
            }
            crc = crc32c::crc32c_append(crc, &part[..wanted]);
            take(self.from + done, &part[..wanted])?;
            done += wanted as u64;
        }
        match crc == self.body_crc {
            true => Ok(()),
            false => Err(damaged(
                &name,
                PIECE_HEADER_BYTES as u64,
                "it fails its checksum",
            )),
        }
    }

    /// The header of the segment, if the piece begins with it.
    pub fn segment_header(&self, files: &dyn Files) -> Result<(SegmentHeader, u32)> {
        let name = self.name();
        let file = files
            .open(&name)
            .map_err(|e| Error::io("open", &name, &e))?;
        let mut bytes = [0; SEGMENT_HEADER_USED_BYTES];
        let filled = read_full_at(&*file, &mut bytes, PIECE_HEADER_BYTES as u64)
            .map_err(|e| Error::io("read", &name, &e))?;
        SegmentHeader::decode(&name, &bytes[..filled])
    }
}

/// Chooses among all pieces of a segment those that have its bytes from the beginning on without a hole, as far as any do. Two may
/// have the same bytes where taking over was cut off.
pub(super) fn chain(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| (piece.from, piece.to));
    // How each place is come to: by the piece that begins first.
    let mut arrivals: BTreeMap<u64, Option<usize>> = BTreeMap::from([(0, None)]);
    for (number, piece) in pieces.iter().enumerate() {
        if arrivals.contains_key(&piece.from) {
            arrivals.entry(piece.to).or_insert(Some(number));
        }
    }
    let mut chain = Vec::new();
    let mut arrival = arrivals.last_key_value().and_then(|(_, arrival)| *arrival);
    while let Some(number) = arrival {
        chain.push(pieces[number].clone());
        arrival = arrivals[&pieces[number].from];
    }
    chain.reverse();
    chain
}

/// The file of a piece as if it were the segment itself: what is read at an offset of the segment comes from the piece.
pub(super) struct Shifted {
    pub file: std::sync::Arc<dyn File>,
    pub from: u64,
}

impl File for Shifted {
    fn write_at(&self, _bytes: &[u8], _offset: u64) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
        match offset.checked_sub(self.from) {
            Some(within) => self.file.read_at(bytes, PIECE_HEADER_BYTES as u64 + within),
            None => Ok(0),
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _bytes: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.from + self.file.len()?.saturating_sub(PIECE_HEADER_BYTES as u64))
    }
}

/// Whether a file of that name is a piece.
pub(super) fn is_piece(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

pub(super) fn damaged(name: &str, offset: u64, why: &str) -> Error {
    Error::Damaged {
        segment: name.to_owned(),
        offset,
        reason: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_as_much_as_any_pieces_have() {
        let piece = |from, to| {
            let link = Link {
                incarnation: 1,
                next_lsn: 1,
                previous_crc: None,
                stamp: None,
            };
            let key = Key {
                sequence: 1,
                incarnation: 1,
            };
            Piece {
                to,
                ..Piece::begin(key, from, &link)
            }
        };
        let of = |ranges: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let pieces = ranges.iter().map(|&(from, to)| piece(from, to));
            let chain = chain(pieces.collect());
            chain.iter().map(|piece| (piece.from, piece.to)).collect()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(5, 9)]), []);
        assert_eq!(of(&[(5, 9), (0, 5)]), [(0, 5), (5, 9)]);
        // A longer one was taken over, and those within it are still there.
        assert_eq!(of(&[(0, 5), (5, 9), (0, 9), (9, 12)]), [(0, 9), (9, 12)]);
        // One that nobody knew of had more than the next one.
        assert_eq!(of(&[(0, 5), (0, 7), (5, 12), (20, 30)]), [(0, 5), (5, 12)]);
    }

    #[test]
    fn every_changed_byte_of_a_header_is_noticed() {
        let piece = Piece {
            key: Key {
                sequence: 7,
                incarnation: 3 << 32 | 5,
            },
            from: 4096,
            to: 9000,
            is_finished: true,
            body_crc: 1,
            first_lsn: 8,
            previous_crc: 2,
            last_crc: 3,
            next_lsn: 12,
            first_unix_ms: 1000,
            latest_unix_ms: 2000,
            behind: Stamp {
                term: 1,
                index: 4,
                cluster_time: 5 << 32,
                digest: 9,
            },
        };
        let bytes = piece.encode();
        assert_eq!(Piece::decode(&bytes), Ok(piece));
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert!(Piece::decode(&changed).is_err(), "byte {at}");
        }
    }
}
