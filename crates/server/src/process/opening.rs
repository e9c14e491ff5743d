//! Lines of the log about the opening of the data: that a start which takes long is at work, how far it is, and what it
//! came to.
//!
//! After a crash a start reads and replays the journal, and listens only then. Somebody who waits for it sees a line every
//! ten seconds, and one at the end with the records that were replayed and the time.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quarry_database::Database;
use quarry_storage::{Engine, applied_lsn};

use crate::observe::log;

/// How often a start that goes on says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// The opening of the data, from before the engine to behind the replay. The lines end with it, however it ends.
pub struct Opening {
    begun: Instant,
    /// The engine, once it is open, with the last record that it had then.
    engine: Arc<OnceLock<(Arc<dyn Engine>, u64)>>,
    engine_time: OnceLock<Duration>,
    watch: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Opening {
    pub fn begin() -> io::Result<Opening> {
        let begun = Instant::now();
        let engine = Arc::default();
        let watched = Arc::clone(&engine);
        let (ended, is_ended) = channel();
        let watch = thread::Builder::new().name("opening".into());
        let watch = watch.spawn(move || tell_until(&is_ended, begun, &watched))?;
        Ok(Opening {
            begun,
            engine,
            engine_time: OnceLock::new(),
            watch: Some((ended, watch)),
        })
    }

    /// The engine is open; the journal follows.
    pub fn engine_is_open(&self, engine: &Arc<dyn Engine>) {
        let _ = self.engine_time.set(self.begun.elapsed());
        // Whoever opens the database meets an error, too, and says so.
        let had = applied_lsn(engine.as_ref()).unwrap_or(0);
        let _ = self.engine.set((Arc::clone(engine), had));
    }

    /// Says what the opening came to.
    pub fn end(self, database: &Database) {
        let had = self.engine.get().map_or(0, |(_, had)| *had);
        let last = database.journal().accepted_lsn();
        let times = database.replay_times();
        let open = self.engine_time.get().copied().unwrap_or_default();
        log::info(
            "storage",
            "data opened",
            &[
                ("replayedRecords", last.saturating_sub(had).into()),
                ("lastRecord", last.into()),
                ("journalBytes", database.journal().live_bytes().into()),
                ("openMillis", millis(open)),
                ("readMillis", millis(times.read)),
                ("applyMillis", millis(times.apply)),
                ("syncMillis", millis(times.sync)),
                ("durationMillis", millis(self.begun.elapsed())),
            ],
        );
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some((ended, watch)) = self.watch.take() {
            drop(ended);
            // A panic of it is logged like any other.
            let _ = watch.join();
        }
    }
}

/// Says every ten seconds that the opening goes on, until its other end is dropped.
fn tell_until(is_ended: &Receiver<()>, begun: Instant, engine: &OnceLock<(Arc<dyn Engine>, u64)>) {
    while let Err(RecvTimeoutError::Timeout) = is_ended.recv_timeout(SIGN_OF_LIFE) {
        let elapsed = ("durationMillis", millis(begun.elapsed()));
        match engine.get() {
            None => log::info("storage", "the engine is being opened", &[elapsed]),
            Some((engine, had)) => {
                let now = applied_lsn(engine.as_ref()).unwrap_or(*had);
                log::info(
                    "storage",
                    "the journal is being replayed",
                    &[
                        ("replayedRecords", now.saturating_sub(*had).into()),
                        elapsed,
                    ],
                );
            }
        }
    }
}

fn millis(duration: Duration) -> log::Attribute<'static> {
    i64::try_from(duration.as_millis())
        .unwrap_or(i64::MAX)
        .into()
}
