//! The one commit path: how a batch gets from the writer who made it to everybody else, and what is promised on the way.
//! Everything that changes data goes through `Commits::commit`: documents, indexes, catalog, drops, counters. This
//! comment is its whole story; the modules that it names tell the details.
//!
//! # What is promised
//!
//! - Batches have one order, the journal's. Each is visible as a whole or not at all, now and after any crash.
//! - Nothing is applied before the journal has it, and what the journal has is never taken back. A write that was
//!   refused has left nothing; one whose fate cannot be known is answered so.
//! - The engine is never durable ahead of the journal.
//! - Memory follows the record: the counters, the high-water mark of idents, the catalog's cache, multikey marks and the
//!   cache of records change only where a record is applied, for a live commit and for replay alike.
//!
//! # The states of a batch
//!
//! ```text
//!  staged ──► forming ──► led ──► accepted ──► applied ──► durable
//!     │                    │          │  └───► held ──►┘
//!     └───── alone ───────►┘          └──────► laid over ─┘
//! ```
//!
//! *Staged* (`write`, `definitions`). The writer holds its collection (`hold`), has locked its records and then its unique keys
//! (`record_locks`), has read the latest and made its batch: a unit of one piece, or of several
//! (`write::unit`). A batch of megabytes waits here for its turn among its like and lets the small ones pass (`large_batches`).
//! So far the writer may be interrupted, and nothing has happened.
//! `commit` puts a header before the batch (`payload`) and gives both to the journal as one record. From here on the
//! writer cannot be interrupted, unless its group is given back.
//!
//! *Forming* (`quarry_journal`, pipeline and queue). The record is copied into the group that forms, under the queue's
//! lock. The first writer of a group leads it on its own thread when the *turn* is free, and otherwise waits for the turn;
//! the others sleep on the group's word. With many writers about, a leader that finds the turn free first lets the others
//! run, and whoever makes the group half of those of late leads in its place. *Alone*: a writer that finds nobody about
//! takes the turn for its own record, past the queue.
//!
//! *Led*. Whoever has the turn owns the appender, one thread at a time. `ready` asks the engine whether it can take the
//! group (no stall, no error, space left), and refuses it where damage was met in the background (`damage`); `finish_group` adds what only commit order can tell: the absolute counts and
//! sizes of the collections that the group touches, exact after any crash because they are in the group, and the
//! high-water mark when idents were given out. A refusal by either, or by the append, is answered to the whole group,
//! which has left nothing behind. A group that meets a stalled engine is given back too: each of its writers then waits by
//! itself and without the turn (`wait_out_stall`), where killOp, maxTimeMS and a stop reach it unless it is the one that
//! waits inside the engine, and comes again. So is one that meets locked files (`write_stop`), for as long as they are.
//!
//! *Accepted*. The journal has written the group with one call. This is the moment of the commit: the group survives a
//! killed process from here on, and stands whatever the engine says. If the group has writers that will wait for its sync
//! (`submit_syncing`), one of them is woken to begin it, beside the leader's next step.
//!
//! *Applied* (`apply_group`, here). Still in its turn, the leader writes the group to the engine as one batch that carries
//! the applied LSN, and memory follows. For a record that changes the catalog the gate is shut from before to after, so
//! that nobody loads what is about to change. Multikey marks are added to the indexes that are loaded before the engine has them, and
//! whoever loads indexes meanwhile adds them, too. The cache of records forgets the changed ones before the engine is written
//! and learns the new ones afterwards. Readers that wait for a commit to one of the collections are
//! told (`watches`), and so are those who read the journal for changes (`interests`). Then the turn goes to the next leader and the writers wake. Locks and holds go with their owners'
//! return.
//!
//! *Held* (`late_writes`). Instead of writing the engine, the leader of a group with a single writer may leave the batch
//! there when its connection is about to reply; the connection hands it over behind the reply. One batch is held at most.
//! Whoever reads the engine, makes a snapshot, commits, syncs or reclaims hands it over first, under the lock of `held`.
//!
//! *Laid over* (`late_writes`). An engine that does not take an accepted batch immediately, live or held, because it refuses
//! it or would let the leader wait, leaves it there with an overlay for readers. `ready` then refuses every later group, and
//! never waits itself, until somebody has handed the batch over (`handing_over`): the one of the writers sent away that waits
//! inside the engine, or, when no writer came, the checkpoint thread, which asks `ready` each half second, a sync or the
//! close. An engine that paces its writers is not even offered the next batches: it would count them twice. That is the one
//! place where a refused group is kept: the journal latches when `apply` fails.
//!
//! *Durable*. A sync that began after the append has ended. One sync serves all writers that wait; a writer that comes
//! during one waits for the next. A writer waits in one of two ways: with `Until::Applied` it wakes when its group is
//! applied, lets its locks go and sleeps again until the sync is over; with `Until::Synced` it sleeps once, with its locks,
//! until both are over. Either way `wait_durable` has the last word. A failed sync latches the journal and is never tried
//! again.
//!
//! # Where a write is acknowledged
//!
//! `{w: 1}`: when `Commits::commit` has returned and its command replies, so after *accepted* and *applied*, *held* or
//! *laid over*. `{j: true}` and `{w: "majority"}`: `Commits::acknowledge` stands between, and returns after *durable*; for
//! a command that changed nothing, or whose changes are several commits, `Commits::settle` calls it.
//!
//! # What readers see
//!
//! | reader | forming, led | accepted | held, laid over | applied |
//! |---|---|---|---|---|
//! | `Reads::get`, a snapshot, a cursor | nothing | nothing | the batch | the batch |
//! | `Reads::get_record` through the cache | nothing | asks the engine while the group is applied | the batch | the batch |
//! | the next writer of the same record | waits for its lock | waits | the batch | the batch |
//! | `counts`, the catalog | nothing | nothing | the batch | the batch |
//! | a reader of the journal | nothing | nothing | the batch, or from *durable* on if it asks for that | the same |
//! | a start after a kill | nothing | the batch | the batch | the batch |
//! | a start after a power cut | nothing | the batch, if a sync came | the same | the same |
//!
//! Between *accepted* and *applied* no reader sees the batch and no writer has been answered, so that nobody can tell the
//! two apart. A reader at `majority` waits until what it saw is durable (`settle`).
//!
//! # Locks, in the order in which they are taken
//!
//! A DDL mutex; the hold of a database (units of several pieces, dropDatabase); the hold of a name under which a collection
//! is made; the hold of a collection; record locks,
//! sorted; unique-key locks, sorted; the turn of a large batch. A large insert into a capped collection, which is held
//! exclusively, takes its turn before the hold; there the wait for either ends after a short time (`large_batches`). Then
//! inside the journal: the turn with the appender, the queue, those of the log. Then in `apply`: this struct's batch, the
//! catalog's gate, its marks, its cache, `handing_over`, `held`, a shard of the cache of records, the counters. A sync takes none of them.
//!
//! # The shortcuts
//!
//! A shortcut changes when things happen and never what is promised. `commitShortcutsOff` starts a server without those that
//! it names, and `make bench-shortcuts` compares servers that go without one with a server that has all, in one run.
//!
//! - *Late writes*: the engine is written behind the reply of a connection that writes alone (*held*).
//! - *Lone writers*: who finds nobody about takes the turn past the queue (*alone*).
//! - *Gathering*: with many writers about a group waits for half of them.
//! - *Early sync*: the sync begins beside the apply, made by a writer of the group that would only sleep.
//! - *Locks over the sync*: a durable insert waits with `Until::Synced` where all others wait with `Until::Applied`: it keeps
//!   its locks until the sync is over, and wakes once instead of twice; hardly anybody waits for so new a document.
//! - The cache of records and busy polling stand beside the path, not in it.
//!
//! # What was rejected
//!
//! - *A thread that writes for all.* Each hand-over to another thread costs about 6 µs on the machines at hand, more than
//!   the append and the apply of a small group together.
//! - *The engine's own log beside the journal.* Every byte would be written and synced twice, and two logs can disagree.
//! - *Syncing inside the turn.* The next group could then form, but not be written, while the disk works.
//! - *Two syncs on the way at the same time*, on two descriptors: between 3 % less and 4 % more durable inserts a second.
//! - *Waking writers by a condition variable.* It costs three times what one futex word a group does.
//! - *Records of writers that do not wait in the same queue.* They left states there that every other writer walked
//!   through; the journal gathers them beside it now (`backlog`).
//! - *A refused group kept by the journal as well.* Readers need it in the database, and a held batch is refused when the
//!   journal knows nothing of it any more.
//! - *Remembering the highest `_id`*, so that ascending inserts need not look whether theirs is there: 16 µs for ten
//!   documents, nothing for one, and a wrong guess would overwrite a document.

pub(crate) mod changed_records;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod commits;
pub(crate) mod damage;
pub(crate) mod definition_event;
pub(crate) mod interests;
pub(crate) mod late_writes;
pub mod payload;
pub(crate) mod refusals;
mod replaced_bytes;
mod replay;
pub(crate) mod session_section;
mod standstill;
pub(crate) mod watches;
pub(crate) mod write_stop;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_journal::{GroupBuilder, HookError, HookErrorKind, Hooks, Payloads};
use quarry_storage::{Engine, Op, Readiness, WriteBatch};
use quarry_timing::{Phase, Work};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::catalog::cache::Catalog;
use crate::commit::changed_records::ChangedRecords;
use crate::commit::damage::Damage;
use crate::commit::interests::Interests;
use crate::commit::late_writes::LateWrites;
use crate::commit::payload::{ALLOCATED, Delta, Header, Payload};
use crate::commit::replaced_bytes::{ReplacedBytes, replaced_by};
use crate::commit::replay::Replay;
use crate::commit::standstill::Standstill;
use crate::commit::watches::{CommitWatch, Watches};
use crate::commit::write_stop::WriteStop;
use crate::error::{Error, Result};
use crate::keyspace::counts::{Counts, decode_counts, encode_counts};
use crate::keyspace::ident::{FIRST_IDENT, Ident};
use crate::keyspace::layout;
use crate::locks::hold::INTERRUPT_TICK;
use crate::operation::check_running;
use crate::record_cache::RecordCache;

/// How often a stalled engine is asked, by one of those who wait for it.
const STALL_TICK: Duration = Duration::from_millis(1);
/// A larger batch of a group gives its memory back.
const BATCH_KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Counters kept in memory; beyond it all are forgotten and read again.
const COUNTERS_CACHED_MAX: usize = 65_536;

/// The last record of a group: what only commit order can tell.
struct Trailer {
    /// The new counters of the collections that the group changes, in the order of their idents.
    counts: SmallVec<[(Ident, Counts); 2]>,
    /// The next ident, if the group uses new ones.
    next_ident: Option<u64>,
}

impl Trailer {
    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.next_ident.is_none()
    }

    /// Appends the record. Each commit has one: it is written where it will stand.
    fn write(&self, record: &mut Vec<u8>) {
        debug_assert!(
            self.counts.is_sorted_by(|(a, _), (b, _)| a < b),
            "a collection's counters stand in a group once"
        );
        Header::PLAIN.write(record);
        for (ident, counts) in &self.counts {
            WriteBatch::append_put(
                record,
                &layout::counters_key(*ident),
                &encode_counts(*counts),
            );
        }
        if let Some(next) = self.next_ident {
            WriteBatch::append_put(record, layout::HIGH_WATER_MARK_KEY, &next.to_le_bytes());
        }
    }
}

/// The journal's hooks: what happens at commit order.
pub struct CommitPath {
    engine: Arc<LateWrites>,
    catalog: Arc<Catalog>,
    records: Option<Arc<RecordCache>>,
    /// Whether a lone writer's batch may be held until its reply is out.
    writes_late: bool,
    /// Only the leader writes it; a reader takes it for one look.
    counters: Mutex<FxHashMap<Ident, Counts>>,
    next_ident: AtomicU64,
    applied: AtomicU64,
    /// Held by the one who asks a stalled engine whether it goes on; the others wait for the lock.
    asks_engine: Mutex<()>,
    /// The database closes: nobody waits for a stalled engine any more.
    is_closing: AtomicBool,
    /// Set: whoever opens the database no longer wants it.
    give_up: Arc<AtomicBool>,
    /// From the start to `end_replay`.
    is_replaying: AtomicBool,
    replay: Mutex<Replay>,
    /// Reused by every leader.
    batch: Mutex<WriteBatch>,
    watches: Watches,
    interests: Arc<Interests>,
    write_stop: WriteStop,
    replaced_bytes: ReplacedBytes,
    damage: Damage,
}

impl CommitPath {
    pub fn new(
        engine: Arc<LateWrites>,
        catalog: Arc<Catalog>,
        records: Option<Arc<RecordCache>>,
        writes_late: bool,
        give_up: Arc<AtomicBool>,
    ) -> Result<CommitPath> {
        let next_ident =
            read_u64(engine.as_ref(), layout::HIGH_WATER_MARK_KEY)?.unwrap_or(FIRST_IDENT);
        let applied = read_u64(engine.as_ref(), layout::APPLIED_LSN_KEY)?.unwrap_or(0);
        Ok(CommitPath {
            engine,
            catalog,
            records,
            writes_late,
            counters: Mutex::default(),
            next_ident: AtomicU64::new(next_ident),
            applied: AtomicU64::new(applied),
            asks_engine: Mutex::new(()),
            is_closing: AtomicBool::new(false),
            give_up,
            is_replaying: AtomicBool::new(true),
            replay: Mutex::default(),
            batch: Mutex::new(WriteBatch::new()),
            watches: Watches::default(),
            interests: Arc::default(),
            write_stop: WriteStop::default(),
            replaced_bytes: ReplacedBytes::default(),
            damage: Damage::default(),
        })
    }

    /// Waits until the engine takes writes again, or has stood still for too long. The caller has no turn in the
    /// journal, so that nobody waits behind it, and the wait ends when the operation that runs on this thread is killed,
    /// runs out of time or loses its client, and when the database closes. The one exception: an engine that paces writes
    /// takes a batch that it has refused only from a thread that waits inside it. One of the waiting writers is that, and
    /// hears nothing before the engine goes on.
    pub fn wait_out_stall(&self, standstill: &mut Standstill) -> Result<()> {
        let _stall = quarry_timing::phase(Phase::Stall);
        let mut cause = String::from("another writer waits inside it");
        loop {
            check_running()?;
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(Error::ShuttingDown);
            }
            if self.write_stop.wait(INTERRUPT_TICK)? {
                standstill.end();
                continue;
            }
            if standstill.is_too_long(self.applied_lsn(), Instant::now()) {
                return Err(Error::WritesRefused {
                    message: format!("the engine is stalled: {cause}"),
                    no_space: false,
                });
            }
            let Some(_asks) = self.asks_engine.try_lock_for(INTERRUPT_TICK) else {
                continue;
            };
            // What else there is to say of the engine the next submission says.
            let Readiness::Stalled { cause: latest } = self.engine.ready() else {
                return Ok(());
            };
            quarry_timing::name(Work::StallCause, quarry_timing::stall_cause(&latest));
            cause = latest;
            if self.engine.catch_up_inside() {
                standstill.end();
                return Ok(());
            }
            std::thread::sleep(STALL_TICK);
        }
    }

    /// The stop of all writes, for whoever copies the files.
    pub fn write_stop(&self) -> &WriteStop {
        &self.write_stop
    }

    /// The damage that was met in the background, if any was.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// From now on nobody waits for a stalled engine.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub fn applied_lsn(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// A number that rises with what the latest state loses. By how much it has risen since a snapshot was made, for which it is asked
    /// before, is about the most that the engine keeps for that snapshot and later ones.
    pub fn replaced_bytes(&self) -> u64 {
        self.replaced_bytes.total(self.engine.as_ref())
    }

    /// Dropped collections and indexes of so many bytes wait from now on until nobody is left who began before.
    pub fn note_drops(&self, bytes: u64) {
        self.replaced_bytes.note_drops(bytes);
    }

    /// The ident that is given out next.
    pub fn next_ident(&self) -> Ident {
        Ident(self.next_ident.load(Ordering::Acquire))
    }

    /// Gives out an ident; the record that uses it must carry `ALLOCATED`.
    pub fn allocate_ident(&self) -> Ident {
        Ident(self.next_ident.fetch_add(1, Ordering::AcqRel))
    }

    pub fn counts(&self, ident: Ident) -> Result<Counts> {
        if let Some(counts) = self.counters.lock().get(&ident) {
            return Ok(*counts);
        }
        let mut counts = Counts::default();
        self.engine
            .get(&layout::counters_key(ident), &mut |value| {
                counts = decode_counts(value);
            })?;
        Ok(counts)
    }

    /// The counters and the high-water mark that a group must carry as one more record.
    fn trailer(&self, payloads: &Payloads<'_>) -> Result<Trailer> {
        let mut changes: SmallVec<[(Ident, i64, i64); 4]> = SmallVec::new();
        let mut allocated = false;
        for (_, bytes) in payloads {
            let payload = Payload::parse(bytes)?;
            allocated |= payload.has(ALLOCATED);
            for delta in payload.deltas().filter(Delta::counts) {
                changes.push((delta.ident, delta.documents, delta.bytes));
            }
        }
        // Stable: the changes of a collection stay in the order of the commits.
        changes.sort_by_key(|(ident, ..)| *ident);
        let mut counts: SmallVec<[(Ident, Counts); 2]> = SmallVec::new();
        for (ident, documents, bytes) in changes {
            match counts.last_mut() {
                Some((last, counts)) if *last == ident => counts.change(documents, bytes),
                _ => {
                    let mut latest = self.counts(ident)?;
                    latest.change(documents, bytes);
                    counts.push((ident, latest));
                }
            }
        }
        Ok(Trailer {
            counts,
            next_ident: allocated.then(|| self.next_ident.load(Ordering::Acquire)),
        })
    }

    /// Takes a group of the journal that is being replayed. Several go to the engine as one batch, which carries the last
    /// one's LSN. Nobody reads meanwhile, so that memory may follow later as well.
    fn replay_group(&self, payloads: &Payloads<'_>) -> Result<()> {
        let mut replay = self.replay.lock();
        for (_, bytes) in payloads {
            replay.forming.add(&Payload::parse(bytes)?)?;
        }
        self.applied.store(payloads.last_lsn(), Ordering::Release);
        if replay.forming.is_full(&self.engine) {
            self.finish_replayed(&mut replay);
            replay.hand_over(&self.engine, &self.catalog)?;
        }
        Ok(())
    }

    /// The journal is replayed: hands over what is left, and waits until the engine has it all. Called before anybody reads or
    /// writes the database.
    pub fn end_replay(&self) -> Result<()> {
        let mut replay = std::mem::take(&mut *self.replay.lock());
        self.is_replaying.store(false, Ordering::Release);
        self.finish_replayed(&mut replay);
        replay.end(&self.engine, &self.catalog)
    }

    /// Gives the batch that has formed the LSN of its last group; memory follows.
    fn finish_replayed(&self, replay: &mut Replay) {
        let forming = &mut replay.forming;
        if forming.batch.is_empty() {
            return;
        }
        let last = self.applied_lsn();
        (forming.batch).put(layout::APPLIED_LSN_KEY, &last.to_le_bytes());
        self.follow(&forming.batch, forming.touches_catalog);
    }

    fn apply_group(&self, payloads: &Payloads<'_>) -> Result<()> {
        let mut own = self.batch.lock();
        own.clear();
        let (mut touches_catalog, mut may_have_marks) = (false, false);
        let (mut writers, mut replaced) = (0, 0);
        let mut changed = ChangedRecords::default();
        for (_, bytes) in payloads {
            let payload = Payload::parse(bytes)?;
            if self.records.is_some() {
                changed.note(&payload);
            }
            touches_catalog |= payload.touches_catalog();
            may_have_marks |= payload.may_have_marks();
            writers += usize::from(payload.changes_len() > 0);
            replaced += replaced_by(&payload);
            own.extend_from_bytes(payload.batch)?;
        }
        let last = payloads.last_lsn();
        debug_assert!(
            last > self.applied.load(Ordering::Relaxed),
            "groups are applied in the order of their LSNs, and none twice"
        );
        own.put(layout::APPLIED_LSN_KEY, &last.to_le_bytes());
        let applying = touches_catalog.then(|| self.catalog.applying());
        let marking = (may_have_marks.then(|| self.catalog.marking(&own))).flatten();
        let records = self
            .records
            .as_ref()
            .map(|cache| changed.begin(cache, &own));
        // Nobody would see marks in a batch that is held.
        let may_be_late = self.writes_late && writers == 1 && !may_have_marks;
        let held = self.engine.apply(&mut own, may_be_late)?;
        drop(marking);
        let batch = held.as_deref().unwrap_or(&own);
        if let Some(records) = &records {
            changed.keep(records, batch);
        }
        self.follow(batch, touches_catalog);
        if let Some(applying) = &applying {
            applying.after(batch);
        }
        self.applied.store(last, Ordering::Release);
        self.replaced_bytes.note_records(replaced);
        drop(held);
        if own.bytes_len() > BATCH_KEPT_BYTES {
            *own = WriteBatch::new();
        }
        self.tell(payloads, touches_catalog)
    }

    /// Tells those who wait for the group.
    #[inline]
    fn tell(&self, payloads: &Payloads<'_>, touches_catalog: bool) -> Result<()> {
        // The question has the fence that the next one needs, too.
        if self.watches.has_readers() {
            self.wake_readers(payloads, touches_catalog)?;
        }
        if self.interests.are_there() {
            self.interests.tell(payloads)?;
        }
        Ok(())
    }

    /// Tells those who wait for a commit of the group's collections. What changes the catalog may end any of them.
    #[cold]
    fn wake_readers(&self, payloads: &Payloads<'_>, touches_catalog: bool) -> Result<()> {
        if touches_catalog {
            self.watches.wake_all();
            return Ok(());
        }
        for (_, bytes) in payloads {
            for delta in Payload::parse(bytes)?.deltas() {
                self.watches.wake(delta.ident);
            }
        }
        Ok(())
    }

    /// Who reads the journal for changes.
    pub fn interests(&self) -> &Arc<Interests> {
        &self.interests
    }

    /// Registers a reader that waits for commits to a collection.
    pub fn watch(&self, ident: Ident) -> CommitWatch<'_> {
        self.watches.register(ident)
    }

    /// Lets counters and the high-water mark in memory follow what was applied.
    fn follow(&self, batch: &WriteBatch, touches_catalog: bool) {
        let mut counters = self.counters.lock();
        if counters.len() > COUNTERS_CACHED_MAX {
            counters.clear();
        }
        for op in batch {
            let key = op.key();
            if key.first() != Some(&0) {
                continue;
            }
            match op {
                Op::Put(key, value) => {
                    if let Some((ident, _)) = layout::split_ident(layout::COUNTERS, key) {
                        counters.insert(ident, decode_counts(value));
                    } else if key == layout::HIGH_WATER_MARK_KEY
                        && let Ok(next) = value.try_into()
                    {
                        self.next_ident
                            .fetch_max(u64::from_le_bytes(next), Ordering::AcqRel);
                    }
                }
                Op::Delete(key) if touches_catalog => {
                    if let Some((ident, _)) = layout::split_ident(layout::COUNTERS, key) {
                        counters.remove(&ident);
                    }
                }
                Op::Delete(_) => {}
            }
        }
    }
}

impl Hooks for CommitPath {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        self.damage.check()?;
        if self.write_stop.is_on() {
            let cause = "the files are locked by fsync";
            return Err(HookError::new(HookErrorKind::Stalled, cause));
        }
        match self.engine.ready() {
            Readiness::Ready => Ok(()),
            Readiness::Failed(error) => Err(storage_hook_error(&error)),
            // Each writer of the group waits by itself (`wait_out_stall`), where it can be interrupted, and comes again.
            Readiness::Stalled { cause } => Err(HookError::new(
                HookErrorKind::Stalled,
                format!("the engine is stalled: {cause}"),
            )),
        }
    }

    fn gives_up(&self) -> bool {
        self.give_up.load(Ordering::Relaxed)
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        // A counter that cannot be read now, of an engine that is damaged or has no room for one more reader, refuses
        // the group: nothing has happened yet.
        let trailer = self.trailer(&group.payloads());
        let trailer = trailer.map_err(|error| hook_error(&error))?;
        if !trailer.is_empty() {
            group.push_payload_with(|record| trailer.write(record));
        }
        Ok(())
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        assert!(
            first_lsn > self.applied_lsn(),
            "group {first_lsn} comes after LSN {}",
            self.applied_lsn()
        );
        let applied = match self.is_replaying.load(Ordering::Acquire) {
            true => self.replay_group(payloads),
            false => self.apply_group(payloads),
        };
        applied.map_err(|error| hook_error(&error))
    }
}

fn hook_error(error: &Error) -> HookError {
    match error {
        Error::Storage(error) => storage_hook_error(error),
        error => HookError::new(HookErrorKind::Failed, error.to_string()),
    }
}

fn storage_hook_error(error: &quarry_storage::Error) -> HookError {
    let kind = if error.is_no_space() {
        HookErrorKind::NoSpace
    } else {
        HookErrorKind::Failed
    };
    HookError::new(kind, error.to_string())
}

pub(crate) fn read_u64(engine: &dyn Engine, key: &[u8]) -> Result<Option<u64>> {
    let mut number = None;
    engine.get(key, &mut |value| {
        number = value.try_into().ok().map(u64::from_le_bytes);
    })?;
    Ok(number)
}
