//! An engine that fails on command.
//!
//! For tests of what happens between the journal's append and the engine's write: the readiness
//! check passes and the write then fails, or stands still until released, or the space runs out.
//! Reads go through, unless gets are told to fail.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{
    BeforeDurable, Engine, EngineCounters, Error, KeyRange, Readiness, Reclaimed, Result, Snapshot,
    WriteBatch,
};

/// Wraps an engine; the switches act on everybody's calls at once.
pub struct Faulty {
    inner: Arc<dyn Engine>,
    switches: Mutex<Switches>,
    released: Condvar,
}

#[derive(Default)]
struct Switches {
    readiness: Option<Readiness>,
    /// How often [`Engine::ready`] has told a caller of `readiness`.
    told: usize,
    write_error: Option<(usize, Error)>,
    get_error: Option<Error>,
    sync_error: Option<Error>,
    hold_writes: bool,
    /// [`Engine::try_write`] stands still too.
    hold_tries: bool,
    pace: Option<Pace>,
    syncs_writes: bool,
    held: usize,
    hold_syncs: bool,
    held_syncs: usize,
    hold_pauses: bool,
    held_pauses: usize,
    is_paused: bool,
    panic_in_sync: bool,
}

/// Writes are as far apart as their bytes take at a rate. Like RocksDB's, it charges before it looks whether the writer waits.
struct Pace {
    bytes_per_s: u64,
    charged_bytes: u64,
    /// Everything that was charged is paid then.
    is_paid: Instant,
}

impl Pace {
    /// Until when a write of so many bytes waits.
    fn charge(&mut self, bytes: usize) -> Instant {
        let bytes = bytes as u64;
        self.charged_bytes += bytes;
        let costs = Duration::from_nanos(bytes * 1_000_000_000 / self.bytes_per_s);
        self.is_paid = self.is_paid.max(Instant::now()) + costs;
        self.is_paid
    }
}

impl Faulty {
    /// Wraps `inner`; every switch is off at first.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>) -> Self {
        Self {
            inner,
            switches: Mutex::default(),
            released: Condvar::new(),
        }
    }

    /// The next `count` writes fail with `error`, though [`Engine::ready`] says ready.
    pub fn fail_next_writes(&self, count: usize, error: Error) {
        self.switches.lock().write_error = Some((count, error));
    }

    /// Every [`Engine::get`] fails with `error` until [`Faulty::heal`].
    pub fn fail_gets(&self, error: Error) {
        self.switches.lock().get_error = Some(error);
    }

    /// Writes fail for lack of space, and [`Engine::ready`] says so, until [`Faulty::heal`].
    pub fn no_space(&self) {
        let error = Error::NoSpace("switched off by a test".into());
        let mut switches = self.switches.lock();
        switches.readiness = Some(Readiness::Failed(error.clone()));
        switches.write_error = Some((usize::MAX, error));
    }

    /// [`Engine::ready`] reports a stall until [`Faulty::heal`]; writes themselves go through.
    pub fn stall(&self) {
        self.switches.lock().readiness = Some(Readiness::Stalled {
            cause: "switched on by a test".into(),
        });
    }

    /// [`Engine::ready`] reports that work in the background has failed with `error`, until [`Faulty::heal`]; writes themselves
    /// go through.
    pub fn fail_in_background(&self, error: Error) {
        self.switches.lock().readiness = Some(Readiness::Failed(error));
    }

    /// How many callers of [`Engine::ready`] were told of a stall or of missing space since it was switched on.
    #[must_use]
    pub fn told_unready(&self) -> usize {
        self.switches.lock().told
    }

    /// Writes stand still inside the call until [`Faulty::heal`].
    pub fn hold_writes(&self) {
        self.switches.lock().hold_writes = true;
    }

    /// Like [`Faulty::hold_writes`], but [`Engine::try_write`] stands still too: an engine that is slow, not stalled.
    pub fn hold_all_writes(&self) {
        let mut switches = self.switches.lock();
        (switches.hold_writes, switches.hold_tries) = (true, true);
    }

    /// From now on writes are paced, and [`Engine::try_write`] is charged and refused, until [`Faulty::heal`].
    ///
    /// # Panics
    ///
    /// Without a rate.
    pub fn pace_writes(&self, bytes_per_s: u64) {
        assert!(bytes_per_s > 0, "a pace needs a rate");
        self.switches.lock().pace = Some(Pace {
            bytes_per_s,
            charged_bytes: 0,
            is_paid: Instant::now(),
        });
    }

    /// The bytes of all writes since [`Faulty::pace_writes`], refused ones included.
    #[must_use]
    pub fn charged_bytes(&self) -> u64 {
        let switches = self.switches.lock();
        switches.pace.as_ref().map_or(0, |pace| pace.charged_bytes)
    }

    /// Writes that stand still now.
    #[must_use]
    pub fn held_writes(&self) -> usize {
        self.switches.lock().held
    }

    /// [`Engine::syncs_writes`] says so until [`Faulty::heal`].
    pub fn sync_writes(&self) {
        self.switches.lock().syncs_writes = true;
    }

    /// Syncs stand still inside the call until [`Faulty::heal`].
    pub fn hold_syncs(&self) {
        self.switches.lock().hold_syncs = true;
    }

    /// Syncs that stand still now.
    #[must_use]
    pub fn held_syncs(&self) -> usize {
        self.switches.lock().held_syncs
    }

    /// [`Engine::hold_files_still`] stands still inside the call until [`Faulty::heal`].
    pub fn hold_pauses(&self) {
        self.switches.lock().hold_pauses = true;
    }

    /// Calls of [`Engine::hold_files_still`] that stand still now.
    #[must_use]
    pub fn held_pauses(&self) -> usize {
        self.switches.lock().held_pauses
    }

    /// Whether the files are held still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.switches.lock().is_paused
    }

    /// The next sync panics.
    pub fn panic_in_next_sync(&self) {
        self.switches.lock().panic_in_sync = true;
    }

    /// Every sync fails with `error` until [`Faulty::heal`].
    pub fn fail_syncs(&self, error: Error) {
        self.switches.lock().sync_error = Some(error);
    }

    /// Takes back every switch and lets held writes go on.
    pub fn heal(&self) {
        let mut switches = self.switches.lock();
        *switches = Switches {
            held: switches.held,
            held_syncs: switches.held_syncs,
            held_pauses: switches.held_pauses,
            is_paused: switches.is_paused,
            ..Switches::default()
        };
        self.released.notify_all();
    }

    /// Charges a write of so many bytes; how long it has to wait.
    fn charge(&self, bytes: usize) -> Duration {
        let mut switches = self.switches.lock();
        let until = switches.pace.as_mut().map(|pace| pace.charge(bytes));
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    fn pass_write(&self) -> Result<()> {
        let mut switches = self.switches.lock();
        switches.held += 1;
        while switches.hold_writes {
            self.released.wait(&mut switches);
        }
        switches.held -= 1;
        let Some((left, error)) = &mut switches.write_error else {
            return Ok(());
        };
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(error.clone())
    }
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if let Some(error) = &self.switches.lock().get_error {
            return Err(error.clone());
        }
        self.inner.get(key, read)
    }

    fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        self.inner.find_present(keys, found)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.inner.snapshot()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        std::thread::sleep(self.charge(batch.bytes_len()));
        self.pass_write()?;
        self.inner.write(batch)
    }

    fn try_write(&self, batch: &WriteBatch) -> Result<()> {
        let (holds, waits) = {
            let switches = self.switches.lock();
            (switches.hold_writes, switches.hold_tries)
        };
        if holds && !waits {
            return Err(Error::Stalled("held by a test".into()));
        }
        if !self.charge(batch.bytes_len()).is_zero() {
            return Err(Error::Stalled("paced by a test".into()));
        }
        self.pass_write()?;
        self.inner.write(batch)
    }

    fn syncs_writes(&self) -> bool {
        self.switches.lock().syncs_writes || self.inner.syncs_writes()
    }

    fn ready(&self) -> Readiness {
        let switched = {
            let mut switches = self.switches.lock();
            switches.told += usize::from(switches.readiness.is_some());
            switches.readiness.clone()
        };
        switched.unwrap_or_else(|| self.inner.ready())
    }

    fn hold_files_still(&self) -> Result<()> {
        let mut switches = self.switches.lock();
        switches.held_pauses += 1;
        while switches.hold_pauses {
            self.released.wait(&mut switches);
        }
        switches.held_pauses -= 1;
        drop(switches);
        self.inner.hold_files_still()?;
        self.switches.lock().is_paused = true;
        Ok(())
    }

    fn let_files_move(&self) -> Result<()> {
        self.inner.let_files_move()?;
        self.switches.lock().is_paused = false;
        Ok(())
    }

    fn is_pressed(&self) -> bool {
        self.inner.is_pressed()
    }

    fn paces_writes(&self) -> bool {
        self.switches.lock().pace.is_some() || self.inner.paces_writes()
    }

    fn sync(&self) -> Result<()> {
        let mut switches = self.switches.lock();
        assert!(
            !std::mem::take(&mut switches.panic_in_sync),
            "switched on by a test"
        );
        switches.held_syncs += 1;
        while switches.hold_syncs {
            self.released.wait(&mut switches);
        }
        switches.held_syncs -= 1;
        if let Some(error) = &switches.sync_error {
            return Err(error.clone());
        }
        drop(switches);
        self.inner.sync()
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.inner.durable_lsn()
    }

    fn copy_to(&self, directory: &Path) -> Result<()> {
        self.inner.copy_to(directory)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        self.pass_write()?;
        self.inner.reclaim(range, step_bytes)
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.inner.size_estimate(range)
    }

    fn counters(&self) -> EngineCounters {
        self.inner.counters()
    }

    fn stop_waiting(&self) {
        let mut switches = self.switches.lock();
        (switches.hold_writes, switches.hold_syncs) = (false, false);
        switches.hold_pauses = false;
        let stopped = Error::Closed;
        switches.write_error = Some((usize::MAX, stopped.clone()));
        switches.sync_error = Some(stopped);
        self.released.notify_all();
        drop(switches);
        self.inner.stop_waiting();
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.inner.set_before_durable(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    fn put(engine: &dyn Engine, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, b"v");
        engine.write(&batch)
    }

    #[test]
    fn a_failed_write_leaves_nothing_and_the_next_passes() {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        faulty.fail_next_writes(1, Error::Io("torn".into()));
        assert_eq!(faulty.ready(), Readiness::Ready);
        assert_eq!(put(&faulty, b"a"), Err(Error::Io("torn".into())));
        assert!(!faulty.get(b"a", &mut |_| ()).unwrap());
        put(&faulty, b"a").unwrap();
        assert!(faulty.get(b"a", &mut |_| ()).unwrap());
    }

    #[test]
    fn space_runs_out_and_returns() {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        faulty.no_space();
        assert!(matches!(faulty.ready(), Readiness::Failed(error) if error.is_no_space()));
        assert!(put(&faulty, b"a").unwrap_err().is_no_space());
        faulty.heal();
        put(&faulty, b"a").unwrap();
    }

    #[test]
    fn held_writes_wait_for_the_release() {
        let faulty = Faulty::new(Arc::new(Memory::new()));
        faulty.hold_writes();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| put(&faulty, b"a"));
            while faulty.held_writes() == 0 {
                std::thread::yield_now();
            }
            assert!(!faulty.get(b"a", &mut |_| ()).unwrap());
            faulty.heal();
            writer.join().unwrap().unwrap();
        });
        assert!(faulty.get(b"a", &mut |_| ()).unwrap());
    }
}
