//! The version of what `hello` says, and a wake-up for those who wait for the next one.
//!
//! A waiting hello sleeps on its socket, for its client may speak or go meanwhile. What wakes it for a change must therefore be
//! a descriptor as well: an eventfd that becomes readable with the change and stays so. The next version has an eventfd of
//! its own, so that nobody has to reset one that another thread may not have looked at yet.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

/// Counts the changes of what `hello` says.
pub struct Topology {
    version: Mutex<Version>,
}

/// One version of the topology.
#[derive(Clone)]
pub struct Version {
    /// `topologyVersion.counter`: never falls within the life of a process.
    pub counter: i64,
    /// Becomes readable, for good, when the version is over.
    pub is_over: Arc<OwnedFd>,
}

impl Topology {
    /// The topology of a process that has just begun.
    pub fn new() -> std::io::Result<Topology> {
        let version = Version {
            counter: 0,
            is_over: Arc::new(new_event()?),
        };
        Ok(Topology {
            version: Mutex::new(version),
        })
    }

    /// The version of now.
    pub fn version(&self) -> Version {
        self.version.lock().clone()
    }

    /// Begins a new version and wakes those who wait for the end of the one before. `change` makes what hello says
    /// different; nobody sees the new version before it has run.
    pub fn change(&self, change: impl FnOnce()) -> std::io::Result<()> {
        let next = Arc::new(new_event()?);
        let mut version = self.version.lock();
        change();
        version.counter += 1;
        let over = std::mem::replace(&mut version.is_over, next);
        drop(version);
        // Eight bytes into an eventfd that nobody else writes: they fit.
        rustix::io::write(&*over, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

fn new_event() -> std::io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_over(version: &Version) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut event = [PollFd::new(&*version.is_over, PollFlags::IN)];
        poll(&mut event, Some(&now)).unwrap() == 1
    }

    #[test]
    fn a_change_ends_the_version_before_it_and_no_other() {
        let topology = Topology::new().unwrap();
        let (first, also_first) = (topology.version(), topology.version());
        assert!(!is_over(&first));
        topology.change(|| ()).unwrap();
        let second = topology.version();
        assert_eq!((first.counter, second.counter), (0, 1));
        assert!(is_over(&first) && is_over(&also_first) && is_over(&first));
        assert!(!is_over(&second));
        topology.change(|| ()).unwrap();
        assert!(is_over(&second));
    }
}
