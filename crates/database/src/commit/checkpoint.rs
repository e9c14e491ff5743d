//! Checkpoints: the engine's durable point moves on, and the journal frees the segments behind it.
//!
//! Engines move it by themselves; one is forced only when the journal has grown long. A forced one syncs the journal and
//! the engine beside everybody's writes and syncs, which are slower for it. So an operation that waited for the journal
//! while one ran names it: its waits then have a cause to look at.
//!
//! What fails here is tried again at the next tick. Writes need not fail for it, so that whoever runs the server hears of it
//! from here: once when it begins, and once when it is over.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use quarry_journal::Journal;
use quarry_storage::{Engine, FreeSpace};
use quarry_timing::Work;

use crate::error::Result;

/// How often the durable point is looked at.
pub(crate) const CHECKPOINT_TICK: Duration =
    Duration::from_millis(if cfg!(test) { 10 } else { 500 });
/// A checkpoint is forced when the journal's files behind the durable point take more than this, which is several of its
/// segments. What is kept only for the journal's window does not count: no checkpoint makes it less.
const JOURNAL_BYTES_BEFORE_CHECKPOINT: u64 = if cfg!(test) { 6 << 20 } else { 256 << 20 };

/// Where less than this is free, twice what engines want to be free, segments that the journal keeps for its window alone go:
/// before a write is refused for want of space.
pub(crate) const FREE_BYTES_BESIDE_WINDOW: u64 = 512 << 20;

/// Called with what keeps segments from being freed or made, and with nothing once it is over.
pub type OnTrouble = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The numbers of the forced checkpoints, of which one runs while they differ, and what was last told to be in the way.
#[derive(Default)]
pub(crate) struct Checkpoints {
    begun: AtomicU64,
    ended: AtomicU64,
    /// When the engine's durable point was last seen to have moved, in milliseconds since the epoch; 0 for not yet.
    last_ms: AtomicU64,
    was_looked_at: AtomicBool,
    troubles: Mutex<Troubles>,
    /// The device under the journal, if it is on one.
    space: OnceLock<FreeSpace>,
}

#[derive(Default)]
struct Troubles {
    told: Option<String>,
    on_trouble: Option<OnTrouble>,
}

impl Checkpoints {
    pub fn on_trouble(&self, on_trouble: OnTrouble) {
        self.troubles.lock().on_trouble = Some(on_trouble);
    }

    /// From now on the journal's window gives way where the device has less free space than is asked of it.
    pub fn keep_free(&self, space: FreeSpace) {
        // Set once, by whoever opens the database.
        let _ = self.space.set(space);
    }

    /// Frees journal segments up to the engine's durable point, and forces one when the journal has grown long; `beside` is
    /// what the same thread does then. Tells of what fails, and gives it back. One thread calls it.
    pub fn tick(
        &self,
        engine: &dyn Engine,
        journal: &Journal,
        last_durable: &mut u64,
        beside: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let stepped = self.step(engine, journal, last_durable);
        let done = stepped.and(beside());
        let failed = done.as_ref().err().map(ToString::to_string);
        self.note(failed.or_else(|| journal.trouble()));
        done
    }

    /// Tells of a change.
    fn note(&self, trouble: Option<String>) {
        let mut troubles = self.troubles.lock();
        if troubles.told == trouble {
            return;
        }
        if let Some(on_trouble) = &troubles.on_trouble {
            on_trouble(trouble.as_deref());
            troubles.told = trouble;
        }
    }

    fn step(&self, engine: &dyn Engine, journal: &Journal, last_durable: &mut u64) -> Result<()> {
        self.give_way(journal)?;
        let mut durable = engine.durable_lsn()?;
        let needed_bytes = journal.bytes_needed_after(durable);
        if needed_bytes > JOURNAL_BYTES_BEFORE_CHECKPOINT && durable == *last_durable {
            let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
            let forced = force(engine, journal);
            self.ended.store(number, Ordering::Relaxed);
            forced?;
            durable = engine.durable_lsn()?;
        }
        let was_looked_at = self.was_looked_at.swap(true, Ordering::Relaxed);
        if durable > *last_durable {
            journal.checkpointed(durable)?;
            *last_durable = durable;
            // The first look finds the point that was there when the database was opened.
            if was_looked_at {
                self.last_ms.store(unix_ms(), Ordering::Relaxed);
            }
        }
        // A server that nobody writes to reaches no new durable point, and its window ends all the same.
        journal.free_outlived(durable)?;
        Ok(())
    }

    /// Gives up the window's oldest segments as long as the device is short of space.
    fn give_way(&self, journal: &Journal) -> Result<()> {
        let Some(space) = self.space.get() else {
            return Ok(());
        };
        let is_short = || space.check_now().is_err_and(|error| error.is_no_space());
        while is_short() && journal.free_oldest_of_window()? > 0 {}
        Ok(())
    }

    /// When the engine's durable point last moved, in milliseconds since the epoch; none where it has not since the start.
    pub fn last_ms(&self) -> Option<u64> {
        Some(self.last_ms.load(Ordering::Relaxed)).filter(|ms| *ms > 0)
    }

    /// Taken before a wait, for [`Checkpoints::name_since`].
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Names the checkpoint that has run since, as one that this thread's operation waited beside.
    pub fn name_since(&self, ended: u64) {
        let begun = self.begun.load(Ordering::Relaxed);
        if begun > ended {
            quarry_timing::name(Work::Checkpoint, begun);
        }
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

fn force(engine: &dyn Engine, journal: &Journal) -> Result<()> {
    journal.sync()?;
    Ok(engine.sync()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use parking_lot::Mutex;
    use quarry_bson::doc;
    use quarry_storage::{Faulty, Memory};
    use quarry_timing::OperationKind;

    use crate::{Database, Level, Namespace, Operation, Options};

    const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(20);

    /// The number of the checkpoint that a durable insert waited beside; 0 for none.
    fn insert(database: &Database, number: i32) -> u64 {
        let namespace = Namespace::new("db", "c").unwrap();
        let document = doc! { "_id": number, "filler": "x".repeat(100_000) };
        quarry_timing::begin_operation(Instant::now());
        let operation = Operation::default();
        let inserted = (database.insert_piece(
            &operation,
            &namespace,
            &[document.as_raw()],
            true,
            Level::Written,
        ))
        .unwrap();
        (database.settle(inserted.lsn, Level::Durable)).unwrap();
        let ended = quarry_timing::end_operation(OperationKind::Insert);
        ended.work(quarry_timing::Work::Checkpoint)
    }

    /// Every forced checkpoint fails, and then none does.
    #[test]
    fn what_keeps_the_journal_long_is_told_once() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
        let (told, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let tells = Arc::clone(&told);
        database.on_journal_trouble(Box::new(move |trouble| {
            tells.lock().push(trouble.map(str::to_owned));
        }));
        engine.fail_syncs(quarry_storage::Error::Io("switched off".into()));
        let mut number = 0;
        while told.lock().is_empty() {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        engine.heal();
        while told.lock().len() < 2 {
            assert!(begun.elapsed() < WAIT_MAX);
            std::thread::yield_now();
        }
        let told = told.lock().clone();
        assert!(
            told[0].as_ref().unwrap().contains("switched off"),
            "{told:?}"
        );
        assert_eq!(told[1..], [None]);
        database.close().unwrap();
    }

    #[test]
    fn a_write_beside_a_forced_checkpoint_names_it() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
        assert_eq!(insert(&database, 0), 0);
        engine.hold_syncs();
        let begun = Instant::now();
        let mut number = 1;
        while engine.held_syncs() == 0 {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        assert_eq!(insert(&database, number), 1);
        engine.heal();
        while engine.held_syncs() > 0 {
            assert!(begun.elapsed() < WAIT_MAX);
            std::thread::yield_now();
        }
        database.close().unwrap();
    }

    #[test]
    fn checkpoints_go_on_after_a_panic_in_one() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = Database::open(Arc::clone(&engine) as _, Options::default()).unwrap();
        engine.panic_in_next_sync();
        let begun = Instant::now();
        let mut number = 0;
        while database.background_panics() == 0 {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        engine.hold_syncs();
        while engine.held_syncs() == 0 {
            assert!(begun.elapsed() < WAIT_MAX, "no checkpoint since the panic");
            insert(&database, number);
            number += 1;
        }
        engine.heal();
        database.close().unwrap();
    }

    /// A flush of RocksDB waits until the journal agrees, which one that has failed never does.
    #[test]
    fn a_close_does_not_wait_for_an_engine_that_waits_for_a_failed_journal() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let files = Arc::new(quarry_journal::SimulatedFiles::new());
        let opened = Database::open_on(
            Arc::clone(&engine) as _,
            Arc::clone(&files) as _,
            Options::default(),
        );
        let database = Arc::new(opened.unwrap());
        engine.hold_syncs();
        let begun = Instant::now();
        let mut number = 0;
        while engine.held_syncs() == 0 {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        files.fail_syncs(true);
        let document = doc! { "_id": -1 };
        let namespace = Namespace::new("db", "c").unwrap();
        let operation = Operation::default();
        (database.insert_piece(
            &operation,
            &namespace,
            &[document.as_raw()],
            true,
            Level::Written,
        ))
        .unwrap();
        database.sync().unwrap_err();
        let (closed, is_closed) = std::sync::mpsc::channel();
        let closing = Arc::clone(&database);
        std::thread::spawn(move || closed.send(closing.close()));
        let result = is_closed.recv_timeout(WAIT_MAX).expect("the close ends");
        assert!(result.is_err(), "the journal has failed");
    }

    #[test]
    fn a_window_larger_than_what_forces_a_checkpoint_forces_none() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let options = Options {
            journal_retain_ms: 3_600_000,
            ..Options::default()
        };
        let database = Database::open(Arc::clone(&engine) as _, options).unwrap();
        let begun = Instant::now();
        let mut number = 0;
        while database.journal().live_bytes() < 4 * super::JOURNAL_BYTES_BEFORE_CHECKPOINT {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        let forced = || {
            database
                .commits()
                .checkpoints()
                .begun
                .load(Ordering::Relaxed)
        };
        // The last one that the load itself has forced.
        let mut before = forced();
        let mut ticks = 0;
        while ticks < 20 {
            assert!(begun.elapsed() < WAIT_MAX, "checkpoints go on for ever");
            std::thread::sleep(super::CHECKPOINT_TICK);
            ticks = if forced() == before { ticks + 1 } else { 0 };
            before = forced();
        }
        assert!(database.journal().live_bytes() >= 4 * super::JOURNAL_BYTES_BEFORE_CHECKPOINT);
        database.close().unwrap();
    }

    #[test]
    fn a_window_gives_way_where_the_device_is_short_of_space() {
        let engine = Arc::new(Memory::new());
        let options = Options {
            journal_retain_ms: 3_600_000,
            ..Options::default()
        };
        let database = Database::open(engine, options).unwrap();
        let begun = Instant::now();
        let mut number = 0;
        while database.journal().window().bytes < 2 * super::JOURNAL_BYTES_BEFORE_CHECKPOINT {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        // No device has so much free.
        let directory = std::env::temp_dir();
        let space = quarry_storage::FreeSpace::new(directory, u64::MAX).unwrap();
        database.commits().checkpoints().keep_free(space);
        while database.journal().window().bytes > 0 {
            assert!(begun.elapsed() < WAIT_MAX, "the window stays");
            std::thread::yield_now();
        }
        insert(&database, number);
        database.close().unwrap();
    }

    #[test]
    fn a_window_of_time_ends_on_a_server_that_nobody_writes_to() {
        let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let options = Options {
            journal_retain_ms: 1_000,
            ..Options::default()
        };
        let database = Database::open(Arc::clone(&engine) as _, options).unwrap();
        let begun = Instant::now();
        let mut number = 0;
        while database.journal().live_bytes() < 2 * super::JOURNAL_BYTES_BEFORE_CHECKPOINT {
            assert!(begun.elapsed() < WAIT_MAX);
            insert(&database, number);
            number += 1;
        }
        // Nobody writes from here on.
        while database.journal().first_lsn() < number as u64 / 2 {
            assert!(begun.elapsed() < WAIT_MAX, "the window is never freed");
            std::thread::sleep(super::CHECKPOINT_TICK);
        }
        database.close().unwrap();
    }
}
