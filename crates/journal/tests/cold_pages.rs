//! Appending never makes the kernel read: a page of a segment that has left its cache is written whole, or from where
//! the writes before it ended.

mod owner;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use owner::{Owner, identity};
use parking_lot::Mutex;
use quarry_journal::{File, FileEntry, Files, Journal, Level, Options, SimulatedFiles};

const PAGE_BYTES: u64 = 4096;

/// Files whose pages are cached as a kernel caches them.
#[derive(Clone, Default)]
struct CachedFiles {
    inner: Arc<SimulatedFiles>,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    pages: HashSet<(String, u64)>,
    /// Reads of pages that a write met in part and that were not there.
    reads: u64,
}

struct CachedFile {
    name: String,
    inner: Arc<dyn File>,
    cache: Arc<Mutex<Cache>>,
}

impl CachedFiles {
    fn forget_pages(&self) {
        self.cache.lock().pages.clear();
    }

    fn wrap(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CachedFile {
            name: name.to_owned(),
            inner,
            cache: Arc::clone(&self.cache),
        })
    }
}

impl Files for CachedFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(name, self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(name, self.inner.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }
}

impl File for CachedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.inner.write_at(bytes, offset)?;
        let end = offset + written as u64;
        let mut cache = self.cache.lock();
        for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let is_whole = offset <= page * PAGE_BYTES && end >= (page + 1) * PAGE_BYTES;
            let is_new = cache.pages.insert((self.name.clone(), page));
            cache.reads += u64::from(is_new && !is_whole);
        }
        Ok(written)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

#[test]
fn an_append_reads_nothing_of_a_segment_that_was_made_long_ago() {
    let files = CachedFiles::default();
    let options = Options {
        segment_bytes: 1 << 20,
        background: false,
        ..Options::default()
    };
    let owner = Owner::new();
    let journal = Journal::open(
        Arc::new(files.clone()),
        options.clone(),
        identity(),
        0,
        owner.clone(),
    )
    .unwrap();
    files.forget_pages();
    let reads_before = files.cache.lock().reads;
    // About what the segment holds.
    let mut bytes = 0;
    for number in 0..1000_usize {
        let record = vec![number as u8; 1 + number * number % 9000];
        bytes += record.len() + 100;
        if bytes > 1 << 20 {
            break;
        }
        journal.commit(&record, Level::Written).unwrap();
    }
    assert_eq!(files.cache.lock().reads, reads_before);
    assert!(owner.records().len() > 200);
    journal.close().unwrap();
    let again = Owner::new();
    Journal::open(Arc::new(files), options, identity(), 0, again.clone()).unwrap();
    assert_eq!(again.records(), owner.records());
}
