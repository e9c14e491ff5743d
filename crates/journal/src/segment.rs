//! One segment file: its name, its place, and which LSNs it holds.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::files::{File, Files, read_full_at, write_all_at};
use crate::group_header::{GROUP_HEADER_BYTES, GroupHeader};
use crate::seal::Seal;
use crate::segment_header::{SEGMENT_HEADER_BYTES, SEQUENCE_MAX, SegmentHeader};
use crate::segment_index::{self, Mark};
use crate::stamp::Stamp;

pub(crate) const SEGMENT_SUFFIX: &str = ".segment";

pub(crate) fn segment_name(sequence: u64) -> String {
    format!("{sequence:010}{SEGMENT_SUFFIX}")
}

pub(crate) fn segment_sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let sequence = (digits.len() >= 10).then(|| digits.parse().ok())??;
    (sequence <= SEQUENCE_MAX).then_some(sequence)
}

/// One segment of the live journal. LSNs are 0 while it holds no group. It keeps no descriptor: whoever reads or writes
/// it holds an [`OpenSegment`] for that long, so that a long journal does not take descriptors that connections need.
pub(crate) struct Segment {
    pub name: String,
    pub header: SegmentHeader,
    pub header_crc: u32,
    pub bytes: u64,
    pub first_lsn: AtomicU64,
    pub last_lsn: AtomicU64,
    pub last_unix_ms: AtomicU64,
    /// No record of the segment has a lower cluster time; 0 where that is not known, or its groups have none.
    pub first_cluster_time: AtomicU64,
    /// Where some of the groups begin, in order: whoever looks for one begins at the last mark before it. Of a segment that
    /// this life has not read they stand in the file.
    marks: Mutex<Vec<Mark>>,
    /// No group before this offset is marked next.
    next_mark: AtomicU64,
    /// The furthest place that a reader has come to. Whoever follows the journal's end begins there, and not at the last mark.
    read_through: Mutex<Place>,
    /// Whether the file has an index of all marks.
    is_indexed: AtomicBool,
}

/// The group that holds this LSN begins at this offset or behind it.
#[derive(Clone, Copy, Default)]
struct Place {
    lsn: u64,
    offset: u64,
}

/// The bytes between two marks: so many are looked through for a group. Of a segment that is full fewer marks are kept, as
/// many as its index has room for.
const MARK_BYTES: u64 = if cfg!(test) { 256 } else { 64 << 10 };

impl Segment {
    pub fn new(name: String, header: SegmentHeader, header_crc: u32, bytes: u64) -> Self {
        let first_cluster_time = header.cluster_time_min.max(header.stamp.cluster_time);
        Segment {
            name,
            header,
            header_crc,
            bytes,
            first_lsn: AtomicU64::new(0),
            last_lsn: AtomicU64::new(0),
            last_unix_ms: AtomicU64::new(0),
            first_cluster_time: AtomicU64::new(first_cluster_time),
            marks: Mutex::default(),
            next_mark: AtomicU64::new(0),
            read_through: Mutex::default(),
            is_indexed: AtomicBool::new(false),
        }
    }

    /// Notes a group that was written or found at `offset`. One without records says nothing about the segment.
    pub fn note_group(&self, group: &GroupHeader, offset: u64) {
        if group.count == 0 {
            return;
        }
        self.note_place(group, offset);
        // A start may know the first LSN from a header alone, which has no time where records without times come before.
        if self.first_cluster_time.load(Ordering::Relaxed) == 0 {
            let cluster_time = group.stamp.cluster_time;
            (self.first_cluster_time).store(cluster_time, Ordering::Relaxed);
        }
        if self.first_lsn.load(Ordering::Relaxed) == 0 {
            let cluster_time = group.stamp.cluster_time;
            (self.first_cluster_time).store(cluster_time, Ordering::Relaxed);
            self.first_lsn.store(group.first_lsn, Ordering::Release);
        }
        (self.last_lsn).store(group.next_lsn() - 1, Ordering::Release);
        self.last_unix_ms.store(group.unix_ms, Ordering::Relaxed);
    }

    /// Remembers where the group begins, if the last mark is far enough behind: somebody who read up to here spares the
    /// next one the way.
    #[inline]
    pub fn note_place(&self, group: &GroupHeader, offset: u64) {
        if offset >= self.next_mark.load(Ordering::Relaxed) && group.count > 0 {
            self.mark(group, offset);
        }
    }

    #[cold]
    fn mark(&self, group: &GroupHeader, offset: u64) {
        let mut marks = self.marks.lock();
        if marks.last().is_none_or(|last| last.offset < offset) {
            marks.push(Mark {
                lsn: group.first_lsn,
                cluster_time: group.stamp.cluster_time,
                offset,
            });
        }
        (self.next_mark).store(offset + MARK_BYTES, Ordering::Relaxed);
    }

    /// A reader goes: the group that holds its next LSN begins at `offset` or behind it, if it is in this segment at all.
    pub fn note_read(&self, next_lsn: u64, offset: u64) {
        let mut read_through = self.read_through.lock();
        if read_through.lsn < next_lsn {
            *read_through = Place {
                lsn: next_lsn,
                offset,
            };
        }
    }

    /// Whether there are marks that the file does not have, or may not.
    pub fn wants_index(&self) -> bool {
        !self.is_indexed.load(Ordering::Relaxed) && !self.marks.lock().is_empty()
    }

    fn last_mark(&self, is_before: impl Fn(&Mark) -> bool) -> u64 {
        let marks = self.marks.lock();
        let before = marks.partition_point(is_before);
        let last = before.checked_sub(1).map(|last| marks[last].offset);
        last.unwrap_or(SEGMENT_HEADER_BYTES as u64)
    }
}

/// A segment with its file open, for as long as somebody reads, writes or syncs it.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    pub segment: Arc<Segment>,
    pub file: Arc<dyn File>,
    /// Opens and seals its groups, if they are sealed.
    pub seal: Option<Arc<dyn Seal>>,
}

impl OpenSegment {
    pub fn open(segment: &Arc<Segment>, files: &dyn Files) -> Result<Self> {
        let file = files.open(&segment.name);
        Ok(OpenSegment {
            file: file.map_err(|e| Error::io("open", &segment.name, &e))?,
            segment: Arc::clone(segment),
            seal: files.seal(),
        })
    }
}

impl OpenSegment {
    /// Where to begin to look for the group that holds `lsn`.
    pub fn place_before(&self, lsn: u64) -> Result<u64> {
        self.read_index()?;
        let marked = self.last_mark(|mark| mark.lsn <= lsn);
        let read_through = *self.read_through.lock();
        Ok(match read_through.lsn <= lsn {
            true => marked.max(read_through.offset),
            false => marked,
        })
    }

    /// Where to begin to look for the first group with that cluster time or a later one.
    pub fn place_before_time(&self, cluster_time: u64) -> Result<u64> {
        self.read_index()?;
        Ok(self.last_mark(|mark| mark.cluster_time <= cluster_time))
    }

    /// Takes over the marks that an earlier life has left in the file, unless this one has made some.
    fn read_index(&self) -> Result<()> {
        if !self.marks.lock().is_empty() {
            return Ok(());
        }
        let mut bytes = [0; segment_index::INDEX_BYTES];
        let filled = read_full_at(&*self.file, &mut bytes, segment_index::INDEX_OFFSET as u64);
        let filled = filled.map_err(|e| Error::io("read", &self.name, &e))?;
        let found = segment_index::decode(&self.header, &bytes[..filled]);
        let mut marks = self.marks.lock();
        if let Some(last) = found.last().filter(|_| marks.is_empty()) {
            (self.next_mark).store(last.offset + MARK_BYTES, Ordering::Relaxed);
            self.is_indexed.store(true, Ordering::Relaxed);
            *marks = found;
        }
        Ok(())
    }

    /// Writes the marks of a segment that is full into its file, for the next life. Nothing depends on it: what fails is not tried again.
    pub fn write_index(&self) {
        self.is_indexed.store(true, Ordering::Relaxed);
        let bytes = {
            let mut marks = self.marks.lock();
            segment_index::thin(&mut marks);
            segment_index::encode(&self.header, &marks)
        };
        let _ = write_all_at(&*self.file, &bytes, segment_index::INDEX_OFFSET as u64);
    }
}

impl Deref for OpenSegment {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
}

/// Where a new incarnation begins.
#[derive(Clone, Copy, Default)]
pub(crate) struct IncarnationStart {
    pub first_lsn: u64,
    pub previous_end_lsn: u64,
    /// The lowest cluster time of what is written, if that is not the stamp's; else 0.
    pub cluster_time_min: u64,
    /// The place in the history behind the previous end.
    pub stamp: Stamp,
}

/// The room for groups in a segment of `segment_bytes`.
pub(crate) fn fits(offset: u64, group_bytes: u64, segment_bytes: u64) -> bool {
    debug_assert!(group_bytes >= GROUP_HEADER_BYTES as u64);
    offset + group_bytes <= segment_bytes
}
