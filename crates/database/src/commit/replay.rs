//! The replay of a journal: its groups go to the engine as few large batches, which a thread of their own writes.
//!
//! Most groups are small, and each write to an engine costs far more than what it adds to a larger one; an engine of pages
//! writes each page of its tree once a batch. While a batch is written, the next one is read from the journal. Kept true:
//! - batches are written in the order of their groups, and each carries the LSN of its last one: whenever a start ends, the next
//!   one goes on behind a batch that is whole;
//! - three batches are in memory at most: one forms, one waits, one is written;
//! - what fails ends the replay, and nothing is written behind it.
//!
//! Nobody reads the database meanwhile, so that what memory keeps of a batch need not follow at the moment of its write.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use quarry_storage::{Engine, WriteBatch};

use crate::catalog::cache::Catalog;
use crate::commit::late_writes::LateWrites;
use crate::commit::payload::Payload;
use crate::error::{Error, Result};

/// The bytes of a batch in tests, which want many of them, instead of what suits the engine.
const BATCH_BYTES_IN_TESTS: Option<usize> = if cfg!(test) { Some(1 << 10) } else { None };

/// Groups that the engine does not have yet.
#[derive(Default)]
pub(super) struct ReplayBatch {
    pub batch: WriteBatch,
    pub touches_catalog: bool,
}

impl ReplayBatch {
    pub fn add(&mut self, payload: &Payload<'_>) -> Result<()> {
        self.touches_catalog |= payload.touches_catalog();
        Ok(self.batch.extend_from_bytes(payload.batch)?)
    }

    pub fn is_full(&self, engine: &LateWrites) -> bool {
        let full = BATCH_BYTES_IN_TESTS.unwrap_or_else(|| engine.bulk_batch_bytes());
        self.batch.bytes_len() >= full
    }

    fn write(&self, engine: &LateWrites, catalog: &Catalog) -> Result<()> {
        let applying = self.touches_catalog.then(|| catalog.applying());
        engine.write(&self.batch)?;
        if let Some(applying) = &applying {
            applying.after(&self.batch);
        }
        Ok(())
    }
}

/// The batch that forms, and from the first full one on the thread that writes.
#[derive(Default)]
pub(super) struct Replay {
    pub forming: ReplayBatch,
    writer: Option<ReplayWriter>,
}

impl Replay {
    /// Hands the batch that has formed to the thread, and begins the next one. An error may be that of an earlier batch.
    pub fn hand_over(&mut self, engine: &Arc<LateWrites>, catalog: &Arc<Catalog>) -> Result<()> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => ReplayWriter::start(engine, catalog)?,
        };
        let next = ReplayBatch {
            batch: writer.written.try_recv().unwrap_or_default(),
            touches_catalog: false,
        };
        let full = std::mem::replace(&mut self.forming, next);
        match writer.batches.send(full) {
            Ok(()) => {
                self.writer = Some(writer);
                Ok(())
            }
            Err(_) => writer.end(),
        }
    }

    /// Writes what is left; returns when the engine has it all.
    pub fn end(mut self, engine: &LateWrites, catalog: &Catalog) -> Result<()> {
        self.writer.take().map_or(Ok(()), ReplayWriter::end)?;
        match self.forming.batch.is_empty() {
            true => Ok(()),
            false => self.forming.write(engine, catalog),
        }
    }
}

/// The thread that writes, which ends when no more batches come.
struct ReplayWriter {
    batches: SyncSender<ReplayBatch>,
    /// The memory of batches that are written.
    written: Receiver<WriteBatch>,
    thread: JoinHandle<Result<()>>,
}

impl ReplayWriter {
    fn start(engine: &Arc<LateWrites>, catalog: &Arc<Catalog>) -> Result<ReplayWriter> {
        let (engine, catalog) = (Arc::clone(engine), Arc::clone(catalog));
        let (batches, coming) = sync_channel(1);
        let (gives_back, written) = channel();
        let thread = std::thread::Builder::new().name("replay".into());
        let thread = thread.spawn(move || write_all(&engine, &catalog, &coming, &gives_back));
        Ok(ReplayWriter {
            batches,
            written,
            thread: thread.map_err(|error| Error::from(quarry_storage::Error::from(error)))?,
        })
    }

    /// Returns when all batches are written, or with why one is not.
    fn end(self) -> Result<()> {
        drop(self.batches);
        self.thread
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn write_all(
    engine: &LateWrites,
    catalog: &Catalog,
    coming: &Receiver<ReplayBatch>,
    gives_back: &Sender<WriteBatch>,
) -> Result<()> {
    for mut full in coming {
        full.write(engine, catalog)?;
        engine.begin_sync();
        full.batch.clear();
        // Nobody takes it when the replay has ended.
        let _ = gives_back.send(full.batch);
    }
    Ok(())
}

/// A replay that is given up leaves an engine that nobody writes any more.
impl Drop for Replay {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // What went wrong is not what the replay was given up for.
            let _ = writer.end();
        }
    }
}
