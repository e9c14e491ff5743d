//! A helper thread of a long pipeline: it reads parts of the collection ahead of the pipeline's own thread, and makes rows of them.
//!
//! It looks behind every piece of some hundred documents whether the part is wanted, whether the pipeline is over, and whether somebody else
//! wants the processor: then it gives the rest of its part back. It does so with any error, too: the first thread reads the documents again, and
//! meets the error in its place, if it is one. What it works for may end while it is in the middle of a document: it has an operation
//! of its own, which is killed then.
//!
//! Its time is in no phase, because the phases of an operation add up to the wall time of its own thread; `turns` counts it. What it
//! asks of the engine and what it examines is counted for the operation.

use std::cell::RefCell;
use std::sync::Arc;

use quarry_bson::RawDocument;
use quarry_database::{CollectionSnapshot, KeyRange, Operation, take_thread_work};

use super::error::stored;
use super::parts::{Claimed, Parts, Piece};
use super::reading::of;
use super::thread_bounds::ThreadBounds;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::memory;
use crate::pipeline::{Gather, GroupRows, Show, Source};
use crate::plan::{Flow, Parsed, PlanContext, RangeWalk, behind};
use crate::turns::HelpTurn;

/// The bytes of documents, and of rows, behind which a piece is handed in.
const PIECE_BYTES: usize = 256 * 1024;

/// The things that a helper thread works with.
pub(super) struct Helper {
    pub parts: Arc<Parts>,
    pub snapshot: CollectionSnapshot,
    pub parsed: Option<Arc<Parsed>>,
    pub gather: Box<dyn Gather>,
    /// None where it does not ask for a processor.
    pub turn: Option<HelpTurn>,
    /// Its own operation, which ends it.
    pub operation: Arc<Operation>,
    pub bounds: ThreadBounds,
}

/// Tells the first thread that this one has ended, whatever ended it.
struct Leaving(Arc<Parts>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave(std::thread::panicking());
    }
}

impl Helper {
    /// Reads parts until there are no more, or somebody else wants the processor.
    pub fn run(self) {
        let _leaving = Leaving(Arc::clone(&self.parts));
        let Helper {
            parts,
            snapshot,
            parsed,
            mut gather,
            turn,
            operation,
            bounds,
        } = self;
        let _running = interrupts::run_as(Arc::clone(&operation));
        let mut pieces_left = bounds.pieces_max;
        let keeps_turn = || turn.as_ref().is_none_or(HelpTurn::goes_on);
        while let Ok(Some(part)) = parts.claim(&snapshot, keeps_turn) {
            let rows = RefCell::default();
            let mut source = PartSource {
                context: PlanContext {
                    snapshot: &snapshot,
                    operation: &operation,
                    parsed: of(&parsed),
                    is_replay: false,
                },
                parts: &parts,
                part,
                rows: &rows,
                goes_on: &mut || {
                    pieces_left = pieces_left.saturating_sub(1);
                    pieces_left > 0 && keeps_turn()
                },
                bounds,
                documents: 0,
                has_ended: false,
            };
            let outcome = gather.gather(&mut source, &rows);
            let (number, documents) = (source.part.number, source.documents);
            let has_ended = source.has_ended;
            let rest = source.rest();
            parts.finish(number, documents, rest, take_thread_work());
            if outcome.is_err() || has_ended {
                break;
            }
        }
    }
}

/// The documents of a part. Their rows are handed in piece by piece.
struct PartSource<'h> {
    context: PlanContext<'h>,
    parts: &'h Parts,
    /// Its range begins behind the documents whose rows were handed in.
    part: Claimed,
    rows: &'h RefCell<GroupRows>,
    /// Asked behind every piece.
    goes_on: &'h mut dyn FnMut() -> bool,
    bounds: ThreadBounds,
    /// The documents whose rows were handed in.
    documents: u64,
    /// It is not to go on with another part.
    has_ended: bool,
}

/// The count of what was read since rows were last handed in.
#[derive(Default)]
struct Unsent {
    docs_examined: u64,
    returned: u64,
    bytes: usize,
}

impl PartSource<'_> {
    /// Hands in what was read; says whether to go on with this part.
    fn hand_in(&mut self, unsent: &mut Unsent) -> bool {
        let unsent = std::mem::take(unsent);
        let piece = Piece {
            rows: self.rows.borrow_mut().take(),
            docs_examined: unsent.docs_examined,
            returned: unsent.returned,
        };
        self.documents += piece.docs_examined;
        self.parts.hand_in(self.part.number, piece)
    }

    /// The keys whose rows were not handed in.
    fn rest(self) -> Option<KeyRange> {
        let range = self.part.range;
        (range.start != range.end).then_some(range)
    }
}

impl Source for PartSource<'_> {
    fn next(&mut self, _: &mut Vec<u8>) -> Result<bool> {
        // Stages that are run by several threads are shown what they take. This fails, and so gives the part back.
        Err(Error::bad_value("a helper thread shows its documents"))
    }

    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        let mut walk = RangeWalk::new(vec![self.part.range.clone()], false);
        let context = PlanContext { ..self.context };
        let mut unsent = Unsent::default();
        let more = walk.walk(&context, false, |cursor| {
            let document = stored(RawDocument::new(cursor.value()))?;
            unsent.docs_examined += 1;
            unsent.bytes += document.len_bytes();
            if context.parsed.matches(document)? {
                unsent.returned += 1;
                memory::check_document(document.len_bytes())?;
                show(document)?;
            }
            let is_full = unsent.docs_examined >= self.bounds.piece_documents
                || unsent.bytes >= PIECE_BYTES
                || self.rows.borrow().held_bytes() >= PIECE_BYTES;
            if !is_full {
                return Ok(Flow::Continue);
            }
            self.part.range.start = behind(cursor.key());
            let goes_on_here = self.hand_in(&mut unsent);
            self.has_ended = !(self.goes_on)();
            Ok(match goes_on_here && !self.has_ended {
                true => Flow::Continue,
                false => Flow::Stop,
            })
        })?;
        if !more {
            self.part.range.start.clone_from(&self.part.range.end);
            self.hand_in(&mut unsent);
        }
        Ok(())
    }
}
