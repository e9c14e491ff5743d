//! Brings the archive up to the journal's durable end: which segments and groups are missing, the pieces that hold them, and
//! the pieces that these make needless.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::directory::{check_mark, read_pieces, remove_if_there, retry};
use super::piece::{Key, NEW_SUFFIX, PIECE_HEADER_BYTES, Piece, chain, damaged};
use super::tip::Tip;
use crate::chain::Link;
use crate::error::{Error, Result};
use crate::files::{File, Files, read_full_at, sync_file, write_all_at};
use crate::options::Identity;
use crate::scan::GroupScanner;
use crate::segment::{OpenSegment, Segment};
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segment_index::INDEX_OFFSET;
use crate::segments::Segments;

/// So much of a segment is copied at a time.
const PART_BYTES: usize = 1 << 20;
/// Between two tips that say nothing but that nothing was written.
const IDLE_TIP_MS: u64 = 10_000;

/// An archive that one process writes.
pub struct Archive {
    files: Arc<dyn Files>,
    /// The pieces of each segment: from its beginning on, without gaps, none within another.
    pieces: BTreeMap<Key, Vec<Piece>>,
    tip: Option<Tip>,
    bytes: u64,
    /// A round has failed: nobody knows which of its files are there.
    is_in_doubt: bool,
}

/// The outcome of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Everything up to this record is in the archive.
    pub lsn: u64,
    /// The bytes that the round has written to pieces.
    pub written_bytes: u64,
    /// Segments whose predecessor is not in the archive as a whole, met in this round: what comes before them is lost.
    pub gaps: u64,
    /// Every segment up to this one is in the archive as a whole.
    pub(crate) sequence: u64,
}

/// A round of copying: up to where, and for whom.
pub(crate) struct Round<'r> {
    /// Everything up to this record is durable. It was asked for after `settled`.
    pub durable_lsn: u64,
    pub settled: Settled,
    /// The tip is written though nothing was copied.
    pub says_so: bool,
    /// Whether nobody waits for the end of the round any more. It is asked before each segment and each part of one.
    pub is_over: &'r dyn Fn() -> bool,
}

impl Round<'_> {
    fn check_wanted(&self) -> Result<()> {
        match (self.is_over)() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}

/// A segment of the journal, and its place there.
struct Live<'l> {
    segment: &'l Arc<Segment>,
    before: Option<&'l Arc<Segment>>,
    /// The last one, which is being written.
    is_running: bool,
    /// All that are there.
    live: &'l [Arc<Segment>],
}

/// Where the journal stands as a round begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// The last record that was accepted.
    pub lsn: u64,
    /// No later record has this cluster time or an earlier one.
    pub cluster_time: u64,
    /// The moment at which that was so, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Archive {
    /// Opens the archive of this database in `files`, or begins one where there is nothing. Refuses another one's archive, a
    /// directory of other things, and damage to the headers of pieces. Removes what a killed process has left half done.
    pub fn open(files: Arc<dyn Files>, identity: &Identity) -> Result<Archive> {
        check_mark(&*files, identity)?;
        let mut archive = Archive {
            files,
            pieces: BTreeMap::new(),
            tip: None,
            bytes: 0,
            is_in_doubt: true,
        };
        archive.load()?;
        Ok(archive)
    }

    /// Reads what there is, and removes what is being written no more and what another piece has taken over.
    fn load(&mut self) -> Result<()> {
        let files = &*self.files;
        for entry in files.list().map_err(|e| Error::io("list", "archive", &e))? {
            if entry.name.ends_with(NEW_SUFFIX) {
                remove_if_there(files, &entry.name)?;
            }
        }
        // A round may have failed between a rename and its sync: what is believed from here on has to survive.
        let synced = files.sync_directory();
        synced.map_err(|e| Error::io("sync directory of", "archive", &e))?;
        let mut found: BTreeMap<Key, Vec<Piece>> = BTreeMap::new();
        // Somebody may be removing old ones.
        for piece in retry(&|| read_pieces(files))? {
            found.entry(piece.key).or_default().push(piece);
        }
        let mut pieces = BTreeMap::new();
        for (key, all) in found {
            let kept = chain(all.clone());
            let is_needless = |piece: &&Piece| {
                !kept.contains(piece) && kept.iter().any(|other| other.contains(piece))
            };
            for piece in all.iter().filter(is_needless) {
                remove_if_there(files, &piece.name())?;
            }
            if !kept.is_empty() {
                pieces.insert(key, kept);
            }
        }
        self.tip = Tip::read(files)?;
        self.bytes = pieces.values().flatten().map(Piece::bytes).sum();
        self.pieces = pieces;
        self.is_in_doubt = false;
        Ok(())
    }

    /// The bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The tip that was written last.
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// Copies what is durable and not here yet.
    pub(crate) fn catch_up(&mut self, segments: &Segments, round: &Round<'_>) -> Result<Archived> {
        if self.is_in_doubt {
            self.load()?;
        }
        self.is_in_doubt = true;
        let live = segments.live();
        let mut archived = Archived::default();
        let mut is_whole_so_far = true;
        for (index, segment) in live.iter().enumerate() {
            round.check_wanted()?;
            let place = Live {
                segment,
                before: live.get(index.wrapping_sub(1)),
                is_running: index + 1 == live.len(),
                live: &live,
            };
            let is_whole = self.add_segment(segments, &place, round, &mut archived)?;
            is_whole_so_far &= is_whole;
            if is_whole_so_far {
                archived.sequence = segment.header.sequence;
            }
        }
        archived.lsn = round.durable_lsn;
        let written = self.last_written(&live);
        self.say_so(written, &round.settled, &archived, round.says_so)?;
        self.is_in_doubt = false;
        Ok(archived)
    }

    /// The sequence up to which the archive has all of these segments, which follow each other, for good.
    pub(crate) fn whole_through(&self, live: &[Arc<Segment>]) -> u64 {
        let full = &live[..live.len().saturating_sub(1)];
        let is_whole = |segment: &&Arc<Segment>| match self.last_piece(&key_of(segment)) {
            Some(last) => last.has_all(segment),
            None => self.begins_after(segment, live),
        };
        let whole = full.iter().take_while(is_whole).last();
        whole.map_or(0, |segment| segment.header.sequence)
    }

    fn last_piece(&self, key: &Key) -> Option<&Piece> {
        self.pieces.get(key).and_then(|pieces| pieces.last())
    }

    /// The segment that holds the last record which the archive has of this journal; none while there is no record.
    fn last_written(&self, live: &[Arc<Segment>]) -> Option<Key> {
        let has_records = |key: &Key| {
            let mut pieces = self.pieces.get(key).into_iter().flatten();
            pieces.any(|piece| piece.first_lsn != 0)
        };
        let mut keys = live.iter().rev().map(|segment| key_of(segment));
        if let Some(key) = keys.find(|key| has_records(key)) {
            return Some(key);
        }
        // Those that had records are freed: the oldest one says what it goes on from.
        let header = &live.first()?.header;
        let below = self.pieces.range(..key_of(live.first()?)).rev();
        let mut below = below.filter(|(key, _)| has_records(key));
        let is_before = |key: &Key, last: &Piece| match header.begins_incarnation() {
            true => last.next_lsn == header.previous_end_lsn + 1 && last.behind == header.stamp,
            false => key.incarnation == header.incarnation,
        };
        let found = below.find(|(key, pieces)| {
            let last = pieces.last();
            last.is_some_and(|last| is_before(key, last))
        });
        found.map(|(&key, _)| key)
    }

    fn say_so(
        &mut self,
        written: Option<Key>,
        settled: &Settled,
        archived: &Archived,
        says_so: bool,
    ) -> Result<()> {
        let is_due = self
            .tip
            .is_none_or(|tip| settled.unix_ms >= tip.unix_ms.saturating_add(IDLE_TIP_MS));
        let has_all = archived.lsn >= settled.lsn;
        let Some(key) =
            written.filter(|_| has_all && (says_so || is_due || archived.written_bytes > 0))
        else {
            return Ok(());
        };
        let tip = Tip {
            lsn: archived.lsn,
            cluster_time: settled.cluster_time,
            unix_ms: settled.unix_ms,
            sequence: key.sequence,
            incarnation: key.incarnation,
        };
        tip.write(&*self.files)?;
        self.tip = Some(tip);
        Ok(())
    }

    /// Copies what is missing of one segment; whether all of it is in the archive now, for good.
    fn add_segment(
        &mut self,
        segments: &Segments,
        place: &Live<'_>,
        round: &Round<'_>,
        archived: &mut Archived,
    ) -> Result<bool> {
        let &Live {
            segment,
            before,
            is_running,
            live,
        } = place;
        let (key, durable_lsn) = (key_of(segment), round.durable_lsn);
        let last = self.last_piece(&key);
        let last_lsn = segment.last_lsn.load(Ordering::Acquire);
        let is_ended = !is_running && last_lsn <= durable_lsn;
        if let Some(last) = last {
            if last.has_all(segment) {
                return Ok(!is_running);
            }
            if !is_ended && last.next_lsn == last_lsn + 1 {
                return Ok(false);
            }
        }
        if is_running && (last_lsn == 0 || durable_lsn < segment.first_lsn.load(Ordering::Acquire))
        {
            // It may be given up by the next start, and its sequence used again.
            return Ok(false);
        }
        if last.is_none() && !is_running && self.begins_after(segment, live) {
            return Ok(true);
        }
        let open = match segments.open(segment) {
            // It was freed meanwhile, because too much waited; the gap is told with the next one.
            Err(Error::HistoryMissing { .. }) => return Ok(true),
            opened => opened?,
        };
        if last.is_none() {
            archived.gaps += u64::from(self.is_behind_gap(segment, before));
        }
        let piece = self.gather(&open, durable_lsn, is_ended)?;
        if let Some(piece) = piece {
            archived.written_bytes += self.put(piece, &open, round)?;
        }
        Ok(is_ended)
    }

    /// Whether the archive begins with a later segment than this one, which was removed from it then. Data that was restored from an
    /// older backup writes lower sequences once more, which were in no archive: the archive has no later segment of that journal.
    fn begins_after(&self, segment: &Segment, live: &[Arc<Segment>]) -> bool {
        let sequence = segment.header.sequence;
        let has_lower = (self.pieces.keys().next()).is_none_or(|first| first.sequence <= sequence);
        let mut later = live.iter().filter(|other| other.header.sequence > sequence);
        !has_lower && later.any(|other| self.pieces.contains_key(&key_of(other)))
    }

    /// Whether the archive has something, and not all of the segment that comes before this one.
    fn is_behind_gap(&self, segment: &Segment, before: Option<&Arc<Segment>>) -> bool {
        let key = key_of(segment);
        if self.pieces.is_empty() || key.sequence <= 1 {
            return false;
        }
        let header = &segment.header;
        let first_lsn = segment.first_lsn.load(Ordering::Acquire);
        let leads_here = |last: &Piece| match header.begins_incarnation() {
            // Where data was restored, the archive may have more of the one before.
            true => last.next_lsn > header.previous_end_lsn,
            false => last.is_finished || last.next_lsn == first_lsn,
        };
        let has_before = match before {
            Some(before) => self.last_piece(&key_of(before)).is_some_and(leads_here),
            // It is freed. The life that it was of is known of a segment that goes on in the same one.
            None => self.pieces.iter().any(|(other, pieces)| {
                let is_own = header.begins_incarnation() || other.incarnation == key.incarnation;
                other.sequence + 1 == key.sequence
                    && is_own
                    && pieces.last().is_some_and(leads_here)
            }),
        };
        !has_before || header.is_behind_gap()
    }

    /// The piece that is to be written next of a segment: what is durable and not here, and with it those pieces before it that
    /// are no longer. None if there is nothing new.
    fn gather(
        &self,
        open: &OpenSegment,
        durable_lsn: u64,
        is_ended: bool,
    ) -> Result<Option<Piece>> {
        let key = key_of(open);
        let none = Vec::new();
        let pieces = self.pieces.get(&key).unwrap_or(&none);
        let (from, mut link) = match pieces.last() {
            Some(last) => (last.to, last.link()),
            None => (SEGMENT_HEADER_BYTES as u64, Link::before(open, 0)),
        };
        let first_begins = if pieces.is_empty() { 0 } else { from };
        let mut scanner = GroupScanner::new(open, from);
        let mut piece = None;
        while let Ok(header) = scanner.peek()?
            && header.next_lsn() - 1 <= durable_lsn
        {
            if pieces.is_empty() && piece.is_none() && link.next_lsn == 0 {
                // The first group of a segment that continues an incarnation is believed.
                link.next_lsn = header.first_lsn;
            }
            if !link.accepts(&header) {
                // It may be of the file's older use.
                break;
            }
            let piece = piece.get_or_insert_with(|| Piece::begin(key, first_begins, &link));
            piece.note(&header);
            link.advance(&header);
            scanner.skip(&header);
        }
        check_end(open, &link, durable_lsn)?;
        let mut piece = match piece {
            Some(piece) => piece,
            None if is_ended => Piece::begin(key, first_begins, &link),
            None => return Ok(None),
        };
        piece.is_finished = is_ended;
        for earlier in pieces.iter().rev() {
            if !is_ended && earlier.bytes() > piece.bytes() {
                break;
            }
            take_over(&mut piece, earlier);
        }
        Ok(Some(piece))
    }

    /// Writes the piece, and removes those that it has taken over. Returns the bytes written.
    fn put(&mut self, mut piece: Piece, open: &OpenSegment, round: &Round<'_>) -> Result<u64> {
        let name = piece.name();
        let new_name = format!("{name}{NEW_SUFFIX}");
        let failed = |action| move |error: std::io::Error| Error::io(action, "archive", &error);
        let file = self.files.create(&new_name).map_err(failed("create in"))?;
        let none = Vec::new();
        let taken_over = self.pieces.get(&piece.key).unwrap_or(&none);
        let taken_over = taken_over.iter().filter(|other| piece.contains(other));
        let taken_over: Vec<&Piece> = taken_over.collect();
        piece.body_crc = copy(open, &piece, &taken_over, &*file, round)?;
        write_all_at(&*file, &piece.encode(), 0).map_err(failed("write to"))?;
        sync_file(&*file).map_err(failed("sync"))?;
        self.files
            .rename(&new_name, &name)
            .and_then(|()| self.files.sync_directory())
            .map_err(failed("rename in"))?;
        let bytes = piece.bytes();
        let pieces = self.pieces.entry(piece.key).or_default();
        let kept = pieces
            .iter()
            .take_while(|other| !piece.contains(other))
            .count();
        let needless: Vec<Piece> = pieces.drain(kept..).collect();
        self.bytes += bytes;
        pieces.push(piece.clone());
        self.bytes -= needless.iter().map(Piece::bytes).sum::<u64>();
        // A piece that is finished and grows no more keeps its name.
        for other in needless.iter().filter(|other| other.name() != name) {
            remove_if_there(&*self.files, &other.name())?;
        }
        Ok(bytes)
    }
}

/// Whether the groups that were followed hold all that is durable of the segment.
fn check_end(open: &OpenSegment, link: &Link, durable_lsn: u64) -> Result<()> {
    let last_lsn = open.last_lsn.load(Ordering::Acquire).min(durable_lsn);
    let first_lsn = open.first_lsn.load(Ordering::Acquire);
    match first_lsn == 0 || last_lsn < first_lsn || link.next_lsn > last_lsn {
        true => Ok(()),
        false => Err(damaged(
            &open.name,
            0,
            "its groups do not go on to its last record, or not behind what the archive has",
        )),
    }
}

/// Lets the piece begin where the one before it does.
fn take_over(piece: &mut Piece, earlier: &Piece) {
    piece.from = earlier.from;
    piece.latest_unix_ms = piece.latest_unix_ms.max(earlier.latest_unix_ms);
    if earlier.first_lsn != 0 {
        piece.first_lsn = earlier.first_lsn;
        piece.previous_crc = earlier.previous_crc;
        piece.first_unix_ms = earlier.first_unix_ms;
    }
}

/// Copies the piece's range of the segment; the checksum of it. The range begins with those of the pieces that it takes over, in
/// order, and what the segment's file has there now must be what they have: they are removed for it.
fn copy(
    open: &OpenSegment,
    piece: &Piece,
    taken_over: &[&Piece],
    file: &dyn File,
    round: &Round<'_>,
) -> Result<u32> {
    let (mut at, mut crc) = (piece.from, 0);
    for earlier in taken_over {
        debug_assert_eq!(at, earlier.from, "the pieces of a segment have no hole");
        let of_range = copy_range(open, at..earlier.to, piece.from, file, round)?;
        if of_range != earlier.body_crc {
            let why = "its bytes are no longer those that the archive has of it";
            return Err(damaged(&open.name, at, why));
        }
        crc = crc32c::crc32c_combine(crc, of_range, earlier.bytes() as usize);
        at = earlier.to;
    }
    let of_rest = copy_range(open, at..piece.to, piece.from, file, round)?;
    Ok(crc32c::crc32c_combine(
        crc,
        of_rest,
        (piece.to - at) as usize,
    ))
}

/// Copies a range of the segment into a piece that begins at `from`; the checksum of the range. The segment's index is left out: it
/// may just be written.
fn copy_range(
    open: &OpenSegment,
    range: Range<u64>,
    from: u64,
    file: &dyn File,
    round: &Round<'_>,
) -> Result<u32> {
    let failed = |error: std::io::Error| Error::io("archive", &open.name, &error);
    let mut part = vec![0; PART_BYTES.min((range.end - range.start) as usize)];
    let (mut at, mut crc) = (range.start, 0);
    while at < range.end {
        round.check_wanted()?;
        let wanted = part.len().min((range.end - at) as usize);
        let filled = read_full_at(&*open.file, &mut part[..wanted], at).map_err(failed)?;
        if filled < wanted {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        if at < SEGMENT_HEADER_BYTES as u64 {
            debug_assert_eq!(
                at, 0,
                "a piece begins with the segment or behind its header"
            );
            let header_bytes = wanted.min(SEGMENT_HEADER_BYTES);
            part[INDEX_OFFSET..header_bytes].fill(0);
        }
        crc = crc32c::crc32c_append(crc, &part[..wanted]);
        let target = PIECE_HEADER_BYTES as u64 + (at - from);
        write_all_at(file, &part[..wanted], target).map_err(failed)?;
        at += wanted as u64;
    }
    Ok(crc)
}

impl Piece {
    /// Whether the archive has all of the segment that this is the last piece of, and is to have no more.
    fn has_all(&self, segment: &Segment) -> bool {
        let last_lsn = segment.last_lsn.load(Ordering::Acquire);
        // A segment that was restored may have been cut: then the archive has more of it than the journal, or, where it was
        // finished at the cut, less than a journal that was not.
        let has_more = self.next_lsn > last_lsn + 1;
        // One without groups has nothing that could be missing, and after a start ends where the next one begins.
        let is_empty = segment.first_lsn.load(Ordering::Acquire) == 0;
        let has_last = is_empty || self.next_lsn > last_lsn;
        has_more || self.is_finished && has_last
    }
}

fn key_of(segment: &Segment) -> Key {
    Key {
        sequence: segment.header.sequence,
        incarnation: segment.header.incarnation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_header::GroupFormat;
    use crate::segment_header::SegmentHeader;
    use crate::stamp::Stamp;

    /// A finished piece with the records before `next_lsn`, and a segment that ends at `last_lsn`.
    fn has_all(next_lsn: u64, is_finished: bool, first_lsn: u64, last_lsn: u64) -> bool {
        let header = SegmentHeader {
            format: GroupFormat::Two,
            identity: Identity {
                database: [1; 16],
                engine: "memory".to_owned(),
            },
            sequence: 3,
            incarnation: 1 << 32,
            segment_bytes: 16 * 1024,
            first_lsn: 0,
            previous_end_lsn: 0,
            created_unix_ms: 1000,
            cluster_time_min: 0,
            stamp: Stamp::default(),
        };
        let segment = Segment::new("0000000003.segment".to_owned(), header, 1, 16 * 1024);
        segment.first_lsn.store(first_lsn, Ordering::Release);
        segment.last_lsn.store(last_lsn, Ordering::Release);
        let piece = Piece {
            is_finished,
            next_lsn,
            ..Piece::begin(key_of(&segment), 0, &Link::before(&segment, 0))
        };
        piece.has_all(&segment)
    }

    #[test]
    fn a_finished_piece_has_all_that_its_segment_has() {
        assert!(has_all(60, true, 40, 59));
        assert!(!has_all(60, false, 40, 59), "it is to be finished");
        assert!(
            !has_all(50, true, 40, 59),
            "the segment was cut when it was finished"
        );
        assert!(has_all(61, false, 40, 59), "the segment was cut since");
        // A start knows of a segment without groups where the next one begins.
        assert!(has_all(0, true, 0, 59));
        assert!(has_all(0, true, 0, 0));
        assert!(!has_all(0, false, 0, 0));
    }
}
