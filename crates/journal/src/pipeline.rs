//! The commit pipeline: writers put records into the forming group; one of them leads exactly that group
//! on its own thread, while the next group forms.
//!
//! ```text
//! submit -> [forming group] -> turn: ready, finish_group, one write, apply -> wake the group's writers
//!                 ^ the first writer to find no turn taken leads immediately; else the first one of the
//!                   group waits for the turn and leads; everyone else sleeps on the group's word
//! ```
//!
//! With many writers about, the first one lets the others run before it leads, and gives the lead to whoever makes the
//! group half of them (`Queue::share`): the other half then works while this one is written, applied and synced.
//!
//! A writer that finds the queue empty and the turn free is *alone*: it takes the turn for its own record, which never enters
//! the queue, so that nothing is shared, counted or woken for it. Whoever comes meanwhile forms the next group.
//!
//! Records whose writers went on are gathered elsewhere (`backlog`) and come here as one writer's.
//!
//! Kept true: groups are written and applied in the order in which they formed, one at a time; nothing is
//! applied before the log has it; a lone writer never leaves its thread. A panic here aborts the process,
//! because memory, journal and engine could no longer be known to agree.

mod leading;

use std::sync::Arc;

use crate::append::Appender;
use crate::backlog::{Gathered, HandingOver};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::group::{Group, Place};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::{AbortOnPanic, Hooks, RECORD_HEADER_BYTES, push_record};
use crate::latch::Latch;
use crate::log::{Log, LogTicket, Stage};
use crate::options::{Options, RECORD_BYTES_MAX};
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::{Condvar, Mutex, MutexGuard};
use crate::queue::Queue;
use crate::stamp::Stamp;
use crate::ticket::{CommitReport, Level, Ticket, Until};
use crate::wakeups::Wakeups;

/// Fewer writers than this in half of the groups of late are not worth waiting for.
const GATHER_WRITERS_MIN: u32 = if cfg!(feature = "shuttle") { 2 } else { 4 };

/// Owners of the journal and logs add less than this to the group of one record: counters, and zeros up to the end of a page.
const ADDED_BYTES: usize = 64 << 10;

/// The state of an open journal. Lock order: `appender` (with the turn), `queue`, those of the log.
pub(crate) struct Pipeline {
    pub options: Options,
    pub hooks: Arc<dyn Hooks>,
    pub log: Arc<dyn Log>,
    pub latch: Arc<Latch>,
    pub wakeups: Arc<Wakeups>,
    appender: Mutex<Appender>,
    queue: Mutex<Queue>,
    /// Nobody has the turn, or waits for it, in a closed queue.
    turn_ended: Condvar,
    accepted_lsn: AtomicU64,
    /// The cluster time of the last record that was applied.
    cluster_time: AtomicU64,
    /// No record gets a cluster time below this.
    cluster_time_min: AtomicU64,
    pub clock: Clock,
}

impl Pipeline {
    /// `next_lsn` is the log's next position, `stamp` its place in the history, and everything before it is applied.
    pub fn new(
        options: Options,
        hooks: Arc<dyn Hooks>,
        log: Arc<dyn Log>,
        latch: Arc<Latch>,
        wakeups: Arc<Wakeups>,
        next_lsn: u64,
        stamp: Stamp,
    ) -> Self {
        Pipeline {
            options,
            hooks,
            appender: Mutex::new(Appender::new(Arc::clone(&log), next_lsn, stamp)),
            log,
            latch,
            wakeups,
            accepted_lsn: AtomicU64::new(next_lsn - 1),
            cluster_time: AtomicU64::new(stamp.cluster_time.saturating_sub(1)),
            cluster_time_min: AtomicU64::new(0),
            queue: Mutex::new(Queue::new()),
            turn_ended: Condvar::new(),
            clock: Clock::new(),
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns when the record is accepted and applied.
    pub fn submit(&self, payload: &[u8]) -> Result<Ticket> {
        match self.enter(payload)? {
            Entered::Alone(ticket) => Ok(ticket),
            Entered::Group(place) => {
                place.group.wait()?;
                Ok(self.ticket(&place, 0))
            }
        }
    }

    /// Like `submit`, for a record whose writer calls `wait_durable` next: one of the writers of its group may begin the
    /// sync while the group is applied. Returns when the record is applied and `until` is reached. A failed sync is not
    /// reported here, because the record stands all the same: it latches, and `wait_durable` reports it.
    pub fn submit_syncing(&self, payload: &[u8], until: Until) -> Result<Ticket> {
        match self.enter(payload)? {
            Entered::Alone(mut ticket) => {
                if until == Until::Synced {
                    let _ = self.sync_ticket(&mut ticket);
                }
                Ok(ticket)
            }
            Entered::Group(place) => {
                let sync_wait_ns = self.wait_or_sync(&place, until)?;
                Ok(self.ticket(&place, sync_wait_ns))
            }
        }
    }

    /// Returns when the record is durable.
    pub fn commit_durable(&self, payload: &[u8]) -> Result<Ticket> {
        let mut ticket = self.submit_syncing(payload, Until::Synced)?;
        self.sync_ticket(&mut ticket)?;
        Ok(ticket)
    }

    /// Waits until an applied record is durable, and adds the wait to its ticket.
    fn sync_ticket(&self, ticket: &mut Ticket) -> Result<()> {
        let begun_ns = self.now_ns();
        let result = self.wait_durable(ticket.lsn);
        ticket.report.sync_wait_ns += self.now_ns().saturating_sub(begun_ns);
        result
    }

    /// Sleeps until the group is applied and `until` is reached, or syncs for the group if this writer is called to.
    /// Returns how long a sync was made or waited for.
    fn wait_or_sync(&self, place: &Place, until: Until) -> Result<u64> {
        let mut synced_ns = 0;
        if self.options.shortcuts.early_sync {
            if place.group.wait_for_call(until) {
                let begun_ns = self.now_ns();
                // A failure latches; whoever waits for Durable learns of it there.
                let _ = self.wait_durable(place.group.last_lsn.load(Ordering::Relaxed));
                place.group.end_call();
                synced_ns = self.now_ns().saturating_sub(begun_ns);
            }
            place.group.wait()?;
        } else {
            place.group.wait()?;
            if until == Until::Synced {
                // Here too a failure latches.
                let _ = self.wait_durable(place.lsn());
            }
        }
        Ok(match until {
            Until::Applied => synced_ns,
            Until::Synced => self.since_applied_ns(place),
        })
    }

    fn since_applied_ns(&self, place: &Place) -> u64 {
        let applied_ns = place.group.applied_ns.load(Ordering::Relaxed);
        self.now_ns().saturating_sub(applied_ns)
    }

    /// The ticket of a record whose group is applied. `sync_wait_ns` of the time since its submission went to a sync.
    fn ticket(&self, place: &Place, sync_wait_ns: u64) -> Ticket {
        let mut report = report(&place.group, place.submitted_ns, self.now_ns());
        report.sync_wait_ns = sync_wait_ns.min(report.wait_ns);
        report.wait_ns -= report.sync_wait_ns;
        Ticket {
            lsn: place.lsn(),
            cluster_time: place.group.cluster_time.load(Ordering::Relaxed),
            report,
        }
    }

    /// Has the record written and applied if this writer is alone; else puts it into the forming group, and leads that
    /// group if it falls to this writer.
    fn enter(&self, payload: &[u8]) -> Result<Entered> {
        if payload.len() > RECORD_BYTES_MAX {
            return Err(Error::RecordTooLarge {
                record_bytes: payload.len(),
                record_bytes_max: RECORD_BYTES_MAX,
            });
        }
        let made = (payload.len() > self.options.group_bytes_max).then(|| group_of_one(payload));
        let mut queue = self.room_for(RECORD_HEADER_BYTES + payload.len())?;
        if self.goes_alone(&queue) {
            return self.lead_alone(queue, payload, made).map(Entered::Alone);
        }
        let place = match made {
            Some(made) => queue.push_made(made, self.now_ns()),
            None => queue.push(payload, self.now_ns()),
        };
        self.lead_if_due(queue);
        Ok(Entered::Group(place))
    }

    fn goes_alone(&self, queue: &Queue) -> bool {
        let shortcuts = self.options.shortcuts;
        let are_many = shortcuts.gathering && queue.share() >= GATHER_WRITERS_MIN;
        shortcuts.lone_writers && queue.is_idle() && !are_many
    }

    /// Leads the forming group if that falls to the writer that has just pushed its record.
    fn lead_if_due(&self, queue: MutexGuard<'_, Queue>) {
        if !queue.leader_waits {
            self.lead_when_due(queue);
        } else if queue.is_gathering && queue.writers >= queue.share() {
            self.lead_gathered(queue);
        }
    }

    /// Has records that were gathered elsewhere written and applied as one writer's, and notes in their group what a
    /// receipt needs. Drops `handing_over` when later records can only come behind them; returns when they are applied.
    pub fn submit_gathered(
        &self,
        gathered: &mut Gathered,
        handing_over: HandingOver<'_>,
    ) -> Result<()> {
        let _abort = AbortOnPanic::new();
        let (group, buffer, count) = (&gathered.group, &mut gathered.buffer, gathered.count);
        let mut queue = self.room_for(buffer.len() - GROUP_HEADER_BYTES)?;
        group.writers.store(count, Ordering::Relaxed);
        if queue.is_idle() {
            let number = queue.take_turn();
            group.number.store(number, Ordering::Relaxed);
            drop(queue);
            drop(handing_over);
            let begun_ns = self.now_ns();
            let mut appender = self.appender.lock();
            let result = self.append_and_apply(&mut appender, buffer, count, begun_ns, Some(group));
            drop(appender);
            let result = result.map(|done| {
                group.note_times(begun_ns, done.appended_ns, done.applied_ns);
            });
            self.end_turn(self.queue.lock());
            return result;
        }
        let records = &buffer[GROUP_HEADER_BYTES..];
        let place = queue.push_encoded(records, count, gathered.oldest_ns);
        drop(handing_over);
        self.lead_if_due(queue);
        place.group.wait()?;
        group.first_lsn.store(place.lsn(), Ordering::Relaxed);
        group.note_as(&place.group);
        Ok(())
    }

    /// The ticket of a record whose writer went on, once its group is applied and `level` is reached.
    pub fn ticket_at(&self, place: &Place, level: Level) -> Result<Ticket> {
        let sync_wait_ns = match level {
            Level::Written => 0,
            Level::Durable => {
                self.wait_durable(place.lsn())?;
                self.since_applied_ns(place)
            }
        };
        Ok(self.ticket(place, sync_wait_ns))
    }

    /// Whether nobody is writing, or about to.
    pub fn is_idle(&self) -> bool {
        self.queue.lock().is_idle()
    }

    /// Fails when no record is taken any more.
    pub fn check_open(&self) -> Result<()> {
        self.latch.check()?;
        match self.queue.lock().closed {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Everything up to here is in the log.
    pub fn accepted_lsn(&self) -> u64 {
        self.accepted_lsn.load(Ordering::Acquire)
    }

    /// The cluster time of the last record that was applied, which whoever was answered for that record sees.
    pub fn cluster_time(&self) -> u64 {
        self.cluster_time.load(Ordering::Acquire)
    }

    /// Called by whoever has the turn.
    fn note_cluster_time(&self, last: u64) {
        debug_assert!(last > self.cluster_time(), "cluster time never falls");
        self.cluster_time.store(last, Ordering::Release);
    }

    /// No later record has a lower cluster time than this.
    pub fn cluster_time_min(&self) -> u64 {
        self.cluster_time_min.load(Ordering::Relaxed)
    }

    /// Every later record has a later cluster time than this.
    pub fn advance_cluster_time(&self, beyond: u64) {
        (self.cluster_time_min).fetch_max(beyond.saturating_add(1), Ordering::Relaxed);
    }

    /// Before the first record: it gets no lower cluster time than `time`, and whoever reads sees what was there right before.
    pub fn begin_at_cluster_time(&self, time: u64) {
        self.cluster_time_min.fetch_max(time, Ordering::Relaxed);
        (self.cluster_time).fetch_max(time.saturating_sub(1), Ordering::Relaxed);
    }

    /// Returns when no group is on its way that was begun before the call.
    pub fn wait_out_turn(&self) {
        drop(self.appender.lock());
    }

    /// Returns when everything up to `lsn`, which must be accepted, is durable.
    pub fn wait_durable(&self, lsn: u64) -> Result<()> {
        let result = self.log.wait(&LogTicket::up_to(lsn), Stage::Durable);
        if let Err(error) = &result {
            self.latch.throw(&error.to_string());
        }
        self.wakeups.notify_tails();
        result
    }

    /// No record is accepted any more; what is forming still goes through.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        // Who gathers has the turn, and leads without waiting for anybody.
        while queue.turn_taken {
            self.turn_ended.wait(&mut queue);
        }
    }

    /// The queue with room for so many bytes of encoded records in the forming group; a full one goes first.
    fn room_for(&self, record_bytes: usize) -> Result<MutexGuard<'_, Queue>> {
        loop {
            self.latch.check()?;
            let queue = self.queue.lock();
            if queue.closed {
                return Err(Error::Closed);
            }
            let group_bytes = queue.buffer.len() + record_bytes;
            if queue.count == 0 || group_bytes <= self.options.group_bytes_max {
                return Ok(queue);
            }
            assert!(
                queue.leader_waits,
                "every record here has a writer that waits, so that one of them leads"
            );
            let full = Arc::clone(&queue.forming);
            drop(queue);
            // A failed group makes room as well as a written one.
            let _ = full.wait();
        }
    }
}

/// The group of a record that is too large for another one beside it. It is made before the queue and the turn are asked for, because
/// nobody can do anything while either is held and megabytes are copied; with room for what is added to it there.
fn group_of_one(payload: &[u8]) -> Vec<u8> {
    let bytes = GROUP_HEADER_BYTES + RECORD_HEADER_BYTES + payload.len();
    let mut group = Vec::with_capacity(bytes + ADDED_BYTES);
    group.resize(GROUP_HEADER_BYTES, 0);
    push_record(&mut group, payload);
    group
}

/// The outcome of a record that its writer waits for.
enum Entered {
    /// It is applied: the writer was alone.
    Alone(Ticket),
    /// It is in a group, which may still have to be applied.
    Group(Place),
}

/// Splits the time of a commit. What is neither append nor apply was waiting: for the turn before, for being woken after.
fn report(group: &Group, submitted_ns: u64, now_ns: u64) -> CommitReport {
    let begun_ns = group.begun_ns.load(Ordering::Relaxed);
    let appended_ns = group.appended_ns.load(Ordering::Relaxed);
    let applied_ns = group.applied_ns.load(Ordering::Relaxed);
    let (append_ns, apply_ns) = (
        appended_ns.saturating_sub(begun_ns),
        applied_ns.saturating_sub(appended_ns),
    );
    CommitReport {
        wait_ns: now_ns
            .saturating_sub(submitted_ns)
            .saturating_sub(append_ns + apply_ns),
        append_ns,
        apply_ns,
        sync_wait_ns: 0,
        group: group.number.load(Ordering::Relaxed),
        group_writers: group.writers.load(Ordering::Relaxed),
    }
}
