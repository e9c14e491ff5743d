//! Tests of what a long window costs: a start reads little of it, and a place in it is found without reading its segment.

mod owner;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use owner::{Owner, identity, options};
use quarry_journal::{File, FileEntry, Files, Journal, Options, SimulatedFiles};

const SEGMENT_BYTES: u64 = 1 << 20;
const RECORDS: u64 = 3000;
const RECORD: [u8; 2000] = [7; 2000];

/// Files that count what is read of them.
#[derive(Clone)]
struct Counting {
    files: SimulatedFiles,
    read_bytes: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn File>,
    read_bytes: Arc<AtomicU64>,
}

impl Counting {
    /// The bytes that were read since this was asked last.
    fn take_read_bytes(&self) -> u64 {
        self.read_bytes.swap(0, Ordering::Relaxed)
    }

    fn count(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CountingFile {
            file,
            read_bytes: Arc::clone(&self.read_bytes),
        })
    }
}

impl Files for Counting {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.count(self.files.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.count(self.files.create(name)?))
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

fn open(files: &Counting, applied_lsn: u64) -> Journal {
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        retain_ms: 3_600_000,
        ..options()
    };
    let files = Arc::new(files.clone());
    Journal::open(files, options, identity(), applied_lsn, Owner::new()).unwrap()
}

/// A journal of several segments whose records the engine has, as a start finds it, and the cluster time of each record.
fn window() -> (Counting, Vec<u64>) {
    let files = Counting {
        files: SimulatedFiles::new(),
        read_bytes: Arc::default(),
    };
    let journal = open(&files, 0);
    let mut times = Vec::new();
    for _ in 0..RECORDS {
        journal.submit(&RECORD).unwrap();
        times.push(journal.cluster_time());
    }
    journal.checkpointed(RECORDS).unwrap();
    assert_eq!(journal.first_lsn(), 1);
    drop(journal);
    files.take_read_bytes();
    (files, times)
}

/// Reads the record at a place and finds that place by its time; returns the bytes that the more costly of the two has read.
fn look_up(files: &Counting, journal: &Journal, lsn: u64, time: u64) -> u64 {
    files.take_read_bytes();
    let mut reader = journal.read(lsn).unwrap();
    assert_eq!(reader.next().unwrap(), Some((lsn, &RECORD[..])));
    let by_lsn = files.take_read_bytes();
    assert_eq!(journal.first_since(time).unwrap(), Some(lsn));
    by_lsn.max(files.take_read_bytes())
}

#[test]
fn places_in_the_window_are_found_without_reading_their_segments() {
    let (files, times) = window();
    let journal = open(&files, RECORDS);
    let opened_bytes = files.take_read_bytes();
    // The last segment is replayed as far as need be; of the others a page or so is read.
    let segments = RECORDS * RECORD.len() as u64 / SEGMENT_BYTES;
    assert!(
        opened_bytes < 2 * SEGMENT_BYTES + segments * 40_000,
        "a start has read {opened_bytes} bytes"
    );
    for lsn in (1..RECORDS).step_by(199) {
        let bytes = look_up(&files, &journal, lsn, times[lsn as usize - 1]);
        assert!(bytes < SEGMENT_BYTES / 2, "record {lsn}: {bytes} bytes");
    }
}

#[test]
fn a_segment_without_its_index_is_read_once() {
    let (files, times) = window();
    // The last record of the second segment but for a few.
    let lsn = 990;
    let file = files.files.open("0000000002.segment").unwrap();
    file.write_at(&[0; 3584], 512).unwrap();
    let journal = open(&files, RECORDS);
    let first = look_up(&files, &journal, lsn, times[lsn as usize - 1]);
    assert!(first > SEGMENT_BYTES / 2, "{first} bytes");
    let second = look_up(&files, &journal, lsn, times[lsn as usize - 1]);
    assert!(second < SEGMENT_BYTES / 2, "{second} bytes");
}

#[test]
fn the_window_gives_way_segment_by_segment_and_never_what_is_needed() {
    let (files, _) = window();
    let journal = open(&files, RECORDS);
    journal.checkpointed(RECORDS).unwrap();
    let before = journal.window().bytes;
    assert!(before > 4 * SEGMENT_BYTES);
    let freed = journal.free_oldest_of_window().unwrap();
    assert_eq!(journal.window().bytes, before - freed);
    assert!(journal.first_lsn() > 1);
    while journal.free_oldest_of_window().unwrap() > 0 {}
    assert_eq!(journal.window().bytes, 0);
    assert!(journal.live_bytes() > 0);
    let lsn = journal.submit(&RECORD).unwrap().lsn;
    assert_eq!(lsn, RECORDS + 1);
    assert_eq!(journal.free_oldest_of_window().unwrap(), 0);
}
