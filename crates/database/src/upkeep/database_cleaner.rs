//! The thread that cleans up dropped databases, piece by piece, until none is left (`database_drop`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::definitions::changes::Definitions;
use crate::operation::Operation;
use crate::upkeep::background::{Background, Stop};

/// How long the cleaner waits after a refused write.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// At most one such thread runs.
pub struct DatabaseCleaner {
    definitions: Arc<Definitions>,
    /// Taken before the catalog's locks.
    runs: Mutex<bool>,
}

impl DatabaseCleaner {
    pub fn new(definitions: Arc<Definitions>) -> Arc<DatabaseCleaner> {
        Arc::new(DatabaseCleaner {
            definitions,
            runs: Mutex::new(false),
        })
    }

    /// Starts the thread, if there are dropped databases and it does not run.
    pub fn start(self: &Arc<Self>, background: &Background) {
        let mut runs = self.runs.lock();
        if *runs || self.definitions.dropping().is_empty() {
            return;
        }
        let (cleaner, stop) = (Arc::clone(self), background.stop());
        *runs = background.start("database cleaner", move |stopped| {
            let stop = Arc::clone(&stop);
            let operation = Operation::default().with_disconnect(Box::new(move || stop.is_set()));
            cleaner.clean(stopped, &operation);
        });
    }

    /// Cleans up until no dropped database is left; tries again where writes are refused.
    fn clean(&self, stop: &Stop, operation: &Operation) {
        loop {
            for name in self.definitions.dropping() {
                while self.definitions.clean_in_turns(&name, operation).is_err() {
                    if stop.wait(RETRY_AFTER) {
                        return;
                    }
                }
            }
            let mut runs = self.runs.lock();
            if self.definitions.dropping().is_empty() {
                *runs = false;
                return;
            }
        }
    }
}
