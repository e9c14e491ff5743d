//! A log in memory for tests of what stands on it: it can refuse a group, lose its answer, hold it back and
//! let it in later, in another order, and fail to make it durable. Clones are the same log.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{Log, LogGroup, LogReader, LogTicket, Stage};
use crate::error::{Error, Result};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::Payloads;
use crate::stamp::Stamp;

/// The fate of a submitted group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not arrive, and its writer is told so.
    Refuse,
    /// It arrives, and its writer is told that nobody knows.
    LoseAnswer,
    /// It does not arrive, and its writer is told that nobody knows.
    LoseGroup,
    /// It is held back until `deliver`.
    Delay,
}

/// A log in memory that refuses, delays, reorders and forgets on command. Its clones are one log.
#[derive(Clone, Default)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    groups: Vec<Stored>,
    durable_lsn: u64,
    troubles: VecDeque<Option<Trouble>>,
    delayed: Vec<Delayed>,
    last_token: u64,
    /// Outcomes of delivered groups, by token.
    delivered: Vec<(u64, Result<()>)>,
    fails_sync: bool,
}

struct Stored {
    first_lsn: u64,
    count: u32,
    stamp: Stamp,
    body: Vec<u8>,
}

struct Delayed {
    token: u64,
    expected_lsn: u64,
    group: Stored,
}

impl MemoryLog {
    /// An empty log without trouble.
    pub fn new() -> Self {
        MemoryLog::default()
    }

    /// The group after the `later` next ones meets this trouble.
    pub fn trouble_after(&self, later: usize, trouble: Trouble) {
        let troubles = &mut self.shared.state.lock().troubles;
        let len = troubles.len().max(later + 1);
        troubles.resize(len, None);
        troubles[later] = Some(trouble);
    }

    /// The next group meets this trouble.
    pub fn trouble(&self, trouble: Trouble) {
        self.trouble_after(0, trouble);
    }

    /// Groups that are held back.
    pub fn delayed(&self) -> usize {
        self.shared.state.lock().delayed.len()
    }

    /// Lets a held back group in, if its position is still free. Delivering out of turn reorders.
    pub fn deliver(&self, index: usize) {
        let mut state = self.shared.state.lock();
        let Delayed {
            token,
            expected_lsn,
            group,
        } = state.delayed.remove(index);
        let outcome = state.accept(group, expected_lsn);
        state.delivered.push((token, outcome));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// From now on nothing becomes durable.
    pub fn fail_syncs(&self, fails: bool) {
        self.shared.state.lock().fails_sync = fails;
    }

    /// The LSN of the next record.
    pub fn next_lsn(&self) -> u64 {
        self.shared.state.lock().next_lsn()
    }
}

/// The outcome of a group that was held back.
enum Arrival {
    Delayed,
    Over(Result<()>),
}

impl State {
    /// `None` for a group that was never held back.
    fn arrival(&self, token: u64) -> Option<Arrival> {
        if token == 0 {
            return None;
        }
        let mut delivered = self.delivered.iter();
        let over = delivered.find(|(delivered, _)| *delivered == token);
        Some(over.map_or(Arrival::Delayed, |(_, outcome)| {
            Arrival::Over(outcome.clone())
        }))
    }

    fn next_lsn(&self) -> u64 {
        self.groups
            .last()
            .map_or(1, |group| group.first_lsn + u64::from(group.count))
    }

    fn accept(&mut self, group: Stored, expected_lsn: u64) -> Result<()> {
        let next_lsn = self.next_lsn();
        if next_lsn != expected_lsn {
            return Err(Error::PositionMoved {
                expected_lsn,
                next_lsn,
            });
        }
        self.groups.push(group);
        Ok(())
    }
}

impl Log for MemoryLog {
    fn submit(&self, group: &mut LogGroup<'_>, expected_lsn: u64) -> Result<LogTicket> {
        let mut state = self.shared.state.lock();
        let unknown = || Error::OutcomeUnknown {
            cause: "the log's answer was lost".to_owned(),
        };
        let mut ticket = LogTicket::up_to(group.last_lsn());
        let group = Stored {
            first_lsn: group.first_lsn,
            count: group.count,
            stamp: group.stamp,
            body: group.buffer[GROUP_HEADER_BYTES..].to_vec(),
        };
        match state.troubles.pop_front().flatten() {
            None => state.accept(group, expected_lsn)?,
            Some(Trouble::Refuse) => {
                return Err(Error::NoSpace {
                    message: "the log was told to refuse".to_owned(),
                });
            }
            Some(Trouble::LoseAnswer) => {
                state.accept(group, expected_lsn)?;
                return Err(unknown());
            }
            Some(Trouble::LoseGroup) => return Err(unknown()),
            Some(Trouble::Delay) => {
                state.last_token += 1;
                ticket.token = state.last_token;
                state.delayed.push(Delayed {
                    token: ticket.token,
                    expected_lsn,
                    group,
                });
            }
        }
        Ok(ticket)
    }

    fn wait(&self, ticket: &LogTicket, stage: Stage) -> Result<()> {
        let mut state = self.shared.state.lock();
        while let Some(outcome) = state.arrival(ticket.token) {
            match outcome {
                Arrival::Delayed => self.shared.changed.wait(&mut state),
                Arrival::Over(outcome) => {
                    outcome?;
                    break;
                }
            }
        }
        if stage == Stage::Durable && state.durable_lsn < ticket.last_lsn {
            if state.fails_sync {
                return Err(Error::OutcomeUnknown {
                    cause: "the log was told not to sync".to_owned(),
                });
            }
            state.durable_lsn = state.next_lsn() - 1;
        }
        Ok(())
    }

    fn read(&self, from_lsn: u64) -> Result<Box<dyn LogReader>> {
        Ok(Box::new(MemoryReader {
            log: self.clone(),
            next_lsn: from_lsn.max(1),
            body: Vec::new(),
        }))
    }

    fn first_lsn(&self) -> u64 {
        u64::from(!self.shared.state.lock().groups.is_empty())
    }

    fn durable_lsn(&self) -> u64 {
        self.shared.state.lock().durable_lsn
    }

    fn stamp(&self) -> Result<Stamp> {
        let state = self.shared.state.lock();
        let last = state.groups.last();
        Ok(last.map_or(Stamp::default(), |group| group.stamp.behind(group.count)))
    }

    fn first_since(&self, cluster_time: u64) -> Result<Option<u64>> {
        let state = self.shared.state.lock();
        let behind = |group: &&Stored| group.stamp.behind(group.count).cluster_time > cluster_time;
        let group = state.groups.iter().find(behind);
        Ok(group.map(|group| group.first_lsn))
    }
}

struct MemoryReader {
    log: MemoryLog,
    next_lsn: u64,
    body: Vec<u8>,
}

impl LogReader for MemoryReader {
    fn next_group(&mut self) -> Result<Option<Payloads<'_>>> {
        let state = self.log.shared.state.lock();
        let at = state
            .groups
            .partition_point(|group| group.first_lsn + u64::from(group.count) <= self.next_lsn);
        let Some(group) = state.groups.get(at) else {
            return Ok(None);
        };
        self.body.clone_from(&group.body);
        let time = group.stamp.cluster_time;
        let payloads = Payloads::new(group.first_lsn, group.count, time, &self.body);
        let from_lsn = self.next_lsn;
        self.next_lsn = group.first_lsn + u64::from(group.count);
        Ok(Some(payloads.after(from_lsn - 1)))
    }
}
