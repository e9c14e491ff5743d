//! One writer leads one group: waits for the turn or gathers, takes the group out of the queue, has it written and applied,
//! and hands the turn on. A writer that is alone does so with its own record.

use std::sync::Arc;

use super::{GATHER_WRITERS_MIN, Pipeline};
use crate::append::{Appender, Surroundings};
use crate::error::Result;
use crate::group::Group;
use crate::hooks::AbortOnPanic;
use crate::primitives::atomic::Ordering;
use crate::primitives::{MutexGuard, yield_now};
use crate::queue::{Queue, Taken};
use crate::ticket::{CommitReport, Ticket};

impl Pipeline {
    /// Leads the forming group: now, or when the running turn ends. Called while no leader waits.
    pub(super) fn lead_when_due<'p>(&'p self, mut queue: MutexGuard<'p, Queue>) {
        if queue.turn_taken {
            queue.leader_waits = true;
            let forming = Arc::clone(&queue.forming);
            drop(queue);
            forming.wait_turn();
            queue = self.queue.lock();
        } else if self.options.shortcuts.gathering
            && queue.share() >= GATHER_WRITERS_MIN
            && !queue.closed
        {
            (queue.turn_taken, queue.leader_waits) = (true, true);
            queue.is_gathering = true;
            let forming = Arc::clone(&queue.forming);
            drop(queue);
            yield_now();
            queue = self.queue.lock();
            if !queue.is_gathering || !Arc::ptr_eq(&queue.forming, &forming) {
                // Somebody else leads it.
                return;
            }
        }
        self.lead_gathered(queue);
    }

    /// Leads the forming group now. The turn is free, or given to whoever leads this group.
    pub(super) fn lead_gathered(&self, mut queue: MutexGuard<'_, Queue>) {
        let taken = queue.take();
        drop(queue);
        self.lead(taken);
    }

    /// Takes the turn for a record that is not in the queue, and whose group may be `made` already. The queue is idle.
    pub(super) fn lead_alone(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        payload: &[u8],
        made: Option<Vec<u8>>,
    ) -> Result<Ticket> {
        let number = queue.take_turn();
        drop(queue);
        let _abort = AbortOnPanic::new();
        let begun_ns = self.now_ns();
        let mut appender = self.appender.lock();
        let mut group = made.unwrap_or_else(|| appender.group_of(payload));
        let result = self.append_and_apply(&mut appender, &mut group, 1, begun_ns, None);
        appender.keep_buffer(group, self.options.group_bytes_max);
        drop(appender);
        self.end_turn(self.queue.lock());
        let done = result?;
        let report = CommitReport {
            append_ns: done.appended_ns.saturating_sub(begun_ns),
            apply_ns: done.applied_ns.saturating_sub(done.appended_ns),
            group: number,
            group_writers: 1,
            ..CommitReport::default()
        };
        Ok(Ticket {
            lsn: done.first_lsn,
            cluster_time: done.cluster_time,
            report,
        })
    }

    fn lead(&self, mut taken: Taken) {
        let _abort = AbortOnPanic::new();
        let begun_ns = self.now_ns();
        let (group, buffer) = (&taken.group, &mut taken.buffer);
        let result = self.append_and_apply(
            &mut self.appender.lock(),
            buffer,
            taken.count,
            begun_ns,
            Some(group),
        );
        let result =
            result.map(|done| group.note_times(begun_ns, done.appended_ns, done.applied_ns));
        let mut queue = self.queue.lock();
        queue
            .spares
            .keep(group, std::mem::take(buffer), &self.options);
        self.end_turn(queue);
        group.finish(&result);
    }

    /// `group` is what its writers see of the records, unless there is one writer and it leads.
    pub(super) fn append_and_apply(
        &self,
        appender: &mut Appender,
        records: &mut Vec<u8>,
        count: u32,
        begun_ns: u64,
        group: Option<&Group>,
    ) -> Result<Done> {
        let around = self.surroundings(begun_ns);
        let accepted = appender.append(records, count, &around)?;
        let cluster_time = accepted.last_cluster_time();
        self.accepted_lsn
            .store(appender.next_lsn - 1, Ordering::Release);
        if let Some(group) = group {
            group.first_lsn.store(accepted.first_lsn, Ordering::Relaxed);
            let last_lsn = accepted.first_lsn + u64::from(count) - 1;
            group.last_lsn.store(last_lsn, Ordering::Relaxed);
            group.cluster_time.store(cluster_time, Ordering::Relaxed);
            group.call_for_sync();
        }
        let appended_ns = self.now_ns();
        appender.apply(records, accepted, &around)?;
        self.note_cluster_time(cluster_time);
        self.wakeups.note_applied(appender.next_lsn - 1);
        Ok(Done {
            first_lsn: accepted.first_lsn,
            cluster_time,
            appended_ns,
            applied_ns: self.now_ns(),
        })
    }

    fn surroundings(&self, now_ns: u64) -> Surroundings<'_> {
        Surroundings {
            hooks: &*self.hooks,
            latch: &self.latch,
            unix_ms: self.clock.unix_ms(now_ns),
            cluster_time_min: self.cluster_time_min(),
        }
    }

    /// Hands the turn to the leader that waits for it, or leaves it free.
    pub(super) fn end_turn(&self, mut queue: MutexGuard<'_, Queue>) {
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

/// A group that is written and applied, and when it was.
pub(super) struct Done {
    pub first_lsn: u64,
    pub cluster_time: u64,
    pub appended_ns: u64,
    pub applied_ns: u64,
}
