//! Large batches let small ones pass.
//!
//! A batch of megabytes takes as long to append and apply as thousands of small ones, and while it does everybody waits.
//! One is admitted at a time, in the order in which they came, and the next one after the small ones that had to wait
//! meanwhile: so a small batch waits for one large one at most, however many there are. A large one also waits while the
//! engine has much to flush and until the journal's next segment is made, so that small ones do not wait for either.
//!
//! Whoever waits holds its locks and its document as it came, and no copy: a batch is made by whoever was admitted. The
//! wait wakes for killOp, maxTimeMS and a client that went away.
//!
//! A writer of a capped collection holds it exclusively, and everybody who writes there waits with it. So a large insert
//! takes its turn first and the hold afterwards (`Writer::hold_capped`). A batch that turns out to be large only under the
//! hold (an update, or an insert by its index keys) takes its place in the queue then, waits for its turn for a short time,
//! and goes on when that is over; it keeps its place until it is committed, so that those behind it still wait for it. The two
//! orders of turn and hold cannot meet in a deadlock, because both waits end: a writer that has its turn waits for the
//! exclusive hold for a short time too, and then gives the turn up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quarry_journal::Journal;
use quarry_storage::Engine;
use quarry_timing::Phase;

use crate::error::Result;
use crate::locks::hold::INTERRUPT_TICK;
use crate::operation::Operation;

/// A batch from this size on is a large one. Pieces of many documents are smaller, and so is a group of the journal: a
/// large one makes a group of its own.
pub const LARGE_BATCH_BYTES: usize = 2 * 1024 * 1024;
/// So long a large batch whose turn it is waits for small ones and for the engine, and then goes on all the same.
const SMALL_ONES_WAIT: Duration = if cfg!(test) {
    Duration::from_secs(60)
} else {
    Duration::from_millis(100)
};
/// A large batch waits for a pressed engine as long as its bytes would take at this rate, so that many of them are not
/// slower than that one after the other.
const PRESSED_BYTES_A_MS: usize = 100 * 1024;
const ENGINE_WAIT_MAX: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_millis(2);
/// Who has its turn waits for so long for a collection that it must hold exclusively. Its holders are other writers
/// there, who are quick, or a definition's change, which need not be.
pub const HOLD_WAIT: Duration = Duration::from_millis(100);
/// Who holds its collection exclusively waits for its turn for so long.
const TURN_WAIT: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct LargeBatches {
    /// Whether any is admitted or waits. Changes under `state`.
    are_about: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// The first one is admitted, or will be next.
    tickets: VecDeque<u64>,
    /// Batches that are being committed while large ones are about.
    small: usize,
}

/// The turn of a large batch, or the mark of a small one that large ones may be in the way of. Ends when dropped.
#[must_use = "the next large batch goes on where it is dropped"]
pub struct Admitted<'l> {
    batches: &'l LargeBatches,
    /// None for a small one.
    ticket: Option<u64>,
}

fn engine_wait(bytes: usize) -> Duration {
    Duration::from_millis((bytes / PRESSED_BYTES_A_MS) as u64).min(ENGINE_WAIT_MAX)
}

/// Waits for a pressed engine, and for the journal's next segment, before a large batch.
fn wait_for_room(
    bytes: usize,
    engine: &dyn Engine,
    journal: &Journal,
    operation: &Operation,
) -> Result<()> {
    if bytes < LARGE_BATCH_BYTES {
        return Ok(());
    }
    let _wait = quarry_timing::phase(Phase::CommitWait);
    let begun = Instant::now();
    let patience = engine_wait(bytes);
    while engine.is_pressed() && begun.elapsed() < patience {
        operation.check()?;
        std::thread::sleep(TICK);
    }
    // It may fill the segment: whoever leads should find the next one made. A failure is told where it is needed.
    let _ = journal.prepare_segment();
    Ok(())
}

impl LargeBatches {
    /// Returns when a batch of that size may be made and committed. The caller shares its collection with other writers.
    pub fn admit(
        &self,
        bytes: usize,
        engine: &dyn Engine,
        journal: &Journal,
        operation: &Operation,
    ) -> Result<Option<Admitted<'_>>> {
        let admitted = self.wait_for_others(bytes, operation, None)?;
        wait_for_room(bytes, engine, journal, operation)?;
        Ok(admitted)
    }

    /// Like `admit`, but waits for the turn for at most `TURN_WAIT`: the caller holds its collection exclusively.
    pub fn admit_under_exclusive_hold(
        &self,
        bytes: usize,
        engine: &dyn Engine,
        journal: &Journal,
        operation: &Operation,
    ) -> Result<Option<Admitted<'_>>> {
        let admitted = self.wait_for_others(bytes, operation, Some(TURN_WAIT))?;
        wait_for_room(bytes, engine, journal, operation)?;
        Ok(admitted)
    }

    fn wait_for_others(
        &self,
        bytes: usize,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<Option<Admitted<'_>>> {
        if bytes < LARGE_BATCH_BYTES {
            return Ok(self.note_small());
        }
        let _wait = quarry_timing::phase(Phase::CommitWait);
        let admitted = self.take_ticket();
        self.wait_for_turn(&admitted, operation, patience)?;
        Ok(Some(admitted))
    }

    #[inline]
    fn note_small(&self) -> Option<Admitted<'_>> {
        if !self.are_about.load(Ordering::Relaxed) {
            return None;
        }
        self.state.lock().small += 1;
        Some(Admitted {
            batches: self,
            ticket: None,
        })
    }

    fn take_ticket(&self) -> Admitted<'_> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.tickets.push_back(ticket);
        self.are_about.store(true, Ordering::Relaxed);
        Admitted {
            batches: self,
            ticket: Some(ticket),
        }
    }

    /// Returns when it is the turn of `admitted`, or when `patience` is over. Where it is over `admitted` stays in the queue.
    fn wait_for_turn(
        &self,
        admitted: &Admitted<'_>,
        operation: &Operation,
        patience: Option<Duration>,
    ) -> Result<()> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state.lock();
        while state.tickets.front().copied() != admitted.ticket {
            self.changed.wait_for(&mut state, INTERRUPT_TICK);
            operation.check()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
        }
        let until = Instant::now() + SMALL_ONES_WAIT;
        while state.small > 0 && Instant::now() < until {
            self.changed.wait_for(&mut state, INTERRUPT_TICK);
            operation.check()?;
        }
        Ok(())
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let batches = self.batches;
        let mut state = batches.state.lock();
        let was_awaited = match self.ticket {
            None => {
                state.small -= 1;
                state.small == 0
            }
            Some(ticket) => {
                state.tickets.retain(|other| *other != ticket);
                batches
                    .are_about
                    .store(!state.tickets.is_empty(), Ordering::Relaxed);
                true
            }
        };
        if was_awaited && !state.tickets.is_empty() {
            batches.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_bson::{Document, doc};
    use quarry_journal::SimulatedFiles;
    use quarry_storage::{Faulty, Memory};

    use super::*;
    use crate::database::{Database, Options};
    use crate::error::Error;
    use crate::keyspace::namespace::Namespace;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < DEADLINE, "{what}: it never came");
            std::thread::yield_now();
        }
    }

    fn insert(database: &Database, document: &Document) -> u64 {
        insert_into(database, "db.c", document)
    }

    /// Lets writes go on at the end of a test, a failed one among them: its threads end.
    struct Healed<'f>(&'f Faulty);

    impl Drop for Healed<'_> {
        fn drop(&mut self) {
            self.0.heal();
        }
    }

    #[test]
    fn a_small_batch_waits_for_one_large_one_however_many_there_are() {
        const LARGE: usize = 4;
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let files = Arc::new(SimulatedFiles::new());
        let engine = Arc::clone(&faulty) as Arc<dyn Engine>;
        let database = Database::open_on(engine, files, Options::default()).unwrap();
        insert(&database, &doc! { "_id": 0 });
        let batches = &database.write_locks().large_batches;
        let filler = "x".repeat(LARGE_BATCH_BYTES);
        faulty.hold_all_writes();
        std::thread::scope(|scope| {
            let _healed = Healed(&faulty);
            let large: Vec<_> = (1..=LARGE as i32)
                .map(|id| {
                    let document = doc! { "_id": id, "filler": filler.as_str() };
                    let database = &database;
                    let thread = scope.spawn(move || insert(database, &document));
                    wait_until("a large one", || {
                        batches.state.lock().tickets.len() == id as usize
                    });
                    thread
                })
                .collect();
            wait_until("the engine", || faulty.held_writes() == 1);
            let small = scope.spawn(|| insert(&database, &doc! { "_id": -1 }));
            wait_until("the small one", || batches.state.lock().small == 1);
            faulty.heal();
            let small = small.join().unwrap();
            let large: Vec<u64> = large.into_iter().map(|one| one.join().unwrap()).collect();
            assert!(large.is_sorted(), "{large:?}");
            assert!(large[0] < small && small < large[1], "{small}: {large:?}");
        });
        assert!(!batches.are_about.load(Ordering::Relaxed));
        let state = batches.state.lock();
        assert!(state.tickets.is_empty() && state.small == 0);
    }

    const CAPPED_BYTES: i64 = 64 << 20;

    fn insert_into(database: &Database, name: &str, document: &Document) -> u64 {
        let namespace = Namespace::parse(name).unwrap();
        let documents = [document.as_raw()];
        let inserted = database
            .insert_piece(
                &Operation::default(),
                &namespace,
                &documents,
                true,
                crate::Level::Written,
            )
            .unwrap();
        assert_eq!(inserted.inserted, 1);
        inserted.lsn.unwrap()
    }

    /// With the collections `db.c` and `db.capped`.
    fn database_on(faulty: &Arc<Faulty>) -> Database {
        let files = Arc::new(SimulatedFiles::new());
        let engine = Arc::clone(faulty) as Arc<dyn Engine>;
        let database = Database::open_on(engine, files, Options::default()).unwrap();
        insert(&database, &doc! { "_id": 0 });
        let namespace = Namespace::parse("db.capped").unwrap();
        let options = doc! { "capped": true, "size": CAPPED_BYTES };
        database
            .create_collection(
                &namespace,
                options.as_raw(),
                &Operation::default(),
                crate::Level::Written,
            )
            .unwrap();
        database
    }

    #[test]
    fn a_large_insert_into_a_capped_collection_waits_without_holding_it() {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = database_on(&faulty);
        let batches = &database.write_locks().large_batches;
        let large = doc! { "_id": 1, "filler": "x".repeat(LARGE_BATCH_BYTES) };
        faulty.hold_all_writes();
        std::thread::scope(|scope| {
            let _healed = Healed(&faulty);
            let first = scope.spawn(|| insert(&database, &large));
            wait_until("the engine", || faulty.held_writes() == 1);
            let second = scope.spawn(|| insert_into(&database, "db.capped", &large));
            wait_until("the second large one", || {
                batches.state.lock().tickets.len() == 2
            });
            // It comes as far as its commit, and goes before the large one.
            let small = scope.spawn(|| insert_into(&database, "db.capped", &doc! { "_id": -1 }));
            wait_until("the small one", || batches.state.lock().small == 1);
            faulty.heal();
            let [first, small, second] = [first, small, second].map(|one| one.join().unwrap());
            assert!(first < small && small < second, "{first} {small} {second}");
        });
    }

    #[test]
    fn a_turn_is_given_up_where_the_capped_collection_does_not_come_free() {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = database_on(&faulty);
        let batches = &database.write_locks().large_batches;
        let namespace = Namespace::parse("db.capped").unwrap();
        let large = doc! { "_id": 1, "filler": "x".repeat(LARGE_BATCH_BYTES) };
        let operation = Operation::default();
        let held = database
            .definitions()
            .holds()
            .hold_exclusive(&namespace, &operation)
            .unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| insert_into(&database, "db.capped", &large));
            // It keeps its turn for `HOLD_WAIT` only, but a ticket that was given is never taken back.
            wait_until("the turn", || batches.state.lock().next_ticket == 1);
            // The next one has its turn though the collection is still held.
            insert(&database, &large);
            assert!(!waiting.is_finished());
            drop(held);
            waiting.join().unwrap();
        });
        let state = batches.state.lock();
        assert!(state.tickets.is_empty() && state.small == 0);
    }

    /// Replaces the first document of `db.capped`.
    fn replace_in_capped(database: &Database, document: &Document) -> u64 {
        let namespace = Namespace::parse("db.capped").unwrap();
        let collection = database.collection(&namespace).unwrap().unwrap();
        let key = [collection.prefix.as_bytes(), &1u64.to_be_bytes()].concat();
        let modified = database
            .modify_piece(
                &Operation::default(),
                &namespace,
                collection.ident,
                &[key],
                crate::Level::Written,
                &mut |_, _, new| {
                    new.extend_from_slice(document.as_raw().as_bytes());
                    Ok(crate::Change::Replace)
                },
            )
            .unwrap();
        assert_eq!(modified.modified, 1);
        modified.lsn.unwrap()
    }

    #[test]
    fn a_large_change_of_a_capped_collection_takes_its_place_among_large_ones() {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let database = database_on(&faulty);
        let batches = &database.write_locks().large_batches;
        insert_into(&database, "db.capped", &doc! { "_id": 1 });
        let large = doc! { "_id": 1, "filler": "x".repeat(LARGE_BATCH_BYTES) };
        faulty.hold_all_writes();
        std::thread::scope(|scope| {
            let _healed = Healed(&faulty);
            let first = scope.spawn(|| insert(&database, &large));
            wait_until("the engine", || faulty.held_writes() == 1);
            let change = scope.spawn(|| replace_in_capped(&database, &large));
            wait_until("the change", || batches.state.lock().next_ticket == 2);
            let third = scope.spawn(|| insert(&database, &doc_of(2, LARGE_BATCH_BYTES)));
            wait_until("the third", || batches.state.lock().next_ticket == 3);
            faulty.heal();
            let [first, change, third] = [first, change, third].map(|one| one.join().unwrap());
            assert!(first < change && change < third, "{first} {change} {third}");
        });
    }

    fn doc_of(id: i32, filler: usize) -> Document {
        doc! { "_id": id, "filler": "x".repeat(filler) }
    }

    #[test]
    fn whoever_holds_its_collection_exclusively_waits_for_its_turn_for_a_short_time() {
        let batches = LargeBatches::default();
        let free = Operation::default();
        let first = batches.take_ticket();
        let begun = Instant::now();
        let second = batches.wait_for_others(LARGE_BATCH_BYTES, &free, Some(TURN_WAIT));
        let second = second.unwrap();
        assert!(begun.elapsed() >= TURN_WAIT);
        drop(first);
        // It goes on without its turn, and those behind it wait for it nevertheless.
        let third = batches.take_ticket();
        assert_ne!(batches.state.lock().tickets.front().copied(), third.ticket);
        drop(second);
        batches.wait_for_turn(&third, &free, None).unwrap();
    }

    #[test]
    fn whoever_waits_can_be_interrupted_and_holds_up_nobody_behind_it() {
        let batches = LargeBatches::default();
        let admit = |operation: &Operation| {
            let admitted = batches.wait_for_others(LARGE_BATCH_BYTES, operation, None);
            admitted.map(|admitted| admitted.is_some())
        };
        let free = Operation::default();
        let first = batches
            .wait_for_others(LARGE_BATCH_BYTES, &free, None)
            .unwrap();
        let killed = Operation::default();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| admit(&killed));
            wait_until("the second", || batches.state.lock().tickets.len() == 2);
            let third = scope.spawn(|| admit(&free));
            wait_until("the third", || batches.state.lock().tickets.len() == 3);
            killed.kill();
            let interrupted = second.join().unwrap();
            assert!(matches!(interrupted, Err(Error::Interrupted)));
            drop(first);
            assert!(third.join().unwrap().unwrap());
        });
        assert!(batches.wait_for_others(1, &free, None).unwrap().is_none());
    }
}
