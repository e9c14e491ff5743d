//! The journal's clock: one look gives both the monotonic and the wall time of a group.
//!
//! The wall time is where the system's was when it was last asked, some time ago, and what has passed since: it follows a
//! clock that is set, or a machine that slept, from the next `adjust` on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) struct Clock {
    begun: Instant,
    /// The wall time of `begun`, as the system's clock has it now.
    begun_unix_ms: AtomicU64,
}

impl Clock {
    pub fn new() -> Self {
        let clock = Clock {
            begun: Instant::now(),
            begun_unix_ms: AtomicU64::new(0),
        };
        clock.adjust(SystemTime::now());
        clock
    }

    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    pub fn unix_ms(&self, now_ns: u64) -> u64 {
        self.begun_unix_ms.load(Ordering::Relaxed) + now_ns / 1_000_000
    }

    /// As the system's clock has it.
    pub fn now_unix_ms(&self) -> u64 {
        self.adjust(SystemTime::now());
        self.unix_ms(self.now_ns())
    }

    /// It is `now`: the wall time of groups follows from here on.
    pub fn adjust(&self, now: SystemTime) {
        let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let passed = self.begun.elapsed();
        let begun_unix_ms = unix.saturating_sub(passed).as_millis() as u64;
        self.begun_unix_ms.store(begun_unix_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_wall_time_follows_a_clock_that_is_set() {
        let clock = Clock::new();
        for seconds in [1_000_000, 3_000_000_000, 2_000_000_000] {
            clock.adjust(UNIX_EPOCH + Duration::from_secs(seconds));
            let shown_ms = clock.unix_ms(clock.now_ns());
            // Two roundings, and a thread that waits for a processor.
            let expected_ms = seconds * 1000 - 2..=seconds * 1000 + 60_000;
            assert!(
                expected_ms.contains(&shown_ms),
                "{shown_ms} ms, {seconds} s"
            );
        }
    }
}
