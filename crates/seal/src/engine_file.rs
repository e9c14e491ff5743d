//! The bytes of an engine's file: what is appended becomes sealed blocks or frames, and what is read becomes plain again.
//!
//! A file has a key of its own, derived from the data key and a random id in its header. What stands behind the header is one
//! of two layouts. *Blocks* are for files that are written once from the beginning to the end and then read anywhere: each holds
//! 4,096 bytes, but the last one, so that a place in the plain file says where its block stands. *Frames* are for files that are
//! synced as they grow and read from the beginning: every append makes one or more, and none is ever written again, so that a
//! torn write reaches nothing that was synced before.
//!
//! Blocks and frames are authenticated with their number. A file that was cut between two of them opens; whoever wrote it
//! notices by what is missing, as an engine does by the footer of a table.
//!
//! This module does no input or output: it is handed bytes and hands bytes back.

use crate::data_key::DataKey;
use crate::error::{Error, Result};
use crate::sealer::{ADDED_BYTES, Sealer, fill_random};

/// The bytes of the header.
pub const HEADER_BYTES: usize = HEAD_BYTES + ADDED_BYTES;
/// The plain bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// The bytes of a whole block in the file.
pub const SEALED_BLOCK_BYTES: usize = BLOCK_BYTES + ADDED_BYTES;

/// Every such file begins so.
pub const MAGIC: &[u8; 8] = b"QUARRYE\0";
const VERSION: u32 = 1;
/// The header without its seal.
const HEAD_BYTES: usize = 68;
/// The file's random id; what stands before it says how the file is made, and its key depends on both.
const ID_START: usize = 24;
const ID_BYTES: usize = 32;
const PURPOSE: &[u8] = b"quarry engine file 1";
/// The plain bytes of a frame at most.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// A frame's length, in front of it.
const LENGTH_BYTES: usize = 4;

/// How a file is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Written once, then read at any place.
    Blocks,
    /// Synced as it grows, read from the beginning.
    Frames,
}

impl Layout {
    fn number(self) -> u32 {
        match self {
            Layout::Blocks => 1,
            Layout::Frames => 2,
        }
    }
}

/// The header of a file that was opened.
struct Header {
    layout: Layout,
    sealer: Sealer,
}

impl Header {
    /// A new one, and its bytes.
    fn make(key: &DataKey, layout: Layout) -> Result<(Header, Vec<u8>)> {
        let mut id = [0; ID_BYTES];
        fill_random(&mut id)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&layout.number().to_le_bytes());
        bytes.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        bytes.resize(ID_START, 0);
        bytes.extend_from_slice(&id);
        bytes.resize(HEAD_BYTES, 0);
        let sealer = file_key(key, &bytes);
        let head = bytes.clone();
        sealer.seal(&head, &mut bytes, HEAD_BYTES)?;
        Ok((Header { layout, sealer }, bytes))
    }

    fn open(key: &DataKey, bytes: &[u8]) -> Result<Header> {
        if bytes.len() < HEADER_BYTES || &bytes[..8] != MAGIC {
            return Err(Error::Damaged("the file is not encrypted, or is damaged"));
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let layout = match (word(8), word(12), word(16)) {
            (VERSION, 1, size) if size as usize == BLOCK_BYTES => Layout::Blocks,
            (VERSION, 2, size) if size as usize == BLOCK_BYTES => Layout::Frames,
            _ => {
                return Err(Error::Damaged(
                    "the header of the encrypted file is damaged, or of another version",
                ));
            }
        };
        let (head, seal) = bytes[..HEADER_BYTES].split_at(HEAD_BYTES);
        let sealer = file_key(key, head);
        match sealer.open(head, &mut seal.to_vec()) {
            Some(_) => Ok(Header { layout, sealer }),
            None => Err(Error::Damaged(
                "the header of the encrypted file is damaged, or the file is of another key",
            )),
        }
    }
}

fn file_key(key: &DataKey, head: &[u8]) -> Sealer {
    let id = &head[ID_START..ID_START + ID_BYTES];
    key.derive(id, PURPOSE, &head[..ID_START])
}

/// The bytes that a block or frame is authenticated with.
fn place(number: u64, plain_bytes: usize) -> [u8; 12] {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&number.to_le_bytes());
    place[8..].copy_from_slice(&(plain_bytes as u32).to_le_bytes());
    place
}

/// Makes the bytes of a new file.
pub struct FileWriter {
    header: Header,
    /// Plain bytes that make no whole block yet.
    tail: Vec<u8>,
    /// The number of the next block or frame.
    number: u64,
    plain_bytes: u64,
    /// The bytes that are to be written next.
    out: Vec<u8>,
    /// A block that is not whole has been written: nothing can follow it.
    is_ended: bool,
}

impl FileWriter {
    /// Begins a new file: its header, which `out` gives, is written first.
    pub fn new(key: &DataKey, layout: Layout) -> Result<FileWriter> {
        let (header, out) = Header::make(key, layout)?;
        Ok(FileWriter {
            header,
            tail: Vec::new(),
            number: 0,
            plain_bytes: 0,
            out,
            is_ended: false,
        })
    }

    /// The bytes that the last call has made, to be appended to the file.
    pub fn out(&self) -> &[u8] {
        &self.out
    }

    /// The length of the plain file.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Appends to the plain file. Of blocks, those that are whole are made.
    pub fn append(&mut self, mut data: &[u8]) -> Result<()> {
        self.out.clear();
        if self.is_ended {
            return Err(Error::Damaged(
                "a file of blocks is appended to behind its end",
            ));
        }
        self.plain_bytes += data.len() as u64;
        if self.header.layout == Layout::Frames {
            return data
                .chunks(FRAME_BYTES_MAX)
                .try_for_each(|part| self.make_frame(part));
        }
        if !self.tail.is_empty() {
            let (start, rest) = data.split_at(data.len().min(BLOCK_BYTES - self.tail.len()));
            self.tail.extend_from_slice(start);
            data = rest;
            if self.tail.len() < BLOCK_BYTES {
                return Ok(());
            }
            self.make_tail()?;
        }
        let mut blocks = data.chunks_exact(BLOCK_BYTES);
        for block in &mut blocks {
            self.make_block(block)?;
        }
        self.tail.extend_from_slice(blocks.remainder());
        Ok(())
    }

    /// Makes what is left: afterwards all that was appended is in the file. Nothing can be appended behind a block that is not whole.
    pub fn end(&mut self) -> Result<()> {
        self.out.clear();
        if self.tail.is_empty() {
            return Ok(());
        }
        self.is_ended = true;
        self.make_tail()
    }

    fn make_tail(&mut self) -> Result<()> {
        let tail = std::mem::take(&mut self.tail);
        self.make_block(&tail)?;
        self.tail = tail;
        self.tail.clear();
        Ok(())
    }

    fn make_block(&mut self, block: &[u8]) -> Result<()> {
        let from = self.out.len();
        self.out.extend_from_slice(block);
        self.seal(block.len(), from)
    }

    fn make_frame(&mut self, part: &[u8]) -> Result<()> {
        self.out
            .extend_from_slice(&(part.len() as u32).to_le_bytes());
        let from = self.out.len();
        self.out.extend_from_slice(part);
        self.seal(part.len(), from)
    }

    fn seal(&mut self, plain_bytes: usize, from: usize) -> Result<()> {
        let place = place(self.number, plain_bytes);
        self.header.sealer.seal(&place, &mut self.out, from)?;
        self.number += 1;
        Ok(())
    }
}

/// Opens the blocks of a file at any place.
pub struct BlockReader {
    sealer: Sealer,
}

impl BlockReader {
    /// Begins to read the file that begins with this header.
    pub fn open(key: &DataKey, header: &[u8]) -> Result<BlockReader> {
        let header = Header::open(key, header)?;
        match header.layout {
            Layout::Blocks => Ok(BlockReader {
                sealer: header.sealer,
            }),
            Layout::Frames => Err(Error::Damaged("a file of frames is read as one of blocks")),
        }
    }

    /// Copies into `out` what the blocks from number `first` on hold behind their first `skip` bytes; returns how much that is.
    /// `sealed` are these blocks as they are in the file; only the file's last one may be short.
    pub fn read(
        &self,
        first: u64,
        sealed: &mut [u8],
        mut skip: usize,
        out: &mut [u8],
    ) -> Result<usize> {
        let mut copied = 0;
        for (number, block) in (first..).zip(sealed.chunks_mut(SEALED_BLOCK_BYTES)) {
            let plain_bytes = block.len().saturating_sub(ADDED_BYTES);
            let Some(plain) = (self.sealer).open(&place(number, plain_bytes), block) else {
                return Err(BLOCK_DAMAGED);
            };
            let plain = plain.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(plain_bytes);
            let wanted = plain.len().min(out.len() - copied);
            out[copied..copied + wanted].copy_from_slice(&plain[..wanted]);
            copied += wanted;
        }
        Ok(copied)
    }
}

const BLOCK_DAMAGED: Error =
    Error::Damaged("a block of the encrypted file is damaged, or stands in another place");

/// The length of the plain file of a file of blocks with that length.
pub fn plain_bytes_of_blocks(file_bytes: u64) -> u64 {
    let sealed = file_bytes.saturating_sub(HEADER_BYTES as u64);
    let (whole, rest) = (
        sealed / SEALED_BLOCK_BYTES as u64,
        sealed % SEALED_BLOCK_BYTES as u64,
    );
    whole * BLOCK_BYTES as u64 + rest.saturating_sub(ADDED_BYTES as u64)
}

/// Reads a file of either layout from the beginning.
pub struct SequentialReader {
    key: DataKey,
    header: Option<Header>,
    number: u64,
    /// Bytes of the file that were not opened yet, from `input_start` on.
    input: Vec<u8>,
    input_start: usize,
    /// Plain bytes that were not taken yet, from `plain_start` on.
    plain: Vec<u8>,
    plain_start: usize,
    is_at_end: bool,
    /// Frames end before the file does, with zeros that were reserved.
    is_in_zeros: bool,
}

impl SequentialReader {
    /// Begins to read a file from which nothing was read.
    pub fn new(key: &DataKey) -> SequentialReader {
        SequentialReader {
            key: key.clone(),
            header: None,
            number: 0,
            input: Vec::new(),
            input_start: 0,
            plain: Vec::new(),
            plain_start: 0,
            is_at_end: false,
            is_in_zeros: false,
        }
    }

    /// The next bytes of the file; none at its end.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.is_at_end = bytes.is_empty();
        self.input.drain(..self.input_start);
        self.input_start = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Copies plain bytes that are known by now into `out`. Where that is none, more has to be fed, or the file has ended.
    pub fn take(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut copied = 0;
        while copied < out.len() {
            if self.plain_start == self.plain.len() && !self.advance()? {
                break;
            }
            let plain = &self.plain[self.plain_start..];
            let wanted = plain.len().min(out.len() - copied);
            out[copied..copied + wanted].copy_from_slice(&plain[..wanted]);
            copied += wanted;
            self.plain_start += wanted;
        }
        Ok(copied)
    }

    /// Opens the next block or frame; false where more of the file is needed, or there is none.
    fn advance(&mut self) -> Result<bool> {
        if self.header.is_none() && !self.read_header()? {
            return Ok(false);
        }
        let Some(header) = &self.header else {
            return Ok(false);
        };
        let input = &self.input[self.input_start..];
        let next = match header.layout {
            _ if self.is_in_zeros => check_zeros(input)?,
            Layout::Blocks => next_block(input, self.is_at_end),
            Layout::Frames => next_frame(input)?,
        };
        let (start, end) = match next {
            Next::Sealed(start, end) => (start, end),
            Next::Zeros => {
                self.is_in_zeros = true;
                self.input_start = self.input.len();
                return Ok(false);
            }
            Next::Unknown => return Ok(false),
        };
        self.plain.clear();
        self.plain_start = 0;
        self.plain.extend_from_slice(&input[start..end]);
        let plain_bytes = (end - start).saturating_sub(ADDED_BYTES);
        let place = place(self.number, plain_bytes);
        if header.sealer.open(&place, &mut self.plain).is_none() {
            self.plain.clear();
            return Err(BLOCK_DAMAGED);
        }
        self.plain.truncate(plain_bytes);
        self.input_start += end;
        self.number += 1;
        Ok(true)
    }

    /// False where the file is empty, as one is that was made and not written yet, or more of it is needed.
    fn read_header(&mut self) -> Result<bool> {
        let input = &self.input[self.input_start..];
        if input.len() < HEADER_BYTES {
            return match self.is_at_end && !input.is_empty() {
                true => Err(Error::Damaged("the encrypted file is cut short")),
                false => Ok(false),
            };
        }
        self.header = Some(Header::open(&self.key, input)?);
        self.input_start += HEADER_BYTES;
        Ok(true)
    }
}

/// The thing that stands next in a file.
enum Next {
    /// A block or frame, with where it begins and ends behind its length.
    Sealed(usize, usize),
    /// Nothing but zeros that were reserved and not written.
    Zeros,
    /// That is not known before more is read; at the end of the file there is nothing. What a crash has left of a frame is nothing.
    Unknown,
}

fn next_block(input: &[u8], is_at_end: bool) -> Next {
    match input.len() {
        0 => Next::Unknown,
        bytes if bytes >= SEALED_BLOCK_BYTES => Next::Sealed(0, SEALED_BLOCK_BYTES),
        bytes if is_at_end => Next::Sealed(0, bytes),
        _ => Next::Unknown,
    }
}

fn next_frame(input: &[u8]) -> Result<Next> {
    let Some(length) = input.first_chunk::<LENGTH_BYTES>() else {
        return Ok(Next::Unknown);
    };
    let plain_bytes = u32::from_le_bytes(*length) as usize;
    if plain_bytes == 0 {
        return check_zeros(input);
    }
    if plain_bytes > FRAME_BYTES_MAX {
        return Err(BLOCK_DAMAGED);
    }
    let end = LENGTH_BYTES + plain_bytes + ADDED_BYTES;
    match input.len() >= end {
        true => Ok(Next::Sealed(LENGTH_BYTES, end)),
        false => Ok(Next::Unknown),
    }
}

fn check_zeros(input: &[u8]) -> Result<Next> {
    match input.iter().all(|byte| *byte == 0) {
        true => Ok(Next::Zeros),
        false => Err(BLOCK_DAMAGED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(key: &DataKey, layout: Layout, parts: &[&[u8]]) -> Vec<u8> {
        let mut writer = FileWriter::new(key, layout).unwrap();
        let mut file = writer.out().to_vec();
        assert_eq!(file.len(), HEADER_BYTES);
        for part in parts {
            writer.append(part).unwrap();
            file.extend_from_slice(writer.out());
        }
        writer.end().unwrap();
        file.extend_from_slice(writer.out());
        let plain: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(writer.plain_bytes(), plain as u64);
        file
    }

    fn read_through(key: &DataKey, file: &[u8], step: usize) -> Result<Vec<u8>> {
        let mut reader = SequentialReader::new(key);
        let mut plain = Vec::new();
        let mut fed = file.chunks(step);
        let mut out = [0; 777];
        loop {
            let taken = reader.take(&mut out)?;
            plain.extend_from_slice(&out[..taken]);
            if taken < out.len() {
                match fed.next() {
                    Some(bytes) => reader.feed(bytes),
                    None if reader.is_at_end => return Ok(plain),
                    None => reader.feed(&[]),
                }
            }
        }
    }

    fn noise(bytes: usize) -> Vec<u8> {
        (0..bytes as u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    }

    #[test]
    fn both_layouts_come_back_however_they_are_written_and_read() {
        let key = DataKey::random().unwrap();
        for plain_bytes in [0, 1, 4095, 4096, 4097, 8192, 70_000, 200_000] {
            let plain = noise(plain_bytes);
            for step in [1, 1000, 4096, 65_536, 100_000] {
                if step == 1 && plain_bytes > 5000 {
                    continue;
                }
                let parts: Vec<&[u8]> = plain.chunks(step).collect();
                for layout in [Layout::Blocks, Layout::Frames] {
                    let file = file_of(&key, layout, &parts);
                    for step in [file.len().max(1), 4096, 97] {
                        let read = read_through(&key, &file, step).unwrap();
                        assert!(read == plain, "{layout:?}, {plain_bytes} by {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_are_read_at_any_place() {
        let key = DataKey::random().unwrap();
        let plain = noise(3 * BLOCK_BYTES + 100);
        let file = file_of(&key, Layout::Blocks, &[&plain]);
        assert_eq!(plain_bytes_of_blocks(file.len() as u64), plain.len() as u64);
        let reader = BlockReader::open(&key, &file[..HEADER_BYTES]).unwrap();
        for from in [
            0, 1, 4000, 4095, 4096, 8000, 12_287, 12_288, 12_300, 12_387, 12_388,
        ] {
            for wanted in [0, 1, 100, 4096, 9000, 20_000] {
                let first = from / BLOCK_BYTES;
                let end = (from + wanted).div_ceil(BLOCK_BYTES).max(first);
                let at = |block: usize| (HEADER_BYTES + block * SEALED_BLOCK_BYTES).min(file.len());
                let mut sealed = file[at(first)..at(end)].to_vec();
                let mut out = vec![0; wanted];
                let skip = from % BLOCK_BYTES;
                let read = reader
                    .read(first as u64, &mut sealed, skip, &mut out)
                    .unwrap();
                let expected = &plain[from..(from + wanted).min(plain.len())];
                assert!(out[..read] == *expected, "{wanted} from {from}");
            }
        }
        assert!(BlockReader::open(&DataKey::random().unwrap(), &file).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_swapped_block_is_told() {
        let key = DataKey::random().unwrap();
        for layout in [Layout::Blocks, Layout::Frames] {
            let plain = noise(2 * BLOCK_BYTES + 50);
            let parts: Vec<&[u8]> = plain.chunks(BLOCK_BYTES).collect();
            let file = file_of(&key, layout, &parts);
            for at in (0..file.len()).step_by(7).chain(0..HEADER_BYTES + 8) {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << (at % 8);
                match read_through(&key, &damaged, 4096) {
                    Err(_) => {}
                    // A length that reaches beyond the end looks like a write that a crash has cut off.
                    Ok(read) => assert!(
                        layout == Layout::Frames
                            && plain.starts_with(&read)
                            && read.len() < plain.len(),
                        "{layout:?}, byte {at}"
                    ),
                }
            }
            let unit = match layout {
                Layout::Blocks => SEALED_BLOCK_BYTES,
                Layout::Frames => SEALED_BLOCK_BYTES + LENGTH_BYTES,
            };
            let mut swapped = file.clone();
            let (first, second) = swapped[HEADER_BYTES..HEADER_BYTES + 2 * unit].split_at_mut(unit);
            first.swap_with_slice(second);
            assert!(read_through(&key, &swapped, 4096).is_err(), "{layout:?}");
            // Nor does a block of another file pass.
            let other = file_of(&key, layout, &parts);
            let mut mixed = file.clone();
            mixed[HEADER_BYTES..HEADER_BYTES + unit]
                .copy_from_slice(&other[HEADER_BYTES..HEADER_BYTES + unit]);
            assert!(read_through(&key, &mixed, 4096).is_err(), "{layout:?}");
        }
    }

    #[test]
    fn a_torn_append_leaves_what_was_written_before() {
        let key = DataKey::random().unwrap();
        let parts: [&[u8]; 3] = [b"one", b"two", b"three"];
        let file = file_of(&key, Layout::Frames, &parts);
        let whole = file_of(&key, Layout::Frames, &parts[..2]).len();
        for cut in whole..file.len() {
            assert_eq!(read_through(&key, &file[..cut], 64).unwrap(), b"onetwo");
            // The file was made longer, and its end never written.
            let mut reserved = file[..whole].to_vec();
            reserved.resize(cut + 5000, 0);
            assert_eq!(read_through(&key, &reserved, 64).unwrap(), b"onetwo");
            reserved.push(1);
            assert!(read_through(&key, &reserved, 64).is_err());
        }
        assert_eq!(read_through(&key, &[], 64).unwrap(), b"");
        assert!(read_through(&key, &file[..HEADER_BYTES - 1], 64).is_err());
    }

    #[test]
    fn nothing_follows_a_block_that_is_not_whole() {
        let key = DataKey::random().unwrap();
        let mut writer = FileWriter::new(&key, Layout::Blocks).unwrap();
        writer.append(&noise(BLOCK_BYTES)).unwrap();
        writer.end().unwrap();
        writer.append(b"goes on").unwrap();
        writer.end().unwrap();
        assert!(writer.append(b"too late").is_err());
    }
}
