//! A read between two batches: a snapshot while a batch is made, what is read from it (`reading`), and the stages of a pipeline behind.
//!
//! Between two batches it holds no snapshot. A batch shows nothing that was changed or deleted before it was asked for, but for rows of a sort and
//! what stages of a pipeline hold, which are as old as the batch that began with them.

use quarry_database::{CollectionSnapshot, Ident, Namespace, Operation, Scope};

use super::collections::OtherCollections;
use super::reading::{Reading, dropped, no_snapshot, show_each, take};
use super::shared_reading::Sharing;
use super::thread_bounds::ThreadBounds;
use crate::error::Result;
use crate::memory::Account;
use crate::pipeline::{Execution, GatherFor, Part, Run, SharedInput, Show, Source, show_all};

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
    threads: ThreadBounds,
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
        threads: ThreadBounds,
    ) -> Executor {
        if self.rest.is_some() {
            self = Executor {
                input: Input::Made(Box::new(self)),
                rest: None,
                held: Account::default(),
            };
        }
        self.rest = Some(Box::new(Rest {
            execution,
            others,
            threads,
        }));
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
            sharing: Sharing::new(rest.threads),
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
            Input::Reading(viewed) => viewed.reading.put_back(bytes),
            Input::Made(executor) => return executor.put_back(bytes),
        }
        true
    }

    /// Says how many documents will be asked for at most before the next `save`, so that no more are read ahead.
    pub fn expect(&mut self, documents: u64) {
        // How many documents its stages need for that a pipeline does not know.
        if let (Input::Reading(viewed), None) = (&mut self.input, &self.rest) {
            viewed.reading.expect(documents);
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

    /// Whether its documents are all those of a scan that match, and no more of them can come later.
    fn is_shareable(&mut self) -> bool {
        let snapshot = self.snapshot.as_ref();
        let is_capped = snapshot.is_none_or(|it| it.collection.capped.is_some());
        !is_capped && !self.is_tailable && self.reading.scan().is_some()
    }

    fn is_dead(&self) -> bool {
        self.reading.is_dead(self.is_tailable)
    }
}

/// The input of a pipeline.
struct Pull<'p> {
    input: &'p mut Input,
    operation: &'p Operation,
    sharing: Sharing,
}

impl SharedInput for Pull<'_> {
    fn share(&mut self) {
        if let Input::Reading(viewed) = self.input {
            self.sharing.begin();
            viewed.reading.read_at_most(self.sharing.documents_alone());
        }
    }

    fn next_part(&mut self, gather: &mut GatherFor<'_>) -> Result<Part> {
        let Input::Reading(viewed) = self.input else {
            return Ok(Part::End);
        };
        let Viewed {
            snapshot, reading, ..
        } = &mut **viewed;
        let Some(snapshot) = snapshot else {
            return Err(no_snapshot());
        };
        self.sharing
            .next_part(reading, snapshot, self.operation, gather)
    }
}

impl Source for Pull<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.input.next(self.operation, out)
    }

    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        self.input.each(self.operation, show)
    }

    fn as_shared(&mut self) -> Option<&mut dyn SharedInput> {
        let Input::Reading(viewed) = &mut *self.input else {
            return None;
        };
        // One that is shared stays it, whatever somebody sets meanwhile: there may be more of it.
        let is_shared =
            self.sharing.has_begun() || (self.sharing.is_allowed() && viewed.is_shareable());
        is_shared.then_some(self)
    }
}
