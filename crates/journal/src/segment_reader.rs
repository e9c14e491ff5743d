//! Reads the local log from its files, group by group, while writing goes on. It holds no lock and keeps no
//! space: a segment freed under it stays readable through its own handle.

use std::sync::Arc;

use crate::chain::scanner;
use crate::error::{Error, Result};
use crate::group_header::GroupFormat;
use crate::hooks::Payloads;
use crate::log::LogReader;
use crate::scan::GroupScanner;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::sync::Syncer;

pub(crate) struct SegmentReader {
    segments: Arc<Segments>,
    /// Says how far the log is written.
    syncer: Arc<Syncer>,
    next_lsn: u64,
    /// The last LSN that the bytes read ahead hold for certain; beyond it may be groups of the file's older use.
    read_ahead_lsn: u64,
    segment: Arc<Segment>,
    scanner: GroupScanner,
}

impl SegmentReader {
    pub fn new(segments: Arc<Segments>, syncer: Arc<Syncer>, from_lsn: u64) -> Result<Self> {
        let next_lsn = from_lsn.max(1);
        let first_lsn = segments.first_lsn();
        if first_lsn > next_lsn {
            return Err(Error::HistoryMissing {
                needed_lsn: next_lsn,
                first_lsn,
            });
        }
        let Some(segment) = segments.holding(next_lsn).first().map(Arc::clone) else {
            return Err(Error::Closed);
        };
        // The segment that is written into is open already: whoever follows the journal's end opens no file.
        let written = syncer.written_segment();
        let open = match Arc::ptr_eq(&written.segment, &segment) {
            true => written,
            false => segments.open(&segment)?,
        };
        let mut scanner = scanner(&open).growing();
        scanner.seek(open.place_before(next_lsn)?);
        Ok(SegmentReader {
            segments,
            syncer,
            next_lsn,
            read_ahead_lsn: 0,
            scanner,
            segment,
        })
    }

    fn next_segment(&mut self) -> Result<()> {
        // The incarnation of the segment begins behind the record, and the one before ended in front of it: a recorded gap.
        if self.segment.header.first_lsn > self.next_lsn {
            return Err(Error::HistoryMissing {
                needed_lsn: self.next_lsn,
                first_lsn: self.segment.header.first_lsn,
            });
        }
        let Some(next) = self.segments.after(self.segment.header.sequence) else {
            return Err(Error::Damaged {
                segment: self.segment.name.clone(),
                offset: self.scanner.offset(),
                reason: format!("record {} is not there", self.next_lsn),
            });
        };
        if next.header.sequence != self.segment.header.sequence + 1 {
            return Err(Error::HistoryMissing {
                needed_lsn: self.next_lsn,
                first_lsn: self.segments.first_lsn(),
            });
        }
        self.scanner = scanner(&self.segments.open(&next)?);
        self.segment = next;
        Ok(())
    }
}

impl Drop for SegmentReader {
    fn drop(&mut self) {
        (self.segment).note_read(self.next_lsn, self.scanner.offset());
    }
}

impl LogReader for SegmentReader {
    fn next_group(&mut self) -> Result<Option<Payloads<'_>>> {
        if self.read_ahead_lsn < self.next_lsn {
            self.read_ahead_lsn = self.syncer.written_lsn();
            if self.read_ahead_lsn < self.next_lsn {
                return Ok(None);
            }
            self.scanner.refresh();
        }
        let header = loop {
            // What comes before the position is not summed up: a reader may begin far behind the nearest mark.
            if let Ok(header) = self.scanner.peek_header()?
                && header.next_lsn() <= self.next_lsn
                && self.scanner.has_room_for(&header)
            {
                self.segment.note_place(&header, self.scanner.offset());
                self.scanner.skip(&header);
                continue;
            }
            match self.scanner.peek()? {
                Ok(header) => break header,
                Err(_) => self.next_segment()?,
            }
        };
        let from_lsn = self.next_lsn;
        self.next_lsn = header.next_lsn();
        let payloads = self.scanner.take_payloads(&header);
        Ok(Some(payloads.after(from_lsn - 1)))
    }
}

/// The first record of the first group up to `written_lsn` whose last record has that cluster time or a later one. Reads headers
/// of groups from the last mark before it on. Fails where groups as late as that may have been freed or lost, or may have no
/// cluster time because an earlier version wrote them.
pub(crate) fn first_since(
    segments: &Segments,
    written_lsn: u64,
    cluster_time: u64,
) -> Result<Option<u64>> {
    // The last record without a cluster time that was met, and when it was written.
    let mut unstamped = (0, 0);
    let missing_before = |first_lsn: u64| Error::HistoryMissing {
        needed_lsn: first_lsn - 1,
        first_lsn,
    };
    for segment in segments.since(cluster_time)? {
        // No record before the gap is as late as that, and one within it may have been.
        if (segment.header.gap_ends_at()).is_some_and(|ends_at| cluster_time < ends_at) {
            return Err(missing_before(segment.header.first_lsn));
        }
        let open = segments.open(&segment)?;
        let mut scanner = scanner(&open).growing();
        scanner.seek(open.place_before_time(cluster_time)?);
        while let Ok(header) = scanner.peek_header()?
            && scanner.has_room_for(&header)
        {
            if header.first_lsn > written_lsn {
                break;
            }
            let behind = header.stamp.behind(header.count).cluster_time;
            if header.format == GroupFormat::One {
                unstamped = (header.next_lsn(), header.unix_ms);
            } else if header.count > 0 && behind > cluster_time {
                let begins_history = header.stamp.index == 0 && header.first_lsn > 1;
                if begins_history && cluster_time < header.stamp.cluster_time {
                    return Err(missing_before(header.first_lsn));
                }
                return Ok(Some(header.first_lsn));
            }
            segment.note_place(&header, scanner.offset());
            scanner.skip(&header);
        }
    }
    match unstamped {
        (next_lsn, unix_ms) if next_lsn > 1 && unix_ms / 1000 >= cluster_time >> 32 => {
            Err(missing_before(next_lsn))
        }
        _ => Ok(None),
    }
}
