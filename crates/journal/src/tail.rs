//! The bytes behind the end of the chain: damage, if anything there says that the missing record was durable, else a tail,
//! which is zeroed and synced before the first write.
//!
//! What is kept and was not durable is written again before it is synced. A sync that failed before this start has made the
//! kernel forget which pages the disk lacks: readers see them, and a sync alone would have nothing to do.

use std::sync::Arc;

use crate::chain::{ChainEnd, Link, scanner};
use crate::error::{Error, Result};
use crate::files::{Files, read_full_at, sync_file, write_all_at};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::scan::GroupScanner;
use crate::segment::{OpenSegment, Segment};
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segments::discard;

const ZERO_STEP_BYTES: usize = 64 * 1024;
/// How much is read and written again in one step.
const REWRITE_STEP_BYTES: usize = 256 * 1024;
/// Broken groups of the segment's own incarnation behind the end, beyond so many times the segment, are no tail: groups in
/// flight do not overlap. It bounds what a start reads.
const BROKEN_SHARE_MAX: u64 = 2;

/// Refuses if anything behind the end of the chain says that the missing record was durable.
pub(crate) fn check_tail(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    end: &ChainEnd,
) -> Result<()> {
    if end.is_closed {
        return Ok(());
    }
    let mut is_end_of_segment = false;
    for (index, segment) in segments.iter().enumerate().skip(end.index) {
        let is_last = index == end.index;
        let offset = match is_last {
            true => end.offset,
            false => SEGMENT_HEADER_BYTES as u64,
        };
        let behind = search(files, segment, offset)?;
        is_end_of_segment |= is_last && behind.first_lsn.is_none();
        if behind.durable_lsn >= end.link.next_lsn {
            return Err(damage(files, segments, end, is_end_of_segment)?);
        }
    }
    Ok(())
}

/// The damage at the end of a chain that reached further when it was followed before, and whose records were made durable since.
pub(crate) fn damage_at_end(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    end: &ChainEnd,
) -> Result<Error> {
    let behind = search(files, &segments[end.index], end.offset)?;
    damage(files, segments, end, behind.first_lsn.is_none())
}

/// Names the place: where the chain ends, or, if that is the end of its segment, the first group of the next one, should
/// that be broken in itself.
fn damage(
    files: &dyn Files,
    segments: &[Arc<Segment>],
    end: &ChainEnd,
    is_end_of_segment: bool,
) -> Result<Error> {
    let missing_lsn = end.link.next_lsn;
    let (mut index, mut offset, mut reason) = (end.index, end.offset, end.reason);
    if is_end_of_segment
        && let Some(next) = segments.get(index + 1)
        && let Err(broken) = scanner(&OpenSegment::open(next, files)?).peek()?
    {
        (index, offset, reason) = (index + 1, SEGMENT_HEADER_BYTES as u64, broken);
    }
    Ok(Error::Damaged {
        segment: segments[index].name.clone(),
        offset,
        reason: format!("{reason}, but record {missing_lsn} was durable"),
    })
}

/// The findings of a search for whole groups of the segment's own incarnation.
#[derive(Default)]
pub(crate) struct Found {
    /// The first LSN of the first one.
    pub first_lsn: Option<u64>,
    /// The highest durable mark of any.
    pub durable_lsn: u64,
}

/// Searches the segment from `offset` on.
pub(crate) fn search(files: &dyn Files, segment: &Arc<Segment>, offset: u64) -> Result<Found> {
    let mut scanner = GroupScanner::new(&OpenSegment::open(segment, files)?, offset);
    let mut found = Found::default();
    let mut broken_bytes = 0;
    while let Some(header) = scanner.find_header()? {
        if scanner.peek()?.is_ok() {
            found.first_lsn.get_or_insert(header.first_lsn);
            found.durable_lsn = found.durable_lsn.max(header.durable_lsn);
            scanner.skip(&header);
            continue;
        }
        // A group that cannot fit was not read beyond its header, whatever length it claims.
        let room = segment.bytes.saturating_sub(scanner.offset());
        broken_bytes += match header.group_bytes() <= room {
            true => header.group_bytes(),
            false => header.format.header_bytes() as u64,
        };
        if broken_bytes > BROKEN_SHARE_MAX * segment.bytes {
            return Err(Error::Damaged {
                segment: segment.name.clone(),
                offset: scanner.offset(),
                reason: "more broken groups than the segment has room for".to_owned(),
            });
        }
        scanner.seek(scanner.offset() + 1);
    }
    Ok(found)
}

/// Zeroes the tail, takes later segments out, and makes durable all that is kept. Everything up to `durable_lsn` is.
pub(crate) fn cut(
    files: &dyn Files,
    segments: &mut Vec<Arc<Segment>>,
    begin: usize,
    end: &ChainEnd,
    durable_lsn: u64,
) -> Result<()> {
    let last = begin + end.index;
    if durable_lsn + 1 < end.link.next_lsn {
        for segment in &segments[first_unsynced(&segments[..=last], durable_lsn)..=last] {
            let segment = OpenSegment::open(segment, files)?;
            rewrite_above(&segment, durable_lsn)?;
            sync(&segment)?;
        }
    }
    let segment = OpenSegment::open(&segments[last], files)?;
    if !end.is_closed {
        zero_from(&segment, end.offset)?;
    }
    restore_length(&segment)?;
    sync(&segment)?;
    // Names could still be unsynced if the process was killed between a rename and its sync.
    files
        .sync_directory()
        .map_err(|e| Error::io("sync directory of", "journal", &e))?;
    while segments.len() > last + 1 {
        if let Some(segment) = segments.pop() {
            discard(files, &segment.name)?;
        }
    }
    Ok(())
}

fn sync(segment: &OpenSegment) -> Result<()> {
    sync_file(&*segment.file).map_err(|e| Error::io("sync", &segment.name, &e))
}

/// The first of these segments that may hold a record above `durable_lsn`: the last one that begins at or below the record
/// behind it. Without records none is known to begin there.
pub(crate) fn first_unsynced(segments: &[Arc<Segment>], durable_lsn: u64) -> usize {
    let begins_below = |segment: &Arc<Segment>| {
        let first_lsn = segment.first_lsn.load(std::sync::atomic::Ordering::Relaxed);
        first_lsn != 0 && first_lsn <= durable_lsn + 1
    };
    segments.iter().rposition(begins_below).unwrap_or(0)
}

/// Writes the groups that hold records above `durable_lsn` once more, in place. The chain has been followed before: what comes
/// before the last mark is not read again.
fn rewrite_above(segment: &OpenSegment, durable_lsn: u64) -> Result<()> {
    let mut scanner = scanner(segment);
    scanner.seek(segment.place_before(durable_lsn + 1)?);
    let is_beginning = scanner.offset() == SEGMENT_HEADER_BYTES as u64;
    let mut link: Option<Link> = None;
    let mut from = None;
    while let Ok(header) = scanner.peek()? {
        let link = link.get_or_insert_with(|| match is_beginning {
            true => Link::before(segment, header.first_lsn),
            false => Link::inside(&header),
        });
        if !link.accepts(&header) {
            break;
        }
        if from.is_none() && header.next_lsn() > durable_lsn + 1 {
            from = Some(scanner.offset());
        }
        link.advance(&header);
        scanner.skip(&header);
    }
    match from {
        Some(from) => rewrite(segment, from, scanner.offset()),
        None => Ok(()),
    }
}

fn rewrite(segment: &OpenSegment, mut from: u64, to: u64) -> Result<()> {
    let mut step = vec![0; REWRITE_STEP_BYTES];
    while from < to {
        let wanted = REWRITE_STEP_BYTES.min((to - from) as usize);
        let filled = read_full_at(&*segment.file, &mut step[..wanted], from)
            .map_err(|e| Error::io("read", &segment.name, &e))?;
        if filled < wanted {
            return Err(Error::Damaged {
                segment: segment.name.clone(),
                offset: from + filled as u64,
                reason: "the file ends inside a group that was read before".to_owned(),
            });
        }
        write_all_at(&*segment.file, &step[..filled], from)
            .map_err(|e| Error::io("rewrite", &segment.name, &e))?;
        from += filled as u64;
    }
    Ok(())
}

/// Zeroes what is not zero, and in any case the place of the next group's header: the disk may hold one there that was
/// taken out only as far as readers see.
fn zero_from(segment: &OpenSegment, mut offset: u64) -> Result<()> {
    let zeros = [0; ZERO_STEP_BYTES];
    let mut step = [0; ZERO_STEP_BYTES];
    let write_zeros = |offset, bytes: usize| {
        write_all_at(&*segment.file, &zeros[..bytes], offset)
            .map_err(|e| Error::io("write zeros to", &segment.name, &e))
    };
    let header_bytes = segment.bytes.saturating_sub(offset);
    write_zeros(offset, GROUP_HEADER_BYTES.min(header_bytes as usize))?;
    loop {
        let room = ZERO_STEP_BYTES.min(segment.bytes.saturating_sub(offset) as usize);
        let filled = read_full_at(&*segment.file, &mut step[..room], offset)
            .map_err(|e| Error::io("read", &segment.name, &e))?;
        if filled == 0 {
            return Ok(());
        }
        if step[..filled] != zeros[..filled] {
            write_zeros(offset, filled)?;
        }
        offset += filled as u64;
    }
}

/// Gives a file that lost its end its length back. Nothing is written to it any more, so the end may be a hole.
fn restore_length(segment: &OpenSegment) -> Result<()> {
    let bytes = segment.header.segment_bytes;
    if segment.bytes == bytes {
        return Ok(());
    }
    let restored = segment.file.set_len(bytes);
    restored.map_err(|e| Error::io("set the length of", &segment.name, &e))
}
