//! One group as its writers see it: the word they sleep on, and what became of it. Groups are reused,
//! so that a commit allocates nothing in steady state.
//!
//! Writers that will wait for Durable sleep on a word of their own, `call`: one of them is woken when the group is written
//! and syncs while the leader applies. Of the others, those that asked for `Until::Applied` wake when the group is applied,
//! and sleep once more for the sync; those that asked for `Until::Synced` sleep once, until both are over, which with many
//! writers about saves each of them a wake-up.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::primitives::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::primitives::{self, Mutex, Word};
use crate::ticket::Until;

const FORMING: u32 = 0;
const APPLIED: u32 = 1;
const FAILED: u32 = 2;

/// The states of the call for a sync.
const UNCALLED: u32 = 0;
const CALLED: u32 = 1;
const ANSWERED: u32 = 2;
const OVER: u32 = 3;

/// A writer gives its core away so often before it sleeps: a group is usually done by then, and nobody has
/// to be woken. Waiting for a sync is too long for that.
const YIELDS: u32 = 4;

/// Times are nanoseconds on the journal's clock.
#[derive(Default)]
pub(crate) struct Group {
    /// FORMING until the group is applied or failed.
    word: Word,
    sleepers: AtomicU32,
    /// The word that writers sleep on who will wait for Durable: one of them is to sync once the group is written.
    call: Word,
    callable: AtomicU32,
    /// How many of the callable writers asked for `Until::Applied`.
    until_applied: AtomicU32,
    /// Set when the writer that waits to lead the group may begin.
    turn: Word,
    pub number: AtomicU64,
    pub first_lsn: AtomicU64,
    /// The LSN of the last record of the group's writers.
    pub last_lsn: AtomicU64,
    /// The cluster time of the group: that of its last record.
    pub cluster_time: AtomicU64,
    pub writers: AtomicU32,
    pub begun_ns: AtomicU64,
    pub appended_ns: AtomicU64,
    pub applied_ns: AtomicU64,
    failure: Mutex<Option<Error>>,
}

/// Where a writer's record is.
pub(crate) struct Place {
    pub group: Arc<Group>,
    pub index: u32,
    pub submitted_ns: u64,
}

impl Place {
    /// Once the group is applied.
    pub fn lsn(&self) -> u64 {
        self.group.first_lsn.load(Ordering::Relaxed) + u64::from(self.index)
    }
}

impl Group {
    pub fn reset(&mut self) {
        *self.word.get_mut() = FORMING;
        *self.call.get_mut() = UNCALLED;
        *self.turn.get_mut() = 0;
        *self.failure.get_mut() = None;
    }

    pub fn is_done(&self) -> bool {
        self.word.load(Ordering::SeqCst) != FORMING
    }

    /// Sleeps until the group is applied or failed.
    pub fn wait(&self) -> Result<()> {
        yield_until(&|| self.is_done());
        if !self.is_done() {
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            while !self.is_done() {
                primitives::wait(&self.word, FORMING);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
        self.outcome()
    }

    /// Sleeps until the group has failed or has reached `until` (false), or until this writer is to sync (true).
    /// `Until::Synced` is only as good as the first `end_call`: beside writers with `Until::Applied` it comes with the apply.
    pub fn wait_for_call(&self, until: Until) -> bool {
        yield_until(&|| self.is_done() || self.call.load(Ordering::Relaxed) == CALLED);
        let goes_on_when_applied = u32::from(until == Until::Applied);
        (self.until_applied).fetch_add(goes_on_when_applied, Ordering::SeqCst);
        self.callable.fetch_add(1, Ordering::SeqCst);
        let is_called = loop {
            if until == Until::Applied && self.is_done() {
                // The call may have woken this writer, and another one sleeps on.
                if self.call.load(Ordering::SeqCst) == CALLED {
                    primitives::wake_one(&self.call);
                }
                break false;
            }
            match self.call.load(Ordering::SeqCst) {
                CALLED if self.answer() => break true,
                OVER => break false,
                CALLED => {}
                seen => primitives::wait(&self.call, seen),
            }
        };
        self.callable.fetch_sub(1, Ordering::SeqCst);
        (self.until_applied).fetch_sub(goes_on_when_applied, Ordering::SeqCst);
        is_called
    }

    fn answer(&self) -> bool {
        let (seqcst, relaxed) = (Ordering::SeqCst, Ordering::Relaxed);
        let answered = (self.call).compare_exchange(CALLED, ANSWERED, seqcst, relaxed);
        answered.is_ok()
    }

    /// The group is written: one of the writers that will wait for Durable may sync.
    pub fn call_for_sync(&self) {
        self.call.store(CALLED, Ordering::SeqCst);
        if self.callable.load(Ordering::SeqCst) > 0 {
            primitives::wake_one(&self.call);
        }
    }

    pub fn outcome(&self) -> Result<()> {
        if self.word.load(Ordering::Acquire) == APPLIED {
            return Ok(());
        }
        Err(self.failure.lock().clone().unwrap_or(Error::Closed))
    }

    /// Before the outcome is published.
    pub fn note_times(&self, begun_ns: u64, appended_ns: u64, applied_ns: u64) {
        self.begun_ns.store(begun_ns, Ordering::Relaxed);
        self.appended_ns.store(appended_ns, Ordering::Relaxed);
        self.applied_ns.store(applied_ns, Ordering::Relaxed);
    }

    /// Takes over from the group that its records were written with what a receipt tells of it.
    pub fn note_as(&self, written: &Group) {
        let copy = |to: &AtomicU64, from: &AtomicU64| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        copy(&self.number, &written.number);
        copy(&self.cluster_time, &written.cluster_time);
        copy(&self.begun_ns, &written.begun_ns);
        copy(&self.appended_ns, &written.appended_ns);
        copy(&self.applied_ns, &written.applied_ns);
    }

    /// Publishes the outcome and wakes everyone.
    pub fn finish(&self, result: &Result<()>) {
        let word = match result {
            Ok(()) => APPLIED,
            Err(error) => {
                *self.failure.lock() = Some(error.clone());
                FAILED
            }
        };
        self.word.store(word, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            primitives::wake_all(&self.word);
        }
        if word == FAILED || self.until_applied.load(Ordering::SeqCst) > 0 {
            self.end_call();
        }
    }

    /// Nobody need sync any more, or sleep for it.
    pub fn end_call(&self) {
        self.call.store(OVER, Ordering::SeqCst);
        if self.callable.load(Ordering::SeqCst) > 0 {
            primitives::wake_all(&self.call);
        }
    }

    pub fn wait_turn(&self) {
        let is_turn = || self.turn.load(Ordering::Acquire) != 0;
        yield_until(&is_turn);
        while !is_turn() {
            primitives::wait(&self.turn, 0);
        }
    }

    pub fn give_turn(&self) {
        self.turn.store(1, Ordering::Release);
        primitives::wake_one(&self.turn);
    }
}

fn yield_until(is_over: &dyn Fn() -> bool) {
    for _ in 0..YIELDS {
        if is_over() {
            return;
        }
        primitives::yield_now();
    }
}

/// The call for a sync alone, whose narrowest windows are rare in the models of the whole (`tests/model.rs`).
#[cfg(all(test, feature = "shuttle"))]
mod model {
    use std::sync::Arc;

    use shuttle::thread::{spawn, yield_now};

    use super::*;

    const INTERLEAVINGS: usize = 5000;

    /// A writer that waits for its sync, which it makes if it is called.
    fn wait(group: &Group, until: Until) {
        if group.wait_for_call(until) {
            yield_now();
            group.end_call();
        }
        group.wait().unwrap();
    }

    /// One is called that goes on when the group is applied, and another one sleeps until the sync is over.
    #[test]
    fn a_call_reaches_who_sleeps_on() {
        let model = || {
            let group = Arc::new(Group::default());
            let writers = [Until::Applied, Until::Synced, Until::Synced].map(|until| {
                let group = Arc::clone(&group);
                spawn(move || wait(&group, until))
            });
            // Nobody comes late: all are about to sleep.
            while group.callable.load(Ordering::SeqCst) < 3 {
                yield_now();
            }
            group.call_for_sync();
            group.finish(&Ok(()));
            for writer in writers {
                writer.join().unwrap();
            }
        };
        shuttle::check_random(model, INTERLEAVINGS);
    }
}
