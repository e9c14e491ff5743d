//! How one segment file is made: zero-written or recycled, its header in place, synced, and only then given its name.
//!
//! Zeros cost as many bytes as the groups that will stand in their place. They are worth it where syncs are small and many, for
//! a sync into what is only reserved writes the file system's own journal as well. Writers that fill half a segment before the
//! zeros of the next one are written have large groups, of which a sync is a small part: they get a segment whose rest is only
//! reserved, and do not wait for zeros. What was not written reads as zeros, so that nobody can tell the one from the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{FREE_SUFFIX, NEW_SUFFIX, Segments};
use crate::error::{Error, Result};
use crate::files::{File, sync_file, write_all_at};
use crate::group_header::{GROUP_HEADER_BYTES, GroupFormat};
use crate::segment::{IncarnationStart, OpenSegment, Segment, segment_name};
use crate::segment_header::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// How soon a segment is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// By a journal that opens: small groups will come.
    Start,
    /// When the current one is full: zeros are written step by step, until somebody is in a hurry.
    Ahead,
    /// By a leader that waits for it.
    Late,
}

/// A file that is to become a segment, under a name that says nothing yet.
pub(crate) struct Room {
    pub name: String,
    pub file: Arc<dyn File>,
}

/// Zeros are written in steps of this size, and a step ahead of need rests for `ZERO_STEP_REST`, so that
/// making a segment does not hold up a sync.
const ZERO_STEP_BYTES: u64 = 256 * 1024;
const ZERO_STEP_REST: Duration = Duration::from_millis(1);
/// One write of zeros. Kernels cache a file in pieces as large as it was written in, and a later write into a large piece
/// costs more: an append of 256 bytes 850 ns after writes of 256 KiB, 670 after these.
const ZERO_WRITE_BYTES: usize = 4096;

impl Segments {
    pub(super) fn make(
        &self,
        start: IncarnationStart,
        room: Option<Room>,
        bytes: u64,
        unix_ms: u64,
        haste: Haste,
    ) -> Result<OpenSegment> {
        let sequence = self.table.lock().next_sequence;
        let header = SegmentHeader {
            format: match self.files.seal() {
                Some(_) => GroupFormat::Sealed,
                None => GroupFormat::Two,
            },
            identity: self.identity.clone(),
            sequence,
            incarnation: self.incarnation,
            segment_bytes: bytes,
            first_lsn: start.first_lsn,
            previous_end_lsn: start.previous_end_lsn,
            created_unix_ms: unix_ms,
            cluster_time_min: start.cluster_time_min,
            stamp: start.stamp,
        };
        let room = match room {
            None if bytes == self.options.segment_bytes => self.open_spare()?,
            room => room,
        };
        let Room { name: from, file } = match room {
            Some(room) => room,
            None => self.make_room(sequence, bytes, haste)?,
        };
        let segment = self.name_segment(header, &from, file);
        let mut table = self.table.lock();
        if segment.is_ok() {
            // A name that is taken back is taken again by the next segment, which replaces it.
            table.next_sequence = sequence + 1;
        } else if from.ends_with(FREE_SUFFIX) {
            table.spare.push(from);
        }
        segment
    }

    /// A spare, out of the table. One whose file is gone is forgotten.
    fn open_spare(&self) -> Result<Option<Room>> {
        loop {
            let Some(name) = self.table.lock().spare.pop() else {
                return Ok(None);
            };
            match self.files.open(&name) {
                Ok(file) => return Ok(Some(Room { name, file })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let error = Error::io("open", &name, &error);
                    self.table.lock().spare.push(name);
                    return Err(error);
                }
            }
        }
    }

    /// Gives the file its header, and then its name.
    fn name_segment(
        &self,
        header: SegmentHeader,
        from: &str,
        file: Arc<dyn File>,
    ) -> Result<OpenSegment> {
        let (used, crc) = header.encode();
        // A reused file must not show the first group of its older life: it would be believed.
        let mut page = [0; SEGMENT_HEADER_BYTES + GROUP_HEADER_BYTES];
        page[..used.len()].copy_from_slice(&used);
        write_all_at(&*file, &page, 0).map_err(|e| Error::io("write", from, &e))?;
        sync_file(&*file).map_err(|e| Error::io("sync", from, &e))?;
        let name = segment_name(header.sequence);
        self.files
            .rename(from, &name)
            .map_err(|e| Error::io("rename", from, &e))?;
        self.files
            .sync_directory()
            .map_err(|e| Error::io("sync directory of", &name, &e))?;
        let bytes = header.segment_bytes;
        let segment = Arc::new(Segment::new(name, header, crc, bytes));
        let seal = self.files.seal();
        Ok(OpenSegment {
            segment,
            file,
            seal,
        })
    }

    /// A new file of that length, all of whose bytes are zeros and have their place on the disk.
    pub(super) fn make_room(&self, sequence: u64, bytes: u64, haste: Haste) -> Result<Room> {
        let name = format!("{sequence:010}{NEW_SUFFIX}");
        let file = self.create_anew(&name)?;
        if let Err(error) = self.fill(&name, &*file, bytes, haste) {
            // Gives the space back; the file is nameless to recovery either way.
            let _ = self.files.remove(&name);
            return Err(error);
        }
        Ok(Room { name, file })
    }

    fn fill(&self, name: &str, file: &dyn File, bytes: u64, haste: Haste) -> Result<()> {
        let mut offset = 0;
        while offset < bytes {
            let is_urgent = self.urgent.load(Ordering::Relaxed);
            if haste == Haste::Late || haste == Haste::Ahead && is_urgent {
                match file.reserve(bytes) {
                    Ok(()) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                    Err(error) => return Err(Error::io("reserve", name, &error)),
                }
            }
            let step_end = bytes.min(offset + ZERO_STEP_BYTES);
            write_zeros_up_to(file, offset, step_end)
                .map_err(|e| Error::io("write zeros to", name, &e))?;
            offset = step_end;
            if haste != Haste::Ahead {
                continue;
            }
            if self.closing.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            if !is_urgent {
                sync_file(file).map_err(|e| Error::io("sync", name, &e))?;
                std::thread::sleep(ZERO_STEP_REST);
            }
        }
        Ok(())
    }

    /// Creates the file. A rest of an earlier attempt, on a full disk for example, is removed first.
    fn create_anew(&self, name: &str) -> Result<Arc<dyn File>> {
        let created = match self.files.create(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.files
                    .remove(name)
                    .map_err(|e| Error::io("remove", name, &e))?;
                self.files.create(name)
            }
            created => created,
        };
        created.map_err(|e| Error::io("create", name, &e))
    }
}

fn write_zeros_up_to(file: &dyn File, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = [0; ZERO_WRITE_BYTES];
    while offset < end {
        let bytes = zeros.len().min((end - offset) as usize);
        write_all_at(file, &zeros[..bytes], offset)?;
        offset += bytes as u64;
    }
    Ok(())
}
