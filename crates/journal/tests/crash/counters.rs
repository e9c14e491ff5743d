//! How much was tried: a run that reaches too little proves too little.

use super::*;

pub static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Counters of what the run has reached.
pub static POINTS: AtomicU64 = AtomicU64::new(0);
/// Images of the engine besides the oldest, each under a crash.
pub static IMAGES: AtomicU64 = AtomicU64::new(0);
/// Starts that found an engine with records that the journal had lost.
pub static GAPS: AtomicU64 = AtomicU64::new(0);
pub static STOPPED_STARTS: AtomicU64 = AtomicU64::new(0);
/// The start before was stopped as well.
pub static STOPPED_AGAIN: AtomicU64 = AtomicU64::new(0);
/// A segment had been cut or taken out when the start was stopped.
pub static STOPPED_CUTTING: AtomicU64 = AtomicU64::new(0);

/// Lives that ended with a sync that failed and forgot.
pub static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Starts stopped behind a kill, before which the disk did not have everything.
pub static STOPPED_UNSYNCED: AtomicU64 = AtomicU64::new(0);

pub fn count(counter: &AtomicU64, is_one: bool) {
    counter.fetch_add(u64::from(is_one), Ordering::Relaxed);
}
