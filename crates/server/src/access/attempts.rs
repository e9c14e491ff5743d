//! Failed attempts to log in, counted an address, so that guessing becomes slow.
//!
//! An address that has failed a few times waits before its next proof is looked at, whichever connection it comes by, and
//! few may wait at a time: who guesses over many connections at once is refused on most of them without a look. The wait
//! falls on the thread of the connection, which holds no lock, and ends when its client goes or the server stops. A
//! right password waits as well, and ends the waiting for its address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Failures that are taken for mistyped passwords.
const FREE_FAILURES: u32 = 3;
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(3);
/// Attempts of one address that wait at a time; further ones fail. With `DELAY_MAX` that is less than three guesses a second.
const WAITING_MAX: u32 = 8;
/// After so long without a failure an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Addresses that are remembered. When there are more, those that have not failed for a minute are forgotten, and all when
/// that makes no room.
const ADDRESSES_MAX: usize = 10_000;

/// The failures of the last minute.
#[derive(Default)]
pub struct Attempts {
    failures: Mutex<FxHashMap<IpAddr, Failures>>,
    /// Attempts that have failed since the start, refused ones among them.
    pub failed: AtomicU64,
    /// Attempts that had to wait.
    pub delayed: AtomicU64,
    /// Attempts that were refused because too many of their address waited.
    pub refused: AtomicU64,
}

struct Failures {
    count: u32,
    last: Instant,
    waiting: u32,
}

/// An attempt that may go on after a wait. Another of its address may wait in its place where this is dropped.
pub struct Admission<'a> {
    attempts: &'a Attempts,
    address: IpAddr,
    /// How long it waits.
    pub delay: Duration,
}

impl Attempts {
    /// An attempt of that address is to be looked at; none where too many of them wait.
    pub fn admit(&self, address: IpAddr) -> Option<Admission<'_>> {
        let mut failures = self.failures.lock();
        let mut admission = Admission {
            attempts: self,
            address,
            delay: Duration::ZERO,
        };
        let Some(of) = failures.get_mut(&address) else {
            return Some(admission);
        };
        if of.last.elapsed() < FORGOTTEN_AFTER {
            admission.delay = delay(of.count);
        }
        if admission.delay > Duration::ZERO {
            if of.waiting >= WAITING_MAX {
                self.refused.fetch_add(1, Relaxed);
                // What is not admitted leaves no place.
                admission.delay = Duration::ZERO;
                return None;
            }
            of.waiting += 1;
            self.delayed.fetch_add(1, Relaxed);
        }
        Some(admission)
    }

    /// Notes a failure; how long the next attempt of the address will wait.
    pub fn fail(&self, address: IpAddr) -> Duration {
        self.failed.fetch_add(1, Relaxed);
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
            waiting: 0,
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

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.delay > Duration::ZERO
            && let Some(of) = self.attempts.failures.lock().get_mut(&self.address)
        {
            // The address may have been forgotten and noted anew meanwhile.
            of.waiting = of.waiting.saturating_sub(1);
        }
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
        assert_eq!(attempts.admit(mine).unwrap().delay, DELAY_MAX);
        assert_eq!(attempts.admit(other).unwrap().delay, Duration::ZERO);
        attempts.succeed(mine);
        assert_eq!(attempts.admit(mine).unwrap().delay, Duration::ZERO);
        assert_eq!(attempts.failed.load(Relaxed), 10);
    }

    #[test]
    fn few_attempts_of_an_address_wait_at_a_time() {
        let attempts = Attempts::default();
        let (mine, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let free: Vec<_> = (0..100).map(|_| attempts.admit(mine)).collect();
        assert!(free.iter().all(Option::is_some));
        for _ in 0..=FREE_FAILURES {
            attempts.fail(mine);
        }
        drop(free);
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| attempts.admit(mine)).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(attempts.admit(mine).is_none() && attempts.admit(other).is_some());
        // One that is over makes room for one.
        waiting.pop();
        let next = attempts.admit(mine);
        assert!(next.is_some() && attempts.admit(mine).is_none());
        assert_eq!(attempts.refused.load(Relaxed), 2);
    }
}
