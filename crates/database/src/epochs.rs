//! Grace periods: when has every operation older than now ended?
//!
//! An operation enters the current generation and leaves it at its end. `Epochs::advance` starts the next generation;
//! once `old_is_empty`, nothing that began before is still running, so what was dropped then can be reclaimed.

use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;

#[repr(align(64))]
#[derive(Default)]
struct Counter(AtomicU64);

#[derive(Default)]
pub struct Epochs {
    generation: AtomicU64,
    active: [[Counter; SHARDS]; 2],
}

/// Membership of one running operation in a generation.
pub struct Entered<'e> {
    counter: &'e AtomicU64,
}

impl Epochs {
    pub fn enter(&self) -> Entered<'_> {
        let shard = thread_shard();
        loop {
            let generation = self.generation.load(Ordering::SeqCst);
            let counter = &self.active[(generation & 1) as usize][shard].0;
            counter.fetch_add(1, Ordering::SeqCst);
            if self.generation.load(Ordering::SeqCst) == generation {
                return Entered { counter };
            }
            counter.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Starts a new generation; refused (false) while the one before the current still runs.
    pub fn advance(&self) -> bool {
        if !self.old_is_empty() {
            return false;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Whether every operation of the generation before the current has ended.
    pub fn old_is_empty(&self) -> bool {
        let old = (self.generation.load(Ordering::SeqCst) & 1) ^ 1;
        self.active[old as usize]
            .iter()
            .all(|counter| counter.0.load(Ordering::SeqCst) == 0)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::SeqCst);
    }
}

fn thread_shard() -> usize {
    use std::cell::Cell;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize % SHARDS);
        }
        shard.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_operation_holds_the_generation_open() {
        let epochs = Epochs::default();
        let old = epochs.enter();
        assert!(epochs.advance());
        let new = epochs.enter();
        assert!(!epochs.old_is_empty());
        assert!(!epochs.advance(), "two generations at most are told apart");
        drop(old);
        assert!(epochs.old_is_empty());
        drop(new);
        assert!(epochs.advance());
    }
}
