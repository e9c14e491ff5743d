//! One writer leads one group: waits for the turn or gathers, takes the group out of the queue, has it written and applied,
//! and hands the turn on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{GATHER_WRITERS_MIN, Pipeline};
use crate::append::{Appender, Surroundings};
use crate::error::Result;
use crate::hooks::AbortOnPanic;
use crate::queue::{Queue, Taken};

impl Pipeline {
    /// Leads the forming group: now, or when the running turn ends. Called while no leader waits.
    pub(super) fn lead_when_due<'p>(&'p self, mut queue: parking_lot::MutexGuard<'p, Queue>) {
        if queue.turn_taken {
            queue.leader_waits = true;
            let forming = Arc::clone(&queue.forming);
            drop(queue);
            forming.wait_turn();
            queue = self.queue.lock();
        } else if queue.share() >= GATHER_WRITERS_MIN && !queue.closed {
            (queue.turn_taken, queue.leader_waits) = (true, true);
            queue.is_gathering = true;
            let forming = Arc::clone(&queue.forming);
            drop(queue);
            std::thread::yield_now();
            queue = self.queue.lock();
            if !queue.is_gathering || !Arc::ptr_eq(&queue.forming, &forming) {
                // Somebody else leads it.
                return;
            }
        }
        self.lead_gathered(queue);
    }

    /// Leads the forming group now. The turn is free, or given to whoever leads this group.
    pub(super) fn lead_gathered(&self, mut queue: parking_lot::MutexGuard<'_, Queue>) {
        (queue.leader_waits, queue.is_gathering) = (false, false);
        queue.turn_taken = true;
        let taken = queue.take();
        drop(queue);
        self.lead(taken);
    }

    fn lead(&self, mut taken: Taken) {
        let _abort = AbortOnPanic::new();
        let begun_ns = self.now_ns();
        taken.group.begun_ns.store(begun_ns, Ordering::Relaxed);
        let result = self.append_and_apply(&mut taken, begun_ns);
        self.end_turn(&mut taken);
        taken.group.finish(&result);
        if taken.wants_sync && result.is_ok() {
            self.wakeups.request_sync();
        }
    }

    fn append_and_apply(&self, taken: &mut Taken, begun_ns: u64) -> Result<()> {
        let mut appender = self.appender.lock();
        let around = self.surroundings(begun_ns);
        self.apply_refused(&mut appender, &around)?;
        let accepted = appender.append(&mut taken.buffer, taken.count, &around)?;
        self.accepted_lsn
            .store(appender.next_lsn - 1, Ordering::Release);
        let group = &taken.group;
        group.first_lsn.store(accepted.first_lsn, Ordering::Relaxed);
        group.call_for_sync();
        let appended_ns = self.now_ns();
        group.appended_ns.store(appended_ns, Ordering::Relaxed);
        if let Err(refusal) = appender.apply(&mut taken.buffer, accepted, &around) {
            self.is_behind.store(true, Ordering::Release);
            return Err(refusal);
        }
        group.applied_ns.store(self.now_ns(), Ordering::Relaxed);
        self.wakeups.note_applied(appender.next_lsn - 1);
        Ok(())
    }

    fn apply_refused(&self, appender: &mut Appender, around: &Surroundings<'_>) -> Result<()> {
        if let Some(last_lsn) = appender.apply_refused(around)? {
            self.is_behind.store(false, Ordering::Release);
            self.wakeups.note_applied(last_lsn);
        }
        Ok(())
    }

    /// Offers a group that the engine refused again, outside a commit.
    pub fn retry_refused(&self) -> Result<()> {
        let _abort = AbortOnPanic::new();
        let mut appender = self.appender.lock();
        self.apply_refused(&mut appender, &self.surroundings(self.now_ns()))
    }

    fn surroundings(&self, now_ns: u64) -> Surroundings<'_> {
        Surroundings {
            hooks: &*self.hooks,
            latch: &self.latch,
            unix_ms: self.clock.unix_ms(now_ns),
        }
    }

    /// Hands the turn to the leader that waits for it, or leaves it free.
    fn end_turn(&self, taken: &mut Taken) {
        let mut queue = self.queue.lock();
        queue.keep_group(&taken.group);
        queue.keep_buffer(
            std::mem::take(&mut taken.buffer),
            self.options.group_bytes_max,
        );
        if !queue.leader_waits {
            queue.turn_taken = false;
            if queue.closed {
                self.turn_ended.notify_all();
            }
            return;
        }
        let next = Arc::clone(&queue.forming);
        drop(queue);
        next.give_turn();
    }
}
