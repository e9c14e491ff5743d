//! Records whose writers went on without waiting (`Journal::submit_async`), gathered beside the queue of those who wait.
//!
//! A backlog gathers a batch and hands it to the pipeline as one writer's records: when the oldest is old enough and nobody
//! is writing, when a record is to be durable, when somebody asks for one (`Journal::wait`), when the batch is full, at
//! every interval of the background thread, and before a record of somebody who waits, so that nobody overtakes.
//!
//! Kept true: records have LSNs in the order in which they were submitted. Whoever only waits never comes here: the queue
//! knows no records without a waiting writer.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::group::{Group, Place};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::{RECORD_HEADER_BYTES, push_record};
use crate::options::RECORD_BYTES_MAX;
use crate::pace::Pace;
use crate::pipeline::Pipeline;
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::{Mutex, MutexGuard};
use crate::spares::Spares;
use crate::ticket::{Level, Pending};

/// Lock order: `handing_over`, `batch`, then those of the pipeline.
pub(crate) struct Backlog {
    pipeline: Arc<Pipeline>,
    /// Held until a batch has its place in the pipeline: batches go in the order in which they were gathered.
    handing_over: Mutex<()>,
    batch: Mutex<Batch>,
    /// How many records were submitted, and how many of them have their place in the pipeline.
    submitted: AtomicU64,
    entered: AtomicU64,
    pace: Pace,
}

/// The records that are being gathered.
struct Batch {
    /// The group that they will be committed in. It tells those who ask what became of them.
    group: Arc<Group>,
    /// Room for the group's header, then the records.
    buffer: Vec<u8>,
    count: u32,
    oldest_ns: u64,
    /// One of them is to be durable: whoever leads the batch has it synced soon.
    wants_sync: bool,
    spares: Spares,
}

impl Backlog {
    pub fn new(pipeline: Arc<Pipeline>) -> Backlog {
        Backlog {
            pace: Pace::new(pipeline.options.gather_ns),
            pipeline,
            handing_over: Mutex::new(()),
            batch: Mutex::new(Batch {
                group: Arc::default(),
                buffer: vec![0; GROUP_HEADER_BYTES],
                count: 0,
                oldest_ns: 0,
                wants_sync: false,
                spares: Spares::default(),
            }),
            submitted: AtomicU64::new(0),
            entered: AtomicU64::new(0),
        }
    }

    /// Puts a record into the batch, which is handed over here if it is due.
    pub fn submit(&self, payload: &[u8], level: Level) -> Result<Pending> {
        if payload.len() > RECORD_BYTES_MAX {
            return Err(Error::RecordTooLarge {
                record_bytes: payload.len(),
                record_bytes_max: RECORD_BYTES_MAX,
            });
        }
        let now_ns = self.pipeline.now_ns();
        let mut batch = self.room_for(payload.len())?;
        let place = batch.push(payload, now_ns);
        batch.wants_sync |= level == Level::Durable;
        self.submitted.fetch_add(1, Ordering::Release);
        let log = &*self.pipeline.log;
        let is_old = now_ns.saturating_sub(batch.oldest_ns) >= self.pace.gather_ns(log);
        drop(batch);
        if level == Level::Durable {
            self.flush();
            if place.group.outcome().is_ok() {
                self.pace.note_durable(place.lsn(), log);
            }
        } else if is_old {
            self.flush_if_idle();
        }
        Ok(Pending { place, level })
    }

    /// Returns when the record is applied or refused, which may mean to hand it over.
    pub fn wait(&self, place: &Place) -> Result<()> {
        if !place.group.is_done() && Arc::ptr_eq(&self.batch.lock().group, &place.group) {
            self.flush();
        }
        place.group.wait()
    }

    /// Hands the batch over if there is one, or waits until one that is taken has its place: before somebody enters a
    /// record to wait for.
    #[inline]
    pub fn go_first(&self) {
        if self.submitted.load(Ordering::Acquire) != self.entered.load(Ordering::Acquire) {
            self.flush();
        }
    }

    /// Hands over what is gathered and returns when it is applied or refused.
    pub fn flush(&self) {
        self.hand_over(self.handing_over.lock());
    }

    /// Like `flush`, but leaves the batch to a later time when somebody is writing.
    pub fn flush_if_idle(&self) {
        if !self.pipeline.is_idle() {
            return;
        }
        if let Some(one) = self.handing_over.try_lock() {
            self.hand_over(one);
        }
    }

    fn hand_over(&self, one: MutexGuard<'_, ()>) {
        let mut batch = self.batch.lock();
        if batch.count == 0 {
            return;
        }
        let mut taken = batch.take();
        drop(batch);
        let handing_over = HandingOver {
            entered: &self.entered,
            count: taken.count.into(),
            _one: one,
        };
        let result = self.pipeline.submit_gathered(&mut taken, handing_over);
        let is_accepted = result.is_ok();
        self.batch
            .lock()
            .spares
            .keep(&taken.group, taken.buffer, &self.pipeline.options);
        taken.group.finish(&result);
        if taken.wants_sync && is_accepted {
            self.pipeline.wakeups.request_sync();
        }
    }

    /// The batch with room for one more record; a full one is handed over first.
    fn room_for(&self, payload_bytes: usize) -> Result<MutexGuard<'_, Batch>> {
        loop {
            self.pipeline.check_open()?;
            let batch = self.batch.lock();
            let bytes = batch.buffer.len() + RECORD_HEADER_BYTES + payload_bytes;
            if batch.count == 0 || bytes <= self.pipeline.options.group_bytes_max {
                return Ok(batch);
            }
            drop(batch);
            self.flush();
        }
    }
}

/// A batch that has no place in the pipeline yet; it has one, or never will, when this is dropped.
pub(crate) struct HandingOver<'b> {
    entered: &'b AtomicU64,
    count: u64,
    _one: MutexGuard<'b, ()>,
}

impl Drop for HandingOver<'_> {
    fn drop(&mut self) {
        self.entered.fetch_add(self.count, Ordering::Release);
    }
}

/// A batch on its way through the pipeline.
pub(crate) struct Gathered {
    pub group: Arc<Group>,
    pub buffer: Vec<u8>,
    pub count: u32,
    wants_sync: bool,
    pub oldest_ns: u64,
}

impl Batch {
    fn push(&mut self, payload: &[u8], now_ns: u64) -> Place {
        if self.count == 0 {
            self.oldest_ns = now_ns;
        }
        push_record(&mut self.buffer, payload);
        let index = self.count;
        self.count += 1;
        Place {
            group: Arc::clone(&self.group),
            index,
            submitted_ns: now_ns,
        }
    }

    /// Takes the records; a new batch begins.
    fn take(&mut self) -> Gathered {
        let (group, buffer) = self.spares.take();
        Gathered {
            group: std::mem::replace(&mut self.group, group),
            buffer: std::mem::replace(&mut self.buffer, buffer),
            count: std::mem::take(&mut self.count),
            wants_sync: std::mem::take(&mut self.wants_sync),
            oldest_ns: self.oldest_ns,
        }
    }
}
