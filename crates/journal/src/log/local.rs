//! The log in segment files: one write a group, shared syncs. A group is accepted when its write has
//! returned, so that a ticket never waits for that.
//!
//! Lock order: `tail`, then those of `Segments` and `Syncer`.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Log, LogGroup, LogReader, LogTicket, Stage};
use crate::error::{Error, Result, is_storage_full};
use crate::files::{read_full_at, sync_file, write_all_at};
use crate::group_header::{GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader};
use crate::latch::Latch;
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segment_reader::SegmentReader;
use crate::segments::{Segment, Segments, fits};
use crate::sync::Syncer;
use crate::wakeups::Wakeups;

pub(crate) struct LocalLog {
    pub segments: Arc<Segments>,
    pub syncer: Arc<Syncer>,
    latch: Arc<Latch>,
    wakeups: Arc<Wakeups>,
    tail: Mutex<Tail>,
}

/// Where the next group goes.
struct Tail {
    segment: Arc<Segment>,
    offset: u64,
    next_lsn: u64,
    previous_crc: u32,
    incarnation: u64,
}

impl LocalLog {
    /// Goes on in `segment`, which is empty.
    pub fn new(
        segments: Segments,
        segment: Arc<Segment>,
        next_lsn: u64,
        latch: Arc<Latch>,
        wakeups: Arc<Wakeups>,
    ) -> Self {
        LocalLog {
            segments: Arc::new(segments),
            syncer: Arc::new(Syncer::new(next_lsn, Arc::clone(&segment))),
            latch,
            wakeups,
            tail: Mutex::new(Tail {
                offset: SEGMENT_HEADER_BYTES as u64,
                next_lsn,
                previous_crc: segment.header_crc,
                incarnation: segment.header.incarnation,
                segment,
            }),
        }
    }

    /// Writes and syncs a group without records, which says that everything before it is durable: damage to
    /// the end of a closed journal is then told from an unsynced tail.
    pub fn mark(&self, unix_ms: u64) -> Result<()> {
        self.latch.check()?;
        let mut tail = self.tail.lock();
        let mut room = [0; GROUP_HEADER_BYTES];
        if fits(tail.offset, room.len() as u64, tail.segment.bytes) {
            let mut group = LogGroup::new(&mut room, tail.next_lsn, 0, unix_ms);
            self.write(&mut tail, &mut group)?;
        }
        let segment = &tail.segment;
        sync_file(&*segment.file).map_err(|e| Error::io("sync", &segment.name, &e))
    }

    fn make_room(&self, tail: &mut Tail, group_bytes: u64, unix_ms: u64) -> Result<()> {
        if fits(tail.offset, group_bytes, tail.segment.bytes) {
            return Ok(());
        }
        let segment = self
            .segments
            .advance(group_bytes, unix_ms)
            .inspect_err(|error| {
                if !error.is_no_space() {
                    self.latch.throw(&error.to_string());
                }
            })?;
        self.syncer.note_segment(Arc::clone(&segment));
        tail.offset = SEGMENT_HEADER_BYTES as u64;
        tail.segment = segment;
        Ok(())
    }

    fn write(&self, tail: &mut Tail, group: &mut LogGroup<'_>) -> Result<()> {
        let body_bytes = u32::try_from(group.buffer.len() - GROUP_HEADER_BYTES).map_err(|_| {
            Error::RecordTooLarge {
                record_bytes: group.buffer.len(),
                record_bytes_max: crate::options::RECORD_BYTES_MAX,
            }
        })?;
        let mut header = GroupHeader {
            crc: 0,
            body_bytes,
            count: group.count,
            incarnation: tail.incarnation,
            first_lsn: tail.next_lsn,
            durable_lsn: self.syncer.durable_lsn(),
            previous_crc: tail.previous_crc,
            unix_ms: group.unix_ms,
        };
        header.crc = header.seal(group.buffer);
        if let Err(error) = write_all_at(&*tail.segment.file, group.buffer, tail.offset) {
            return Err(self.cut_off(tail, &error));
        }
        tail.offset += header.group_bytes();
        tail.previous_crc = header.crc;
        tail.next_lsn = header.next_lsn();
        if group.count > 0 {
            let last_lsn = tail.next_lsn - 1;
            tail.segment
                .note_group(header.first_lsn, last_lsn, group.unix_ms);
        }
        Ok(())
    }

    /// Takes a part of a group out of the file before anyone is answered. A full disk is then over; any
    /// other error latches. If the part stays, the outcome is unknown.
    fn cut_off(&self, tail: &Tail, error: &io::Error) -> Error {
        let cause = format!(
            "append to journal segment `{}` failed: {error}",
            tail.segment.name
        );
        if let Err(second) = tail.erase_header() {
            let cause = format!("{cause}, and so did cutting it off: {second}");
            self.latch.throw(&cause);
            return Error::OutcomeUnknown { cause };
        }
        if is_storage_full(error) {
            return Error::NoSpace { message: cause };
        }
        self.latch.throw(&cause);
        Error::Latched { cause }
    }
}

impl Tail {
    fn erase_header(&self) -> io::Result<()> {
        let mut magic = [0; GROUP_MAGIC.len()];
        let filled = read_full_at(&*self.segment.file, &mut magic, self.offset)?;
        if magic[..filled] == GROUP_MAGIC {
            write_all_at(&*self.segment.file, &[0; GROUP_HEADER_BYTES], self.offset)?;
        }
        Ok(())
    }
}

impl Log for LocalLog {
    fn submit(&self, group: &mut LogGroup<'_>, expected_lsn: u64) -> Result<LogTicket> {
        self.latch.check()?;
        let mut tail = self.tail.lock();
        if tail.next_lsn != expected_lsn {
            return Err(Error::PositionMoved {
                expected_lsn,
                next_lsn: tail.next_lsn,
            });
        }
        self.make_room(&mut tail, group.buffer.len() as u64, group.unix_ms)?;
        let middle = tail.segment.bytes / 2;
        let was_before = tail.offset < middle;
        self.write(&mut tail, group)?;
        let last_lsn = tail.next_lsn - 1;
        self.syncer.note_written(last_lsn);
        if was_before && tail.offset >= middle {
            // Time to make the next segment.
            self.segments.hurry();
            self.wakeups.request_space();
        }
        Ok(LogTicket::up_to(last_lsn))
    }

    fn wait(&self, ticket: &LogTicket, stage: Stage) -> Result<()> {
        match stage {
            Stage::Accepted => Ok(()),
            Stage::Durable => self.syncer.wait_durable(ticket.last_lsn, &self.latch),
        }
    }

    fn read(&self, from_lsn: u64) -> Result<Box<dyn LogReader>> {
        let (segments, syncer) = (Arc::clone(&self.segments), Arc::clone(&self.syncer));
        Ok(Box::new(SegmentReader::new(segments, syncer, from_lsn)?))
    }

    fn first_lsn(&self) -> u64 {
        self.segments.first_lsn()
    }

    fn durable_lsn(&self) -> u64 {
        self.syncer.durable_lsn()
    }
}
