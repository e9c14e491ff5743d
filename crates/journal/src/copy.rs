//! A copy of the journal's end in another directory: what a start needs on a copy of the engine.
//!
//! Keeps true: whoever copies the engine pins the journal first, at a point up to which the engine is durable, so that what the
//! engine's copy may lack is still there when the journal is copied, afterwards. The copy ends at a group that is durable, behind
//! which there are zeros, so that it looks like the journal of a process that was killed there.
//! Leaves out: what was kept for the window alone, and syncs of the copy. Whoever wants it to last copies it on: the disk has the
//! journal's own syncs to do meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use crate::error::{Error, Result};
use crate::files::{File, Files, read_full_at, write_all_at};
use crate::scan::GroupScanner;
use crate::segment::OpenSegment;
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segment_index::INDEX_OFFSET;
use crate::segments::Segments;

/// So much is copied at a time, which takes about a tenth of a millisecond. Between two parts the processor is offered to whoever is
/// ready to run: a thread that wakes on it may otherwise wait for some milliseconds.
const PART_BYTES: usize = 128 << 10;

/// Keeps the records after an LSN from being freed, until it is dropped.
pub struct Pin {
    segments: Option<Arc<Segments>>,
    lsn: u64,
}

impl Pin {
    /// Pins nothing where there are no segments, because the log is not in files of the journal.
    pub(crate) fn new(segments: Option<Arc<Segments>>, lsn: u64) -> Self {
        if let Some(segments) = &segments {
            segments.pin(lsn);
        }
        Pin { segments, lsn }
    }

    /// Writes into `target` the segments that hold what is pinned, up to `durable_lsn`. Returns the bytes read.
    pub(crate) fn copy(&self, durable_lsn: u64, target: &dyn Files) -> Result<u64> {
        let Some(segments) = &self.segments else {
            let reason = std::io::Error::other("the log is not in files");
            return Err(Error::io("copy", "journal", &reason));
        };
        let mut bytes = 0;
        for segment in segments.holding(self.lsn) {
            let is_needed = segment.last_lsn.load(Ordering::Acquire) > self.lsn;
            match segments.open(&segment) {
                Ok(open) => bytes += copy_segment(&open, durable_lsn, target)?,
                // Nothing of it is pinned, and it has been freed.
                Err(Error::HistoryMissing { .. }) if !is_needed => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(segments) = &self.segments {
            segments.unpin(self.lsn);
        }
    }
}

/// Writes the segment's header and its groups up to `durable_lsn` into a file of the same name and length.
fn copy_segment(segment: &OpenSegment, durable_lsn: u64, target: &dyn Files) -> Result<u64> {
    let failed = |error: std::io::Error| Error::io("copy", &segment.name, &error);
    let end = end_of_groups(segment, durable_lsn)?;
    let copy = target.create(&segment.name).map_err(failed)?;
    // Its index may be of groups that are not copied, and may just be written: a segment can do without one.
    copy_bytes(segment, &*copy, 0, INDEX_OFFSET as u64)?;
    copy_bytes(segment, &*copy, SEGMENT_HEADER_BYTES as u64, end)?;
    copy.set_len(segment.bytes).map_err(failed)?;
    Ok(end)
}

/// Where the groups of the segment end that are durable, and do not change any more. Behind them may be groups of the file's
/// older use, which do not continue them.
fn end_of_groups(segment: &OpenSegment, durable_lsn: u64) -> Result<u64> {
    let mut scanner = GroupScanner::new(segment, segment.place_before(durable_lsn)?);
    let mut next_lsn = None;
    while let Ok(header) = scanner.peek_header()?
        && scanner.has_room_for(&header)
        && next_lsn.is_none_or(|next_lsn| header.first_lsn == next_lsn)
        && header.next_lsn() - 1 <= durable_lsn
    {
        next_lsn = Some(header.next_lsn());
        scanner.skip(&header);
    }
    Ok(scanner.offset())
}

fn copy_bytes(segment: &OpenSegment, copy: &dyn File, from: u64, to: u64) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("copy", &segment.name, &error);
    let mut part = vec![0; PART_BYTES.min((to - from) as usize)];
    let mut at = from;
    while at < to {
        thread::yield_now();
        let wanted = part.len().min((to - at) as usize);
        let read = read_full_at(&*segment.file, &mut part[..wanted], at).map_err(failed)?;
        if read < wanted {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        write_all_at(copy, &part[..read], at).map_err(failed)?;
        at += read as u64;
    }
    Ok(())
}
