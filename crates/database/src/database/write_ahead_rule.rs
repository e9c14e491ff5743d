//! The write-ahead rule, as the engine is told of it: nothing becomes durable there ahead of the journal.

use std::sync::Arc;

use quarry_journal::Journal;
use quarry_storage::{Engine, Error};

/// The hook that an engine runs before it makes something durable, for as long as its database is open.
///
/// The engine runs it on a thread of its own, and it holds the journal meanwhile, and with it everything that the database is
/// made of. Whoever drops a database therefore takes the hook back first, which waits until it has returned. Otherwise the
/// engine could end on its own thread, and wait there for that very thread.
pub struct WriteAheadRule {
    engine: Arc<dyn Engine>,
}

impl WriteAheadRule {
    /// From now on the engine waits for the journal.
    pub fn begin(engine: &Arc<dyn Engine>, journal: &Arc<Journal>) -> WriteAheadRule {
        let log = Arc::downgrade(journal);
        engine.set_before_durable(Box::new(move |lsn| match log.upgrade() {
            Some(journal) if journal.durable_lsn() >= lsn => Ok(()),
            Some(journal) => journal
                .wait_durable(lsn)
                .map_err(|error| Error::Io(error.to_string())),
            None => Err(journal_is_closed()),
        }));
        WriteAheadRule {
            engine: Arc::clone(engine),
        }
    }
}

impl Drop for WriteAheadRule {
    fn drop(&mut self) {
        self.engine
            .set_before_durable(Box::new(|_| Err(journal_is_closed())));
    }
}

/// Whether the journal became durable before it was dropped nobody can say any more.
fn journal_is_closed() -> Error {
    Error::Io("the journal is closed".to_owned())
}
