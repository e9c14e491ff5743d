//! A second thread that reads ahead: while the stage that takes in a whole collection works on the documents of one chunk, that thread
//! reads the next.
//!
//! It is there for long scans alone, and while a processor is idle (`turns`): it ends within a chunk once another long operation is
//! there, or short ones are about, and the operation's own thread goes on by itself.
//!
//! Keeps true: the documents come in the order of the scan, whoever reads them, so that no result depends on it. One thread at a
//! time has the plan and the snapshot. The reading thread runs as the operation, which ends it, and what it asks of the engine is the
//! operation's; this thread's wait for a chunk is time of the scan.
//!
//! Leaves out plans that hold rows or remember records: these are counted as memory of the thread that has them.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use quarry_database::{CollectionSnapshot, Operation, add_thread_work, running, take_thread_work};
use quarry_timing::{Phase, phase};

use super::executor::{CHUNK_BYTES, Reading, show_each};
use crate::error::Result;
use crate::interrupts;
use crate::memory::Charge;
use crate::parameters::SCAN_READ_AHEAD;
use crate::pipeline::Show;
use crate::plan::{Leaf, PlanNode};
use crate::turns::TURNS;

/// A scan that has read so many chunks is a long one.
pub(super) const CHUNKS_BEFORE: u32 = 8;
/// One is read into while the other is worked on.
const BUFFERS: usize = 2;

/// The chunks that second threads have read so far.
pub static CHUNKS_READ_AHEAD: AtomicU64 = AtomicU64::new(0);

/// Whether a plan can be read ahead by another thread: it is the scan of a collection, or of keys that serve in place of documents and are
/// met once each.
pub(super) fn can_be_read_ahead(root: &dyn PlanNode) -> bool {
    let mut can_be = root.input().is_none() && root.inputs().is_empty();
    root.leaves(&mut |leaf| {
        can_be &= match leaf {
            Leaf::Collection => true,
            Leaf::Index(access) => !access.is_multikey,
            Leaf::Nothing | Leaf::Id | Leaf::Count(_) | Leaf::Distinct(_) => false,
        }
    });
    can_be
}

/// Whether a second thread is wanted now.
pub(super) fn is_of_use() -> bool {
    SCAN_READ_AHEAD.get() != 0 && TURNS.has_idle_processor()
}

/// Shows the documents that are left while a second thread reads them. Returns when all were shown, or the processor is wanted
/// elsewhere; then the reading stands behind the last document that was shown.
pub(super) fn show_read_ahead(
    reading: &mut Reading,
    snapshot: &mut Option<CollectionSnapshot>,
    operation: &Operation,
    show: &mut Show<'_>,
) -> Result<()> {
    let Some(running) = running() else {
        return Ok(());
    };
    // What the reading holds is counted by the thread that has it.
    reading.give_up_charge();
    let _held = Charge::of(BUFFERS * CHUNK_BYTES);
    thread::scope(|scope| {
        let (wanted, asked) = channel();
        let (ready, chunks) = channel();
        let read = move || {
            if let Some(snapshot) = snapshot {
                read_what_is_asked(reading, snapshot, operation, running, &asked, &ready);
            }
            take_thread_work()
        };
        let named = thread::Builder::new().name("read-ahead".into());
        let Ok(reader) = named.spawn_scoped(scope, read) else {
            return Ok(());
        };
        let shown = show_chunks(wanted, chunks, show);
        match reader.join() {
            Ok(work) => add_thread_work(work),
            Err(panic) => resume_unwind(panic),
        }
        shown
    })
}

/// Shows the chunks that the reading thread makes, and asks it for more. It ends behind what it was asked for.
fn show_chunks(
    wanted: Sender<Vec<u8>>,
    chunks: Receiver<Result<Vec<u8>>>,
    show: &mut Show<'_>,
) -> Result<()> {
    let mut wanted = Some(wanted);
    for _ in 0..BUFFERS {
        ask(&mut wanted, Vec::new());
    }
    while let Some(chunk) = next(&chunks) {
        let mut bytes = chunk?;
        show_each(&bytes, &mut 0, show)?;
        bytes.clear();
        // Both processors may be this operation's: whoever is ready to run goes first.
        thread::yield_now();
        match is_of_use() {
            true => ask(&mut wanted, bytes),
            false => wanted = None,
        }
    }
    Ok(())
}

/// Gives the reading thread a buffer for another chunk.
fn ask(wanted: &mut Option<Sender<Vec<u8>>>, buffer: Vec<u8>) {
    if let Some(sender) = wanted
        && sender.send(buffer).is_err()
    {
        // It has read all.
        *wanted = None;
    }
}

/// The next chunk; none when the reading thread has ended.
fn next(chunks: &Receiver<Result<Vec<u8>>>) -> Option<Result<Vec<u8>>> {
    let _scan = phase(Phase::EngineScan);
    chunks.recv().ok()
}

/// The work of the second thread.
fn read_what_is_asked(
    reading: &mut Reading,
    snapshot: &CollectionSnapshot,
    operation: &Operation,
    running: Arc<Operation>,
    asked: &Receiver<Vec<u8>>,
    ready: &Sender<Result<Vec<u8>>>,
) {
    let _running = interrupts::run_as(running);
    while let Ok(buffer) = asked.recv() {
        thread::yield_now();
        let chunk = reading.read_chunk(buffer, snapshot, operation);
        if chunk.as_ref().is_ok_and(Vec::is_empty) {
            break;
        }
        CHUNKS_READ_AHEAD.fetch_add(1, Relaxed);
        let is_over = chunk.is_err();
        if ready.send(chunk).is_err() || is_over {
            break;
        }
    }
    reading.give_up_charge();
}
