//! The forming group: its records so far, who waits to lead it, and groups and buffers kept for reuse.
//! Everything here is done under one short lock; nothing is written under it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::group::{Group, Place};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::push_record;

/// Groups and buffers kept for reuse. Writers hold a group a little longer than its leader.
const SPARE_GROUPS_MAX: usize = 256;
const SPARE_BUFFERS_MAX: usize = 4;

/// The state of the queue. A new one has an empty group and no turn taken.
pub(crate) struct Queue {
    pub forming: Arc<Group>,
    /// Room for the header, then the records of the forming group.
    pub buffer: Vec<u8>,
    pub count: u32,
    pub writers: u32,
    /// Of the writers those that wait for the group.
    pub waiting: u32,
    /// Somebody who went on without waiting asked for Durable.
    pub wants_sync: bool,
    pub oldest_ns: u64,
    pub turn_taken: bool,
    pub leader_waits: bool,
    /// The leader that waits has the turn and lets others run: whoever fills the group leads it instead.
    pub is_gathering: bool,
    pub closed: bool,
    /// Of the last two groups.
    recent_waiting: [u32; 2],
    groups_formed: u64,
    spare_groups: VecDeque<Arc<Group>>,
    spare_buffers: Vec<Vec<u8>>,
}

/// A group taken out of the queue by its leader.
pub(crate) struct Taken {
    pub group: Arc<Group>,
    pub buffer: Vec<u8>,
    pub count: u32,
    pub wants_sync: bool,
}

impl Queue {
    pub fn new() -> Self {
        Queue {
            forming: Arc::new(Group::default()),
            buffer: vec![0; GROUP_HEADER_BYTES],
            count: 0,
            writers: 0,
            waiting: 0,
            wants_sync: false,
            oldest_ns: 0,
            turn_taken: false,
            leader_waits: false,
            is_gathering: false,
            closed: false,
            recent_waiting: [0; 2],
            groups_formed: 0,
            spare_groups: VecDeque::with_capacity(SPARE_GROUPS_MAX),
            spare_buffers: Vec::with_capacity(SPARE_BUFFERS_MAX),
        }
    }

    pub fn push(&mut self, payload: &[u8], now_ns: u64) -> Place {
        if self.count == 0 {
            self.oldest_ns = now_ns;
        }
        push_record(&mut self.buffer, payload);
        let index = self.count;
        self.count += 1;
        self.writers += 1;
        Place {
            group: Arc::clone(&self.forming),
            index,
            submitted_ns: now_ns,
        }
    }

    /// Half of the waiting writers of late. With so many in a group the other half works while this one is written and
    /// synced; with more, all would wait at the same time, and with fewer each write and sync would serve few.
    pub fn share(&self) -> u32 {
        self.recent_waiting.iter().sum::<u32>() / 2
    }

    /// Nothing is queued, and nobody has the turn.
    pub fn is_idle(&self) -> bool {
        self.count == 0 && !self.turn_taken
    }

    /// The turn is taken for one writer's record that is not queued; returns the number of its group.
    pub fn take_turn(&mut self) -> u64 {
        self.turn_taken = true;
        self.next_number(1)
    }

    /// Takes what is queued; the turn is taken for it.
    pub fn take(&mut self) -> Taken {
        (self.leader_waits, self.is_gathering) = (false, false);
        self.turn_taken = true;
        let number = self.next_number(self.waiting);
        let fresh = self.fresh_group();
        let group = std::mem::replace(&mut self.forming, fresh);
        group.number.store(number, Ordering::Relaxed);
        group.writers.store(self.writers, Ordering::Relaxed);
        let mut fresh = self.spare_buffers.pop().unwrap_or_default();
        fresh.resize(GROUP_HEADER_BYTES, 0);
        let buffer = std::mem::replace(&mut self.buffer, fresh);
        let taken = Taken {
            group,
            buffer,
            count: self.count,
            wants_sync: self.wants_sync,
        };
        (self.count, self.writers, self.waiting, self.wants_sync) = (0, 0, 0, false);
        taken
    }

    fn next_number(&mut self, waiting: u32) -> u64 {
        self.recent_waiting = [self.recent_waiting[1], waiting];
        self.groups_formed += 1;
        self.groups_formed
    }

    fn fresh_group(&mut self) -> Arc<Group> {
        let Some(mut group) = self.spare_groups.pop_front() else {
            return Arc::default();
        };
        if let Some(unshared) = Arc::get_mut(&mut group) {
            unshared.reset();
            return group;
        }
        self.spare_groups.push_back(group);
        Arc::default()
    }

    /// The group is reset only when nobody holds it any more, its leader included.
    pub fn keep_group(&mut self, group: &Arc<Group>) {
        if self.spare_groups.len() < SPARE_GROUPS_MAX {
            self.spare_groups.push_back(Arc::clone(group));
        }
    }

    pub fn keep_buffer(&mut self, buffer: Vec<u8>, bytes_max: usize) {
        if is_kept(&buffer, bytes_max) && self.spare_buffers.len() < SPARE_BUFFERS_MAX {
            let mut buffer = buffer;
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }
}

/// Whether a group's buffer is worth keeping: one outsized record must not keep its memory for ever.
pub(crate) fn is_kept(buffer: &Vec<u8>, group_bytes_max: usize) -> bool {
    buffer.capacity() <= 2 * group_bytes_max.max(4096)
}
