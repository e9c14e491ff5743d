//! Failed attempts to log in, counted an address, so that guessing becomes slow.
//!
//! The delay falls on the thread of the connection that failed, which holds no lock while it waits.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Failures that are taken for mistyped passwords.
const FREE_FAILURES: u32 = 3;
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(3);
/// After so long without a failure an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Addresses that are remembered. When there are more, those that have not failed for a minute are forgotten, and all when
/// that makes no room.
const ADDRESSES_MAX: usize = 10_000;

/// The failures of the last minute.
#[derive(Default)]
pub struct Attempts {
    failures: Mutex<FxHashMap<IpAddr, Failures>>,
}

struct Failures {
    count: u32,
    last: Instant,
}

impl Attempts {
    /// Notes a failure; how long its answer is to wait.
    pub fn fail(&self, address: IpAddr) -> Duration {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            failures.retain(|_, of| now.duration_since(of.last) < FORGOTTEN_AFTER);
            if failures.len() >= ADDRESSES_MAX {
                failures.clear();
            }
        }
        let of = failures.entry(address).or_insert(Failures {
            count: 0,
            last: now,
        });
        if now.duration_since(of.last) >= FORGOTTEN_AFTER {
            of.count = 0;
        }
        of.last = now;
        of.count = of.count.saturating_add(1);
        delay(of.count)
    }

    /// Forgets the failures of an address that has proven to know a password.
    pub fn succeed(&self, address: IpAddr) {
        self.failures.lock().remove(&address);
    }
}

fn delay(count: u32) -> Duration {
    let Some(over) = count.checked_sub(FREE_FAILURES + 1) else {
        return Duration::ZERO;
    };
    DELAY_FIRST.saturating_mul(1 << over.min(10)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_becomes_slow_for_its_address_alone() {
        let attempts = Attempts::default();
        let (mine, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let waits: Vec<Duration> = (0..10).map(|_| attempts.fail(mine)).collect();
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert!(waits[3..].is_sorted() && waits[3] == DELAY_FIRST && waits[9] == DELAY_MAX);
        assert_eq!(attempts.fail(other), Duration::ZERO);
        attempts.succeed(mine);
        assert_eq!(attempts.fail(mine), Duration::ZERO);
    }
}
