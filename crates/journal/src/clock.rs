//! The journal's clock: one look gives both the monotonic and the wall time of a group.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) struct Clock {
    begun: Instant,
    begun_unix_ms: u64,
}

impl Clock {
    pub fn new() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Clock {
            begun: Instant::now(),
            begun_unix_ms: unix.as_millis() as u64,
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    pub fn unix_ms(&self, now_ns: u64) -> u64 {
        self.begun_unix_ms + now_ns / 1_000_000
    }
}
