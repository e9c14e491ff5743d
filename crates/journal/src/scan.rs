//! Walks the groups of a segment in order, through a bounded window of the file. It checks what a group
//! says about itself (bounds, checksum, whole records); the chain between groups is the caller's.

use std::sync::Arc;

use crate::compression::unpack;
use crate::error::{Error, Result};
use crate::files::{File, read_full_at};
use crate::group_header::{GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader};
use crate::hooks::Payloads;

/// The window grows beyond this only for a group that is larger.
const WINDOW_BYTES: usize = 256 * 1024;

pub(crate) struct GroupScanner {
    file: Arc<dyn File>,
    name: String,
    limit: u64,
    offset: u64,
    window: Vec<u8>,
    window_offset: u64,
    /// The records of the compressed group that was looked at last.
    plain: Vec<u8>,
}

impl GroupScanner {
    /// Begins at `offset`; nothing at or beyond `limit` is a group.
    pub fn new(file: Arc<dyn File>, name: &str, offset: u64, limit: u64) -> Self {
        GroupScanner {
            file,
            name: name.to_owned(),
            limit,
            offset,
            window: Vec::new(),
            window_offset: offset,
            plain: Vec::new(),
        }
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
        let Some(header) = self.bytes(GROUP_HEADER_BYTES)?.first_chunk() else {
            return Ok(Err("the segment ends"));
        };
        let Some(header) = GroupHeader::decode(header) else {
            return Ok(Err("no group begins here"));
        };
        if header.group_bytes() > self.limit.saturating_sub(self.offset) {
            return Ok(Err("the group reaches beyond its segment"));
        }
        let group = self.bytes(header.group_bytes() as usize)?;
        if group.len() as u64 != header.group_bytes() {
            return Ok(Err("the group is cut short"));
        }
        if !header.matches(group) {
            return Ok(Err("the group fails its checksum"));
        }
        if let Err(reason) = self.unpack(&header) {
            return Ok(Err(reason));
        }
        if !self.body_at(self.offset, &header).is_whole() {
            return Ok(Err("the records do not fill their group"));
        }
        Ok(Ok(header))
    }

    fn unpack(&mut self, header: &GroupHeader) -> std::result::Result<(), &'static str> {
        if header.plain_bytes == 0 {
            return Ok(());
        }
        let start = (self.offset - self.window_offset) as usize;
        let body = &self.window[start + GROUP_HEADER_BYTES..start + header.group_bytes() as usize];
        unpack(body, header.plain_bytes, &mut self.plain)
    }

    /// The records of a group that was looked at and is still in the window.
    fn body_at(&self, offset: u64, header: &GroupHeader) -> Payloads<'_> {
        let start = (offset - self.window_offset) as usize;
        let body = match header.plain_bytes {
            0 => &self.window[start + GROUP_HEADER_BYTES..start + header.group_bytes() as usize],
            _ => &self.plain[..],
        };
        Payloads::new(header.first_lsn, header.count, body)
    }

    /// The records of the group that `peek` has just returned.
    pub fn payloads(&self, header: &GroupHeader) -> Payloads<'_> {
        self.body_at(self.offset, header)
    }

    /// As `payloads`, and goes on behind the group.
    pub fn take_payloads(&mut self, header: &GroupHeader) -> Payloads<'_> {
        let offset = self.offset;
        self.skip(header);
        self.body_at(offset, header)
    }

    pub fn skip(&mut self, header: &GroupHeader) {
        self.offset += header.group_bytes();
    }

    /// The next place at or after the offset where a group might begin.
    pub fn find_magic(&mut self) -> Result<bool> {
        loop {
            let window = self.bytes(WINDOW_BYTES)?;
            if window.len() < GROUP_HEADER_BYTES {
                return Ok(false);
            }
            if let Some(at) = window
                .windows(GROUP_MAGIC.len())
                .position(|four| four == GROUP_MAGIC)
            {
                self.offset += at as u64;
                return Ok(true);
            }
            self.offset += (window.len() - (GROUP_MAGIC.len() - 1)) as u64;
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
        self.window.resize(wanted.max(WINDOW_BYTES).min(room), 0);
        let filled = read_full_at(&*self.file, &mut self.window, self.offset)
            .map_err(|e| Error::io("read", &self.name, &e))?;
        self.window.truncate(filled);
        self.window_offset = self.offset;
        Ok(())
    }
}
