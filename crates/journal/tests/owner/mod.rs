//! The owner that the tests give a journal: it remembers what was applied, checks the order, and can
//! refuse or add records.

#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quarry_journal::{
    GroupBuilder, HookError, Hooks, Identity, Journal, Options, Payloads, Result, SimulatedFiles,
};

pub type Record = (u64, Vec<u8>);

#[derive(Default)]
pub struct Owner {
    records: Mutex<Vec<Record>>,
    refusal: Mutex<Option<HookError>>,
    /// The next group cannot be finished.
    unfinished: Mutex<Option<HookError>>,
    adds_trailer: AtomicBool,
    panics: AtomicBool,
}

impl Owner {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn open(self: &Arc<Self>, files: &SimulatedFiles, applied_lsn: u64) -> Result<Journal> {
        let hooks: Arc<dyn Hooks> = self.clone();
        Journal::open(
            Arc::new(files.clone()),
            options(),
            identity(),
            applied_lsn,
            hooks,
        )
    }

    pub fn records(&self) -> Vec<Record> {
        self.records.lock().clone()
    }

    pub fn refuse(&self, refusal: Option<HookError>) {
        *self.refusal.lock() = refusal;
    }

    pub fn leave_next_unfinished(&self, refusal: HookError) {
        *self.unfinished.lock() = Some(refusal);
    }

    pub fn set_trailer(&self, adds: bool) {
        self.adds_trailer.store(adds, Ordering::Relaxed);
    }
}

impl Owner {
    pub fn panic_next(&self) {
        self.panics.store(true, Ordering::Relaxed);
    }
}

impl Hooks for Owner {
    fn ready(&self, _bytes: usize) -> std::result::Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> std::result::Result<(), HookError> {
        if self.adds_trailer.load(Ordering::Relaxed) {
            let trailer = format!("trailer {}", group.next_lsn());
            group.push_payload(trailer.as_bytes());
        }
        // What it has added by then must go as well.
        self.unfinished.lock().take().map_or(Ok(()), Err)
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> std::result::Result<(), HookError> {
        if let Some(refusal) = &*self.refusal.lock() {
            return Err(refusal.clone());
        }
        assert!(!self.panics.load(Ordering::Relaxed), "told to panic");
        let mut records = self.records.lock();
        assert_eq!(first_lsn, payloads.first_lsn());
        for (lsn, payload) in payloads {
            assert!(
                records.last().is_none_or(|(last, _)| last + 1 == lsn),
                "records must be dense"
            );
            records.push((lsn, payload.to_vec()));
        }
        Ok(())
    }
}

pub fn identity() -> Identity {
    Identity {
        database: *b"a database uuid!",
        engine: "memory".to_owned(),
    }
}

/// Small segments, so that a test crosses their edges; no threads, so that every step is the test's.
pub fn options() -> Options {
    Options {
        segment_bytes: 16 * 1024,
        group_bytes_max: 4096,
        background: false,
        ..Options::default()
    }
}
