//! The one-way switch that a failed disk throws. What failed once is not tried again: after a failed
//! sync the kernel may have dropped the pages, and a later sync would report success for lost bytes.

use crate::error::{Error, Result};
use crate::primitives::Mutex;
use crate::primitives::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Latch {
    thrown: AtomicBool,
    cause: Mutex<Option<String>>,
}

impl Latch {
    pub fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::Acquire)
    }

    /// The first cause stays.
    pub fn throw(&self, cause: &str) {
        self.cause.lock().get_or_insert_with(|| cause.to_owned());
        self.thrown.store(true, Ordering::Release);
    }

    pub fn cause(&self) -> Option<String> {
        self.cause.lock().clone()
    }

    pub fn check(&self) -> Result<()> {
        if !self.is_thrown() {
            return Ok(());
        }
        Err(Error::Latched {
            cause: self.cause().unwrap_or_default(),
        })
    }
}
