//! The documents of a plan, read in chunks: where the plan stands, and what was read ahead of whoever takes them.
//!
//! Documents are read in chunks, matched and projected into one buffer, and copied from it; no engine cursor is open between two calls.
//! Whoever gives the snapshot up has what was not handed out read again from the next one (`give_back`), so that a batch shows nothing that was
//! changed or deleted before it was asked for. A sort is the exception: it reads all its input first, and its rows are as old as the batch that began
//! it. A filter that draws at random is the other exception: it would draw anew for documents that it has already answered about, so what was read
//! ahead of it stays as old as the batch that read it.

use std::sync::Arc;

use quarry_bson::RawDocument;
use quarry_database::{CollectionSnapshot, Error, KeyRange, Namespace, Operation};

use crate::error::Result;
use crate::memory::{self, Charge};
use crate::pipeline::Show;
use crate::plan::{Flow, Node, Parsed, PlanContext, Row, SplitLeaf, run};

/// The documents, and the bytes, that are read ahead at most.
const CHUNK_DOCUMENTS: u64 = 128;
/// Like `CHUNK_DOCUMENTS`, where all documents are shown to a stage that takes them all: a cursor that is opened less often.
const SHOWN_CHUNK_DOCUMENTS: u64 = 1024;
/// The first chunk of each batch of a pipeline, of which nobody knows how many documents it needs. Each further one has
/// twice as many: little is read in vain, and few cursors are opened.
const FIRST_CHUNK_DOCUMENTS: u64 = 16;
const CHUNK_BYTES: usize = 256 * 1024;

/// A plan, and what was read ahead from it.
pub(super) struct Reading {
    root: Node,
    /// None where the plan answers all that was asked.
    parsed: Option<Arc<Parsed>>,
    /// How many documents the next chunk may have.
    chunk: u64,
    /// How many documents will be asked for before the snapshot is given up; 0 where nobody knows.
    expected: u64,
    /// How many documents may be read before somebody is asked what follows.
    left: u64,
    ahead: Ahead,
    is_finished: bool,
    /// Whether the filter draws at random, so that a second look at the same documents finds others.
    varies: bool,
}

/// Documents that were read and not handed out yet.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    position: usize,
    /// How many documents of the chunk were handed out, and how many it had.
    taken: usize,
    documents: usize,
    /// The room of `bytes`.
    held: Charge,
}

/// The parsed parts of a find, also where there are none.
pub(super) fn of(parsed: &Option<Arc<Parsed>>) -> &Parsed {
    match parsed {
        Some(parsed) => parsed,
        None => Parsed::of_everything(),
    }
}

impl Reading {
    pub(super) fn new(root: Node, parsed: Option<Arc<Parsed>>) -> Reading {
        Reading {
            varies: (parsed.as_deref()).is_some_and(|parsed| parsed.matcher.varies()),
            root,
            parsed,
            chunk: CHUNK_DOCUMENTS,
            expected: 0,
            left: u64::MAX,
            ahead: Ahead::default(),
            is_finished: false,
        }
    }

    /// Appends the next document that was read ahead to `out`; false if there is none.
    pub(super) fn take_ahead(&mut self, out: &mut Vec<u8>) -> bool {
        self.ahead.take(out)
    }

    /// Takes the last document back that was handed out, which had `bytes` bytes.
    pub(super) fn put_back(&mut self, bytes: usize) {
        self.ahead.put_back(bytes);
    }

    /// Says how many documents will be asked for at most before the snapshot is given up, so that no more are read ahead.
    pub(super) fn expect(&mut self, documents: u64) {
        self.expected = documents;
    }

    /// Whether there can be no more documents, not even later.
    pub(super) fn is_dead(&self, is_tailable: bool) -> bool {
        if !self.ahead.is_empty() {
            return false;
        }
        // A tailable cursor ends where its collection was empty or its limit is reached.
        match is_tailable {
            true => self.root.is_over(),
            false => self.is_finished,
        }
    }

    /// Whether the plan has given all rows that it has.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The leaf that is the whole plan, if its range can be read in parts. A filter that draws at random is asked on one thread.
    pub(super) fn scan(&mut self) -> Option<&mut dyn SplitLeaf> {
        if self.varies {
            return None;
        }
        self.root.split_leaf()
    }

    /// Goes on with a part of the range of its scan.
    pub(super) fn go_to(&mut self, range: KeyRange) {
        if let Some(scan) = self.scan() {
            scan.go_to(range);
            self.is_finished = false;
        }
    }

    /// Has the documents come to an end after about so many.
    pub(super) fn read_at_most(&mut self, documents: u64) {
        self.left = documents;
    }

    /// The filter; none where the plan answers it alone.
    pub(super) fn parsed(&self) -> Option<&Arc<Parsed>> {
        self.parsed.as_ref()
    }

    /// The plan, which nobody reads any more.
    pub(super) fn into_root(self) -> Node {
        self.root
    }

    /// Appends the next document to `out`; false, and nothing appended, if there is none now.
    pub(super) fn next(
        &mut self,
        snapshot: Option<&CollectionSnapshot>,
        operation: &Operation,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.ahead.take(out) {
            return Ok(true);
        }
        let Some(snapshot) = snapshot else {
            return Err(no_snapshot());
        };
        self.fill(snapshot, operation)?;
        Ok(self.ahead.take(out))
    }

    /// Shows all documents that are left, where they were read.
    pub(super) fn each(
        &mut self,
        snapshot: Option<&CollectionSnapshot>,
        operation: &Operation,
        show: &mut Show<'_>,
    ) -> Result<()> {
        loop {
            let Ahead {
                bytes,
                position,
                taken,
                documents,
                ..
            } = &mut self.ahead;
            show_each(bytes, position, show)?;
            *taken = *documents;
            let Some(snapshot) = snapshot else {
                return Err(no_snapshot());
            };
            self.chunk = SHOWN_CHUNK_DOCUMENTS;
            self.fill(snapshot, operation)?;
            if self.ahead.is_empty() {
                return Ok(());
            }
        }
    }

    /// The next chunk is the first of a pipeline's batch.
    pub(super) fn begin_small(&mut self) {
        self.chunk = FIRST_CHUNK_DOCUMENTS;
    }

    pub(super) fn resume(&mut self) {
        self.is_finished = false;
        self.root.resume();
    }

    /// Has the plan go back to the first document that was read and not handed out: to where the chunk began, and then
    /// over those that were handed out, which the same snapshot shows again. Rows of a sort stay: they cannot be read
    /// again without the others. What a filter has drawn at random stays too: the next draw would be another.
    pub(super) fn give_back(
        &mut self,
        snapshot: &CollectionSnapshot,
        operation: &Operation,
    ) -> Result<()> {
        let Reading {
            root,
            parsed,
            ahead,
            varies,
            ..
        } = self;
        if ahead.documents == ahead.taken || root.holds_rows() || *varies {
            return Ok(());
        }
        let mut again = ahead.taken;
        ahead.position = ahead.bytes.len();
        ahead.clear();
        root.rewind();
        self.is_finished = false;
        if again == 0 {
            return Ok(());
        }
        let context = PlanContext {
            snapshot,
            operation,
            parsed: of(parsed),
            is_replay: true,
        };
        root.next(&context, &mut |_| {
            again -= 1;
            Ok(if again == 0 {
                Flow::Stop
            } else {
                Flow::Continue
            })
        })?;
        debug_assert_eq!(again, 0, "a snapshot does not change");
        Ok(())
    }

    /// How many documents the next chunk has at most: no more than are asked for, as far as that is known.
    fn next_chunk(&mut self) -> u64 {
        let chunk = self.chunk;
        self.chunk = (chunk * 2).min(CHUNK_DOCUMENTS);
        let expected = match self.expected {
            0 => u64::MAX,
            expected => expected,
        };
        chunk.min(expected).min(self.left)
    }

    /// Keeps of its buffers what is filled: there may be many cursors, and most of them are never asked again.
    pub(super) fn shrink(&mut self) {
        if self.ahead.is_empty() {
            self.ahead.clear();
        }
        self.ahead.bytes.shrink_to_fit();
        self.ahead.count();
    }

    /// Reads the next chunk.
    fn fill(&mut self, snapshot: &CollectionSnapshot, operation: &Operation) -> Result<()> {
        self.ahead.clear();
        if self.is_finished || self.left == 0 {
            return Ok(());
        }
        let chunk = self.next_chunk();
        let Reading {
            root,
            parsed,
            ahead,
            ..
        } = self;
        let context = PlanContext {
            snapshot,
            operation,
            parsed: of(parsed),
            is_replay: false,
        };
        root.mark();
        let mut count = 0;
        let more = run(&mut **root, &context, &mut |row: &Row<'_>| {
            let document = row.document.unwrap_or(RawDocument::EMPTY);
            memory::check_document(document.len_bytes())?;
            memory::append_document(&mut ahead.bytes, document.as_bytes());
            count += 1;
            let is_full = count >= chunk || ahead.bytes.len() >= CHUNK_BYTES;
            Ok(if is_full { Flow::Stop } else { Flow::Continue })
        })?;
        ahead.documents = count as usize;
        ahead.count();
        memory::check()?;
        self.expected = self.expected.saturating_sub(count);
        self.left = self.left.saturating_sub(count);
        self.is_finished = !more;
        Ok(())
    }
}

impl Ahead {
    fn take(&mut self, out: &mut Vec<u8>) -> bool {
        let is_taken = take(&self.bytes, &mut self.position, out);
        self.taken += usize::from(is_taken);
        is_taken
    }

    fn put_back(&mut self, bytes: usize) {
        self.position -= bytes;
        self.taken -= 1;
    }

    /// Makes room for the next chunk.
    fn clear(&mut self) {
        debug_assert!(self.is_empty(), "a document that was read ahead is lost");
        self.bytes.clear();
        (self.position, self.taken, self.documents) = (0, 0, 0);
    }

    fn is_empty(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// Counts the room that it takes in place of what was counted before.
    fn count(&mut self) {
        self.held = Charge::default();
        self.held = Charge::of(self.bytes.capacity());
    }
}

/// Shows the documents from `position` on, which moves behind each that is shown.
pub(super) fn show_each(bytes: &[u8], position: &mut usize, show: &mut Show<'_>) -> Result<()> {
    while let Some((document, rest)) =
        RawDocument::split_first(bytes.get(*position..).unwrap_or_default())
    {
        *position = bytes.len() - rest.len();
        show(document)?;
    }
    Ok(())
}

/// Moves the document at `position` to `out`.
pub(super) fn take(bytes: &[u8], position: &mut usize, out: &mut Vec<u8>) -> bool {
    let left = bytes.get(*position..).unwrap_or_default();
    let Some((document, rest)) = RawDocument::split_first(left) else {
        return false;
    };
    memory::append_document(out, document.as_bytes());
    *position = bytes.len() - rest.len();
    true
}

#[cold]
pub(super) fn no_snapshot() -> crate::Error {
    let text = "a cursor was read without a snapshot".to_owned();
    Error::QueryPlanKilled(text).into()
}

/// The error of a read whose collection has gone.
pub(super) fn dropped(namespace: &Namespace) -> crate::Error {
    let text = format!("collection dropped. UUID of {namespace} has changed");
    Error::QueryPlanKilled(text).into()
}
