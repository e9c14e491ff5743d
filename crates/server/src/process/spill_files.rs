//! The files of sorts and groups that have outgrown their memory, in the folder `quarry.spill` of the data directory.
//!
//! A file is unlinked as soon as it is open, so that it goes with the process however that ends; what a crash leaves in between is
//! removed at the next start. It is a list of blocks: the bytes stored, the bytes before compression and the CRC-32C of
//! what is stored, each a u32 in big-endian order, and behind them the block as LZ4. A block that does not
//! have its checksum or its length fails the operation. On a server that encrypts what it writes, each file has a random key that is kept
//! nowhere, and what is stored of a block is sealed with its number.
//!
//! Each open file takes a descriptor, of which all spill files together have a share (`descriptors`): where it is used up an operation
//! that wants to spill fails, and the journal and the engine go on opening theirs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use quarry_query::parameters::SPILLING_DISK_BYTES_FREE;
use quarry_query::spilling::{BLOCK_BYTES, BlockPlace, SpillFile, SpillSpace};
use quarry_query::{Error, ErrorCode, Result};
use quarry_seal::{ADDED_BYTES, Sealer};
use rustix::fs::fstatvfs;

/// The folder within the data directory.
const FOLDER: &str = "quarry.spill";
const HEAD_BYTES: usize = 12;
/// Blocks between two looks at what the disk has free.
const BLOCKS_BETWEEN_LOOKS: u32 = 64;

/// The folder of spilled files.
pub struct SpillFiles {
    folder: PathBuf,
    /// The name of the next file.
    next: AtomicU64,
    /// How many may be open.
    files_max: usize,
    open: Arc<AtomicUsize>,
    is_encrypted: bool,
}

/// A place among the files that are open, given up where it is dropped.
struct Place(Arc<AtomicUsize>);

struct BlockFile {
    file: File,
    /// Given up after the file is closed.
    _place: Place,
    /// A block on its way out or in, with its head.
    stored: Vec<u8>,
    /// Where the next block is written.
    end: BlockPlace,
    /// Seals the blocks of a server that encrypts.
    sealer: Option<Sealer>,
}

impl SpillFiles {
    /// The folder in a data directory, without what a crash has left in it. `files_max` may be open at a time.
    pub fn open(
        data_directory: &Path,
        files_max: usize,
        is_encrypted: bool,
    ) -> io::Result<SpillFiles> {
        let folder = data_directory.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&folder)?;
        Ok(SpillFiles {
            folder,
            next: AtomicU64::new(0),
            files_max,
            open: Arc::default(),
            is_encrypted,
        })
    }

    /// A place for another file; none where all are taken.
    fn place(&self) -> Option<Place> {
        let take = |open: usize| (open < self.files_max).then_some(open + 1);
        let taken = self.open.fetch_update(Relaxed, Relaxed, take);
        taken.ok().map(|_| Place(Arc::clone(&self.open)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl SpillSpace for SpillFiles {
    fn create(&self) -> Result<Box<dyn SpillFile>> {
        let place = self.place().ok_or_else(|| all_taken(self.files_max))?;
        let number = self.next.fetch_add(1, Relaxed);
        let path = self.folder.join(format!("spill-{number}"));
        let open = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path);
        let file = open.map_err(|error| failed(&error))?;
        fs::remove_file(&path).map_err(|error| failed(&error))?;
        check_disk(&file)?;
        let sealer = self.is_encrypted.then(Sealer::of_this_process);
        let sealer = sealer.transpose().map_err(|error| unsealed(&error))?;
        Ok(Box::new(BlockFile {
            file,
            _place: place,
            stored: Vec::new(),
            end: BlockPlace::default(),
            sealer,
        }))
    }
}

impl SpillFile for BlockFile {
    fn end(&self) -> BlockPlace {
        self.end
    }

    fn append(&mut self, block: &[u8]) -> Result<u64> {
        assert!(block.len() <= BLOCK_BYTES, "a block is too long");
        if self.end.number.is_multiple_of(BLOCKS_BETWEEN_LOOKS) {
            check_disk(&self.file)?;
        }
        self.stored
            .resize(HEAD_BYTES + get_maximum_output_size(block.len()), 0);
        let bytes = compress_into(block, &mut self.stored[HEAD_BYTES..]).map_err(|_| damaged())?;
        self.stored.truncate(HEAD_BYTES + bytes);
        if let Some(sealer) = &self.sealer {
            let place = self.end.number.to_be_bytes();
            let sealed = sealer.seal(&place, &mut self.stored, HEAD_BYTES);
            sealed.map_err(|error| unsealed(&error))?;
        }
        let (head, body) = self.stored.split_at_mut(HEAD_BYTES);
        let checksum = crc32c::crc32c(body);
        for (place, number) in
            head.chunks_exact_mut(4)
                .zip([body.len() as u32, block.len() as u32, checksum])
        {
            place.copy_from_slice(&number.to_be_bytes());
        }
        let written = self.file.write_all_at(&self.stored, self.end.position);
        written.map_err(|error| failed(&error))?;
        let bytes = self.stored.len() as u64;
        self.end = behind(self.end, bytes);
        Ok(bytes)
    }

    fn read_block(&mut self, place: &mut BlockPlace, out: &mut Vec<u8>) -> Result<()> {
        let mut head = [0; HEAD_BYTES];
        self.read_at(&mut head, place.position)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let (bytes, block_bytes) = (number(0) as usize, number(4) as usize);
        if block_bytes > BLOCK_BYTES || bytes > get_maximum_output_size(BLOCK_BYTES) + ADDED_BYTES {
            return Err(damaged());
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(bytes, 0);
        self.read_at(&mut stored, place.position + HEAD_BYTES as u64)?;
        if crc32c::crc32c(&stored) != number(8) {
            return Err(damaged());
        }
        let mut packed = &stored[..];
        if let Some(sealer) = &self.sealer {
            let number = place.number.to_be_bytes();
            packed = sealer.open(&number, &mut stored).ok_or_else(damaged)?;
        }
        let start = out.len();
        out.resize(start + block_bytes, 0);
        let unpacked = decompress_into(packed, &mut out[start..]);
        if unpacked.ok() != Some(block_bytes) {
            return Err(damaged());
        }
        self.stored = stored;
        *place = behind(*place, (HEAD_BYTES + bytes) as u64);
        Ok(())
    }
}

impl BlockFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, position);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => failed(&error),
        })
    }
}

/// The place of the block behind one that takes so many bytes.
fn behind(place: BlockPlace, bytes: u64) -> BlockPlace {
    BlockPlace {
        number: place.number + 1,
        position: place.position + bytes,
    }
}

/// Fails where the disk has less room than `internalQuerySpillingMinAvailableDiskSpaceBytes` asks for.
fn check_disk(file: &File) -> Result<()> {
    let disk = fstatvfs(file).map_err(|error| failed(&error.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let wanted = u64::try_from(SPILLING_DISK_BYTES_FREE.get()).unwrap_or(0);
    if free >= wanted {
        return Ok(());
    }
    let text = format!(
        "Failed to spill to disk because available disk space of {free} bytes is less than the required minimum of {wanted} bytes"
    );
    Err(Error::new(ErrorCode::OUT_OF_DISK_SPACE, text))
}

fn failed(error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::OUT_OF_DISK_SPACE,
        _ => ErrorCode::FILE_STREAM_FAILED,
    };
    Error::new(code, format!("Failed to spill to disk: {error}"))
}

fn unsealed(error: &quarry_seal::Error) -> Error {
    let text = format!("Failed to spill to disk: {error}");
    Error::new(ErrorCode::FILE_STREAM_FAILED, text)
}

fn all_taken(files_max: usize) -> Error {
    let text = format!(
        "Failed to spill to disk: {files_max} files of sorts and groups are open, and all operations together may have no more"
    );
    Error::new(ErrorCode::FILE_STREAM_FAILED, text)
}

fn damaged() -> Error {
    let text = "a spilled block is not what was written";
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_file(directory: &Path, sealer: Option<Sealer>) -> BlockFile {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(directory.join("blocks"));
        BlockFile {
            file: file.unwrap(),
            _place: Place(Arc::new(AtomicUsize::new(1))),
            stored: Vec::new(),
            end: FIRST,
            sealer,
        }
    }

    /// The place of the first block of these files, before which the disk is not looked at.
    const FIRST: BlockPlace = BlockPlace {
        number: 1,
        position: 0,
    };

    #[test]
    fn blocks_come_back_in_order_and_the_folder_is_empty_meanwhile() {
        for is_encrypted in [false, true] {
            check_blocks(is_encrypted);
        }
    }

    fn check_blocks(is_encrypted: bool) {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(FOLDER);
        fs::create_dir(&left).unwrap();
        fs::write(left.join("spill-0"), b"left by a crash").unwrap();
        let files = SpillFiles::open(directory.path(), 1, is_encrypted).unwrap();
        let was = SPILLING_DISK_BYTES_FREE.get();
        SPILLING_DISK_BYTES_FREE.set(0);
        let mut file = files.create().unwrap();
        SPILLING_DISK_BYTES_FREE.set(was);
        assert_eq!(fs::read_dir(&left).unwrap().count(), 0);
        let blocks = [vec![7; BLOCK_BYTES], (0..=255).collect(), vec![1]];
        for block in &blocks {
            assert!(file.append(block).unwrap() > HEAD_BYTES as u64);
        }
        let (mut read, mut place, mut places) = (Vec::new(), BlockPlace::default(), Vec::new());
        while place != file.end() {
            places.push(place);
            file.read_block(&mut place, &mut read).unwrap();
        }
        assert_eq!(read, blocks.concat());
        // Each is read by itself, too, and what is appended meanwhile goes behind them.
        for (mut place, block) in places.into_iter().zip(&blocks).rev() {
            let (mut read, mut end) = (Vec::new(), file.end());
            file.read_block(&mut place, &mut read).unwrap();
            assert_eq!(&read, block);
            file.append(b"more").unwrap();
            read.clear();
            file.read_block(&mut end, &mut read).unwrap();
            assert_eq!(read, b"more");
        }
        // There is no place for another one until it has gone.
        let refused = files.create().err().unwrap();
        assert_eq!(refused.code, ErrorCode::FILE_STREAM_FAILED);
        assert!(refused.to_string().contains("1 files"), "{refused}");
        drop(file);
        assert!(files.place().is_some() && files.place().is_some());
    }

    #[test]
    fn a_block_stands_in_the_file_as_it_is_or_encrypted() {
        let directory = tempfile::tempdir().unwrap();
        let marker = b"Zq8:a marker of no repetition/4fK";
        for sealer in [None, Some(Sealer::of_this_process().unwrap())] {
            let is_encrypted = sealer.is_some();
            block_file(directory.path(), sealer).append(marker).unwrap();
            let bytes = fs::read(directory.path().join("blocks")).unwrap();
            let shows = bytes.windows(marker.len()).any(|bytes| bytes == marker);
            assert_eq!(shows, !is_encrypted);
        }
    }

    #[test]
    fn damage_is_told_and_never_read() {
        check_damage(None);
        check_damage(Some(Sealer::of_this_process().unwrap()));
    }

    fn check_damage(sealer: Option<Sealer>) {
        let directory = tempfile::tempdir().unwrap();
        let mut whole = block_file(directory.path(), sealer.clone());
        whole.append(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
        let path = directory.path().join("blocks");
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            for damage in [1, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= damage;
                let mut file = block_file(directory.path(), sealer.clone());
                fs::write(&path, &damaged).unwrap();
                let code = file
                    .read_block(&mut FIRST.clone(), &mut Vec::new())
                    .unwrap_err()
                    .code;
                assert_eq!(code, ErrorCode::DATA_CORRUPTION_DETECTED, "byte {at}");
            }
        }
        for length in 1..bytes.len() {
            let mut file = block_file(directory.path(), sealer.clone());
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(
                file.read_block(&mut FIRST.clone(), &mut Vec::new())
                    .is_err(),
                "cut at {length}"
            );
        }
    }
}
