//! A journal on a slow disk: who waits for its files, and who does not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::doc;
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_journal::{File, FileEntry, Files, SimulatedFiles};
use quarry_storage::Memory;

/// A sync of a segment that is being made takes so long.
const SLOW: Duration = Duration::from_millis(10);
/// The bytes of a segment whose zeros are synced by 256 KiB, with 256 syncs.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Those that a test waits for, in which the checkpoints' thread has looked at the journal several times.
const SYNCS_BEFORE: u32 = 120;
/// One that is under way when the database is told to close, and what may come between that and the word of it.
const SYNCS_OF_CLOSE_MAX: u32 = 3;
const WAIT_MAX: Duration = Duration::from_secs(30);

struct SlowFiles {
    files: SimulatedFiles,
    /// The slow syncs so far.
    syncs: Arc<AtomicU32>,
}

impl Files for SlowFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.files.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.files.create(name)?;
        let syncs = Arc::clone(&self.syncs);
        Ok(Arc::new(SlowFile { file, syncs }))
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

struct SlowFile {
    file: Arc<dyn File>,
    syncs: Arc<AtomicU32>,
}

impl File for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        thread::sleep(SLOW);
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// The checkpoints' thread waits until it is made, to free others; the close waits for that thread.
#[test]
fn a_close_does_not_wait_for_a_segment_that_is_made_ahead_of_need() {
    let syncs = Arc::new(AtomicU32::new(0));
    let files = SlowFiles {
        files: SimulatedFiles::new(),
        syncs: Arc::clone(&syncs),
    };
    let options = Options {
        commit_interval_ms: 0,
        journal_segment_bytes: Some(SEGMENT_BYTES),
        ..Options::default()
    };
    let opened = Database::open_on(Arc::new(Memory::new()), Arc::new(files), options);
    let database = opened.unwrap();
    let document = doc! { "_id": 1 };
    let namespace = Namespace::parse("a.c").unwrap();
    let operation = Operation::default();
    let documents = [document.as_raw()];
    database
        .insert_piece(&operation, &namespace, &documents, true, Level::Written)
        .unwrap();
    let begun = Instant::now();
    while syncs.load(Ordering::SeqCst) < SYNCS_BEFORE {
        assert!(begun.elapsed() < WAIT_MAX, "no segment is made");
        thread::yield_now();
    }
    let before = syncs.load(Ordering::SeqCst);
    database.close().unwrap();
    let of_close = syncs.load(Ordering::SeqCst) - before;
    assert!(of_close <= SYNCS_OF_CLOSE_MAX, "{of_close} syncs");
}
