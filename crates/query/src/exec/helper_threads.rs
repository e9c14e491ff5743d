//! The helper threads of a long pipeline, as its own thread has them.
//!
//! They begin where the pipeline has shown itself a long one, processors are idle and there is room for their rows, and end with it. All
//! of them read the snapshot of the batch that the pipeline is in.

use std::panic;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use quarry_database::{CollectionSnapshot, KeyRange, Operation, add_thread_work};
use quarry_timing::{Phase, phase};

use super::helper_thread::Helper;
use super::key_line::KeyLine;
use super::parts::{Next, Parts, WAITING_BYTES_MAX};
use super::reading::Reading;
use super::thread_bounds::ThreadBounds;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory::{self, Charge};
use crate::pipeline::{GatherFor, ROWS_BYTES_MAX};
use crate::turns::{self, HelpTurn};

/// Helper threads at work. They have ended when this is dropped.
pub(super) struct HelperThreads {
    parts: Arc<Parts>,
    threads: Vec<JoinHandle<()>>,
    /// Their operation, whose end ends them.
    operation: Arc<Operation>,
    /// The room that their rows may take.
    _room: Charge,
}

/// The outcome of looking for help.
pub(super) enum Help {
    /// It has come; the pipeline's own thread goes on with this part.
    Come(HelperThreads, KeyRange),
    /// Nobody is idle now.
    NotNow,
    /// There will be none for this pipeline.
    Never,
}

impl HelperThreads {
    /// Begins as many as there are idle processors, for the rest of what a scan reads.
    pub fn begin(
        reading: &mut Reading,
        snapshot: &mut CollectionSnapshot,
        operation: &Operation,
        bounds: ThreadBounds,
        gather: &mut GatherFor<'_>,
    ) -> Result<Help> {
        let seats = seats(bounds);
        let rows_bytes = WAITING_BYTES_MAX + seats.len() * ROWS_BYTES_MAX;
        if seats.is_empty() || !memory::has_room(rows_bytes) {
            return Ok(Help::NotNow);
        }
        let Some((parts, own)) = parts(reading, snapshot, bounds, seats.len())? else {
            return Ok(Help::Never);
        };
        let mut begun = HelperThreads {
            parts: Arc::new(parts),
            threads: Vec::with_capacity(seats.len()),
            operation: Arc::new(Operation::new(operation.deadline())),
            _room: Charge::of(rows_bytes),
        };
        for turn in seats {
            // Whoever cannot be given a view of its own does not help.
            let Ok(Some(snapshot)) = snapshot.share() else {
                return Ok(Help::Never);
            };
            let helper = Helper {
                parts: Arc::clone(&begun.parts),
                snapshot,
                parsed: reading.parsed().cloned(),
                gather: gather(),
                turn,
                operation: Arc::clone(&begun.operation),
                bounds,
            };
            begun.spawn(helper);
        }
        Ok(Help::Come(begun, own))
    }

    /// A thread that cannot be made is one that has ended.
    fn spawn(&mut self, helper: Helper) {
        let named = thread::Builder::new().name("pipeline".into());
        match named.spawn(move || helper.run()) {
            Ok(thread) => self.threads.push(thread),
            Err(_) => self.parts.leave(false),
        }
    }

    /// Says what the pipeline's own thread does next; it may wait for a piece of a helper's.
    pub fn next(&mut self, snapshot: &CollectionSnapshot) -> Result<Next> {
        let _wait = phase(Phase::EngineScan);
        match self.parts.next(snapshot, interrupts::check_waiting)? {
            Some(next) => Ok(next),
            None => {
                self.end();
                Err(Error::bad_value("a helper thread has ended too early"))
            }
        }
    }

    /// The pipeline's own thread has read so many documents of a part.
    pub fn learn(&self, documents: u64) {
        self.parts.learn(documents);
    }

    /// Ends them. A panic of one is the pipeline's.
    fn end(&mut self) {
        self.parts.end();
        self.operation.kill();
        for thread in self.threads.drain(..) {
            if let Err(panicked) = thread.join()
                && !thread::panicking()
            {
                panic::resume_unwind(panicked);
            }
        }
        add_thread_work(self.parts.take_work());
    }
}

impl Drop for HelperThreads {
    fn drop(&mut self) {
        self.end();
    }
}

/// The helpers that a pipeline has at most: one thread takes the rows of all, and each takes some of the operation's memory.
const HELPERS_MAX: usize = 31;

/// The turns of helpers, as many as are to be had; a helper without one does not ask for a processor.
fn seats(bounds: ThreadBounds) -> Vec<Option<HelpTurn>> {
    let mut seats = Vec::new();
    while seats.len() < bounds.helpers_max().min(HELPERS_MAX) {
        match turns::help() {
            Some(turn) => seats.push(Some(turn)),
            None if bounds.waits_for_idle => break,
            None => seats.push(None),
        }
    }
    seats
}

/// The parts of the rest of what a scan reads, behind the first one, which is returned with them. None where it would be the only one.
fn parts(
    reading: &mut Reading,
    snapshot: &CollectionSnapshot,
    bounds: ThreadBounds,
    helpers: usize,
) -> Result<Option<(Parts, KeyRange)>> {
    let Some(scan) = reading.scan() else {
        return Ok(None);
    };
    let (rest, examined) = (scan.rest(), scan.docs_examined());
    let Some(rest) = rest else {
        return Ok(None);
    };
    let Some(line) = KeyLine::of(snapshot, &rest)? else {
        return Ok(None);
    };
    let left = snapshot.documents()?.saturating_sub(examined);
    let distance = line.part(line.first(), left / bounds.part_documents.max(1));
    let Some(frontier) = line.key_beyond(snapshot, line.first(), distance)? else {
        return Ok(None);
    };
    let own = KeyRange::new(rest.start, frontier.clone());
    let behind = (frontier, rest.end);
    let parts = Parts::new(
        line,
        behind,
        distance,
        (left, bounds.part_documents),
        helpers,
    );
    Ok(Some((parts, own)))
}
