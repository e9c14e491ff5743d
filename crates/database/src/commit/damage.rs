//! Damage that no operation was answered with, because work in the background met it: a checkpoint, a flush, a compaction, what
//! gives space back.
//!
//! Whoever wrote what is damaged has been answered long ago, and what the engine does from there on would be built on it. So writes
//! are refused from then on, until the data is restored; reads go on. A restart alone does not end it for long: the same work
//! meets the same bytes again. Damage that a read meets is answered to its operation, and refuses nothing.

use std::sync::OnceLock;

use quarry_journal::{HookError, HookErrorKind};

use crate::error::Error;

/// The first damage that was met in the background, if any was. Asked once a group, for one load.
#[derive(Default)]
pub struct Damage {
    reason: OnceLock<String>,
}

impl Damage {
    /// The words for an error of damage, if it is the first one.
    pub fn first(&self, error: &Error) -> Option<String> {
        let is_first = error.is_corruption() && self.reason.get().is_none();
        is_first.then(|| {
            format!("damage was met in the background, and no write is taken any more: {error}")
        })
    }

    /// From now on every group is refused. What was set first stays.
    pub fn refuse_writes(&self, reason: String) {
        let _ = self.reason.set(reason);
    }

    /// The words for it.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Refuses a group.
    pub fn check(&self) -> Result<(), HookError> {
        match self.reason() {
            None => Ok(()),
            Some(reason) => Err(HookError::new(HookErrorKind::Failed, reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use parking_lot::Mutex;
    use quarry_bson::doc;
    use quarry_storage::{Error as StorageError, Faulty, Memory};

    use crate::{Database, Error, Level, Namespace, Operation, Options, Result, WritesNow};

    const WAIT_MAX: Duration = Duration::from_secs(20);

    struct Setup {
        engine: Arc<Faulty>,
        database: Database,
        told: Arc<Mutex<Vec<WritesNow>>>,
        namespace: Namespace,
    }

    impl Setup {
        fn new() -> Setup {
            let engine = Arc::new(Faulty::new(Arc::new(Memory::new())));
            let opened = Database::open(Arc::clone(&engine) as _, Options::default());
            let (database, told) = (opened.unwrap(), Arc::<Mutex<Vec<WritesNow>>>::default());
            let tells = Arc::clone(&told);
            database.on_writes_change(Box::new(move |now| tells.lock().push(now.clone())));
            Setup {
                engine,
                database,
                told,
                namespace: Namespace::new("db", "c").unwrap(),
            }
        }

        fn insert(&self, number: i32) -> Result<()> {
            let document = doc! { "_id": number, "filler": "x".repeat(100_000) };
            let documents = [document.as_raw()];
            let operation = Operation::default();
            let level = Level::Written;
            let inserted =
                (self.database).insert_piece(&operation, &self.namespace, &documents, true, level);
            inserted.map(drop)
        }

        fn wait_until_damaged(&self, mut meanwhile: impl FnMut()) {
            let begun = Instant::now();
            while self.database.damage().is_none() {
                assert!(begun.elapsed() < WAIT_MAX, "nobody tells of the damage");
                meanwhile();
            }
        }

        /// Writes are refused for good, reads are not, and the close says why.
        fn check_refused(&self) {
            let error = self.insert(-1).unwrap_err();
            let is_refused = matches!(
                &error,
                Error::WritesRefused {
                    no_space: false,
                    ..
                }
            );
            assert!(is_refused, "{error:?}");
            assert!(error.to_string().contains("page 7"), "{error}");
            let refused = self.database.refused_writes();
            assert!(refused.reason.unwrap().contains("page 7"));
            let told = self.told.lock().clone();
            assert!(
                matches!(&told[..], [WritesNow::Damaged { reason }] if reason.contains("page 7")),
                "it is told once: {told:?}"
            );
            let closed = self.database.close().unwrap_err();
            assert!(closed.is_corruption() && closed.to_string().contains("page 7"));
        }
    }

    fn damage() -> StorageError {
        StorageError::Corruption("page 7".into())
    }

    #[test]
    fn damage_that_the_engine_meets_by_itself_is_told_though_nobody_writes() {
        let setup = Setup::new();
        setup.insert(0).unwrap();
        setup.engine.fail_in_background(damage());
        setup.wait_until_damaged(std::thread::yield_now);
        assert_eq!(setup.database.refused_writes().count, 0);
        setup.engine.heal();
        setup.check_refused();
    }

    #[test]
    fn damage_that_a_checkpoint_meets_refuses_writes_for_good() {
        let setup = Setup::new();
        setup.engine.fail_syncs(damage());
        let mut number = 0;
        setup.wait_until_damaged(|| {
            number += 1;
            // The last one may be refused already.
            let _ = setup.insert(number);
        });
        setup.engine.heal();
        setup.check_refused();
    }

    /// It may pass: a restart, or the engine itself, may end it.
    #[test]
    fn a_checkpoint_that_fails_without_damage_refuses_nothing() {
        let setup = Setup::new();
        let (troubles, begun) = (Arc::<Mutex<Vec<String>>>::default(), Instant::now());
        let tells = Arc::clone(&troubles);
        setup.database.on_journal_trouble(Box::new(move |trouble| {
            tells.lock().extend(trouble.map(str::to_owned));
        }));
        setup.engine.fail_syncs(StorageError::Io("page 7".into()));
        let mut number = 0;
        while troubles.lock().is_empty() {
            assert!(begun.elapsed() < WAIT_MAX);
            setup.insert(number).unwrap();
            number += 1;
        }
        setup.engine.heal();
        setup.insert(number).unwrap();
        assert_eq!(setup.database.damage(), None);
        assert!(setup.told.lock().is_empty());
        setup.database.close().unwrap();
    }
}
