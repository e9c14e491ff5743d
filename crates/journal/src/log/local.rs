//! The log in segment files: one write a group, shared syncs. A group is accepted when its write has
//! returned, so that a ticket never waits for that.
//!
//! A write that enters a page of the file fills it up with zeros, which are there anyway: the kernel would otherwise have
//! to read the page from the disk first, if it no longer keeps what the segment was made with.
//!
//! Lock order: `tail`, then those of `Segments` and `Syncer`.

use std::io;
use std::sync::Arc;

use super::{Log, LogGroup, LogReader, LogTicket, Stage};
use crate::compression::pack;
use crate::error::{Error, Result, is_storage_full};
use crate::files::{read_full_at, write_all_at};
use crate::group_header::{GROUP_HEADER_BYTES, GroupHeader};
use crate::latch::Latch;
use crate::primitives::Mutex;
use crate::segment::{OpenSegment, fits};
use crate::segment_header::SEGMENT_HEADER_BYTES;
use crate::segment_reader::{SegmentReader, first_since};
use crate::segments::Segments;
use crate::stamp::Stamp;
use crate::sync::Syncer;
use crate::wakeups::Wakeups;

/// A buffer for compressed or sealed groups beyond this is given back.
const PACKED_BYTES_KEPT_MAX: usize = 4 * 1024 * 1024;

/// The size of the pages that kernels cache files by, or a divisor of it.
const PAGE_BYTES: u64 = 4096;

pub(crate) struct LocalLog {
    pub segments: Arc<Segments>,
    pub syncer: Arc<Syncer>,
    latch: Arc<Latch>,
    wakeups: Arc<Wakeups>,
    tail: Mutex<Tail>,
}

/// Where the next group goes.
struct Tail {
    segment: OpenSegment,
    offset: u64,
    next_lsn: u64,
    previous_crc: u32,
    incarnation: u64,
    /// The place in the history behind the last group.
    stamp: Stamp,
    /// A compressed or sealed group on its way.
    packed: Vec<u8>,
}

impl LocalLog {
    /// Goes on in `segment`, which is empty.
    pub fn new(
        segments: Segments,
        segment: OpenSegment,
        next_lsn: u64,
        stamp: Stamp,
        latch: Arc<Latch>,
        wakeups: Arc<Wakeups>,
    ) -> Self {
        LocalLog {
            segments: Arc::new(segments),
            syncer: Arc::new(Syncer::new(next_lsn, segment.clone())),
            latch,
            wakeups,
            tail: Mutex::new(Tail {
                offset: SEGMENT_HEADER_BYTES as u64,
                next_lsn,
                previous_crc: segment.header_crc,
                incarnation: segment.header.incarnation,
                segment,
                stamp,
                packed: Vec::new(),
            }),
        }
    }

    /// Writes and syncs a group without records, which says that everything before it is durable: damage to
    /// the end of a closed journal is then told from an unsynced tail.
    pub fn mark(&self, unix_ms: u64) -> Result<()> {
        self.latch.check()?;
        let mut tail = self.tail.lock();
        let mut room = vec![0; GROUP_HEADER_BYTES];
        let group_bytes = room.len() + tail.added_bytes();
        if fits(tail.offset, group_bytes as u64, tail.segment.bytes) {
            let header = tail.header(0, 0, unix_ms, tail.stamp);
            self.write_sealed(&mut tail, header, &mut room)?;
        }
        self.syncer.sync_now(&self.latch)
    }

    fn make_room(&self, tail: &mut Tail, group_bytes: u64, unix_ms: u64) -> Result<()> {
        if fits(tail.offset, group_bytes, tail.segment.bytes) {
            return Ok(());
        }
        let segment = self.segments.advance(group_bytes, unix_ms);
        // No record is touched by that: nothing is in doubt, and the next group tries again.
        let segment = segment.map_err(Error::unmade)?;
        self.syncer.note_segment(segment.clone());
        tail.offset = SEGMENT_HEADER_BYTES as u64;
        tail.segment = segment;
        Ok(())
    }

    /// `group` is the room for the header and the body as it is to be on disk, or, in a sealed journal, before it is sealed
    /// there.
    fn write_sealed(
        &self,
        tail: &mut Tail,
        mut header: GroupHeader,
        group: &mut Vec<u8>,
    ) -> Result<()> {
        let group_bytes = group.len() + tail.added_bytes();
        header.body_bytes =
            u32::try_from(group_bytes - GROUP_HEADER_BYTES).map_err(|_| Error::RecordTooLarge {
                record_bytes: group.len(),
                record_bytes_max: crate::options::RECORD_BYTES_MAX,
            })?;
        self.make_room(tail, group_bytes as u64, header.unix_ms)?;
        header.durable_lsn = self.syncer.durable_lsn();
        if let Some(seal) = &tail.segment.seal {
            // Nothing is written yet: the next group tries again.
            seal.seal(
                header.place(),
                &header.authenticated(),
                group,
                GROUP_HEADER_BYTES,
            )
            .map_err(|error| Error::unmade(Error::io("seal a group of", "journal", &error)))?;
            header.stamp = tail.stamp_of_sealed(&header, &group[GROUP_HEADER_BYTES..]);
        }
        self.write(tail, header, group)
    }

    /// Writes the group, whose header lacks nothing but its checksum.
    fn write(&self, tail: &mut Tail, mut header: GroupHeader, group: &mut Vec<u8>) -> Result<()> {
        header.crc = header.finish(group);
        let group_len = group.len();
        group.resize(group_len + tail.padding_bytes(group_len), 0);
        let written = write_all_at(&*tail.segment.file, group, tail.offset);
        group.truncate(group_len);
        if let Err(error) = written {
            return Err(self.cut_off(tail, &error));
        }
        tail.advance(&header);
        Ok(())
    }

    /// Writes the group compressed if it is large and gets shorter.
    fn write_packed(&self, tail: &mut Tail, group: &mut LogGroup<'_>) -> Result<()> {
        let body_bytes = group.buffer.len() - GROUP_HEADER_BYTES;
        let above = self.segments.options().compress_above_bytes;
        if above.is_some_and(|above| body_bytes > above)
            && let Ok(plain_bytes) = u32::try_from(body_bytes)
        {
            let mut packed = std::mem::take(&mut tail.packed);
            if pack(group.buffer, &mut packed) {
                let header = tail.header(group.count, plain_bytes, group.unix_ms, group.stamp);
                let result = self.write_sealed(tail, header, &mut packed);
                tail.keep_packed(packed);
                return result;
            }
            tail.keep_packed(packed);
        }
        let header = tail.header(group.count, 0, group.unix_ms, group.stamp);
        match tail.segment.seal {
            None => self.write_sealed(tail, header, group.buffer),
            Some(_) => self.write_copy(tail, header, group.buffer),
        }
    }

    /// Seals a copy: the records themselves are still to be applied.
    fn write_copy(&self, tail: &mut Tail, header: GroupHeader, group: &[u8]) -> Result<()> {
        let mut copy = std::mem::take(&mut tail.packed);
        copy.clear();
        copy.extend_from_slice(group);
        let result = self.write_sealed(tail, header, &mut copy);
        tail.keep_packed(copy);
        result
    }

    /// Takes a part of a group out of the file, and off the disk, before anyone is answered. A full disk is then over; any
    /// other error latches. If the part stays, or may come back with the power, the outcome is unknown.
    fn cut_off(&self, tail: &Tail, error: &io::Error) -> Error {
        let cause = format!(
            "append to journal segment `{}` failed: {error}",
            tail.segment.name
        );
        let erased = tail.erase_header().map_err(|error| error.to_string());
        let is_gone = erased.and_then(|was_there| match was_there {
            true => (self.syncer.sync_now(&self.latch)).map_err(|error| error.to_string()),
            false => Ok(()),
        });
        if let Err(second) = is_gone {
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
    fn header(&self, count: u32, plain_bytes: u32, unix_ms: u64, stamp: Stamp) -> GroupHeader {
        GroupHeader {
            format: self.segment.header.format,
            crc: 0,
            body_bytes: 0,
            count,
            incarnation: self.incarnation,
            first_lsn: self.next_lsn,
            durable_lsn: 0,
            previous_crc: self.previous_crc,
            plain_bytes,
            unix_ms,
            stamp,
        }
    }

    /// A group gets so much longer when it is sealed.
    fn added_bytes(&self) -> usize {
        let seal = self.segment.seal.as_ref();
        seal.map_or(0, |seal| seal.added_bytes())
    }

    /// The stamp of a group with its digest made of the sealed body.
    fn stamp_of_sealed(&self, header: &GroupHeader, body: &[u8]) -> Stamp {
        let Stamp {
            term, cluster_time, ..
        } = header.stamp;
        let (first_lsn, count) = (header.first_lsn, header.count);
        let sealed = self.stamp.of_next(cluster_time, first_lsn, count, body);
        // What was authenticated is what is written. The term is the leader's.
        debug_assert_eq!(sealed.index, header.stamp.index);
        Stamp { term, ..sealed }
    }

    /// The zeros that fill the last page of a group of that length, unless groups before it have.
    fn padding_bytes(&self, group_bytes: usize) -> usize {
        let end = self.offset + group_bytes as u64;
        if end <= self.offset.next_multiple_of(PAGE_BYTES) {
            return 0;
        }
        let filled = end.next_multiple_of(PAGE_BYTES).min(self.segment.bytes);
        (filled - end) as usize
    }

    fn advance(&mut self, header: &GroupHeader) {
        self.segment.note_group(header, self.offset);
        self.offset += header.group_bytes();
        self.previous_crc = header.crc;
        self.next_lsn = header.next_lsn();
        self.stamp = header.stamp.behind(header.count);
    }

    /// One outsized group must not keep its memory for ever.
    fn keep_packed(&mut self, packed: Vec<u8>) {
        if packed.capacity() <= PACKED_BYTES_KEPT_MAX {
            self.packed = packed;
        }
    }

    fn is_before_middle(&self) -> bool {
        self.offset < self.segment.bytes / 2
    }

    /// Says whether there was a header, whose group may be whole behind it.
    fn erase_header(&self) -> io::Result<bool> {
        let mut magic = [0; 4];
        let filled = read_full_at(&*self.segment.file, &mut magic, self.offset)?;
        let is_there = magic[..filled] == self.segment.header.format.magic();
        if is_there {
            write_all_at(&*self.segment.file, &[0; GROUP_HEADER_BYTES], self.offset)?;
        }
        Ok(is_there)
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
        let begun_in = tail.segment.header.sequence;
        let was_before = tail.is_before_middle();
        self.write_packed(&mut tail, group)?;
        let is_new = tail.segment.header.sequence != begun_in;
        let last_lsn = tail.next_lsn - 1;
        self.syncer.note_written(last_lsn);
        if (was_before || is_new) && !tail.is_before_middle() {
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

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.tail.lock().stamp)
    }

    fn first_since(&self, cluster_time: u64) -> Result<Option<u64>> {
        first_since(&self.segments, self.syncer.written_lsn(), cluster_time)
    }
}
