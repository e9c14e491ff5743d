//! Tests: faults that a test builds into units of several pieces and index builds, to see that they are found out.

use std::sync::atomic::{AtomicU8, Ordering};

/// A fault of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// It takes no lock of a record.
    SkipsLocks,
    /// It changes what others have changed since its snapshot; an index build takes it as it was.
    IgnoresChanges,
    /// It reads what was committed last, and no snapshot.
    ReadsLatest,
    /// Its snapshot is that of the unit begun before it.
    ReadsOldSnapshot,
    /// It does not see what it has staged.
    ForgetsOwnWrites,
    /// The last write of the batch is missing in the commit.
    LosesTheLast,
}

/// The mutant that a database is.
#[derive(Default)]
pub(crate) struct MutantCell(AtomicU8);

impl MutantCell {
    pub fn set(&self, mutant: Mutant) {
        self.0.store(mutant as u8, Ordering::Relaxed);
    }

    pub fn is(&self, mutant: Mutant) -> bool {
        self.0.load(Ordering::Relaxed) == mutant as u8
    }
}
