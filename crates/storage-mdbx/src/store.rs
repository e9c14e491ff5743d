//! One open libmdbx store: its write transactions, its steady points, what stands against it.
//!
//! Shared by the engine and the thread that makes steady points.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use quarry_storage::{
    APPLIED_LSN_KEY, BeforeDurable, Error, FreeSpace, KEY_BYTES_MAX, KeyRange, Op, Readiness,
    Reclaimed, Result, WriteBatch, creation,
};

use crate::{
    Options, SyncMode,
    ffi::{Env, Move, PAGE_BYTES, ReadTxn, WriteTxn},
    readers::Readers,
};

const DATA_FILE: &str = "mdbx.dat";
const LOCK_FILE: &str = "mdbx.lck";
/// Three meta pages begin the file; libmdbx goes on with whichever it finds of a shorter one.
const HEAD_BYTES: u64 = 3 * PAGE_BYTES as u64;
/// Commits between two looks at how much is unsynced.
const COMMITS_PER_LOOK: u64 = 16;
/// Writers are held off when so many times the volume that asks for a steady point is unsynced.
const STALL_TIMES: u64 = 8;

/// libmdbx in one directory. Lock order: `writes`, then `hook`; the other two are held alone.
pub(crate) struct Store {
    pub(crate) env: Arc<Env>,
    pub(crate) readers: Arc<Readers>,
    sync_mode: SyncMode,
    /// One write transaction or steady point at a time.
    writes: Mutex<()>,
    hook: RwLock<Option<BeforeDurable>>,
    applied_lsn: AtomicU64,
    durable_lsn: AtomicU64,
    /// The first failure from which libmdbx does not recover without a restart.
    failure: Mutex<Option<Error>>,
    failed: AtomicBool,
    pub(crate) closed: AtomicBool,
    free_space: FreeSpace,
    pub(crate) steady_points: AtomicU64,
    /// The bytes of the pages that commits have retired since the open.
    pub(crate) retired_bytes: AtomicU64,
    commits: AtomicU64,
    steady_after_bytes: u64,
    /// As of the last look.
    unsynced_bytes: AtomicU64,
    /// Why the hook refuses a steady point that the store needs.
    refusal: Mutex<Option<Error>>,
    refused: AtomicBool,
}

impl Store {
    /// Opens the store in `directory`, or makes one when the directory is absent or empty.
    ///
    /// What was committed after the last steady point is given up here, for the journal to replay: nobody knows whether its
    /// pages have reached the device (see `ffi/recovery.rs`). So nothing becomes durable before the journal is read. Only
    /// a file that has no steady point, which [`SyncMode::UtterlyNoSync`] can leave, is taken as it stands; it counts as
    /// not durable until the first steady point.
    pub(crate) fn open(directory: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let directory = directory.as_ref();
        let creation = creation::begin(directory)?;
        if creation.is_none() {
            refuse_foreign_files(directory)?;
            Env::go_back_to_steady(directory, options)?;
        }
        let env = Arc::new(Env::open(directory, options)?);
        if let Some(creation) = creation {
            env.sync()?;
            creation.finish()?;
        }
        let is_steady = env.info()?.is_steady;
        let readers = Arc::new(Readers::new(&env));
        let applied_lsn = stored_lsn(readers.take()?.txn())?;
        Ok(Self {
            env,
            readers,
            sync_mode: options.sync_mode,
            writes: Mutex::new(()),
            hook: RwLock::new(None),
            applied_lsn: AtomicU64::new(applied_lsn),
            durable_lsn: AtomicU64::new(if is_steady { applied_lsn } else { 0 }),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            free_space: FreeSpace::new(directory, options.free_bytes_min)?,
            steady_points: AtomicU64::new(0),
            retired_bytes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            steady_after_bytes: options.steady_after_bytes.max(1),
            unsynced_bytes: AtomicU64::new(0),
            refusal: Mutex::new(None),
            refused: AtomicBool::new(false),
        })
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Applies a batch in one transaction on the calling thread.
    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<()> {
        let _alone = self.writes.lock();
        self.write_alone(batch)
    }

    /// Like `write`, but fails when another write, a sync or a reclaim is running.
    pub(crate) fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        let Some(_alone) = self.writes.try_lock() else {
            return Err(Error::Stalled("another write or a sync runs".to_owned()));
        };
        self.write_alone(batch)
    }

    /// Under `writes`.
    fn write_alone(&self, batch: &WriteBatch) -> Result<()> {
        self.check_open()?;
        batch.check_keys()?;
        if batch.is_empty() {
            return Ok(());
        }
        let lsn = batch
            .applied_lsn()
            .unwrap_or_else(|| self.applied_lsn.load(Ordering::SeqCst));
        self.ask_before_commit(lsn)?;
        let written = self.env.begin_write().and_then(|txn| apply(txn, batch));
        let retired_bytes = self.latch(self.tell_full_disk(written))?;
        self.committed(lsn, retired_bytes);
        Ok(())
    }

    /// Copies the last commit, page by page, into a directory that is made for it. It is a reader like others: the pages that
    /// writers give up meanwhile are used again only after it. Refused where it would take the space that writers need.
    pub(crate) fn copy_to(&self, directory: &Path) -> Result<()> {
        self.check_open()?;
        self.free_space.check_copy(self.env.info()?.file_bytes)?;
        fs::create_dir(directory)?;
        self.env.copy_to(&directory.join(DATA_FILE))
    }

    /// Deletes about `step_bytes` of a range in one transaction.
    pub(crate) fn reclaim(&self, range: &KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        let _alone = self.writes.lock();
        self.check_open()?;
        if range.is_empty() {
            return Ok(Reclaimed { done: true });
        }
        let lsn = self.applied_lsn.load(Ordering::SeqCst);
        self.ask_before_commit(lsn)?;
        let txn = self.env.begin_write();
        let reclaimed = txn.and_then(|txn| delete_some(txn, range, step_bytes));
        let (reclaimed, retired_bytes) = self.latch(self.tell_full_disk(reclaimed))?;
        self.committed(lsn, retired_bytes);
        Ok(reclaimed)
    }

    pub(crate) fn ready(&self) -> Readiness {
        let trouble = self
            .check_open()
            .and_then(|()| self.check_trouble())
            .and_then(|()| self.free_space.check());
        if let Err(error) = trouble {
            return Readiness::Failed(error);
        }
        if self.unsynced_bytes.load(Ordering::Relaxed) / STALL_TIMES >= self.steady_after_bytes {
            return Readiness::Stalled {
                cause: "a steady point must be made before the file grows further".into(),
            };
        }
        Readiness::Ready
    }

    pub(crate) fn durable_lsn(&self) -> Result<u64> {
        self.check_open()?;
        Ok(self.durable_lsn.load(Ordering::SeqCst))
    }

    pub(crate) fn set_hook(&self, hook: BeforeDurable) {
        *self.hook.write() = Some(hook);
    }

    /// Makes a last steady point and refuses every call from then on. After a failure there is no such point: it is an error.
    pub(crate) fn close(&self) -> Result<()> {
        let _alone = self.writes.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.readers.clear();
        self.make_steady_alone()
    }

    /// Whether so much is unsynced that a steady point is due, by a look every few commits.
    pub(crate) fn needs_steady_point(&self) -> bool {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if commits.is_multiple_of(COMMITS_PER_LOOK)
            && let Ok(info) = self.env.info()
        {
            self.unsynced_bytes
                .store(info.unsynced_bytes, Ordering::Relaxed);
        }
        self.unsynced_bytes.load(Ordering::Relaxed) >= self.steady_after_bytes
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn set_refusal(&self, refusal: Option<Error>) {
        self.refused.store(refusal.is_some(), Ordering::Release);
        *self.refusal.lock() = refusal;
    }

    fn check_trouble(&self) -> Result<()> {
        self.check_failure()?;
        let refusal = self
            .refused
            .load(Ordering::Acquire)
            .then(|| self.refusal.lock().clone())
            .flatten();
        refusal.map_or(Ok(()), Err)
    }

    fn check_failure(&self) -> Result<()> {
        let failure = self
            .has_failed()
            .then(|| self.failure.lock().clone())
            .flatten();
        failure.map_or(Ok(()), Err)
    }

    fn ask(&self, lsn: u64) -> Result<()> {
        match self.hook.read().as_ref() {
            Some(hook) => hook(lsn),
            None => Ok(()),
        }
    }

    /// In the modes that sync at every commit the journal must be first at every commit.
    fn ask_before_commit(&self, lsn: u64) -> Result<()> {
        match self.sync_mode {
            SyncMode::Durable | SyncMode::NoMetaSync => self.ask(lsn),
            SyncMode::SafeNoSync | SyncMode::UtterlyNoSync => Ok(()),
        }
    }

    /// Notes a commit that left `lsn` as the applied one. Under `writes`.
    fn committed(&self, lsn: u64, retired_bytes: u64) {
        self.retired_bytes
            .fetch_add(retired_bytes, Ordering::Relaxed);
        let previous = self.applied_lsn.swap(lsn, Ordering::SeqCst);
        match self.sync_mode {
            SyncMode::Durable => self.durable_lsn.store(lsn, Ordering::SeqCst),
            SyncMode::NoMetaSync => self.durable_lsn.store(previous, Ordering::SeqCst),
            SyncMode::SafeNoSync | SyncMode::UtterlyNoSync => {}
        }
    }

    /// Brings the pages that were committed to the device, beside writers. No steady point is made, so that the hook has no say.
    pub(crate) fn sync_pages(&self) -> Result<()> {
        self.check_failure()?;
        self.latch(self.env.sync_pages())
    }

    /// Most of the work happens beside writers: the pages go to the device first, and what is left
    /// for the steady point itself, under the lock, is little.
    pub(crate) fn make_steady(&self) -> Result<()> {
        self.check_failure()?;
        self.ask(self.applied_lsn.load(Ordering::SeqCst))?;
        self.latch(self.env.sync_pages())?;
        let _alone = self.writes.lock();
        self.make_steady_alone()
    }

    /// Under `writes`, so that nothing is committed between the hook and the steady point.
    ///
    /// Never after a failure: the system may have dropped pages that it could not write, and the next sync would succeed
    /// without them.
    fn make_steady_alone(&self) -> Result<()> {
        self.check_failure()?;
        let lsn = self.applied_lsn.load(Ordering::SeqCst);
        self.ask(lsn)?;
        self.latch(self.env.sync())?;
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        self.durable_lsn.store(lsn, Ordering::SeqCst);
        self.steady_points.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// libmdbx calls a write that came short, as on a device with less room than asked for, an I/O error. What was
    /// written of the commit is not referred to yet, so that it may be made again; not so if a sync may have failed.
    fn tell_full_disk<T>(&self, outcome: Result<T>) -> Result<T> {
        match (outcome, self.sync_mode) {
            (Err(Error::Io(text)), SyncMode::SafeNoSync | SyncMode::UtterlyNoSync)
                if self.free_space.check_now().is_err() =>
            {
                Err(Error::NoSpace(text))
            }
            (outcome, _) => outcome,
        }
    }

    /// Full disks pass, and failures of the hook are the journal's; anything else stays.
    fn latch<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error @ (Error::Io(_) | Error::Corruption(_) | Error::Engine(_))) = &outcome {
            self.failure.lock().get_or_insert_with(|| error.clone());
            self.failed.store(true, Ordering::Release);
        }
        outcome
    }
}

/// One cursor for the whole batch: neighbouring keys are found from where it stands. (Telling
/// libmdbx that keys are appended is slower: it then looks for the last page every time.)
///
/// Returns the bytes that the commit has retired.
fn apply(txn: WriteTxn<'_>, batch: &WriteBatch) -> Result<u64> {
    let mut cursor = txn.cursor()?;
    for op in batch {
        match op {
            Op::Put(key, value) => cursor.put(key, value)?,
            Op::Delete(key) => cursor.delete(key)?,
        }
    }
    drop(cursor);
    txn.commit()
}

/// Deletes about `step_bytes` of a range; returns the bytes that the commit has retired, too.
fn delete_some(txn: WriteTxn<'_>, range: &KeyRange, step_bytes: u64) -> Result<(Reclaimed, u64)> {
    let start = storable(&range.start);
    let mut cursor = txn.cursor()?;
    let mut bytes = 0;
    let mut done = true;
    loop {
        let from = if start.is_empty() {
            Move::First
        } else {
            Move::AtLeast(start)
        };
        let Some((key, value)) = cursor.read(from)? else {
            break;
        };
        if !range.is_before_end(key) {
            break;
        }
        if bytes >= step_bytes.max(1) {
            done = false;
            break;
        }
        bytes += (key.len() + value.len()) as u64;
        cursor.delete_here()?;
    }
    drop(cursor);
    let retired_bytes = txn.commit()?;
    Ok((Reclaimed { done }, retired_bytes))
}

fn stored_lsn(txn: &ReadTxn) -> Result<u64> {
    let Some(value) = txn.get(APPLIED_LSN_KEY)? else {
        return Ok(0);
    };
    match value.try_into() {
        Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(Error::Corruption(format!(
            "applied LSN has {} bytes instead of 8",
            value.len()
        ))),
    }
}

/// libmdbx would make a new store beside whatever else lies there, or in a file cut short.
fn refuse_foreign_files(directory: &Path) -> Result<()> {
    let place = directory.display();
    if let Ok(metadata) = fs::metadata(directory.join(DATA_FILE)) {
        let length = metadata.len();
        if length < HEAD_BYTES {
            return Err(Error::Corruption(format!(
                "`{place}/{DATA_FILE}` has {length} bytes and its head alone {HEAD_BYTES}"
            )));
        }
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name == LOCK_FILE {
            continue;
        }
        let name = name.to_string_lossy();
        return Err(Error::Incompatible(format!(
            "`{place}` holds `{name}`, which is not libmdbx's"
        )));
    }
    Ok(())
}

/// The part of a bound that libmdbx takes as a key.
pub(crate) fn storable(bound: &[u8]) -> &[u8] {
    &bound[..bound.len().min(KEY_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: &Store, lsn: u64) {
        let mut batch = WriteBatch::new();
        batch.put(b"k", &lsn.to_le_bytes());
        batch.put_applied_lsn(lsn);
        store.write(&batch).unwrap();
    }

    #[test]
    fn what_a_reader_keeps_is_counted_and_not_much_more() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &Options::default()).unwrap();
        let put_all = |value: &[u8], numbers: std::ops::Range<u32>| {
            let mut batch = WriteBatch::new();
            for number in numbers {
                batch.put(&number.to_be_bytes(), value);
            }
            store.write(&batch).unwrap();
        };
        put_all(&[1; 500], 0..20_000);
        let one = |number: u32, value: &[u8]| put_all(value, number..number + 1);
        let small = || (0..2_000).for_each(|n| one(n * 7_919 % 20_000, &[2; 40]));
        let values = || (0..50).for_each(|n| one(n * 11, &[3; 60_000]));
        let values_again = || (0..50).for_each(|n| one(n * 11, &[4; 10]));
        let large = || (0..5u8).for_each(|n| put_all(&[n; 300], 0..20_000));
        let works: [(&str, &dyn Fn()); 4] = [
            ("small commits", &small),
            ("values with pages of their own", &values),
            ("those again", &values_again),
            ("large commits", &large),
        ];
        for (name, work) in works {
            let reader = store.readers.take().unwrap();
            let before = store.retired_bytes.load(Ordering::Relaxed);
            work();
            let counted = store.retired_bytes.load(Ordering::Relaxed) - before;
            let kept = reader.txn().retained_bytes().unwrap();
            assert!(kept > 0 && counted >= kept, "{name}: {counted} of {kept}");
            assert!(counted <= 3 * kept, "{name}: {counted} of {kept}");
        }
    }

    /// The system forgets which pages it could not write: the next sync succeeds without them.
    #[test]
    fn a_sync_that_failed_is_never_tried_again() {
        let options = Options {
            growth_bytes: 1 << 20,
            free_bytes_min: 1 << 20,
            ..Options::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &options).unwrap();
        write(&store, 1);
        store.make_steady().unwrap();
        write(&store, 2);
        let broken = store.env.break_syncs();
        assert!(matches!(store.make_steady(), Err(Error::Io(_))));
        broken.mend();
        assert!(matches!(store.make_steady(), Err(Error::Io(_))));
        assert!(matches!(store.ready(), Readiness::Failed(Error::Io(_))));
        assert_eq!(store.durable_lsn(), Ok(1));
        assert!(matches!(store.close(), Err(Error::Io(_))));
        drop(store);
        let store = Store::open(directory.path(), &options).unwrap();
        assert_eq!(store.durable_lsn(), Ok(1));
    }
}
