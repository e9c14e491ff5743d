//! Walks the groups of a segment in order, through a bounded window of the file. It checks what a group
//! says about itself (incarnation, bounds, checksum, whole records); the chain between groups is the caller's.
//!
//! A file may be full of bytes that a client chose: documents of an older life, in a segment that is used again. So
//! nothing is read, summed or decompressed for a header before its incarnation is the segment's, which is salted and told
//! to nobody.

use std::sync::Arc;

use memchr::memmem;

use crate::compression::unpack;
use crate::error::{Error, Result};
use crate::files::{File, read_full_at};
use crate::group_header::{GroupFormat, GroupHeader};
use crate::hooks::Payloads;
use crate::seal::Seal;
use crate::segment::OpenSegment;

/// The window grows beyond this only for a group that is larger.
const WINDOW_BYTES: usize = 256 * 1024;
/// The first window of a reader, which mostly wants the last groups; each further one is twice as large.
const FIRST_WINDOW_BYTES: usize = 16 * 1024;

pub(crate) struct GroupScanner {
    file: Arc<dyn File>,
    name: String,
    format: GroupFormat,
    incarnation: u64,
    limit: u64,
    offset: u64,
    window: Vec<u8>,
    window_offset: u64,
    /// How much is read next.
    window_bytes: usize,
    /// The records of the group that was looked at last, if they do not stand in the window as they are.
    plain: Vec<u8>,
    /// Opens the groups, if they are sealed.
    seal: Option<Arc<dyn Seal>>,
    /// The body of a group that was opened and is to be decompressed.
    opened: Vec<u8>,
}

impl GroupScanner {
    /// Begins at `offset`. Groups of another incarnation than the segment's are none.
    pub fn new(segment: &OpenSegment, offset: u64) -> Self {
        GroupScanner {
            file: Arc::clone(&segment.file),
            name: segment.name.clone(),
            format: segment.header.format,
            incarnation: segment.header.incarnation,
            limit: segment.bytes,
            offset,
            window: Vec::new(),
            window_offset: offset,
            window_bytes: WINDOW_BYTES,
            plain: Vec::new(),
            seal: segment.seal.clone(),
            opened: Vec::new(),
        }
    }

    /// Reads little at first, for somebody who may want the end of what is written.
    #[must_use]
    pub fn growing(mut self) -> Self {
        self.window_bytes = FIRST_WINDOW_BYTES;
        self
    }

    /// Where the next group is expected.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Forgets what was read ahead: the file may have grown since.
    pub fn refresh(&mut self) {
        self.window.clear();
    }

    /// The whole group at the offset, or why there is none.
    pub fn peek(&mut self) -> Result<std::result::Result<GroupHeader, &'static str>> {
        let header = match self.peek_header()? {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        if !self.has_room_for(&header) {
            return Ok(Err("the group reaches beyond its segment"));
        }
        let group = self.bytes(header.group_bytes() as usize)?;
        if group.len() as u64 != header.group_bytes() {
            return Ok(Err("the group is cut short"));
        }
        if !header.matches(group) {
            return Ok(Err("the group fails its checksum"));
        }
        match self.format {
            GroupFormat::Sealed if self.seal.as_ref().is_some_and(|seal| !seal.opens()) => {
                self.plain.clear();
                return Ok(Ok(header));
            }
            GroupFormat::Sealed => {
                if let Err(reason) = self.open_sealed(&header)? {
                    return Ok(Err(reason));
                }
            }
            GroupFormat::One | GroupFormat::Two => {
                if let Err(reason) = self.unpack(&header) {
                    return Ok(Err(reason));
                }
            }
        }
        if !self.body_at(self.offset, &header).is_whole() {
            return Ok(Err("the records do not fill their group"));
        }
        Ok(Ok(header))
    }

    /// Reads the header at this place, whether or not a whole group stands there.
    pub fn peek_header(&mut self) -> Result<std::result::Result<GroupHeader, &'static str>> {
        let (format, header_bytes) = (self.format, self.format.header_bytes());
        let header = self.bytes(header_bytes)?;
        if header.len() < header_bytes {
            return Ok(Err("the segment ends"));
        }
        match GroupHeader::decode(format, header) {
            None => Ok(Err("no group begins here")),
            Some(header) if header.incarnation != self.incarnation => {
                Ok(Err("the group is of another life of the journal"))
            }
            Some(header) => Ok(Ok(header)),
        }
    }

    /// Whether a group with that header ends within the segment.
    pub fn has_room_for(&self, header: &GroupHeader) -> bool {
        header.group_bytes() <= self.limit.saturating_sub(self.offset)
    }

    fn unpack(&mut self, header: &GroupHeader) -> std::result::Result<(), &'static str> {
        if header.plain_bytes == 0 {
            return Ok(());
        }
        let mut plain = std::mem::take(&mut self.plain);
        let body = self.stored_body(self.offset, header);
        let unpacked = unpack(body, header.plain_bytes, &mut plain);
        self.plain = plain;
        unpacked
    }

    /// Opens a sealed group whose checksum holds. One whose seal does not was changed by somebody who has made the checksum good
    /// again, or is sealed with another key: no torn write looks like that.
    fn open_sealed(
        &mut self,
        header: &GroupHeader,
    ) -> Result<std::result::Result<(), &'static str>> {
        let mut opened = std::mem::take(&mut self.opened);
        opened.clear();
        opened.extend_from_slice(self.stored_body(self.offset, header));
        let seal = self.seal.as_ref();
        let is_open = seal
            .is_some_and(|seal| seal.open(header.place(), &header.authenticated(), &mut opened));
        if !is_open {
            return Err(Error::Damaged {
                segment: self.name.clone(),
                offset: self.offset,
                reason: "the group is not what was sealed with this key".to_owned(),
            });
        }
        if header.plain_bytes == 0 {
            self.opened = std::mem::replace(&mut self.plain, opened);
            return Ok(Ok(()));
        }
        let unpacked = unpack(&opened, header.plain_bytes, &mut self.plain);
        self.opened = opened;
        Ok(unpacked)
    }

    /// The body of a group in the window, as it stands in the file.
    fn stored_body(&self, offset: u64, header: &GroupHeader) -> &[u8] {
        let start = (offset - self.window_offset) as usize;
        let header_bytes = self.format.header_bytes();
        &self.window[start + header_bytes..start + header.group_bytes() as usize]
    }

    /// The records of a group that was looked at and is still in the window.
    fn body_at(&self, offset: u64, header: &GroupHeader) -> Payloads<'_> {
        let is_as_stored = header.plain_bytes == 0 && self.format != GroupFormat::Sealed;
        let body = match is_as_stored {
            true => self.stored_body(offset, header),
            false => &self.plain[..],
        };
        Payloads::of_group(header, body)
    }

    /// The bytes that the digest of the group sums up which `peek` has just returned: its records, or its sealed body.
    pub fn digested(&self, header: &GroupHeader) -> &[u8] {
        match self.format {
            GroupFormat::Sealed => self.stored_body(self.offset, header),
            GroupFormat::One | GroupFormat::Two => self.payloads(header).body(),
        }
    }

    /// The records of the group that `peek` has just returned.
    pub fn payloads(&self, header: &GroupHeader) -> Payloads<'_> {
        self.body_at(self.offset, header)
    }

    /// Like `payloads`, but goes on behind the group.
    pub fn take_payloads(&mut self, header: &GroupHeader) -> Payloads<'_> {
        let offset = self.offset;
        self.skip(header);
        self.body_at(offset, header)
    }

    pub fn skip(&mut self, header: &GroupHeader) {
        self.offset += header.group_bytes();
    }

    /// Goes to the next header of this incarnation at or after the offset. Every byte is read once, whatever it is.
    pub fn find_header(&mut self) -> Result<Option<GroupHeader>> {
        let (magic, header_bytes) = (self.format.magic(), self.format.header_bytes());
        loop {
            if self.bytes(header_bytes)?.len() < header_bytes {
                return Ok(None);
            }
            let window = &self.window[(self.offset - self.window_offset) as usize..];
            // Where a whole header fits into what is read.
            let starts = window.len() - header_bytes + 1;
            let found = memmem::find(&window[..starts + magic.len() - 1], &magic);
            self.offset += found.unwrap_or(starts) as u64;
            if found.is_some() {
                if let Ok(header) = self.peek_header()? {
                    return Ok(Some(header));
                }
                self.offset += 1;
            }
        }
    }

    /// Up to `wanted` bytes at the offset; fewer only at the end.
    fn bytes(&mut self, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.min(self.limit.saturating_sub(self.offset) as usize);
        let window_end = self.window_offset + self.window.len() as u64;
        if self.offset < self.window_offset || self.offset + wanted as u64 > window_end {
            self.fill(wanted)?;
        }
        let start = (self.offset - self.window_offset) as usize;
        let end = self.window.len().min(start + wanted);
        Ok(&self.window[start..end])
    }

    fn fill(&mut self, wanted: usize) -> Result<()> {
        let room = self.limit.saturating_sub(self.offset) as usize;
        self.window
            .resize(wanted.max(self.window_bytes).min(room), 0);
        self.window_bytes = (2 * self.window_bytes).min(WINDOW_BYTES);
        let filled = read_full_at(&*self.file, &mut self.window, self.offset)
            .map_err(|e| Error::io("read", &self.name, &e))?;
        self.window.truncate(filled);
        self.window_offset = self.offset;
        Ok(())
    }
}
