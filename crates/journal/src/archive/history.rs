//! The archive as its readers see it: the segments of all lives, how they follow each other, and where something is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::directory::{read_mark, read_pieces, remove_if_there, retry};
use super::line::Line;
use super::piece::{Key, Piece, Shifted, chain, damaged};
use super::tip::Tip;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::group_header::GroupHeader;
use crate::options::Identity;
use crate::scan::GroupScanner;
use crate::seal::{SealedFiles, Unopened};
use crate::segment::{OpenSegment, Segment};
use crate::segment_header::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// An archive at one moment. Others may go on writing it.
pub struct History {
    pub(super) files: Arc<dyn Files>,
    pub(super) identity: Identity,
    pub(super) segments: BTreeMap<Key, ArchivedSegment>,
    /// Pieces that nobody can use, because bytes of their segment are missing before them.
    pub(super) behind_holes: Vec<Piece>,
    pub(super) tip: Option<Tip>,
}

/// The pieces of one segment from its beginning on.
pub(super) struct ArchivedSegment {
    pub header: SegmentHeader,
    pub header_crc: u32,
    pub pieces: Vec<Piece>,
}

impl ArchivedSegment {
    /// The last piece.
    pub fn end(&self) -> &Piece {
        &self.pieces[self.pieces.len() - 1]
    }

    /// The first record; 0 if there is none.
    pub fn first_lsn(&self) -> u64 {
        let mut lsns = self.pieces.iter().map(|piece| piece.first_lsn);
        lsns.find(|&lsn| lsn != 0).unwrap_or(0)
    }

    /// The last record; 0 if there is none.
    pub fn last_lsn(&self) -> u64 {
        match self.first_lsn() {
            0 => 0,
            _ => self.end().next_lsn - 1,
        }
    }

    /// Hands over the groups of a segment from the piece on that holds `from_lsn`, with the piece's number, each checked by
    /// itself.
    pub fn walk(
        &self,
        files: &dyn Files,
        from_lsn: u64,
        visit: &mut dyn FnMut(&GroupHeader, usize) -> ControlFlow<()>,
    ) -> Result<()> {
        for (number, piece) in self.pieces.iter().enumerate() {
            if piece.next_lsn <= from_lsn {
                continue;
            }
            let name = piece.name();
            let file = files.open(&name);
            let file = file.map_err(|e| Error::io("open", &name, &e))?;
            let (header, crc) = (self.header.clone(), self.header_crc);
            let segment = Arc::new(Segment::new(name.clone(), header, crc, piece.to));
            let shifted = Arc::new(Shifted {
                file,
                from: piece.from,
            });
            let open = OpenSegment {
                segment,
                file: shifted,
                seal: files.seal(),
            };
            let begin = piece.from.max(SEGMENT_HEADER_BYTES as u64);
            let mut scanner = GroupScanner::new(&open, begin);
            while scanner.offset() < piece.to {
                let group = scanner.peek()?;
                let group = group.map_err(|why| damaged(&name, scanner.offset(), why))?;
                if visit(&group, number).is_break() {
                    return Ok(());
                }
                scanner.skip(&group);
            }
        }
        Ok(())
    }
}

impl History {
    /// Reads the headers of all pieces. Where they are of a sealed journal no group of them is opened: nobody needs the key.
    pub fn read(files: Arc<dyn Files>) -> Result<History> {
        let files: Arc<dyn Files> = Arc::new(SealedFiles::new(files, Arc::new(Unopened)));
        let Some(identity) = read_mark(&*files)? else {
            return Err(Error::ForeignJournal {
                segment: "quarry.archive".to_owned(),
                reason: "the file is not there: the directory is no archive".to_owned(),
            });
        };
        retry(&|| {
            // Read before the pieces, so that they have what it says.
            let tip = Tip::read(&*files)?;
            let mut pieces: BTreeMap<Key, Vec<Piece>> = BTreeMap::new();
            for piece in read_pieces(&*files)? {
                pieces.entry(piece.key).or_default().push(piece);
            }
            let (mut segments, mut behind_holes) = (BTreeMap::new(), Vec::new());
            for (key, mut pieces) in pieces {
                let segment = of_pieces(&*files, pieces.clone())?;
                let used = segment.as_ref().map_or(&[][..], |segment| &segment.pieces);
                pieces.retain(|piece| !used.iter().any(|other| other.contains(piece)));
                behind_holes.append(&mut pieces);
                segments.extend(segment.map(|segment| (key, segment)));
            }
            Ok(History {
                files: Arc::clone(&files),
                identity: identity.clone(),
                segments,
                behind_holes,
                tip,
            })
        })
    }

    /// Reads the archive and asks it something: again where pieces went meanwhile, because somebody archives.
    pub fn ask<T>(
        files: &Arc<dyn Files>,
        question: &dyn Fn(&History) -> Result<T>,
    ) -> Result<(History, T)> {
        retry(&|| {
            let history = History::read(Arc::clone(files))?;
            let answer = question(&history)?;
            Ok((history, answer))
        })
    }

    /// Removes the segments that end before `lsn`, which nobody needs who begins there or later; the bytes that became free. A
    /// server may be writing the archive meanwhile.
    pub fn remove_before(&self, files: &dyn Files, lsn: u64) -> Result<u64> {
        let mut needless = BTreeSet::new();
        for (&key, segment) in &self.segments {
            let is_before = match segment.first_lsn() {
                // It holds nothing, and would stand at the beginning of what is left.
                0 => (self.parent(key)?).is_none_or(|parent| needless.contains(&parent)),
                _ => segment.last_lsn() < lsn,
            };
            if is_before && !self.may_grow(key, segment) {
                needless.insert(key);
            }
        }
        let mut freed = 0;
        // Oldest first: what is cut off leaves no gap. A segment loses its end first: what nobody finishes ends a line, which is
        // whole wherever it ends, and its beginning is known for needless by whoever goes on with this.
        let pieces_of = |key: &Key| self.segments[key].pieces.iter().rev();
        for piece in needless.iter().flat_map(pieces_of) {
            remove_if_there(files, &piece.name())?;
            freed += piece.bytes();
        }
        let synced = files.sync_directory();
        synced.map_err(|e| Error::io("sync directory of", "archive", &e))?;
        Ok(freed)
    }

    /// Whether a server may add to the segment, so that its pieces have to stay. Nobody adds to the last segment of a life that
    /// was given up, which nobody finishes either.
    fn may_grow(&self, key: Key, segment: &ArchivedSegment) -> bool {
        if segment.end().is_finished {
            return false;
        }
        let made = |segment: &ArchivedSegment| segment.header.created_unix_ms;
        let is_latest = self.segments.values().map(made).max() == Some(made(segment));
        let is_of_tip = self
            .tip
            .is_none_or(|tip| tip.incarnation == key.incarnation && tip.sequence <= key.sequence);
        is_latest || is_of_tip
    }

    /// The segment as the archive has it now.
    pub(super) fn fresh(&self, key: Key) -> Result<ArchivedSegment> {
        let mut pieces = read_pieces(&*self.files)?;
        pieces.retain(|piece| piece.key == key);
        of_pieces(&*self.files, pieces)?.ok_or_else(|| {
            let name = format!("{:010}-{:016x}", key.sequence, key.incarnation);
            damaged(&name, 0, "the pieces of the segment are gone")
        })
    }

    /// The database and the engine whose archive it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Up to when the archive is known to have everything.
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// The tip, if the archive does not have all that it says: pieces are missing.
    pub fn lost_tip(&self) -> Option<Tip> {
        let tip = self.tip.filter(|tip| tip.lsn != 0)?;
        let segment = self.segments.get(&tip.key());
        let last_lsn = segment.map_or(0, ArchivedSegment::last_lsn);
        (last_lsn < tip.lsn).then_some(tip)
    }

    /// The bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        let pieces = self.segments.values().flat_map(|segment| &segment.pieces);
        pieces.map(Piece::bytes).sum()
    }

    /// Every way through the archive, the latest one last.
    pub fn lines(&self) -> Result<Vec<Line>> {
        let mut parents = BTreeMap::new();
        for &key in self.segments.keys() {
            parents.insert(key, self.parent(key)?);
        }
        // Where lives fork within a segment, what the given-up one wrote behind that place is a line of its own.
        let goes_on = |key: &Key| {
            let mut children = parents.iter().filter(|(_, parent)| **parent == Some(*key));
            children.any(|(child, _)| self.goes_on_from_end(*key, *child))
        };
        let leaves = self.segments.keys().filter(|key| !goes_on(key));
        let mut lines: Vec<Line> = leaves
            .map(|&leaf| Line::new(self, leaf, &|key| parents.get(&key).copied().flatten()))
            .collect();
        lines.sort_by_key(|line| self.segments[&line.leaf()].header.created_unix_ms);
        Ok(lines)
    }

    /// Whether `child`, which goes on from a place in the segment, does so from its end.
    fn goes_on_from_end(&self, key: Key, child: Key) -> bool {
        let next = &self.segments[&child].header;
        !next.begins_incarnation() || next.previous_end_lsn >= self.segments[&key].last_lsn()
    }

    /// The segment that this one goes on from, if the archive has it.
    fn parent(&self, key: Key) -> Result<Option<Key>> {
        let header = &self.segments[&key].header;
        let Some(sequence) = key.sequence.checked_sub(1) else {
            return Ok(None);
        };
        if !header.begins_incarnation() {
            // Where segments are missing, the life goes on behind a gap.
            let lower = self.segments.range(..key).rev().map(|(&lower, _)| lower);
            let mut same = lower.filter(|lower| lower.incarnation == key.incarnation);
            return Ok(same.next());
        }
        let before = Key {
            sequence,
            incarnation: 0,
        }..Key {
            sequence: key.sequence,
            incarnation: 0,
        };
        for (&candidate, segment) in self.segments.range(before) {
            if self.reaches(segment, header)? {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// Whether the life that `next` begins goes on from a place in this segment.
    fn reaches(&self, segment: &ArchivedSegment, next: &SegmentHeader) -> Result<bool> {
        let (end, end_lsn) = (segment.end(), next.previous_end_lsn);
        if segment.first_lsn() == 0 {
            // It says nothing of its own; it was written by a life that had records before it, or none at all.
            return Ok(end.next_lsn == 0 || end.next_lsn == end_lsn + 1);
        }
        if end_lsn + 1 < segment.first_lsn() || end.next_lsn <= end_lsn {
            return Ok(false);
        }
        if end.next_lsn == end_lsn + 1 {
            return Ok(end.behind == next.stamp || next.stamp == Default::default());
        }
        // A fork: the place is in the middle.
        let mut reaches = false;
        segment.walk(&*self.files, 0, &mut |header, _| {
            if header.next_lsn() == end_lsn + 1 && header.count > 0 {
                reaches = header.stamp.behind(header.count) == next.stamp;
            }
            match header.next_lsn() <= end_lsn {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(reaches)
    }
}

/// The segment that these pieces are of, as far as they have it from its beginning on; none if they do not.
fn of_pieces(files: &dyn Files, pieces: Vec<Piece>) -> Result<Option<ArchivedSegment>> {
    let pieces = chain(pieces);
    let Some(first) = pieces.first() else {
        return Ok(None);
    };
    let (header, header_crc) = first.segment_header(files)?;
    Ok(Some(ArchivedSegment {
        header,
        header_crc,
        pieces,
    }))
}
