//! Tests: isolation proved by histories. Clients append to lists and read them, in transactions and by themselves; what
//! each of them did and saw is a history, and the crate `isolation` looks for what snapshot isolation rules out. Some read at
//! one cluster time outside of transactions.
//!
//! Clients take turns by a seed, which makes a failure come again, or run on threads of their own. Mutants (`locks::mutant`)
//! make the database skip what isolation needs; the checker must find each of them out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quarry_bson::{RawDocument, RawValue, Value, doc};
use quarry_isolation::{Action, History, Outcome, Recorded, check};
use quarry_journal::Level;
use quarry_storage::WriteBatch;

use super::{Change, Transaction};
use crate::database::{Database, Scope};
use crate::error::Result;
use crate::keyspace::namespace::Namespace;
use crate::locks::mutant::Mutant;
use crate::operation::Operation;

const KEYS: i32 = 3;
const CLIENTS: u64 = 4;

/// A database with a list for each key, and the clock of its history.
struct World {
    database: Database,
    namespace: Namespace,
    clock: AtomicU64,
}

/// One client: what it is at, and what it has done.
struct Client {
    /// The seed of its choices.
    random: u64,
    /// Its next value.
    next: i64,
    transaction: Option<Arc<Transaction>>,
    left: u64,
    current: Recorded,
    history: Vec<Recorded>,
}

impl World {
    fn new(mutant: Mutant) -> World {
        let world = World {
            database: Database::open_in_memory().unwrap(),
            namespace: Namespace::parse("db.lists").unwrap(),
            clock: AtomicU64::new(0),
        };
        for key in 0..KEYS {
            let document = list_of(key, &[]);
            let documents = [document.as_raw()];
            let (operation, level) = (Operation::default(), Level::Written);
            (world.database)
                .insert_piece(&operation, &world.namespace, &documents, true, level)
                .unwrap();
        }
        world.database.write_locks().set_mutant(mutant);
        world
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn read(&self, scope: Scope<'_>, key: i32) -> Result<Vec<i64>> {
        let operation = Operation::default();
        let snapshot = scope.snapshot(&self.namespace, &operation)?.unwrap();
        let record = snapshot.collection.record_key(RawValue::Int32(key));
        let mut list = Vec::new();
        snapshot.get(&record, &mut |bytes| list = values_of(bytes))?;
        Ok(list)
    }

    fn append(&self, scope: Scope<'_>, key: i32, value: i64) -> Result<()> {
        // A client outside of transactions would wait for one that this thread has to go on with.
        let operation = Operation::new(Some(Instant::now() + Duration::from_millis(1)));
        let collection = scope.collection(&self.namespace, &operation)?.unwrap();
        let keys = [collection.record_key(RawValue::Int32(key))];
        let mut compute = |_: usize, document: RawDocument<'_>, out: &mut super::NewDocument| {
            let mut values = values_of(document.as_bytes());
            values.push(value);
            out.extend_from_slice(list_of(key, &values).as_bytes());
            Ok(Change::Replace)
        };
        let (ident, level) = (collection.ident, Level::Written);
        let changed = scope.modify_piece(
            &operation,
            &self.namespace,
            ident,
            &keys,
            level,
            &mut compute,
        )?;
        assert_eq!(changed.matched, 1);
        Ok(())
    }

    /// The history of these clients with the lists as they are at the end.
    fn history(&self, clients: Vec<Client>) -> History {
        self.database.write_locks().set_mutant(Mutant::None);
        let scope = Scope::from(&self.database);
        let lists: BTreeMap<String, Vec<i64>> = (0..KEYS)
            .map(|key| (key.to_string(), self.read(scope, key).unwrap()))
            .collect();
        let done = clients.into_iter().flat_map(Client::finish).collect();
        History { done, lists }
    }
}

fn list_of(key: i32, values: &[i64]) -> quarry_bson::Document {
    let values: Vec<Value> = values.iter().map(|&value| Value::from(value)).collect();
    let mut document = doc! { "_id": key };
    document.append("list", values);
    document
}

fn values_of(bytes: &[u8]) -> Vec<i64> {
    let document = RawDocument::new(bytes).unwrap();
    let list = document.get_array("list").unwrap();
    list.iter()
        .map(|value| value.as_i64_exact().unwrap())
        .collect()
}

impl Client {
    fn new(seed: u64, number: u64) -> Client {
        Client {
            random: (seed * CLIENTS + number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            next: i64::try_from(number).unwrap() << 32,
            transaction: None,
            left: 0,
            current: Recorded::default(),
            history: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    /// Does the next thing: begins a transaction, reads, appends, commits or gives up.
    fn step(&mut self, world: &World) {
        match self.transaction.clone() {
            None => {
                self.current.begun = world.tick();
                if self.below(8) == 0 {
                    self.read_at_one_time(world);
                } else if self.below(4) == 0 {
                    let done = self.act(world, Scope::from(&world.database));
                    self.end(world, done);
                } else {
                    let begun = world.database.begin_transaction(&Operation::default());
                    self.transaction = Some(begun.unwrap());
                    self.left = 1 + self.below(4);
                }
            }
            Some(transaction) if self.left == 0 => {
                let is_committed = self.below(8) > 0 && {
                    let (operation, session) = (Operation::default(), WriteBatch::new());
                    let level = Level::Written;
                    (world.database)
                        .commit_transaction(&transaction, &operation, level, &session)
                        .is_ok()
                };
                self.end(world, is_committed);
            }
            Some(transaction) => {
                self.left -= 1;
                let scope = Scope::in_transaction(&world.database, &transaction);
                if !self.act(world, scope) {
                    self.end(world, false);
                }
            }
        }
    }

    /// Reads several lists outside of a transaction, at one cluster time.
    fn read_at_one_time(&mut self, world: &World) {
        let pinned = world.database.pin_snapshot(None);
        let is_pinned = pinned.is_ok();
        if let Ok((pinned, _)) = &pinned {
            let scope = Scope::at_snapshot(&world.database, pinned);
            for key in 0..KEYS {
                let list = world.read(scope, key).unwrap();
                self.current
                    .actions
                    .push(Action::Read(key.to_string(), list));
            }
        }
        self.end(world, is_pinned);
    }

    /// Reads or appends; false where it was refused.
    fn act(&mut self, world: &World, scope: Scope<'_>) -> bool {
        let key = i32::try_from(self.below(KEYS as u64)).unwrap();
        let (action, done) = if self.below(2) == 0 {
            match world.read(scope, key) {
                Ok(list) => (Action::Read(key.to_string(), list), true),
                Err(_) => return false,
            }
        } else {
            self.next += 1;
            let done = world.append(scope, key, self.next).is_ok();
            (Action::Append(key.to_string(), self.next), done)
        };
        self.current.actions.push(action);
        done
    }

    fn end(&mut self, world: &World, is_committed: bool) {
        if let Some(transaction) = self.transaction.take() {
            transaction.end();
        }
        let mut ended = std::mem::take(&mut self.current);
        ended.ended = world.tick();
        if is_committed {
            ended.outcome = Outcome::Committed;
        }
        self.history.push(ended);
    }

    fn finish(mut self) -> Vec<Recorded> {
        if let Some(transaction) = self.transaction.take() {
            transaction.end();
            self.current.ended = u64::MAX;
            self.history.push(self.current);
        }
        self.history
    }
}

/// Clients that take turns by a seed.
fn in_turns(mutant: Mutant, seed: u64) -> History {
    let world = World::new(mutant);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|n| Client::new(seed, n)).collect();
    let mut turns = Client::new(seed, CLIENTS);
    for _ in 0..300 {
        let turn = turns.below(CLIENTS) as usize;
        clients[turn].step(&world);
    }
    world.history(clients)
}

/// Clients on threads of their own.
fn at_the_same_time(seed: u64) -> History {
    let world = World::new(Mutant::None);
    let clients = std::thread::scope(|threads| {
        let world = &world;
        let running: Vec<_> = (0..CLIENTS)
            .map(|number| {
                threads.spawn(move || {
                    let mut client = Client::new(seed, number);
                    (0..150).for_each(|_| client.step(world));
                    client
                })
            })
            .collect();
        let ended = running.into_iter().map(|client| client.join().unwrap());
        ended.collect()
    });
    world.history(clients)
}

#[test]
fn histories_of_clients_that_take_turns_are_isolated() {
    let (mut committed, mut refused) = (0, 0);
    for seed in 1..=10 {
        let history = in_turns(Mutant::None, seed);
        let outcomes = history.done.iter().map(|done| done.outcome);
        let are_committed = outcomes
            .filter(|&outcome| outcome == Outcome::Committed)
            .count();
        committed += are_committed;
        refused += history.done.len() - are_committed;
        assert_eq!(check(&history), Vec::<String>::new(), "seed {seed}");
    }
    // Else the histories say little.
    assert!(committed > 200 && refused > 80, "{committed} {refused}");
}

#[test]
fn histories_of_clients_on_threads_are_isolated() {
    for seed in 1..=3 {
        let history = at_the_same_time(seed);
        assert_eq!(check(&history), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_found_out() {
    for (mutant, anomaly) in [
        (Mutant::SkipsLocks, "lost"),
        (Mutant::IgnoresChanges, "cycle"),
        (Mutant::ReadsLatest, "cycle"),
        (Mutant::ReadsOldSnapshot, "cycle"),
        (Mutant::ForgetsOwnWrites, "own"),
        (Mutant::LosesTheLast, "lost"),
    ] {
        let mut found = Vec::new();
        let is_found = (1..=10).any(|seed| {
            found = check(&in_turns(mutant, seed));
            found.iter().any(|found| found.contains(anomaly))
        });
        assert!(is_found, "{mutant:?}: {found:?}");
    }
}
