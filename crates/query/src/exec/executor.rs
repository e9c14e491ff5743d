//! A read between two batches: a snapshot while a batch is made, a plan with its position, and what was read ahead.
//!
//! Documents are read in chunks, matched and projected into one buffer, and copied from it to the reply; no
//! engine cursor is open between two calls. What of a chunk was not handed out when the snapshot is given up is read again
//! from the next one, so that a batch shows nothing that was changed or deleted before it was asked for. A sort is the
//! exception: it reads all its input first, and its rows are as old as the batch that began it. So are the stages of a
//! pipeline that hold documents. A filter that draws at random is the other exception: it would draw anew for documents that
//! it has already answered about, so what was read ahead of it stays as old as the batch that read it.

use quarry_bson::RawDocument;
use quarry_database::{CollectionSnapshot, Error, Ident, Namespace, Operation, Scope};

use super::collections::OtherCollections;
use crate::error::Result;
use crate::memory::{self, Account, Charge};
use crate::pipeline::{Execution, Run, Show, Source, show_all};
use crate::plan::{Flow, Node, Parsed, PlanContext, Row, run};

/// The documents, and the bytes, that are read ahead at most.
const CHUNK_DOCUMENTS: u64 = 128;
/// Like `CHUNK_DOCUMENTS`, where all documents are shown to a stage that takes them all: a cursor that is opened less often.
const SHOWN_CHUNK_DOCUMENTS: u64 = 1024;
/// The first chunk of each batch of a pipeline, of which nobody knows how many documents it needs. Each further one has
/// twice as many: little is read in vain, and few cursors are opened.
const FIRST_CHUNK_DOCUMENTS: u64 = 16;
const CHUNK_BYTES: usize = 256 * 1024;

/// A running find or aggregate, which gives one document after the other and outlives a request.
pub struct Executor {
    input: Input,
    /// The stages of an aggregation that the read does not do.
    rest: Option<Box<Rest>>,
    /// The account of the memory that rows, groups and buffers take between two calls.
    held: Account,
}

struct Rest {
    execution: Execution,
    others: OtherCollections,
}

enum Input {
    /// Whole documents one after the other, from `position` on.
    Documents {
        bytes: Vec<u8>,
        position: usize,
    },
    Reading(Box<Viewed>),
    /// The documents that another executor makes: those of a view, before the stages of an aggregation over it.
    Made(Box<Executor>),
}

struct Viewed {
    snapshot: Option<CollectionSnapshot>,
    namespace: Namespace,
    ident: Ident,
    reading: Reading,
    is_tailable: bool,
}

/// A plan, and what was read ahead from it.
pub(super) struct Reading {
    root: Node,
    /// None where the plan answers all that was asked.
    parsed: Option<Box<Parsed>>,
    /// How many documents the next chunk may have.
    chunk: u64,
    /// How many documents will be asked for before the snapshot is given up; 0 where nobody knows.
    expected: u64,
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

impl Executor {
    pub(super) fn empty() -> Executor {
        Executor::documents(Vec::new())
    }

    pub(super) fn documents(bytes: Vec<u8>) -> Executor {
        Executor {
            input: Input::Documents { bytes, position: 0 },
            rest: None,
            held: Account::default(),
        }
    }

    pub(super) fn reading(
        snapshot: CollectionSnapshot,
        reading: Reading,
        is_tailable: bool,
    ) -> Executor {
        let viewed = Viewed {
            namespace: snapshot.collection.namespace.clone(),
            ident: snapshot.collection.ident,
            snapshot: Some(snapshot),
            reading,
            is_tailable,
        };
        Executor {
            input: Input::Reading(Box::new(viewed)),
            rest: None,
            held: Account::default(),
        }
    }

    pub(super) fn with_stages(
        mut self,
        execution: Execution,
        others: OtherCollections,
    ) -> Executor {
        if self.rest.is_some() {
            self = Executor {
                input: Input::Made(Box::new(self)),
                rest: None,
                held: Account::default(),
            };
        }
        self.rest = Some(Box::new(Rest { execution, others }));
        self.begin_small();
        self
    }

    /// Appends the next document to `out`; false, and nothing appended, if there is none now.
    pub fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        let outer = self.held.enter();
        let found = self.next_counted(operation, out);
        self.held.leave(outer);
        found
    }

    fn next_counted(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        let Some(rest) = &mut self.rest else {
            return self.input.next(operation, out);
        };
        let mut input = Pull {
            input: &mut self.input,
            operation,
        };
        let mut others = rest.others.lend(operation);
        let mut run = Run::new(&mut input, &mut others);
        rest.execution.next(&mut run, out)
    }

    /// Takes the last document back that `next` handed out, which had `bytes` bytes: it is the next one again. False where
    /// a stage has made it, which cannot make it again.
    pub fn put_back(&mut self, bytes: usize) -> bool {
        if self.rest.is_some() {
            return false;
        }
        match &mut self.input {
            Input::Documents { position, .. } => *position -= bytes,
            Input::Reading(viewed) => viewed.reading.ahead.put_back(bytes),
            Input::Made(executor) => return executor.put_back(bytes),
        }
        true
    }

    /// Says how many documents will be asked for at most before the next `save`, so that no more are read ahead.
    pub fn expect(&mut self, documents: u64) {
        // How many documents its stages need for that a pipeline does not know.
        if let (Input::Reading(viewed), None) = (&mut self.input, &self.rest) {
            viewed.reading.expected = documents;
        }
    }

    /// Gives up the snapshot, and what was read ahead from it.
    pub fn save(&mut self, operation: &Operation) -> Result<()> {
        let outer = self.held.enter();
        let saved = self.save_counted(operation);
        self.held.shrink();
        self.held.leave(outer);
        saved
    }

    fn save_counted(&mut self, operation: &Operation) -> Result<()> {
        if let Input::Reading(viewed) = &mut self.input
            && let Some(snapshot) = viewed.snapshot.take()
        {
            viewed.reading.give_back(&snapshot, operation)?;
            viewed.reading.shrink();
        }
        if let Input::Made(executor) = &mut self.input {
            executor.save(operation)?;
        }
        if let Some(rest) = &mut self.rest {
            rest.others.save(operation)?;
        }
        Ok(())
    }

    /// Takes a new snapshot; the read goes on behind the last key. Fails if the collection has gone. A read that began in a
    /// transaction goes on in it.
    pub fn restore(&mut self, scope: Scope<'_>, operation: &Operation) -> Result<()> {
        operation.check()?;
        if let Input::Reading(viewed) = &mut self.input {
            viewed.restore(scope, operation)?;
        }
        if let Input::Made(executor) = &mut self.input {
            executor.restore(scope, operation)?;
        }
        if let Some(rest) = &mut self.rest {
            rest.others.restore(scope, operation)?;
            self.begin_small();
        }
        Ok(())
    }

    /// The collection that is read; none for documents that were made when the command ran.
    pub fn collection(&self) -> Option<Ident> {
        match &self.input {
            Input::Documents { .. } => None,
            Input::Reading(viewed) => Some(viewed.ident),
            Input::Made(executor) => executor.collection(),
        }
    }

    /// The next chunk is the first of a pipeline's batch.
    fn begin_small(&mut self) {
        if let Input::Reading(viewed) = &mut self.input {
            viewed.reading.begin_small();
        }
    }

    /// Whether there can be no more documents, not even later.
    pub fn is_dead(&self) -> bool {
        match &self.input {
            Input::Documents { bytes, position } => *position == bytes.len(),
            Input::Reading(viewed) => viewed.is_dead(),
            Input::Made(executor) => executor.is_dead(),
        }
    }
}

/// The memory that it held is taken from its own account, not from that of the operation that ends it.
impl Drop for Executor {
    fn drop(&mut self) {
        let outer = self.held.enter();
        self.rest = None;
        self.input = Input::Documents {
            bytes: Vec::new(),
            position: 0,
        };
        self.held.leave(outer);
    }
}

impl Input {
    fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        match self {
            Input::Documents { bytes, position } => Ok(take(bytes, position, out)),
            Input::Reading(viewed) => viewed.next(operation, out),
            Input::Made(executor) => executor.next(operation, out),
        }
    }

    /// Shows all documents that are left.
    fn each(&mut self, operation: &Operation, show: &mut Show<'_>) -> Result<()> {
        match self {
            Input::Documents { bytes, position } => show_each(bytes, position, show),
            Input::Reading(viewed) => {
                let Viewed {
                    snapshot, reading, ..
                } = &mut **viewed;
                reading.each(snapshot.as_ref(), operation, show)
            }
            // What whoever takes them holds is not in the account of who makes them.
            Input::Made(executor) => show_all(show, |out| executor.next(operation, out)),
        }
    }
}

/// Shows the documents from `position` on, which moves behind each that is shown.
fn show_each(bytes: &[u8], position: &mut usize, show: &mut Show<'_>) -> Result<()> {
    while let Some((document, rest)) =
        RawDocument::split_first(bytes.get(*position..).unwrap_or_default())
    {
        *position = bytes.len() - rest.len();
        show(document)?;
    }
    Ok(())
}

/// Moves the document at `position` to `out`.
fn take(bytes: &[u8], position: &mut usize, out: &mut Vec<u8>) -> bool {
    let left = bytes.get(*position..).unwrap_or_default();
    let Some((document, rest)) = RawDocument::split_first(left) else {
        return false;
    };
    out.extend_from_slice(document.as_bytes());
    *position = bytes.len() - rest.len();
    true
}

impl Viewed {
    fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        self.reading.next(self.snapshot.as_ref(), operation, out)
    }

    fn restore(&mut self, scope: Scope<'_>, operation: &Operation) -> Result<()> {
        let snapshot = scope.snapshot(&self.namespace, operation)?;
        let snapshot = snapshot.filter(|snapshot| snapshot.collection.ident == self.ident);
        let Some(snapshot) = snapshot else {
            return Err(dropped(&self.namespace));
        };
        if self.is_tailable {
            self.reading.resume();
        }
        self.snapshot = Some(snapshot);
        Ok(())
    }

    fn is_dead(&self) -> bool {
        let reading = &self.reading;
        if !reading.ahead.is_empty() {
            return false;
        }
        // A tailable cursor ends where its collection was empty or its limit is reached.
        match self.is_tailable {
            true => reading.root.is_over(),
            false => reading.is_finished,
        }
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

/// The parsed parts of a find, also where there are none.
fn of(parsed: &Option<Box<Parsed>>) -> &Parsed {
    match parsed {
        Some(parsed) => parsed,
        None => Parsed::of_everything(),
    }
}

impl Reading {
    pub(super) fn new(root: Node, parsed: Option<Box<Parsed>>) -> Reading {
        Reading {
            varies: (parsed.as_deref()).is_some_and(|parsed| parsed.matcher.varies()),
            root,
            parsed,
            chunk: CHUNK_DOCUMENTS,
            expected: 0,
            ahead: Ahead::default(),
            is_finished: false,
        }
    }

    /// Appends the next document that was read ahead to `out`; false if there is none.
    pub(super) fn take_ahead(&mut self, out: &mut Vec<u8>) -> bool {
        self.ahead.take(out)
    }

    /// Whether the plan has given all rows that it has.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
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
    fn each(
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

    fn resume(&mut self) {
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
        chunk.min(expected)
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
        if self.is_finished {
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
            ahead.bytes.extend_from_slice(document.as_bytes());
            count += 1;
            let is_full = count >= chunk || ahead.bytes.len() >= CHUNK_BYTES;
            Ok(if is_full { Flow::Stop } else { Flow::Continue })
        })?;
        ahead.documents = count as usize;
        ahead.count();
        memory::check()?;
        self.expected = self.expected.saturating_sub(count);
        self.is_finished = !more;
        Ok(())
    }
}

#[cold]
fn no_snapshot() -> crate::Error {
    let text = "a cursor was read without a snapshot".to_owned();
    Error::QueryPlanKilled(text).into()
}

/// The error of a read whose collection has gone.
pub(super) fn dropped(namespace: &Namespace) -> crate::Error {
    let text = format!("collection dropped. UUID of {namespace} has changed");
    Error::QueryPlanKilled(text).into()
}

/// The input of a pipeline.
struct Pull<'p> {
    input: &'p mut Input,
    operation: &'p Operation,
}

impl Source for Pull<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.input.next(self.operation, out)
    }

    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        self.input.each(self.operation, show)
    }
}
