//! Grace periods: when has every reader and writer that began before now ended?
//!
//! Who reads what the catalog names enters the current generation and leaves it at the end (`Epoch`). `Epochs::advance`
//! starts the next generation; once `old_is_empty`, nobody who began before is still there, so that what was dropped
//! then can be reclaimed.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_shard::{SHARDS, ShardCounter, thread_shard};

#[derive(Default)]
pub struct Epochs {
    generation: AtomicU64,
    active: [[ShardCounter; SHARDS]; 2],
}

/// Membership in a generation, until it is dropped. It may end on another thread than it began on. A snapshot owns the
/// epochs that it is in; a writer borrows them, which touches nothing that all writers share.
pub struct Epoch<E: Deref<Target = Epochs> = Arc<Epochs>> {
    epochs: E,
    generation: u8,
    shard: u8,
}

impl Epochs {
    pub fn enter<E: Deref<Target = Epochs>>(epochs: E) -> Epoch<E> {
        let shard = thread_shard();
        loop {
            let generation = epochs.generation.load(Ordering::SeqCst);
            let side = (generation & 1) as u8;
            let counter = epochs.counter(side, shard);
            counter.fetch_add(1, Ordering::SeqCst);
            // Else the generation ended in between, and whoever advanced it may not have seen the count.
            if epochs.generation.load(Ordering::SeqCst) == generation {
                return Epoch {
                    epochs,
                    generation: side,
                    shard,
                };
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

    /// Whether everybody of the generation before the current has ended.
    pub fn old_is_empty(&self) -> bool {
        let old = (self.generation.load(Ordering::SeqCst) & 1) ^ 1;
        self.active[old as usize]
            .iter()
            .all(|counter| counter.0.load(Ordering::SeqCst) == 0)
    }

    /// Ends the membership of an epoch that was taken apart (`Epoch::into_parts`).
    pub fn leave(&self, generation: u8, shard: u8) {
        let before = self
            .counter(generation, shard)
            .fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "an epoch ends once");
    }

    fn counter(&self, generation: u8, shard: u8) -> &AtomicU64 {
        &self.active[usize::from(generation)][usize::from(shard)].0
    }
}

impl Epoch {
    /// Another membership in the generation that this one keeps open, however long ago that began.
    pub fn share(&self) -> Epoch {
        let counter = self.epochs.counter(self.generation, self.shard);
        let before = counter.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before > 0, "this membership is counted");
        Epoch {
            epochs: Arc::clone(&self.epochs),
            generation: self.generation,
            shard: self.shard,
        }
    }
}

impl Epoch<&Epochs> {
    /// Leaves the membership to somebody who keeps it longer than a borrow lasts, and who must call `Epochs::leave` with
    /// what this returns: generation and shard.
    pub fn into_parts(self) -> (u8, u8) {
        let parts = (self.generation, self.shard);
        std::mem::forget(self);
        parts
    }
}

impl<E: Deref<Target = Epochs>> Drop for Epoch<E> {
    fn drop(&mut self) {
        self.epochs.leave(self.generation, self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_operation_holds_the_generation_open() {
        let epochs = Arc::new(Epochs::default());
        let old = Epochs::enter(Arc::clone(&epochs));
        assert!(epochs.advance());
        let new = Epochs::enter(Arc::clone(&epochs));
        assert!(!epochs.old_is_empty());
        assert!(!epochs.advance(), "two generations at most are told apart");
        drop(old);
        assert!(epochs.old_is_empty());
        drop(new);
        assert!(epochs.advance());
    }

    #[test]
    fn a_shared_epoch_holds_open_the_generation_that_it_is_of() {
        let epochs = Arc::new(Epochs::default());
        let old = Epochs::enter(Arc::clone(&epochs));
        assert!(epochs.advance());
        let shared = old.share();
        drop(old);
        assert!(
            !epochs.old_is_empty(),
            "its generation began before the current one"
        );
        drop(shared);
        assert!(epochs.old_is_empty());
    }

    #[test]
    fn an_epoch_ends_on_whatever_thread_drops_it() {
        let epochs = Arc::new(Epochs::default());
        let moved = Epochs::enter(Arc::clone(&epochs));
        assert!(epochs.advance());
        std::thread::spawn(move || drop(moved)).join().unwrap();
        assert!(epochs.old_is_empty());
    }
}
