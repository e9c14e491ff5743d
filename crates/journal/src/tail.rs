//! What lies behind the end of the chain: damage, if anything there says that the missing record was durable, else a tail,
//! which is zeroed and synced before the first write.

use std::sync::Arc;

use crate::chain::{ChainEnd, scanner};
use crate::error::{Error, Result};
use crate::files::{Files, read_full_at, sync_file, write_all_at};
use crate::scan::GroupScanner;
use crate::segment::Segment;
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segments::discard;

const ZERO_STEP_BYTES: usize = 64 * 1024;

/// Refuses if anything behind the end of the chain says that the missing record was durable.
pub(crate) fn check_tail(segments: &[Arc<Segment>], end: &ChainEnd) -> Result<()> {
    for (index, segment) in segments.iter().enumerate().skip(end.index) {
        let offset = if index == end.index {
            end.offset
        } else {
            SEGMENT_HEADER_BYTES as u64
        };
        if highest_mark(segment, offset)?.is_some_and(|lsn| lsn >= end.link.next_lsn) {
            return Err(damage(segments, end)?);
        }
    }
    Ok(())
}

/// Names the place: where the chain ends, or, if that is the end of its segment, the first group of the next one, should
/// that be broken in itself.
fn damage(segments: &[Arc<Segment>], end: &ChainEnd) -> Result<Error> {
    let missing_lsn = end.link.next_lsn;
    let (mut index, mut offset, mut reason) = (end.index, end.offset, end.reason);
    let is_end_of_segment = highest_mark(&segments[end.index], end.offset)?.is_none();
    if is_end_of_segment
        && let Some(next) = segments.get(index + 1)
        && let Err(broken) = scanner(next).peek()?
    {
        (index, offset, reason) = (index + 1, SEGMENT_HEADER_BYTES as u64, broken);
    }
    Ok(Error::Damaged {
        segment: segments[index].name.clone(),
        offset,
        reason: format!("{reason}, but record {missing_lsn} was durable"),
    })
}

/// The highest durable mark of the whole groups of the segment's own incarnation from `offset` on; none if there is no
/// such group.
fn highest_mark(segment: &Segment, offset: u64) -> Result<Option<u64>> {
    let mut scanner = GroupScanner::new(
        Arc::clone(&segment.file),
        &segment.name,
        offset,
        segment.bytes,
    );
    let mut highest = None;
    while scanner.find_magic()? {
        match scanner.peek()? {
            Ok(header) => {
                if header.incarnation == segment.header.incarnation {
                    highest = highest.max(Some(header.durable_lsn));
                }
                scanner.skip(&header);
            }
            Err(_) => scanner.seek(scanner.offset() + 1),
        }
    }
    Ok(highest)
}

/// Zeroes the tail, takes later segments out, and syncs all that is kept.
pub(crate) fn cut(
    files: &dyn Files,
    segments: &mut Vec<Arc<Segment>>,
    begin: usize,
    end: &ChainEnd,
) -> Result<()> {
    let last = begin + end.index;
    zero_from(&segments[last], end.offset)?;
    restore_length(&segments[last])?;
    for segment in &segments[..=last] {
        sync_file(&*segment.file).map_err(|e| Error::io("sync", &segment.name, &e))?;
    }
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

fn zero_from(segment: &Segment, mut offset: u64) -> Result<()> {
    let zeros = [0; ZERO_STEP_BYTES];
    let mut step = [0; ZERO_STEP_BYTES];
    loop {
        let room = ZERO_STEP_BYTES.min(segment.bytes.saturating_sub(offset) as usize);
        let filled = read_full_at(&*segment.file, &mut step[..room], offset)
            .map_err(|e| Error::io("read", &segment.name, &e))?;
        if filled == 0 {
            return Ok(());
        }
        if step[..filled] != zeros[..filled] {
            write_all_at(&*segment.file, &zeros[..filled], offset)
                .map_err(|e| Error::io("write zeros to", &segment.name, &e))?;
        }
        offset += filled as u64;
    }
}

/// Gives a file that lost its end its length back. Nothing is written to it any more, so the end may be a hole.
fn restore_length(segment: &Segment) -> Result<()> {
    let bytes = segment.header.segment_bytes;
    if segment.bytes == bytes {
        return Ok(());
    }
    let restored = segment.file.set_len(bytes);
    restored.map_err(|e| Error::io("set the length of", &segment.name, &e))
}
