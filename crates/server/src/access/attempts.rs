//! Failed attempts to log in, counted an address and a user, so that guessing becomes slow.
//!
//! Who has failed to be one user a few times from one address waits there before the next proof for that user is looked
//! at, whichever connection it comes by. A right password waits as well, and ends the waiting for that user alone: whoever
//! has an account of its own guesses others' passwords no faster by it. Beside that an address has a budget of failures
//! for all its users together, so that trying one password on many users becomes slow, too.
//!
//! Few may wait at a time: who guesses over many connections at once is refused on most of them without a look. The wait
//! falls on the thread of the connection, which holds no lock, and ends when its client goes or the server stops.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;

use crate::access::name::Name;

/// Failures to be one user that are taken for mistyped passwords.
const FREE_FAILURES: u32 = 3;
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(3);
/// Attempts of one address that wait at a time; further ones fail. With `DELAY_MAX` that is less than three guesses a second.
const WAITING_MAX: u32 = 8;
/// The time that a failure uses up of its address's budget, which comes back as the time passes.
const BUDGET_A_FAILURE: Duration = Duration::from_secs(1);
/// The budget of an address.
const BUDGET: Duration = Duration::from_secs(64);
/// After so long without a failure an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Addresses that are remembered. When there are more, those that have not failed for a minute are forgotten, and the half
/// that failed the longest ago when that makes no room.
const ADDRESSES_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Users of one address whose failures are remembered. More of them within a minute have used up the budget.
const USERS_MAX: usize = 64;

/// The failures of the last minute.
#[derive(Default)]
pub struct Attempts {
    failures: Mutex<HashMap<Source, Failures>>,
    /// Names are remembered by their hash: clients choose them. It is keyed, so that nobody finds two that are alike.
    name_hash: DefaultHashBuilder,
    /// Attempts that have failed since the start, refused ones among them.
    pub failed: AtomicU64,
    /// Attempts that had to wait.
    pub delayed: AtomicU64,
    /// Attempts that were refused because too many of their address waited.
    pub refused: AtomicU64,
}

/// Where attempts come from: an IPv4 address, or the half of an IPv6 address that names a network. The other half is the
/// client's to choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Source(u64);

impl Source {
    fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            // No network of IPv6 has this number.
            IpAddr::V4(address) => Source(u64::from(address.to_bits())),
            IpAddr::V6(address) => Source((address.to_bits() >> 64) as u64 | 1 << 63),
        }
    }
}

struct Failures {
    last: Instant,
    /// When the whole budget will be there again.
    whole_at: Instant,
    waiting: u32,
    /// The failures to be one user, by the hash of its name; the one first noted is first.
    users: Vec<(u64, u32)>,
}

impl Failures {
    fn delay(&self, user: Option<u64>) -> Duration {
        if self.last.elapsed() >= FORGOTTEN_AFTER {
            return Duration::ZERO;
        }
        let used = self.whole_at.saturating_duration_since(Instant::now());
        let over = used.saturating_sub(BUDGET).min(DELAY_MAX);
        let mut users = self.users.iter();
        let failed = users.find(|(other, _)| Some(*other) == user);
        over.max(failed.map_or(Duration::ZERO, |(_, count)| delay(*count)))
    }
}

/// An attempt that may go on after a wait. Another of its address may wait in its place where this is dropped.
pub struct Admission<'a> {
    attempts: &'a Attempts,
    source: Source,
    /// How long it waits.
    pub delay: Duration,
}

impl Attempts {
    /// An attempt of that address to be that user is to be looked at; none where too many of the address wait.
    pub fn admit(&self, address: IpAddr, user: Option<&Name>) -> Option<Admission<'_>> {
        let source = Source::of(address);
        let user = self.hash(user);
        let mut failures = self.failures.lock();
        let mut admission = Admission {
            attempts: self,
            source,
            delay: Duration::ZERO,
        };
        let Some(of) = failures.get_mut(&source) else {
            return Some(admission);
        };
        let delay = of.delay(user);
        if delay > Duration::ZERO {
            if of.waiting >= WAITING_MAX {
                self.refused.fetch_add(1, Relaxed);
                return None;
            }
            of.waiting += 1;
            admission.delay = delay;
            self.delayed.fetch_add(1, Relaxed);
        }
        Some(admission)
    }

    /// How long an attempt of that address to be that user would wait now.
    pub fn delay(&self, address: IpAddr, user: Option<&Name>) -> Duration {
        let user = self.hash(user);
        let failures = self.failures.lock();
        let of = failures.get(&Source::of(address));
        of.map_or(Duration::ZERO, |of| of.delay(user))
    }

    /// Notes a failure to be that user, or to be anybody.
    pub fn fail(&self, address: IpAddr, user: Option<&Name>) {
        self.failed.fetch_add(1, Relaxed);
        let source = Source::of(address);
        let user = self.hash(user);
        let now = Instant::now();
        let mut failures = self.failures.lock();
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&source) {
            make_room(&mut failures, now);
        }
        let of = failures.entry(source).or_insert(Failures {
            last: now,
            whole_at: now,
            waiting: 0,
            users: Vec::new(),
        });
        if now.duration_since(of.last) >= FORGOTTEN_AFTER {
            of.users.clear();
        }
        of.last = now;
        // What is over the budget is the time that the next one waits, which has a bound.
        of.whole_at = (of.whole_at.max(now) + BUDGET_A_FAILURE).min(now + BUDGET + DELAY_MAX);
        let Some(user) = user else {
            return;
        };
        match of.users.iter_mut().find(|(other, _)| *other == user) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => {
                if of.users.len() >= USERS_MAX {
                    of.users.remove(0);
                }
                of.users.push((user, 1));
            }
        }
    }

    /// Forgets the failures to be that user, whose password somebody at that address has proven to know.
    pub fn succeed(&self, address: IpAddr, user: &Name) {
        let user = self.hash(Some(user));
        if let Some(of) = self.failures.lock().get_mut(&Source::of(address)) {
            of.users.retain(|(other, _)| Some(*other) != user);
        }
    }

    fn hash(&self, user: Option<&Name>) -> Option<u64> {
        user.map(|user| self.name_hash.hash_one(user))
    }
}

/// Forgets sources until one more may come.
#[cold]
fn make_room(failures: &mut HashMap<Source, Failures>, now: Instant) {
    failures.retain(|_, of| now.duration_since(of.last) < FORGOTTEN_AFTER);
    if failures.len() >= ADDRESSES_MAX {
        let mut times: Vec<Instant> = failures.values().map(|of| of.last).collect();
        let half = times.len() / 2;
        let middle = *times.select_nth_unstable(half).1;
        failures.retain(|_, of| of.last > middle);
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.delay > Duration::ZERO
            && let Some(of) = self.attempts.failures.lock().get_mut(&self.source)
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

    const MINE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn user(name: &str) -> Name {
        Name::new(name, "admin")
    }

    #[test]
    fn guessing_becomes_slow_for_its_address_alone() {
        let attempts = Attempts::default();
        let root = user("root");
        let fail = |_| {
            attempts.fail(MINE, Some(&root));
            attempts.delay(MINE, Some(&root))
        };
        let waits: Vec<Duration> = (0..10).map(fail).collect();
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert!(waits[3..].is_sorted() && waits[3] == DELAY_FIRST && waits[9] == DELAY_MAX);
        assert_eq!(attempts.admit(MINE, Some(&root)).unwrap().delay, DELAY_MAX);
        assert_eq!(attempts.delay(OTHER, Some(&root)), Duration::ZERO);
        attempts.succeed(MINE, &root);
        assert_eq!(attempts.delay(MINE, Some(&root)), Duration::ZERO);
        assert_eq!(attempts.failed.load(Relaxed), 10);
    }

    #[test]
    fn a_success_forgets_the_failures_of_its_own_user() {
        let attempts = Attempts::default();
        let (root, own) = (user("root"), user("own"));
        for _ in 0..=FREE_FAILURES {
            attempts.fail(MINE, Some(&root));
            attempts.succeed(MINE, &own);
        }
        assert_eq!(attempts.delay(MINE, Some(&root)), DELAY_FIRST);
        // Whoever else logs in there does not wait for it.
        assert_eq!(attempts.delay(MINE, Some(&own)), Duration::ZERO);
        // A user of another database has another password.
        let namesake = Name::new("root", "other");
        assert_eq!(attempts.delay(MINE, Some(&namesake)), Duration::ZERO);
    }

    #[test]
    fn one_password_for_many_users_becomes_slow_too() {
        let attempts = Attempts::default();
        for number in 0..200 {
            let name = user(&number.to_string());
            assert!(number > 50 || attempts.delay(MINE, Some(&name)).is_zero());
            attempts.fail(MINE, Some(&name));
            attempts.succeed(MINE, &user("own"));
        }
        // Far more failures than the time that passed gives back.
        let delay = attempts.delay(MINE, Some(&user("next")));
        assert!(delay > Duration::ZERO && delay <= DELAY_MAX, "{delay:?}");
        assert_eq!(attempts.delay(OTHER, None), Duration::ZERO);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_an_ipv4_address_another() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_ne!(of("::1"), of("0.0.0.0"));
    }

    #[test]
    fn the_sources_that_failed_last_are_remembered() {
        let attempts = Attempts::default();
        let root = user("root");
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..ADDRESSES_MAX as u32 {
            attempts.fail(address(number), Some(&root));
        }
        for _ in 0..FREE_FAILURES {
            attempts.fail(address(0), Some(&root));
        }
        for number in 0..ADDRESSES_MAX as u32 / 3 {
            attempts.fail(address(1_000_000 + number), Some(&root));
        }
        assert!(attempts.failures.lock().len() <= ADDRESSES_MAX);
        assert_eq!(attempts.delay(address(0), Some(&root)), DELAY_FIRST);
    }

    #[test]
    fn few_attempts_of_an_address_wait_at_a_time() {
        let attempts = Attempts::default();
        let root = user("root");
        let admit = |address| attempts.admit(address, Some(&root));
        let free: Vec<_> = (0..100).map(|_| admit(MINE)).collect();
        assert!(free.iter().all(Option::is_some));
        for _ in 0..=FREE_FAILURES {
            attempts.fail(MINE, Some(&root));
        }
        drop(free);
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| admit(MINE)).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(admit(MINE).is_none() && admit(OTHER).is_some());
        // One that is over makes room for one.
        waiting.pop();
        let next = admit(MINE);
        assert!(next.is_some() && admit(MINE).is_none());
        assert_eq!(attempts.refused.load(Relaxed), 2);
    }
}
