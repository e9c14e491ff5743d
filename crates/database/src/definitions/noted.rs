//! The documents that could not put an entry into a unique index that is being built; `unique_build` says what they are
//! for. Their number is bounded: one too many fails the build.

use hashbrown::HashSet;

use crate::error::{Error, Result};

/// Documents that a build may note.
const NOTED_MAX: usize = 1000;

/// The documents that could not put an entry into one index that is being built.
#[derive(Default)]
pub struct Noted {
    record_keys: HashSet<Box<[u8]>>,
    /// There were more; the duplicate that was one too many.
    overflow: Option<Error>,
}

impl Noted {
    pub fn add(&mut self, record_key: &[u8], duplicate: impl FnOnce() -> Error) {
        if self.record_keys.contains(record_key) {
            return;
        }
        if self.record_keys.len() < NOTED_MAX {
            self.record_keys.insert(record_key.into());
        } else if self.overflow.is_none() {
            self.overflow = Some(duplicate());
        }
    }

    pub fn check(&self) -> Result<()> {
        self.overflow.clone().map_or(Ok(()), Err)
    }

    pub fn record_keys(&self) -> Vec<Box<[u8]>> {
        self.record_keys.iter().cloned().collect()
    }
}
