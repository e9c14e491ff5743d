//! How long a stalled engine has made no progress, as one waiting writer sees it.
//!
//! An engine that is slow makes its writers wait for as long as it takes; only one that takes nothing at all has their writes
//! refused in the end.

use std::time::{Duration, Instant};

/// How long an engine may stand still before a write that waits for it is refused.
const STALL_WAIT: Duration = Duration::from_secs(30);

/// One writer's view of an engine that it waits for. It begins with the first look.
#[derive(Default)]
pub struct Standstill {
    seen: Option<Seen>,
}

struct Seen {
    since: Instant,
    applied_lsn: u64,
}

impl Standstill {
    /// Looks again: whether nothing was applied for too long. `applied_lsn` moves only after the engine has what came before.
    pub fn is_too_long(&mut self, applied_lsn: u64, now: Instant) -> bool {
        match &self.seen {
            Some(seen) if seen.applied_lsn == applied_lsn => now - seen.since >= STALL_WAIT,
            _ => {
                self.seen = Some(Seen {
                    since: now,
                    applied_lsn,
                });
                false
            }
        }
    }

    /// The engine took a batch.
    pub fn end(&mut self) {
        self.seen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_engine_that_takes_nothing_stands_still() {
        let begun = Instant::now();
        let after = |share: f64| begun + STALL_WAIT.mul_f64(share);
        let mut standstill = Standstill::default();
        assert!(!standstill.is_too_long(7, begun));
        assert!(!standstill.is_too_long(7, after(0.9)));
        assert!(
            !standstill.is_too_long(8, after(1.5)),
            "a group was applied"
        );
        assert!(!standstill.is_too_long(8, after(2.4)));
        standstill.end();
        assert!(!standstill.is_too_long(8, after(3.0)), "a batch was taken");
        assert!(!standstill.is_too_long(8, after(3.9)));
        assert!(standstill.is_too_long(8, after(4.0)), "nothing was");
    }
}
