//! Who waits for changes to read them from the journal: of a collection by its name, of all in a database, of everything.
//!
//! Each reader has an interest of its own, which remembers the first record since it looked last that it may want. So it
//! passes over whatever was committed before that record without reading it, and a commit wakes nobody else. A commit asks
//! one question where there is no interest, a load; where there are some, it looks up three names under one lock.
//!
//! None is missed. A commit is applied, then (behind a fence) asks whether there are interests, and tells them. A reader
//! registers, then (behind a fence) asks what is applied: what comes later, its interest is told of. Commits tell one after the
//! other, under the lock under which they note how far they have come, so that a reader that sees that noted has been told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};
use quarry_journal::Payloads;

use crate::commit::definition_event::DefinitionKind;
use crate::commit::payload::Payload;
use crate::error::Result;

/// The interests by what they are in: `database.collection`, `database`, or the empty name for everything. No database's name
/// has a dot.
#[derive(Default)]
pub(crate) struct Interests {
    count: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_name: HashMap<Box<[u8]>, Vec<Arc<Interest>>>,
    told: Told,
}

/// A record up to which every interest was told: it may lag behind, where nobody was interested.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub lsn: u64,
    pub cluster_time: u64,
}

#[derive(Default)]
struct Interest {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The first record that may matter since the reader looked last; 0 if there is none.
    first_lsn: u64,
    /// Somebody ends the reader's wait.
    is_over: bool,
}

/// A reader's interest; ends where it is dropped.
pub(crate) struct Registration {
    interests: Arc<Interests>,
    name: Box<[u8]>,
    interest: Arc<Interest>,
}

impl Interests {
    /// Registers an interest in what has this name. What is applied when this returns it need not be told of.
    pub fn register(self: &Arc<Self>, name: &[u8]) -> Registration {
        let interest = Arc::new(Interest::default());
        let mut table = self.table.lock();
        let interests = table.by_name.entry(name.into()).or_default();
        interests.push(Arc::clone(&interest));
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(table);
        fence(Ordering::SeqCst);
        Registration {
            interests: Arc::clone(self),
            name: name.into(),
            interest,
        }
    }

    /// Whether there is any. The caller has put a fence behind its write.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// How far the interests were told.
    pub fn told(&self) -> Told {
        self.table.lock().told
    }

    /// Tells who may want them of the records of a group that is applied.
    #[cold]
    pub fn tell(&self, payloads: &Payloads<'_>) -> Result<()> {
        let mut table = self.table.lock();
        let by_name = &table.by_name;
        for (lsn, bytes) in payloads {
            let payload = Payload::parse(bytes)?;
            if payload.changes_len() > 0 {
                for delta in payload.deltas() {
                    tell_collection(by_name, delta.namespace, lsn);
                }
            }
            for definition in payload.definitions() {
                let names = definition.names();
                for name in names.into_iter().flatten() {
                    tell_collection(by_name, name.as_bytes(), lsn);
                }
                if definition.kind == DefinitionKind::DropDatabase {
                    tell_database(by_name, names[0].unwrap_or_default().as_bytes(), lsn);
                }
            }
        }
        table.told = Told {
            lsn: payloads.last_lsn(),
            cluster_time: payloads.cluster_time() + payloads.len() as u64 - 1,
        };
        Ok(())
    }
}

type ByName = HashMap<Box<[u8]>, Vec<Arc<Interest>>>;

/// Tells who wants the collection, its database, or everything.
fn tell_collection(by_name: &ByName, namespace: &[u8], lsn: u64) {
    let database = namespace.split(|&byte| byte == b'.').next();
    let database = database.filter(|database| database.len() < namespace.len());
    for name in [Some(namespace), database, Some(&[][..])]
        .into_iter()
        .flatten()
    {
        for interest in by_name.get(name).into_iter().flatten() {
            interest.tell(lsn);
        }
    }
}

/// Tells who wants any collection of a database that is gone.
fn tell_database(by_name: &ByName, database: &[u8], lsn: u64) {
    let is_of_it = |name: &[u8]| {
        name.strip_prefix(database)
            .is_some_and(|rest| rest.starts_with(b"."))
    };
    for (_, interests) in by_name.iter().filter(|(name, _)| is_of_it(name)) {
        interests.iter().for_each(|interest| interest.tell(lsn));
    }
}

impl Interest {
    fn tell(&self, lsn: u64) {
        let mut state = self.state.lock();
        if state.first_lsn == 0 {
            state.first_lsn = lsn;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Ends the reader's wait, or the next one, although there is no record.
    fn end_wait(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// An answer of an interest to its reader.
pub(crate) struct Look {
    /// The first record that may matter since the reader looked last; 0 if there is none.
    pub first_lsn: u64,
    /// Without such a record nothing up to here matters. With one, whatever the interest did not note because of it lies
    /// between it and here.
    pub told: Told,
}

impl Registration {
    /// Looks whether there is a record that may matter, and forgets it.
    pub fn look(&self) -> Look {
        self.look_with(|| ())
    }

    /// Like `look`; `between` runs where commits may come between the two questions that it asks.
    ///
    /// An interest notes nothing more while it has a record. So with a record `told` has to be asked for afterwards: a commit
    /// that met the record has noted how far it came before the lock of the table is free again, and one that comes later
    /// is noted anew. Without a record `told` has to be asked for before: all up to there have told the interest.
    fn look_with(&self, between: impl FnOnce()) -> Look {
        let told = self.interests.told();
        between();
        // Without the lock of the interest: who tells takes it under that of the table, which `told` takes.
        let first_lsn = std::mem::take(&mut self.interest.state.lock().first_lsn);
        match first_lsn {
            0 => Look { first_lsn: 0, told },
            first_lsn => Look {
                first_lsn,
                told: self.interests.told(),
            },
        }
    }

    /// Waits until there is a record that may matter; false when `until` comes first, or somebody ends the wait.
    pub fn wait_until(&self, until: Instant) -> bool {
        let mut state = self.interest.state.lock();
        while state.first_lsn == 0 && !std::mem::take(&mut state.is_over) {
            let waited = self.interest.changed.wait_until(&mut state, until);
            if waited.timed_out() && state.first_lsn == 0 {
                return false;
            }
        }
        state.first_lsn != 0
    }

    /// The function that ends a wait of this reader, from any thread.
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let interest = Arc::clone(&self.interest);
        Box::new(move || interest.end_wait())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let by_name = &mut self.interests.table.lock().by_name;
        if let Some(interests) = by_name.get_mut(&self.name) {
            interests.retain(|interest| !Arc::ptr_eq(interest, &self.interest));
            if interests.is_empty() {
                by_name.remove(&self.name);
            }
        }
        self.interests.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Interests {
        /// Tells of a record that changes the collection.
        fn tell_of(&self, namespace: &[u8], lsn: u64) {
            let mut table = self.table.lock();
            tell_collection(&table.by_name, namespace, lsn);
            table.told = Told {
                lsn,
                cluster_time: lsn << 32,
            };
        }
    }

    #[test]
    fn a_wait_ends_for_a_record_and_for_whoever_ends_it() {
        let interests = Arc::new(Interests::default());
        let registration = interests.register(b"a.c");
        let far = || Instant::now() + std::time::Duration::from_secs(20);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let wake = registration.waker();
            scope.spawn(wake);
            assert!(!registration.wait_until(far()), "there is no record");
            scope.spawn(|| interests.tell_of(b"a.c", 5));
            assert!(registration.wait_until(far()));
        });
        // An end that comes before the wait ends it, too, and one only.
        registration.look();
        registration.waker()();
        assert!(!registration.wait_until(far()));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        assert!(!registration.wait_until(Instant::now()));
    }

    #[test]
    fn a_record_that_is_told_of_during_a_look_is_not_passed_over() {
        let interests = Arc::new(Interests::default());
        let registration = interests.register(b"a.c");
        interests.tell_of(b"a.c", 5);
        // The interest has record 5 already, and does not note record 6.
        let look = registration.look_with(|| interests.tell_of(b"a.c", 6));
        assert_eq!((look.first_lsn, look.told.lsn), (5, 6));
        // Where it had none it notes the record, and of what lies before it everything was told.
        let look = registration.look_with(|| interests.tell_of(b"a.c", 7));
        assert_eq!((look.first_lsn, look.told.lsn), (7, 7));
        // A record of another collection is told of, and nothing up to the look's beginning matters.
        let look = registration.look_with(|| interests.tell_of(b"a.other", 8));
        assert_eq!((look.first_lsn, look.told.lsn), (0, 7));
        assert_eq!(registration.look().told.lsn, 8);
    }
}
