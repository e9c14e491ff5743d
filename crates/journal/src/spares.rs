//! Groups and buffers kept for reuse, so that a commit allocates nothing in steady state.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::group::Group;
use crate::group_header::GROUP_HEADER_BYTES;
use crate::options::Options;

/// Writers hold a group a little longer than its leader.
const GROUPS_MAX: usize = 256;
const BUFFERS_MAX: usize = 4;

pub(crate) struct Spares {
    groups: VecDeque<Arc<Group>>,
    buffers: Vec<Vec<u8>>,
}

impl Default for Spares {
    fn default() -> Self {
        Spares {
            groups: VecDeque::with_capacity(GROUPS_MAX),
            buffers: Vec::with_capacity(BUFFERS_MAX),
        }
    }
}

impl Spares {
    /// An empty group, and a buffer with room for its header.
    pub fn take(&mut self) -> (Arc<Group>, Vec<u8>) {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(GROUP_HEADER_BYTES, 0);
        (self.group(), buffer)
    }

    fn group(&mut self) -> Arc<Group> {
        let Some(mut group) = self.groups.pop_front() else {
            return Arc::default();
        };
        if let Some(unshared) = Arc::get_mut(&mut group) {
            unshared.reset();
            return group;
        }
        self.groups.push_back(group);
        Arc::default()
    }

    /// Takes a group and its buffer back. The group is reset only when nobody holds it any more, its leader included.
    pub fn keep(&mut self, group: &Arc<Group>, mut buffer: Vec<u8>, options: &Options) {
        if self.groups.len() < GROUPS_MAX {
            self.groups.push_back(Arc::clone(group));
        }
        if is_kept(&buffer, options.group_bytes_max) && self.buffers.len() < BUFFERS_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

/// Whether a group's buffer is worth keeping: one outsized record must not keep its memory for ever.
pub(crate) fn is_kept(buffer: &Vec<u8>, group_bytes_max: usize) -> bool {
    buffer.capacity() <= 2 * group_bytes_max.max(4096)
}
