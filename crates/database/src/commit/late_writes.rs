//! Writing to the engine after the reply: a lone writer's client does not wait for what nobody has asked for yet.
//!
//! The journal is what an acknowledged write survives in; the engine is where reads find it. Between the two a batch may
//! be *held*: a connection that is about to reply (`ReplyFirst`) leaves the batch of a group of its own here, replies,
//! and then hands it to the engine, while its client works on the answer.
//!
//! Kept true:
//! - Nobody sees the difference. Whoever reads the engine, makes a snapshot, commits, syncs or reclaims hands a held batch
//!   over first, so that it all happens as if the write had been made before the reply.
//! - One batch is held at most, and the next group is not appended to the journal before the engine has it.
//! - Nobody who reads waits for an engine that is stalled, or fails with one that refuses the batch: reads then see the
//!   engine with the batch laid over it, and later writers hand it over first. That holds for a batch that was refused
//!   before the reply, too: the journal has it, so the write stands. Nothing is skipped, and nothing that was
//!   acknowledged disappears.
//! - Nobody waits for the engine with the turn. A leader's batch that the engine does not take immediately is laid over it;
//!   one of the writers behind it then waits inside the engine (`catch_up`), without the turn, and the others beside it.
//! - A batch is offered once where the engine counts refused offers as writes: what waited in an engine that paces its writers
//!   shows that the next ones would be refused, so they are laid over it without an offer.
//!
//! It pays while one connection writes. When another one had to hand the batch over, the next groups are written at
//! once, as are large ones, those of several writers, and all of an engine whose writes are durable by themselves.

use std::cell::Cell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use quarry_journal::AbortOnPanic;
use quarry_storage::{
    BeforeDurable, Engine, EngineCounters, Error, KeyRange, Overlay, Readiness, Reclaimed, Result,
    Snapshot, WriteBatch,
};
use quarry_timing::Phase;

/// A larger batch takes so long to write that the next request would wait for it.
const HELD_BYTES_MAX: usize = 256 << 10;
/// After another thread had to hand over a held batch, this many groups are written to the engine immediately.
const GROUPS_AT_ONCE: u32 = 64;
/// After a batch had to wait in an engine that paces writes, this many groups are laid over it without being offered. More
/// would cost small groups the way through another writer; fewer, an offer in vain for each few that fit into a millisecond.
const GROUPS_PACED: u32 = 16;
/// RocksDB makes no writer wait less.
const PACED_WAIT_MIN: Duration = Duration::from_millis(1);
/// A leader offers a refused batch again after so long, in case no writer waits inside the engine.
const OFFERED_AGAIN_AFTER: Duration = Duration::from_millis(100);

thread_local! {
    static REPLIES: Cell<Replies> = const { Cell::new(Replies::AfterWrites) };
}

/// How this thread treats a group that it alone writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replies {
    AfterWrites,
    First,
    /// A batch of its own is held, unless somebody has handed it over since.
    FirstAndHolds,
}

/// The engine as the database sees it. Lock order: `handing_over`, then `held`.
pub struct LateWrites {
    engine: Arc<dyn Engine>,
    /// Changes under `held`.
    is_held: AtomicBool,
    at_once: AtomicU32,
    /// The number of groups that are still to be laid over the engine without an offer.
    paced: AtomicU32,
    keeps_refused: AtomicBool,
    held: Mutex<Held>,
    /// Held by the thread that writes a refused batch: it may wait for the engine, and nobody with the turn waits for it.
    handing_over: Mutex<()>,
}

#[derive(Default)]
struct Held {
    batch: WriteBatch,
    /// The batch as readers see it, once the engine did not take it. From then on it is written under `handing_over` alone.
    refused: Option<Refused>,
}

struct Refused {
    overlay: Overlay,
    /// When the engine said last that it is stalled, if it was that.
    stalled_at: Option<Instant>,
}

impl Refused {
    fn new(batch: &WriteBatch, stalled_at: Option<Instant>) -> Refused {
        Refused {
            overlay: Overlay::new(batch),
            stalled_at,
        }
    }
}

/// While it lives its thread may reply before the engine has what the thread commits; the engine has it when this is
/// dropped.
#[must_use = "the engine is written where it is dropped"]
pub struct ReplyFirst<'d> {
    engine: &'d LateWrites,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl LateWrites {
    pub fn new(engine: Arc<dyn Engine>) -> LateWrites {
        LateWrites {
            engine,
            is_held: AtomicBool::new(false),
            at_once: AtomicU32::new(0),
            paced: AtomicU32::new(0),
            keeps_refused: AtomicBool::new(false),
            held: Mutex::default(),
            handing_over: Mutex::default(),
        }
    }

    pub fn reply_first(&self) -> ReplyFirst<'_> {
        REPLIES.set(Replies::First);
        ReplyFirst {
            engine: self,
            _stays_on_its_thread: PhantomData,
        }
    }

    /// From now on a batch that the engine refuses is kept. Replaying a journal has to fail instead.
    pub fn keep_refused(&self) {
        self.keeps_refused.store(true, Ordering::Relaxed);
    }

    /// Writes the batch of a group, or takes it over to write it later: then it comes back, and readers wait until it is
    /// dropped. Called by the leader of the group, after `ready`.
    pub fn apply(
        &self,
        batch: &mut WriteBatch,
        may_be_late: bool,
    ) -> Result<Option<MappedMutexGuard<'_, WriteBatch>>> {
        self.catch_up()?;
        let mut refused = None;
        if take_one(&self.paced) {
            refused = Some(Refused::new(batch, Some(Instant::now())));
        } else if may_be_late && self.is_wanted_late(batch) {
            REPLIES.set(Replies::FirstAndHolds);
        } else if self.keeps_refused.load(Ordering::Relaxed) {
            // The leader has the turn: it does not wait for an engine that stalls just now.
            let Err(refusal) = self.engine.try_write(batch) else {
                return Ok(None);
            };
            refused = Some(Refused::new(batch, stalled_at(&refusal)));
        } else {
            self.engine.write(batch)?;
            return Ok(None);
        }
        let mut held = self.held.lock();
        debug_assert!(
            !self.is_held.load(Ordering::Relaxed) && held.refused.is_none(),
            "one batch is held at most: the one before was handed over"
        );
        std::mem::swap(&mut held.batch, batch);
        held.refused = refused;
        self.is_held.store(true, Ordering::Release);
        Ok(Some(MutexGuard::map(held, |held| &mut held.batch)))
    }

    fn is_wanted_late(&self, batch: &WriteBatch) -> bool {
        REPLIES.get() != Replies::AfterWrites
            && batch.bytes_len() <= HELD_BYTES_MAX
            && !self.engine.syncs_writes()
            && !take_one(&self.at_once)
    }

    /// Hands a held batch over, waiting for the engine if it must, and no reader with it. Fails if the engine refuses it.
    pub fn catch_up(&self) -> Result<()> {
        if self.behind().is_none() {
            return Ok(());
        }
        let _one = self.handing_over.lock();
        let batch = {
            let mut held = self.held.lock();
            // It may be another one by now, which somebody else would write as well unless it is refused.
            self.try_write(&mut held);
            if held.refused.is_none() {
                return Ok(());
            }
            held.batch.clone()
        };
        let _write = quarry_timing::phase(Phase::EngineWrite);
        let _abort = AbortOnPanic::new();
        let begun = Instant::now();
        self.engine.write(&batch)?;
        if begun.elapsed() >= PACED_WAIT_MIN && self.engine.paces_writes() {
            self.paced.store(GROUPS_PACED, Ordering::Relaxed);
        }
        self.done(&mut self.held.lock());
        Ok(())
    }

    /// Like `catch_up`, but leaves a batch where it is that the engine does not take immediately.
    pub fn catch_up_at_once(&self) {
        drop(self.behind());
    }

    /// Whether the engine by itself takes writes, whatever is still to be written to it.
    pub fn engine_ready(&self) -> Readiness {
        self.engine.ready()
    }

    /// Makes durable what the engine has, and leaves a held batch where it is.
    pub fn sync_but_held(&self) -> Result<()> {
        self.engine.sync()
    }

    /// Hands a batch over by waiting, if need be, inside an engine that says that it is ready. Whether the engine has all.
    pub fn catch_up_inside(&self) -> bool {
        self.engine.ready() == Readiness::Ready && self.catch_up().is_ok()
    }

    /// Whether the engine has everything, or takes what it lacks immediately. Asked by a leader, which has the turn: it waits
    /// neither for the engine nor for another thread that does. What an engine that stalls has refused just now is not offered.
    pub fn caught_up(&self) -> Readiness {
        if self.behind().is_none() {
            return Readiness::Ready;
        }
        let Some(_one) = self.handing_over.try_lock() else {
            return Readiness::Stalled {
                cause: "another thread hands over a batch that the engine did not take".into(),
            };
        };
        let mut held = self.held.lock();
        let Held { batch, refused } = &mut *held;
        let Some(refused) = refused else {
            return Readiness::Ready;
        };
        let refused_at = refused.stalled_at;
        if refused_at.is_some_and(|at| at.elapsed() < OFFERED_AGAIN_AFTER) {
            return Readiness::Stalled {
                cause: "it did not take the last batch immediately".into(),
            };
        }
        let _write = quarry_timing::phase(Phase::EngineWrite);
        let _abort = AbortOnPanic::new();
        let Err(refusal) = self.engine.try_write(batch) else {
            self.done(&mut held);
            return Readiness::Ready;
        };
        refused.stalled_at = stalled_at(&refusal);
        match refusal {
            Error::Stalled(cause) => Readiness::Stalled { cause },
            refusal => Readiness::Failed(refusal),
        }
    }

    /// Hands a held batch over if the engine takes it at once. Else it comes back, locked, for the caller to look through.
    #[inline]
    fn behind(&self) -> Option<MutexGuard<'_, Held>> {
        if !self.is_held.load(Ordering::Acquire) {
            return None;
        }
        let mut held = self.lock();
        self.try_write(&mut held);
        held.refused.is_some().then_some(held)
    }

    #[cold]
    fn lock(&self) -> MutexGuard<'_, Held> {
        if REPLIES.get() == Replies::FirstAndHolds {
            REPLIES.set(Replies::First);
        } else {
            self.at_once.store(GROUPS_AT_ONCE, Ordering::Relaxed);
        }
        self.held.try_lock().unwrap_or_else(|| {
            let _wait = quarry_timing::phase(Phase::CommitWait);
            self.held.lock()
        })
    }

    fn try_write(&self, held: &mut Held) {
        if !self.is_held.load(Ordering::Relaxed) || held.refused.is_some() {
            return;
        }
        let _write = quarry_timing::phase(Phase::EngineWrite);
        let _abort = AbortOnPanic::new();
        match self.engine.try_write(&held.batch) {
            Ok(()) => self.done(held),
            Err(refusal) => {
                held.refused = Some(Refused::new(&held.batch, stalled_at(&refusal)));
                self.at_once.store(GROUPS_AT_ONCE, Ordering::Relaxed);
            }
        }
    }

    /// The engine has the batch.
    fn done(&self, held: &mut Held) {
        debug_assert!(
            self.is_held.load(Ordering::Relaxed),
            "a held batch is handed over once"
        );
        held.refused = None;
        if held.batch.bytes_len() > HELD_BYTES_MAX {
            held.batch = WriteBatch::new();
        }
        self.is_held.store(false, Ordering::Release);
    }
}

/// Whether something was left of the count, of which one is taken. Called by leaders, one at a time.
fn take_one(left: &AtomicU32) -> bool {
    let count = left.load(Ordering::Relaxed);
    if count > 0 {
        left.store(count - 1, Ordering::Relaxed);
    }
    count > 0
}

fn stalled_at(refusal: &Error) -> Option<Instant> {
    matches!(refusal, Error::Stalled(_)).then(Instant::now)
}

impl Drop for ReplyFirst<'_> {
    fn drop(&mut self) {
        if REPLIES.replace(Replies::AfterWrites) != Replies::FirstAndHolds {
            return;
        }
        // Whoever has the lock hands it over.
        if let Some(mut held) = self.engine.held.try_lock() {
            self.engine.try_write(&mut held);
        }
    }
}

impl Engine for LateWrites {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn key_bytes_max(&self) -> usize {
        self.engine.key_bytes_max()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let refused = self.behind();
        let refused = refused.and_then(|held| Some(held.refused.as_ref()?.overlay.clone()));
        match refused {
            None => self.engine.get(key, read),
            Some(refused) => refused.get(key, read, |read| self.engine.get(key, read)),
        }
    }

    fn find_present(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize)) -> Result<()> {
        if self.behind().is_none() {
            return self.engine.find_present(keys, found);
        }
        for (position, key) in keys.iter().enumerate() {
            if self.get(key, &mut |_| {})? {
                found(position);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        // Locked: no later group may come into the snapshot below what is laid over it.
        let behind = self.behind();
        let snapshot = self.engine.snapshot()?;
        let refused = behind.as_ref().and_then(|held| held.refused.as_ref());
        Ok(match refused {
            None => snapshot,
            Some(refused) => refused.overlay.over(snapshot),
        })
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.catch_up()?;
        self.engine.write(batch)
    }

    fn syncs_writes(&self) -> bool {
        self.engine.syncs_writes()
    }

    fn ready(&self) -> Readiness {
        match self.engine.ready() {
            Readiness::Ready => self.caught_up(),
            other => other,
        }
    }

    fn hold_files_still(&self) -> Result<()> {
        self.engine.hold_files_still()
    }

    fn let_files_move(&self) -> Result<()> {
        self.engine.let_files_move()
    }

    fn is_pressed(&self) -> bool {
        self.engine.is_pressed()
    }

    fn paces_writes(&self) -> bool {
        self.engine.paces_writes()
    }

    fn bulk_batch_bytes(&self) -> usize {
        self.engine.bulk_batch_bytes()
    }

    fn begin_sync(&self) {
        self.engine.begin_sync();
    }

    fn end_replay(&self) {
        self.engine.end_replay();
    }

    fn sync(&self) -> Result<()> {
        let caught_up = self.catch_up();
        // What a sync frees may be what the engine lacks.
        self.engine.sync()?;
        caught_up
    }

    fn durable_lsn(&self) -> Result<u64> {
        self.engine.durable_lsn()
    }

    /// All that the engine does not have yet is in the journal, like whatever else its copy lacks.
    fn copy_to(&self, directory: &Path) -> Result<()> {
        self.engine.copy_to(directory)
    }

    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        // What is reclaimed may have been dropped by a batch that the engine does not have yet.
        self.catch_up()?;
        self.engine.reclaim(range, step_bytes)
    }

    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.engine.size_estimate(range)
    }

    fn counters(&self) -> EngineCounters {
        self.engine.counters()
    }

    fn retired_bytes(&self) -> Option<u64> {
        self.engine.retired_bytes()
    }

    fn stop_waiting(&self) {
        self.engine.stop_waiting();
    }

    fn close(&self) -> Result<()> {
        // An engine that says that it is ready gets what it has refused, after the moment for which it makes writers wait.
        // What it does not take then the next start replays: a close does not wait for an engine that stalls.
        if !self.catch_up_inside() {
            self.catch_up_at_once();
        }
        self.engine.close()
    }

    fn set_before_durable(&self, hook: BeforeDurable) {
        self.engine.set_before_durable(hook);
    }
}
