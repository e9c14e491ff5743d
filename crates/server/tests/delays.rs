//! A delay that is put into one place shows in the phase of that place and in no other, and a wait names its cause.
//!
//! The delays come through the seams below the commands: a wrapped engine, wrapped journal files, held locks. The
//! socket's own phases are looked at in the tests of the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawValue, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_journal::SimulatedFiles;
use quarry_journal::files::{File, FileEntry, Files};
use quarry_query::exec::{self, FindRequest, InsertRequest, UpdateRequest};
use quarry_storage::{
    BeforeDurable, Cursor, Engine, EngineCounters, Faulty, KeyRange, Memory, Readiness, Reclaimed,
    Result, Snapshot, WriteBatch,
};
use quarry_timing::{Breakdown, Observer, Phase, Work};

const DELAY: Duration = Duration::from_millis(100);
/// A wait for another thread that ends in error.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A place that can be slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Nowhere,
    Get,
    Next,
    Write,
    JournalWrite,
    JournalSync,
}

#[derive(Default)]
struct Switch(AtomicU8);

impl Switch {
    fn set(&self, place: Place) {
        self.0.store(place as u8, SeqCst);
    }

    fn pass(&self, place: Place) {
        if self.0.load(SeqCst) == place as u8 {
            thread::sleep(DELAY);
        }
    }
}

struct Slow {
    inner: Arc<Faulty>,
    switch: Arc<Switch>,
}

impl Engine for Slow {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.switch.pass(Place::Get);
        self.inner.get(key, read)
    }
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(SlowSnapshot {
            inner: self.inner.snapshot()?,
            switch: Arc::clone(&self.switch),
        }))
    }
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.switch.pass(Place::Write);
        self.inner.write(batch)
    }
    fn ready(&self) -> Readiness {
        self.inner.ready()
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn durable_lsn(&self) -> Result<u64> {
        self.inner.durable_lsn()
    }
    fn reclaim(&self, range: KeyRange, step_bytes: u64) -> Result<Reclaimed> {
        self.inner.reclaim(range, step_bytes)
    }
    fn size_estimate(&self, range: &KeyRange) -> Result<u64> {
        self.inner.size_estimate(range)
    }
    fn counters(&self) -> EngineCounters {
        self.inner.counters()
    }
    fn close(&self) -> Result<()> {
        self.inner.close()
    }
    fn set_before_durable(&self, hook: BeforeDurable) {
        self.inner.set_before_durable(hook);
    }
}

struct SlowSnapshot {
    inner: Box<dyn Snapshot>,
    switch: Arc<Switch>,
}

impl Snapshot for SlowSnapshot {
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.switch.pass(Place::Get);
        self.inner.get(key, read)
    }
    fn cursor<'s>(&'s self, range: KeyRange) -> Result<Box<dyn Cursor + 's>> {
        Ok(Box::new(SlowCursor {
            inner: self.inner.cursor(range)?,
            switch: &self.switch,
        }))
    }
    fn share(&mut self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(SlowSnapshot {
            inner: self.inner.share()?,
            switch: Arc::clone(&self.switch),
        }))
    }
}

struct SlowCursor<'s> {
    inner: Box<dyn Cursor + 's>,
    switch: &'s Switch,
}

impl Cursor for SlowCursor<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek(key)
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek_before(key)
    }
    fn first(&mut self) -> Result<()> {
        self.inner.first()
    }
    fn last(&mut self) -> Result<()> {
        self.inner.last()
    }
    fn next(&mut self) -> Result<()> {
        self.switch.pass(Place::Next);
        self.inner.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn key(&self) -> &[u8] {
        self.inner.key()
    }
    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

struct SlowFiles {
    inner: SimulatedFiles,
    switch: Arc<Switch>,
}

struct SlowFile {
    inner: Arc<dyn File>,
    switch: Arc<Switch>,
}

impl SlowFiles {
    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile {
            inner,
            switch: Arc::clone(&self.switch),
        })
    }
}

impl Files for SlowFiles {
    fn list(&self) -> io::Result<Vec<FileEntry>> {
        self.inner.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create(name)?))
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

impl File for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.switch.pass(Place::JournalWrite);
        self.inner.write_at(bytes, offset)
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.switch.pass(Place::JournalSync);
        self.inner.sync()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

struct Setup {
    database: Arc<Database>,
    engine: Arc<Faulty>,
    switch: Arc<Switch>,
}

fn namespace() -> Namespace {
    Namespace::parse("db.things").unwrap()
}

impl Setup {
    fn new() -> Setup {
        let switch = Arc::new(Switch::default());
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let slow = Slow {
            inner: Arc::clone(&engine),
            switch: Arc::clone(&switch),
        };
        let files = SlowFiles {
            inner: SimulatedFiles::new(),
            switch: Arc::clone(&switch),
        };
        let options = Options {
            commit_interval_ms: 0,
            ..Options::default()
        };
        let database = Database::open_on(Arc::new(slow), Arc::new(files), options).unwrap();
        let setup = Setup {
            database: Arc::new(database),
            engine,
            switch,
        };
        for id in 0..4 {
            setup.insert(&doc! { "_id": id, "a": id }, Level::Written);
        }
        setup
    }

    fn insert(&self, document: &Document, level: Level) {
        let documents = [document.as_raw()];
        let operation = Operation::default();
        let namespace = namespace();
        let request = InsertRequest::new(&namespace, &documents);
        let outcome = exec::insert((&*self.database).into(), &operation, request, level);
        assert!(outcome.unwrap().errors.is_empty());
    }

    fn find(&self, filter: &Document) -> usize {
        let operation = Operation::default();
        let namespace = namespace();
        let mut request = FindRequest::new(&namespace);
        request.filter = filter.as_raw();
        let mut executor = exec::find((&*self.database).into(), &operation, request).unwrap();
        let (mut found, mut document) = (0, Vec::new());
        while executor.next(&operation, &mut document).unwrap() {
            found += 1;
        }
        found
    }

    fn update(&self, id: i32) {
        let namespace = namespace();
        let (filter, update) = (doc! { "_id": id }, doc! { "$inc": doc! { "a": 1 } });
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert: false,
            is_multi: false,
            hint: None,
            keeps_empty_timestamps: false,
        };
        let operation = Operation::default();
        let outcome = exec::update(
            (&*self.database).into(),
            &operation,
            request,
            Level::Written,
        )
        .unwrap();
        assert_eq!(outcome.modified, 1);
    }

    /// Runs the operation with one place slow; returns where its time went.
    fn slow(&self, place: Place, run: impl FnOnce(&Setup)) -> Breakdown {
        self.switch.set(place);
        let breakdown = timed(|| run(self));
        self.switch.set(Place::Nowhere);
        breakdown
    }
}

fn timed(run: impl FnOnce()) -> Breakdown {
    quarry_timing::begin_operation_in(Phase::Execute);
    run();
    quarry_timing::finish_operation().breakdown()
}

/// The delay stands in `phase` and nowhere else.
fn assert_in(breakdown: &Breakdown, phase: Phase) {
    for (entered, ns) in breakdown.entered() {
        let time = Duration::from_nanos(ns);
        if entered == phase {
            // The clock's rate is fine only once it has run for a while.
            assert!(
                time >= DELAY * 95 / 100,
                "{phase:?} is {time:?}: {breakdown:?}"
            );
        } else {
            assert!(time < DELAY / 2, "{entered:?} is {time:?} beside {phase:?}");
        }
    }
    assert!(breakdown.phase_ns(phase) > 0, "{phase:?} was not entered");
    assert!(Duration::from_nanos(breakdown.unattributed_ns) < DELAY / 2);
}

#[test]
fn a_slow_engine_shows_in_its_phases() {
    let setup = Setup::new();
    let find_one = |setup: &Setup| assert_eq!(setup.find(&doc! { "_id": 1 }), 1);
    assert_in(&setup.slow(Place::Get, find_one), Phase::EngineRead);
    let scan = |setup: &Setup| assert_eq!(setup.find(&doc! { "a": 1 }), 1);
    assert_in(&setup.slow(Place::Next, scan), Phase::EngineScan);
    let insert = |setup: &Setup| setup.insert(&doc! { "_id": 10 }, Level::Written);
    assert_in(&setup.slow(Place::Write, insert), Phase::EngineWrite);
    let insert_late = |setup: &Setup| {
        let replying_first = setup.database.reply_first();
        setup.insert(&doc! { "_id": 11 }, Level::Written);
        let so_far = quarry_timing::breakdown();
        assert!(Duration::from_nanos(so_far.phase_ns(Phase::EngineWrite)) < DELAY / 2);
        drop(replying_first);
    };
    assert_in(&setup.slow(Place::Write, insert_late), Phase::EngineWrite);
}

#[test]
fn a_slow_journal_shows_as_append_or_as_sync() {
    let setup = Setup::new();
    let insert = |setup: &Setup| setup.insert(&doc! { "_id": 10 }, Level::Written);
    let append = setup.slow(Place::JournalWrite, insert);
    assert_in(&append, Phase::JournalAppend);
    assert_eq!(append.work(Work::GroupWriters), 1);
    assert_eq!(append.work(Work::Sync), 0);
    let insert = |setup: &Setup| setup.insert(&doc! { "_id": 11 }, Level::Durable);
    let sync = setup.slow(Place::JournalSync, insert);
    assert_in(&sync, Phase::SyncWait);
    assert!(sync.work(Work::Sync) > 0);
}

#[test]
fn index_keys_that_take_long_show_as_key_generation() {
    let setup = Setup::new();
    let index = [doc! { "key": doc! { "b": 1 } }];
    let operation = Operation::default();
    let created = setup
        .database
        .create_indexes(&namespace(), &index, &operation, Level::Written);
    created.unwrap();
    let insert = |field: &str, id: i32| {
        // Equal values: many keys to make, and one to store.
        let values = vec![7; 100_000];
        let mut document = doc! { "_id": id };
        document.append(field, values);
        timed(|| setup.insert(&document, Level::Written))
    };
    // The least of several: whatever else runs on the machine makes single ones longer in any phase.
    let pairs: Vec<_> = (0..5)
        .map(|pair| (insert("c", 20 + 2 * pair), insert("b", 21 + 2 * pair)))
        .collect();
    let growth = |phase: Phase| {
        let without = pairs.iter().map(|(without, _)| without.phase_ns(phase));
        let with = pairs.iter().map(|(_, with)| with.phase_ns(phase));
        with.min().unwrap().saturating_sub(without.min().unwrap())
    };
    let others: u64 = Phase::ALL
        .into_iter()
        .filter(|phase| *phase != Phase::KeyGen)
        .map(growth)
        .sum();
    assert!(growth(Phase::KeyGen) > 2 * others, "{pairs:?}");
}

/// Waits until another thread's operation is in `phase`.
fn await_phase(observer: Observer, phase: Phase) {
    let deadline = Instant::now() + WAIT_MAX;
    while observer.look().and_then(|glimpse| glimpse.phase) != Some(phase) {
        assert!(Instant::now() < deadline, "never in {phase:?}");
        thread::yield_now();
    }
}

/// Starts an operation on a thread of its own; gives its observer and, later, its breakdown.
fn start<'s>(
    scope: &'s thread::Scope<'s, '_>,
    tag: u64,
    run: impl FnOnce() + Send + 's,
) -> (Observer, thread::ScopedJoinHandle<'s, Breakdown>) {
    let (shown, seen) = channel();
    let handle = scope.spawn(move || {
        let attached = quarry_timing::attach();
        quarry_timing::begin_operation_in(Phase::Execute);
        quarry_timing::tag_operation(tag);
        shown.send(attached.observer()).unwrap();
        run();
        quarry_timing::finish_operation().breakdown()
    });
    (seen.recv().unwrap(), handle)
}

#[test]
fn waiting_for_a_record_names_its_holder() {
    let setup = Setup::new();
    thread::scope(|scope| {
        setup.engine.hold_writes();
        let (_, holder) = start(scope, 77, || setup.update(1));
        let deadline = Instant::now() + WAIT_MAX;
        while setup.engine.held_writes() == 0 {
            assert!(Instant::now() < deadline, "the holder never wrote");
            thread::yield_now();
        }
        let (observer, waiter) = start(scope, 78, || setup.update(1));
        await_phase(observer, Phase::LockWait);
        thread::sleep(DELAY);
        let glimpse = observer.look().unwrap();
        assert_eq!(glimpse.breakdown.work(Work::LockHolder), 77);
        setup.engine.heal();
        let holder = holder.join().unwrap();
        assert_eq!(holder.work(Work::LockHolder), 0);
        let waiter = waiter.join().unwrap();
        assert_eq!(waiter.work(Work::LockHolder), 77);
        assert_in(&waiter, Phase::LockWait);
    });
}

#[test]
fn waiting_for_another_writers_group_is_a_phase_of_its_own() {
    let setup = Setup::new();
    thread::scope(|scope| {
        setup.engine.hold_writes();
        let (_, leader) = start(scope, 0, || setup.update(1));
        let deadline = Instant::now() + WAIT_MAX;
        while setup.engine.held_writes() == 0 {
            assert!(Instant::now() < deadline, "the leader never wrote");
            thread::yield_now();
        }
        let (observer, waiter) = start(scope, 0, || setup.update(2));
        await_phase(observer, Phase::CommitWait);
        thread::sleep(DELAY);
        setup.engine.heal();
        let (leader, waiter) = (leader.join().unwrap(), waiter.join().unwrap());
        assert_in(&waiter, Phase::CommitWait);
        assert_eq!(waiter.work(Work::Group), leader.work(Work::Group) + 1);
    });
}

#[test]
fn a_stalled_engine_shows_as_a_stall() {
    let setup = Setup::new();
    thread::scope(|scope| {
        setup.engine.stall();
        let (observer, writer) = start(scope, 0, || setup.update(1));
        await_phase(observer, Phase::Stall);
        thread::sleep(DELAY);
        setup.engine.heal();
        let writer = writer.join().unwrap();
        assert_in(&writer, Phase::Stall);
        let cause = quarry_timing::stall_cause_text(writer.work(Work::StallCause));
        assert_eq!(cause.as_deref(), Some("switched on by a test"));
    });
}
