//! The history of one server: its file, once there is one, and what keeps it from being written.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::ring::{Ring, Shape};
use crate::observe::log;

/// The file in the data directory.
const FILE: &str = "quarry.history";
/// How much is kept.
pub const KEPT_MS: u64 = 24 * 3_600_000;
/// A day of 10 seconds has as many; a shorter step keeps less than a day.
const SLOTS_MAX: u64 = KEPT_MS / 10_000;

/// The history of one server; there is none where nobody could ask for it.
#[derive(Default)]
pub struct History {
    ring: OnceLock<Ring>,
    /// Why the last moment was not written.
    trouble: Mutex<Option<String>>,
}

impl History {
    /// The file; none before the first moment is written.
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.get()
    }

    /// The file, which is made or opened by the first call.
    pub fn open(
        &self,
        data_directory: &Path,
        step_ms: u64,
        names: Vec<String>,
    ) -> std::io::Result<&Ring> {
        if let Some(ring) = self.ring.get() {
            return Ok(ring);
        }
        let shape = Shape {
            step_ms,
            slots: KEPT_MS.div_ceil(step_ms).min(SLOTS_MAX),
            names,
        };
        let ring = Ring::open(&data_directory.join(FILE), shape)?;
        Ok(self.ring.get_or_init(|| ring))
    }

    /// Why the last moment was not written; none where it was.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Notes whether a moment could be written; a change is logged.
    pub fn note(&self, failed: Option<std::io::Error>) {
        let failed = failed.map(|error| error.to_string());
        let mut trouble = self.trouble.lock();
        if trouble.is_some() == failed.is_some() {
            return;
        }
        match &failed {
            Some(error) => {
                let reason = [("error", log::Attribute::Owned(error.clone()))];
                log::warning("storage", "the console's history is not written", &reason);
            }
            None => log::info("storage", "the console's history is written again", &[]),
        }
        *trouble = failed;
    }
}

/// Now, in milliseconds since the epoch.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
