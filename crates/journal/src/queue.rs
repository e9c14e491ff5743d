//! The forming group: its records so far, and who waits to lead it. Every writer whose record is here waits for it.
//! Everything here is done under one short lock; nothing is written under it.

use std::sync::Arc;

use crate::group::{Group, Place};
use crate::group_header::GROUP_HEADER_BYTES;
use crate::hooks::push_record;
use crate::primitives::atomic::Ordering;
use crate::spares::Spares;

/// The state of the queue. A new one has an empty group and no turn taken.
pub(crate) struct Queue {
    pub forming: Arc<Group>,
    /// Room for the header, then the records of the forming group.
    pub buffer: Vec<u8>,
    pub count: u32,
    /// Each of them waits for the group.
    pub writers: u32,
    pub turn_taken: bool,
    pub leader_waits: bool,
    /// The leader that waits has the turn and lets others run: whoever fills the group leads it instead.
    pub is_gathering: bool,
    pub closed: bool,
    /// How many writers the last two groups had.
    recent_writers: [u32; 2],
    groups_formed: u64,
    pub spares: Spares,
}

/// A group taken out of the queue by its leader.
pub(crate) struct Taken {
    pub group: Arc<Group>,
    pub buffer: Vec<u8>,
    pub count: u32,
}

impl Queue {
    pub fn new() -> Self {
        Queue {
            forming: Arc::new(Group::default()),
            buffer: vec![0; GROUP_HEADER_BYTES],
            count: 0,
            writers: 0,
            turn_taken: false,
            leader_waits: false,
            is_gathering: false,
            closed: false,
            recent_writers: [0; 2],
            groups_formed: 0,
            spares: Spares::default(),
        }
    }

    /// Puts a writer's record into the forming group.
    pub fn push(&mut self, payload: &[u8], now_ns: u64) -> Place {
        push_record(&mut self.buffer, payload);
        self.pushed(1, now_ns)
    }

    /// Like `push`, for a record whose group is made already. No record is queued.
    pub fn push_made(&mut self, group: Vec<u8>, now_ns: u64) -> Place {
        assert_eq!(self.count, 0, "a group that is made is a group of its own");
        self.buffer = group;
        self.pushed(1, now_ns)
    }

    /// Like `push`, for a writer of several records, which are encoded as those of a group are.
    pub fn push_encoded(&mut self, records: &[u8], count: u32, now_ns: u64) -> Place {
        self.buffer.extend_from_slice(records);
        self.pushed(count, now_ns)
    }

    fn pushed(&mut self, count: u32, now_ns: u64) -> Place {
        debug_assert!(count > 0, "a writer that queues has a record at least");
        let index = self.count;
        self.count += count;
        self.writers += 1;
        Place {
            group: Arc::clone(&self.forming),
            index,
            submitted_ns: now_ns,
        }
    }

    /// Half of the writers of late. With so many in a group the other half works while this one is written and synced;
    /// with more, all would wait at the same time, and with fewer each write and sync would serve few.
    pub fn share(&self) -> u32 {
        self.recent_writers.iter().sum::<u32>() / 2
    }

    /// Nothing is queued, and nobody has the turn.
    pub fn is_idle(&self) -> bool {
        self.count == 0 && !self.turn_taken
    }

    /// The turn is taken for one writer's records that are not queued; returns the number of their group.
    pub fn take_turn(&mut self) -> u64 {
        debug_assert!(self.is_idle());
        self.turn_taken = true;
        self.next_number(1)
    }

    /// Takes what is queued; the turn is taken for it.
    pub fn take(&mut self) -> Taken {
        debug_assert!(
            self.count > 0 && self.writers <= self.count,
            "a leader takes a group that somebody waits for"
        );
        (self.leader_waits, self.is_gathering) = (false, false);
        self.turn_taken = true;
        let number = self.next_number(self.writers);
        let (group, buffer) = self.spares.take();
        let taken = Taken {
            group: std::mem::replace(&mut self.forming, group),
            buffer: std::mem::replace(&mut self.buffer, buffer),
            count: self.count,
        };
        taken.group.number.store(number, Ordering::Relaxed);
        taken.group.writers.store(self.writers, Ordering::Relaxed);
        (self.count, self.writers) = (0, 0);
        taken
    }

    fn next_number(&mut self, writers: u32) -> u64 {
        self.recent_writers = [self.recent_writers[1], writers];
        self.groups_formed += 1;
        self.groups_formed
    }
}
