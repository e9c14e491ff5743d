//! The hook of the write-ahead rule runs on a thread of the engine, and that thread is never the last to hold the database:
//! the engine would end on it, and wait there for the thread itself.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use quarry_bson::doc;
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_journal::{File, FileEntry, Files, SimulatedFiles};
use quarry_storage::{Engine, Memory};

/// A sync takes so long if nobody lets it go on.
const SLOW: Duration = Duration::from_millis(100);

/// It holds up a sync of the journal's files, and learns which thread has dropped the journal.
#[derive(Default)]
struct Watch {
    /// The next sync tells the one, and waits for the other.
    slow_sync: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    dropped_on: Mutex<Option<ThreadId>>,
}

/// A journal's files, which go when the journal does.
struct WatchedFiles {
    files: SimulatedFiles,
    watch: Arc<Watch>,
}

impl Drop for WatchedFiles {
    fn drop(&mut self) {
        *self.watch.dropped_on.lock().unwrap() = Some(thread::current().id());
    }
}

impl WatchedFiles {
    fn watched(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let watch = Arc::clone(&self.watch);
        Arc::new(WatchedFile { file, watch })
    }
}

impl Files for WatchedFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.files.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.watched(self.files.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.watched(self.files.create(name)?))
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

struct WatchedFile {
    file: Arc<dyn File>,
    watch: Arc<Watch>,
}

impl File for WatchedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let slow = self.watch.slow_sync.lock().unwrap().take();
        if let Some((begun, goes_on)) = slow {
            begun.send(()).unwrap();
            // Who drops the database while this waits is either done with it, or waits for this.
            let _ = goes_on.recv_timeout(SLOW);
        }
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[test]
fn a_database_that_is_dropped_during_a_flush_does_not_end_on_the_engines_thread() {
    let watch = Arc::new(Watch::default());
    let engine = Arc::new(Memory::new());
    let files = WatchedFiles {
        files: SimulatedFiles::new(),
        watch: Arc::clone(&watch),
    };
    let options = Options {
        commit_interval_ms: 0,
        ..Options::default()
    };
    let opened = Database::open_on(Arc::clone(&engine) as _, Arc::new(files), options);
    let database = opened.unwrap();
    let document = doc! { "_id": 1 };
    let namespace = Namespace::parse("a.c").unwrap();
    let operation = Operation::default();
    let documents = [document.as_raw()];
    database
        .insert_piece(&operation, &namespace, &documents, true, Level::Written)
        .unwrap();
    database.catch_up();

    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    *watch.slow_sync.lock().unwrap() = Some((begun, goes_on));
    let flushing = Arc::clone(&engine);
    let flush = thread::spawn(move || flushing.sync());
    has_begun.recv().unwrap();
    drop(database);
    let _ = go_on.send(());
    flush.join().unwrap().unwrap();
    let dropped_on = *watch.dropped_on.lock().unwrap();
    assert_eq!(dropped_on, Some(thread::current().id()));
    assert_eq!(Arc::strong_count(&engine), 1, "the database is gone");
}
