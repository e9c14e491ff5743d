//! Tests of what it costs to read the journal back while it is written.

mod owner;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use owner::{Owner, identity, options};
use quarry_journal::{File, FileEntry, Files, Journal, Options, SimulatedFiles};

/// Counts the files that are opened and the bytes that are read.
#[derive(Clone, Default)]
struct CountingFiles {
    files: SimulatedFiles,
    opened: Arc<AtomicU64>,
    read_bytes: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn File>,
    read_bytes: Arc<AtomicU64>,
}

impl CountingFiles {
    fn counting(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let read_bytes = Arc::clone(&self.read_bytes);
        Arc::new(CountingFile { file, read_bytes })
    }
}

impl Files for CountingFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(self.counting(self.files.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.counting(self.files.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }
}

impl File for CountingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, offset)?;
        self.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn open(files: &CountingFiles, segment_bytes: u64) -> Journal {
    let options = Options {
        segment_bytes,
        ..options()
    };
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), 0, Owner::new()).unwrap()
}

#[test]
fn a_reader_that_catches_up_reads_everything_about_once() {
    let files = CountingFiles::default();
    let journal = open(&files, 4 << 20);
    for _ in 0..4000 {
        journal.submit(&[7; 200]).unwrap();
    }
    let before = files.read_bytes.load(Ordering::Relaxed);
    let mut reader = journal.read(1).unwrap();
    for lsn in 1..=4000 {
        assert_eq!(reader.next().unwrap().map(|(lsn, _)| lsn), Some(lsn));
        if lsn % 50 == 0 {
            // Somebody goes on writing.
            journal.submit(&[7; 200]).unwrap();
        }
    }
    let read = files.read_bytes.load(Ordering::Relaxed) - before;
    let written = 4000 * (200 + 4 + 96);
    assert!(read < 2 * written, "{read} bytes read of {written}");
}

#[test]
fn who_reads_each_record_as_it_comes_opens_no_file_and_looks_through_no_earlier_ones() {
    let files = CountingFiles::default();
    let journal = open(&files, 4 << 20);
    for _ in 0..150 {
        journal.submit(&[7; 200]).unwrap();
    }
    for lsn in 151..=400 {
        journal.submit(&[7; 200]).unwrap();
        let counted = || {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (count(&files.read_bytes), count(&files.opened))
        };
        let before = counted();
        let mut reader = journal.read(lsn).unwrap();
        assert_eq!(reader.next().unwrap().map(|(lsn, _)| lsn), Some(lsn));
        drop(reader);
        let after = counted();
        let (read, opened) = (after.0 - before.0, after.1 - before.1);
        // The first one looks for its place from the last mark on.
        assert!(lsn == 151 || read <= 16 << 10, "{lsn}: {read} bytes");
        assert_eq!(opened, 0, "{lsn}");
    }
}

/// A reader has read ahead of the log's end: groups of the file's older use, whole and of this very life.
#[test]
fn a_reader_at_the_end_is_not_misled_by_a_reused_segment() {
    let files = CountingFiles::default();
    let journal = open(&files, 16 * 1024);
    let mut reader = journal.read(1).unwrap();
    for lsn in 1..=3000u64 {
        // Of varying lengths, so that no group begins where an older one did.
        let payload = vec![lsn as u8; 50 + (lsn % 97) as usize];
        journal.submit(&payload).unwrap();
        assert_eq!(reader.next().unwrap(), Some((lsn, &payload[..])));
        assert_eq!(reader.next().unwrap(), None);
        if lsn % 100 == 0 {
            journal.sync().unwrap();
            journal.checkpointed(lsn).unwrap();
        }
    }
    assert!(journal.first_lsn() > 2000);
}
