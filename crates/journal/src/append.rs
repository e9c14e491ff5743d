//! The writing end: where the next group goes. Only the writer whose turn it is uses it.
//!
//! A group is written with one write and handed to the engine only after the log has it. A group in the
//! journal that the engine refused stays here and is applied before anything else is written.

use std::io;
use std::sync::Arc;

use crate::error::{Error, Result, is_storage_full};
use crate::files::{read_full_at, write_all_at};
use crate::group_header::{GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader};
use crate::hooks::{GroupBuilder, Hooks, Payloads};
use crate::latch::Latch;
use crate::segments::{Segment, Segments, fits};
use crate::sync::Syncer;

pub(crate) struct Appender {
    pub segment: Arc<Segment>,
    pub offset: u64,
    pub next_lsn: u64,
    pub previous_crc: u32,
    pub incarnation: u64,
    pub unapplied: Option<Unapplied>,
}

/// A group that the log has and the engine does not.
pub(crate) struct Unapplied {
    group: Vec<u8>,
    first_lsn: u64,
    count: u32,
}

/// What the appender uses and does not own.
pub(crate) struct Surroundings<'j> {
    pub hooks: &'j dyn Hooks,
    pub segments: &'j Segments,
    pub syncer: &'j Syncer,
    pub latch: &'j Latch,
    pub unix_ms: u64,
}

/// A group that was written: the records for `apply`.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub first_lsn: u64,
    pub count: u32,
    /// The segment has just passed its middle: time to make the next one.
    pub wants_space: bool,
}

impl Appender {
    /// Offers a refused group to the engine again. Nothing else may be written before it is taken.
    pub fn apply_refused(&mut self, around: &Surroundings<'_>) -> Result<Option<u64>> {
        let Some(refused) = &self.unapplied else {
            return Ok(None);
        };
        around
            .hooks
            .ready(refused.group.len())
            .map_err(Error::Refused)?;
        let payloads = Payloads::new(
            refused.first_lsn,
            refused.count,
            &refused.group[GROUP_HEADER_BYTES..],
        );
        around
            .hooks
            .apply(refused.first_lsn, &payloads)
            .map_err(Error::Refused)?;
        let last_lsn = payloads.last_lsn();
        self.unapplied = None;
        Ok(Some(last_lsn))
    }

    /// Gives the group its LSNs, lets the owner finish it, and writes it.
    pub fn append(
        &mut self,
        group: &mut Vec<u8>,
        count: u32,
        around: &Surroundings<'_>,
    ) -> Result<Written> {
        around.latch.check()?;
        around.hooks.ready(group.len()).map_err(Error::Refused)?;
        let mut builder = GroupBuilder::new(group, self.next_lsn, count);
        around.hooks.finish_group(&mut builder);
        let count = builder.count();
        self.make_room(group.len() as u64, around)?;
        let is_first_half = self.offset < self.segment.bytes / 2;
        let header = self.write(group, count, around)?;
        let written = Written {
            first_lsn: self.next_lsn,
            count,
            wants_space: is_first_half && self.offset >= self.segment.bytes / 2,
        };
        self.next_lsn = header.next_lsn();
        around.syncer.note_written(self.next_lsn - 1);
        Ok(written)
    }

    pub fn apply(
        &mut self,
        group: &mut Vec<u8>,
        written: Written,
        around: &Surroundings<'_>,
    ) -> Result<()> {
        let payloads = Payloads::new(
            written.first_lsn,
            written.count,
            &group[GROUP_HEADER_BYTES..],
        );
        let refusal = match around.hooks.apply(written.first_lsn, &payloads) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let group = std::mem::take(group);
        self.unapplied = Some(Unapplied {
            group,
            first_lsn: written.first_lsn,
            count: written.count,
        });
        Err(Error::Unapplied(refusal))
    }

    /// Writes a group without records: it carries the durable mark alone.
    pub fn append_mark(&mut self, around: &Surroundings<'_>) -> Result<()> {
        around.latch.check()?;
        let mut group = vec![0; GROUP_HEADER_BYTES];
        if fits(self.offset, group.len() as u64, self.segment.bytes) {
            self.write(&mut group, 0, around)?;
        }
        Ok(())
    }

    fn make_room(&mut self, group_bytes: u64, around: &Surroundings<'_>) -> Result<()> {
        if fits(self.offset, group_bytes, self.segment.bytes) {
            return Ok(());
        }
        let segment = around
            .segments
            .advance(group_bytes, around.unix_ms)
            .inspect_err(|error| {
                if !error.is_no_space() {
                    around.latch.throw(&error.to_string());
                }
            })?;
        around.syncer.note_segment(Arc::clone(&segment));
        self.offset = crate::segment_header::SEGMENT_HEADER_BYTES as u64;
        self.segment = segment;
        Ok(())
    }

    fn write(
        &mut self,
        group: &mut [u8],
        count: u32,
        around: &Surroundings<'_>,
    ) -> Result<GroupHeader> {
        let body_bytes =
            u32::try_from(group.len() - GROUP_HEADER_BYTES).map_err(|_| Error::RecordTooLarge {
                record_bytes: group.len(),
                record_bytes_max: crate::options::RECORD_BYTES_MAX,
            })?;
        let mut header = GroupHeader {
            crc: 0,
            body_bytes,
            count,
            incarnation: self.incarnation,
            first_lsn: self.next_lsn,
            durable_lsn: around.syncer.durable_lsn(),
            previous_crc: self.previous_crc,
            unix_ms: around.unix_ms,
        };
        header.crc = header.seal(group);
        if let Err(error) = write_all_at(&*self.segment.file, group, self.offset) {
            return Err(self.cut_off(&error, around.latch));
        }
        self.offset += header.group_bytes();
        self.previous_crc = header.crc;
        if count > 0 {
            self.segment
                .note_group(self.next_lsn, header.next_lsn() - 1, around.unix_ms);
        }
        Ok(header)
    }

    /// Takes a part of a group out of the file before anyone is answered. A full disk is then over; any
    /// other error latches. If the part stays, the outcome is unknown.
    fn cut_off(&self, error: &io::Error, latch: &Latch) -> Error {
        let cause = format!(
            "append to journal segment `{}` failed: {error}",
            self.segment.name
        );
        if let Err(second) = self.erase_header() {
            let cause = format!("{cause}, and so did cutting it off: {second}");
            latch.throw(&cause);
            return Error::OutcomeUnknown { cause };
        }
        if is_storage_full(error) {
            return Error::NoSpace { message: cause };
        }
        latch.throw(&cause);
        Error::Latched { cause }
    }

    fn erase_header(&self) -> io::Result<()> {
        let mut magic = [0; GROUP_MAGIC.len()];
        let filled = read_full_at(&*self.segment.file, &mut magic, self.offset)?;
        if magic[..filled] == GROUP_MAGIC {
            write_all_at(&*self.segment.file, &[0; GROUP_HEADER_BYTES], self.offset)?;
        }
        Ok(())
    }
}
