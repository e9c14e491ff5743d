//! The clock: a processor's counter where it is steady over sleep and cores, else the system's monotonic clock.
//!
//! A look at the counter costs a third of a look at the system's clock, and every phase takes two. Times are kept in
//! the counter's own ticks and turned into nanoseconds when an operation is read. The counter's rate is measured
//! against the system's clock, from the start of the process on: the longer it runs, the finer.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// False in the build that the bench compares with: nothing is then timed, and the compiler takes scopes out.
pub const IS_COMPILED: bool = !cfg!(feature = "off");

/// The rate is a fixed-point number with so many bits behind the point.
const RATE_BITS: u32 = 32;
/// Below it, the two clocks are not read closely enough together for a better rate.
const BASELINE_MIN: Duration = Duration::from_millis(20);
/// Beyond it, the rate is as fine as it gets.
const BASELINE_MAX: Duration = Duration::from_secs(100);
/// The clocks are read together this many times, and the closest pair counts.
const READINGS: usize = 8;

#[derive(Debug)]
struct Origin {
    clock: quanta::Clock,
    instant: Instant,
    ticks: u64,
    /// Nanoseconds a tick.
    rate: AtomicU64,
}

static ORIGIN: LazyLock<Origin> = LazyLock::new(|| {
    let clock = quanta::Clock::new();
    let rate = clock.delta_as_nanos(0, 1 << RATE_BITS);
    let (instant, ticks) = read_both(&clock);
    Origin {
        clock,
        instant,
        ticks,
        rate: AtomicU64::new(rate),
    }
});

/// Finds the counter's rate, which takes up to a fifth of a second, so that the first operation need not.
pub fn start_clock() {
    LazyLock::force(&ORIGIN);
}

/// Measures the rate again, over the longer time that has passed by now.
pub(crate) fn refine() {
    let passed = ORIGIN.instant.elapsed();
    if !(BASELINE_MIN..BASELINE_MAX).contains(&passed) {
        return;
    }
    let (instant, ticks) = read_both(&ORIGIN.clock);
    let ns = instant.duration_since(ORIGIN.instant).as_nanos();
    let ticks = u128::from(ticks.saturating_sub(ORIGIN.ticks)).max(1);
    if let Ok(rate) = u64::try_from((ns << RATE_BITS) / ticks) {
        ORIGIN.rate.store(rate, Relaxed);
    }
}

/// Both clocks at one moment: this thread may be interrupted between the two looks, so the closest pair counts.
fn read_both(clock: &quanta::Clock) -> (Instant, u64) {
    let read = |_| {
        let before = Instant::now();
        let ticks = clock.raw();
        (before.elapsed(), before, ticks)
    };
    let closest = (0..READINGS).map(read).min_by_key(|reading| reading.0);
    closest.map_or_else(
        || (Instant::now(), clock.raw()),
        |(_, instant, ticks)| (instant, ticks),
    )
}

/// A look at the clock, kept where looking is frequent: it does not ask each time whether the clock has been started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter(&'static Origin);

impl Counter {
    pub fn new() -> Counter {
        Counter(&ORIGIN)
    }

    /// Now, in ticks.
    #[inline]
    pub fn now(self) -> u64 {
        self.0.clock.raw()
    }

    /// As [`ns`].
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        // Less than nothing counts as nothing.
        let ticks = ticks.cast_signed().max(0).cast_unsigned();
        let rate = self.0.rate.load(Relaxed);
        ((u128::from(ticks) * u128::from(rate)) >> RATE_BITS) as u64
    }
}

/// As [`Counter::now`].
pub(crate) fn now() -> u64 {
    ORIGIN.clock.raw()
}

/// An earlier moment, in ticks.
pub(crate) fn at(instant: Instant) -> u64 {
    let ns = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
    now().saturating_sub(ticks(ns)).max(1)
}

pub(crate) fn ns(ticks: u64) -> u64 {
    Counter::new().ns(ticks)
}

/// Nanoseconds a tick.
pub(crate) fn rate() -> f64 {
    ORIGIN.rate.load(Relaxed) as f64 / (1u64 << RATE_BITS) as f64
}

pub(crate) fn ticks(ns: u64) -> u64 {
    let rate = u128::from(ORIGIN.rate.load(Relaxed)).max(1);
    u64::try_from((u128::from(ns) << RATE_BITS) / rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_as_fast_as_the_system_clock() {
        start_clock();
        let spin = |time| {
            let begun = Instant::now();
            while begun.elapsed() < time {
                std::hint::spin_loop();
            }
        };
        spin(2 * BASELINE_MIN);
        refine();
        let (begun, from) = read_both(&ORIGIN.clock);
        spin(BASELINE_MIN);
        let (ended, to) = read_both(&ORIGIN.clock);
        let measured = ns(to - from) as f64;
        let expected = ended.duration_since(begun).as_nanos() as f64;
        assert!(
            (measured / expected - 1.0).abs() < 0.005,
            "{measured} {expected}"
        );
    }

    #[test]
    fn nanoseconds_and_ticks_go_both_ways() {
        for of in [1_000, 4_000_000, 3_600_000_000_000] {
            assert!(ns(ticks(of)).abs_diff(of) <= 1 + of / 100_000, "{of}");
        }
        let second_ago = at(Instant::now().checked_sub(Duration::from_secs(1)).unwrap());
        let apart = ns(now() - second_ago);
        assert!((950_000_000..1_300_000_000).contains(&apart), "{apart}");
    }
}
