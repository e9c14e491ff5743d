//! One segment file: its name, its place, and which LSNs it holds.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::files::{File, Files};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::segment_header::SegmentHeader;

pub(crate) const SEGMENT_SUFFIX: &str = ".segment";
/// No segment is numbered above this, so that the number after one never overflows.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;

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
}

impl Segment {
    pub fn new(name: String, header: SegmentHeader, header_crc: u32, bytes: u64) -> Self {
        Segment {
            name,
            header,
            header_crc,
            bytes,
            first_lsn: AtomicU64::new(0),
            last_lsn: AtomicU64::new(0),
            last_unix_ms: AtomicU64::new(0),
        }
    }

    pub fn note_group(&self, first_lsn: u64, last_lsn: u64, unix_ms: u64) {
        if self.first_lsn.load(Ordering::Relaxed) == 0 {
            self.first_lsn.store(first_lsn, Ordering::Release);
        }
        self.last_lsn.store(last_lsn, Ordering::Release);
        self.last_unix_ms.store(unix_ms, Ordering::Relaxed);
    }
}

/// A segment with its file open, for as long as somebody reads, writes or syncs it.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    pub segment: Arc<Segment>,
    pub file: Arc<dyn File>,
}

impl OpenSegment {
    pub fn open(segment: &Arc<Segment>, files: &dyn Files) -> Result<Self> {
        let file = files.open(&segment.name);
        Ok(OpenSegment {
            file: file.map_err(|e| Error::io("open", &segment.name, &e))?,
            segment: Arc::clone(segment),
        })
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
}

/// The room for groups in a segment of `segment_bytes`.
pub(crate) fn fits(offset: u64, group_bytes: u64, segment_bytes: u64) -> bool {
    debug_assert!(group_bytes >= GROUP_HEADER_BYTES as u64);
    offset + group_bytes <= segment_bytes
}
