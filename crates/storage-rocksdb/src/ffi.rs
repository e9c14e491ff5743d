//! The one unsafe step of this crate: a snapshot that owns its database.
//!
//! The binding's snapshot borrows the database; the trait above hands snapshots out without a
//! lifetime. Here a snapshot carries a shared owner of the database beside it instead.

#![allow(unsafe_code)]

use std::sync::Arc;

use rust_rocksdb::{DB, Snapshot};

/// A snapshot and the database it is of. Fields drop in order: the snapshot goes first.
pub(crate) struct OwnedSnapshot {
    snapshot: Snapshot<'static>,
    _db: Arc<DB>,
}

impl OwnedSnapshot {
    pub(crate) fn new(db: &Arc<DB>) -> Self {
        let snapshot: Snapshot<'_> = db.snapshot();
        // SAFETY: the snapshot borrows the `DB` inside the `Arc`, which does not move and lives at
        // least as long as the clone of the `Arc` stored beside it; the field order of this struct
        // drops the snapshot first, and `get` never hands the long lifetime out.
        let snapshot = unsafe { std::mem::transmute::<Snapshot<'_>, Snapshot<'static>>(snapshot) };
        Self {
            snapshot,
            _db: Arc::clone(db),
        }
    }

    pub(crate) fn get(&self) -> &Snapshot<'_> {
        &self.snapshot
    }
}
