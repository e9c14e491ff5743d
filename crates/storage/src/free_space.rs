//! Watches the space left on a device without asking it at every write.
//!
//! The answer is as old as [`CHECK_INTERVAL_MS`] at most; the bound that an engine keeps free must
//! cover what can be written meanwhile.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{Error, Result};

const CHECK_INTERVAL_MS: u64 = 250;

/// The free space of the device under a directory, held against a bound.
#[derive(Debug)]
pub struct FreeSpace {
    directory: PathBuf,
    free_bytes_min: u64,
    checked_ms: AtomicU64,
    free_bytes: AtomicU64,
}

impl FreeSpace {
    /// Asks the device once; an error is the device's.
    pub fn new(directory: impl Into<PathBuf>, free_bytes_min: u64) -> Result<Self> {
        let space = Self {
            directory: directory.into(),
            free_bytes_min,
            checked_ms: AtomicU64::new(coarse_now_ms()),
            free_bytes: AtomicU64::new(0),
        };
        space.measure()?;
        Ok(space)
    }

    /// [`Error::NoSpace`] when less than the bound is free.
    pub fn check(&self) -> Result<()> {
        self.check_for(0)
    }

    /// As [`FreeSpace::check`], with `more_bytes` above the bound.
    pub fn check_for(&self, more_bytes: u64) -> Result<()> {
        let now_ms = coarse_now_ms();
        if now_ms.saturating_sub(self.checked_ms.load(Relaxed)) >= CHECK_INTERVAL_MS {
            self.checked_ms.store(now_ms, Relaxed);
            self.measure()?;
        }
        self.compare(more_bytes)
    }

    /// As [`FreeSpace::check`], asking the device now.
    pub fn check_now(&self) -> Result<()> {
        self.measure()?;
        self.compare(0)
    }

    /// Asks the device now whether a copy of so many bytes would leave the bound free.
    pub fn check_copy(&self, copy_bytes: u64) -> Result<()> {
        self.measure()?;
        self.compare(copy_bytes).map_err(|error| match error {
            Error::NoSpace(why) => {
                Error::NoSpace(format!("a copy takes {copy_bytes} bytes: {why}"))
            }
            error => error,
        })
    }

    fn compare(&self, more_bytes: u64) -> Result<()> {
        let free_bytes = self.free_bytes.load(Relaxed);
        if free_bytes >= self.free_bytes_min.saturating_add(more_bytes) {
            return Ok(());
        }
        let directory = self.directory.display();
        let free_bytes_min = self.free_bytes_min;
        Err(Error::NoSpace(format!(
            "{free_bytes} bytes are free under `{directory}`, at least {free_bytes_min} are kept"
        )))
    }

    fn measure(&self) -> Result<()> {
        self.free_bytes.store(free_bytes(&self.directory)?, Relaxed);
        Ok(())
    }
}

/// The free bytes of the device under a directory, for those who are no superusers.
pub fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(directory)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A clock of a few milliseconds' grain, at a fraction of the cost of a fine one.
fn coarse_now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_decides() {
        let directory = tempfile::tempdir().unwrap();
        FreeSpace::new(directory.path(), 1)
            .unwrap()
            .check()
            .unwrap();
        let roomy = FreeSpace::new(directory.path(), 1).unwrap();
        roomy.check_copy(1).unwrap();
        let error = roomy.check_copy(u64::MAX - 1).unwrap_err();
        assert!(error.is_no_space() && error.to_string().contains("a copy takes"));
        let full = FreeSpace::new(directory.path(), u64::MAX).unwrap();
        assert!(full.check().unwrap_err().is_no_space());
        assert!(FreeSpace::new(directory.path().join("absent"), 1).is_err());
    }
}
