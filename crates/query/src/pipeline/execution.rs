//! A pipeline at work: each stage pulls documents from those before it, the first one from the input.
//!
//! A document is held by one stage at a time: a stage reads it into a buffer of its own, writes what it makes of it into
//! the next one's, and empties its own before it answers. A buffer that a large document has left is given up.
//!
//! A stage that takes all of its input before it gives anything has the documents *shown* to it (`each`): the input shows them
//! where it has them, a filter passes them on as they are, and only stages that make documents write them anywhere.

use std::fmt;
use std::sync::Arc;

use quarry_bson::RawDocument;

use super::read_figures::ReadFigures;
use super::shared_input::{Gather, Part, SharedInput};
use crate::error::Result;
use crate::expression::{ExpressionContext, bounds};
use crate::interrupts::{self, units_of_bytes};
use crate::memory::{self, Charge, Counted};

/// Takes the documents that are shown to it, one after the other.
pub type Show<'s> = dyn FnMut(RawDocument<'_>) -> Result<()> + 's;

/// Where documents come from.
pub trait Source {
    /// Appends the next document to `out`; false, and nothing appended, when there is none left.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool>;

    /// Shows all documents that are left. A source that has them in memory shows them there.
    fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        show_all(show, |out| self.next(out))
    }

    /// The source as one that other threads may read beside this one, if it is one.
    fn as_shared(&mut self) -> Option<&mut dyn SharedInput> {
        None
    }
}

/// The other collections of a pipeline's database: the one seam between a pipeline and what it reads beside its input. Only
/// collections can be read that `Pipeline::collections` has named.
pub trait Collections {
    /// Begins a read. A collection that does not exist is empty.
    fn open(&mut self, collection: &str, find: SubFind<'_>) -> Result<ReadId>;

    /// Appends the next document of a read to `out`; false, and nothing appended, when there is none left.
    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool>;

    /// Ends a read. Whoever makes the collections ends those that an error has left open.
    fn close(&mut self, read: ReadId);

    /// Has what is read from now on counted there, and gives back where it was counted before.
    fn count_into(&mut self, _figures: Option<Arc<ReadFigures>>) -> Option<Arc<ReadFigures>> {
        None
    }
}

/// A request for documents of a collection: those that match, in this order.
#[derive(Debug, Clone, Copy)]
pub struct SubFind<'f> {
    /// The filter.
    pub filter: RawDocument<'f>,
    /// The order, if one is asked for.
    pub sort: Option<RawDocument<'f>>,
    /// Documents to leave out at the beginning.
    pub skip: u64,
    /// Documents at most, if they are bounded.
    pub limit: Option<u64>,
    /// The context of the expressions in the filter.
    pub context: &'f ExpressionContext,
}

/// A read that is open, as whoever gave it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadId(pub usize);

/// For pipelines that read no other collection: every collection is empty.
#[derive(Debug, Clone, Copy)]
pub struct NoCollections;

impl Collections for NoCollections {
    fn open(&mut self, _: &str, _: SubFind<'_>) -> Result<ReadId> {
        Ok(ReadId(0))
    }

    fn next(&mut self, _: ReadId, _: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    fn close(&mut self, _: ReadId) {}
}

/// The things that a request lends to the pipeline for one pull.
pub struct Run<'r> {
    input: RunInput<'r>,
    collections: &'r mut dyn Collections,
}

/// Where the documents come from that go into a pipeline.
pub(super) enum RunInput<'r> {
    /// From whoever runs the pipeline.
    Source(&'r mut dyn Source),
    /// From another collection.
    Read(ReadId),
    /// There are none: the first stage makes the documents.
    Nothing,
}

impl<'r> Run<'r> {
    /// Lends the documents that go in, and the collections that stages read beside them.
    pub fn new(input: &'r mut dyn Source, collections: &'r mut dyn Collections) -> Run<'r> {
        Run {
            input: RunInput::Source(input),
            collections,
        }
    }

    /// Like `new`, over what an open read gives.
    pub fn of_read(read: ReadId, collections: &'r mut dyn Collections) -> Run<'r> {
        Run {
            input: RunInput::Read(read),
            collections,
        }
    }

    fn next_input(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        match &mut self.input {
            RunInput::Source(source) => source.next(out),
            RunInput::Read(read) => self.collections.next(*read, out),
            RunInput::Nothing => Ok(false),
        }
    }

    fn shared_input(&mut self) -> Option<&mut dyn SharedInput> {
        match &mut self.input {
            RunInput::Source(source) => source.as_shared(),
            RunInput::Read(_) | RunInput::Nothing => None,
        }
    }

    fn each_input(&mut self, show: &mut Show<'_>) -> Result<()> {
        match &mut self.input {
            RunInput::Source(source) => source.each(show),
            RunInput::Read(read) => show_all(show, |out| self.collections.next(*read, out)),
            RunInput::Nothing => Ok(()),
        }
    }
}

/// A pipeline between two pulls.
pub struct Execution {
    stages: Vec<Box<dyn RunningStage>>,
}

impl Execution {
    pub(super) fn new(stages: Vec<Box<dyn RunningStage>>) -> Execution {
        Execution { stages }
    }

    /// Whether there is no stage: what comes in goes out.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Appends the next result to `out`; false, and nothing appended, at the end. After an error the pipeline
    /// is of no further use and `out` is as long as it was.
    pub fn next(&mut self, run: &mut Run<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let result = self.next_of_any_size(run, out).and_then(|found| {
            bounds::check_document_bytes(out.len() - start)?;
            Ok(found)
        });
        if !matches!(result, Ok(true)) {
            out.truncate(start);
        }
        result
    }

    /// Like `next`, for a caller that looks at the size of a result itself.
    pub fn next_of_any_size(&mut self, run: &mut Run<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let mut upstream = Upstream {
            stages: &mut self.stages,
            run,
        };
        let result = upstream.next(out);
        if !matches!(result, Ok(true)) {
            out.truncate(start);
        }
        result
    }

    /// Ends the reads that its stages have left open. Whoever runs a pipeline within a pipeline calls it when the run is over:
    /// a `$limit` stops pulling from the stages before it, and so they never learn that they are at their end.
    pub(crate) fn close(&mut self, collections: &mut dyn Collections) {
        for stage in &mut self.stages {
            stage.close(collections);
        }
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Execution")
            .field("stages", &self.stages.len())
            .finish_non_exhaustive()
    }
}

/// The running form of a stage.
pub trait RunningStage: Send {
    /// As `Source::next`, from the stages before.
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool>;

    /// Like `next`, for all documents that are left: a stage that takes all its input is shown each of them. A stage that makes
    /// documents one by one has no need of its own for them to be written anywhere else.
    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        show_all(show, |out| hand_on(out, |out| self.next(upstream, out)))
    }

    /// The stage as one that several threads may run, if it is one.
    fn as_fork(&self) -> Option<&dyn Fork> {
        None
    }

    /// Has the stage count what it reads of other collections, if explain shows that of it.
    fn count_reads(&mut self) -> Option<Arc<ReadFigures>> {
        None
    }

    /// Ends the reads of other collections that the stage keeps open between two pulls. It is not pulled again.
    fn close(&mut self, _: &mut dyn Collections) {}
}

/// A running stage that makes the same of a document whatever other documents it has seen: each of several threads may run it over
/// documents of its own. Such a stage holds nothing back where its input comes to an end.
pub trait Fork {
    /// Another run of the stage, from its beginning, for another thread. It is shown all of its documents (`each`).
    fn fork(&self) -> Box<dyn RunningStage>;
}

/// The stages before a stage, and what the request lends.
pub struct Upstream<'u, 'r> {
    stages: &'u mut [Box<dyn RunningStage>],
    run: &'u mut Run<'r>,
}

impl Upstream<'_, '_> {
    /// Appends the next document that the stages before have.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((last, before)) = self.stages.split_last_mut() else {
            return self.run.next_input(out);
        };
        let mut upstream = Upstream {
            stages: before,
            run: self.run,
        };
        hand_on(out, |out| last.next(&mut upstream, out))
    }

    /// Reads the next document into a buffer of the stage's own, where it is counted until the buffer is emptied.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> Result<Option<RawDocument<'b>>> {
        buffer.read(|out| self.next(out))
    }

    /// Shows all documents that the stages before have left.
    pub(super) fn each(&mut self, show: &mut Show<'_>) -> Result<()> {
        if self.stages.len() > STAGES_SHOWN_THROUGH {
            return show_all(show, |out| self.next(out));
        }
        let Some((last, before)) = self.stages.split_last_mut() else {
            return self.run.each_input(show);
        };
        let mut upstream = Upstream {
            stages: before,
            run: self.run,
        };
        last.each(&mut upstream, show)
    }

    /// Has the input shared with other threads, if it and the stages before this one can be. Whoever asks for that has all documents
    /// shown, and asks `next_part` where they end.
    pub(super) fn share_input(&mut self) {
        let are_forks = self.stages.iter().all(|stage| stage.as_fork().is_some());
        let is_shown = self.stages.len() <= STAGES_SHOWN_THROUGH;
        if let Some(shared) = self.run.shared_input().filter(|_| are_forks && is_shown) {
            shared.share();
        }
    }

    /// Says what follows where the documents of a shared input have come to an end; of another input nothing does. `gather` makes of the
    /// stages of another thread what that thread runs.
    pub(super) fn next_part(
        &mut self,
        gather: &dyn Fn(Vec<Box<dyn RunningStage>>) -> Box<dyn Gather>,
    ) -> Result<Part> {
        let stages = &*self.stages;
        let Some(shared) = self.run.shared_input() else {
            return Ok(Part::End);
        };
        shared.next_part(&mut || {
            let forks = stages.iter().filter_map(|stage| stage.as_fork());
            gather(forks.map(Fork::fork).collect())
        })
    }

    /// Runs stages over a source, and shows what comes of it.
    pub(super) fn show_through(
        stages: &mut [Box<dyn RunningStage>],
        source: &mut dyn Source,
        show: &mut Show<'_>,
    ) -> Result<()> {
        let mut none = NoCollections;
        let mut run = Run::new(source, &mut none);
        let mut upstream = Upstream {
            stages,
            run: &mut run,
        };
        upstream.each(show)
    }

    /// The other collections, for stages that read them.
    pub(super) fn collections(&mut self) -> &mut dyn Collections {
        self.run.collections
    }

    /// Runs a part of a stage's work, with what it reads of other collections counted, if that is wanted. It pulls nothing from the stages
    /// before.
    pub(super) fn counted<R>(
        &mut self,
        figures: Option<&Arc<ReadFigures>>,
        work: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let Some(figures) = figures else {
            return work(self);
        };
        let before = self.collections().count_into(Some(Arc::clone(figures)));
        let result = work(self);
        self.collections().count_into(before);
        result
    }

    /// Lends the same to a pipeline that a stage runs by itself, over an input of its own.
    pub(super) fn lend<'l>(&'l mut self, input: RunInput<'l>) -> Run<'l> {
        Run {
            input,
            collections: &mut *self.run.collections,
        }
    }
}

/// Has a stage append its next document to `out`, counted and bounded.
pub(super) fn hand_on(
    out: &mut Vec<u8>,
    next: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
) -> Result<bool> {
    let start = out.len();
    let found = next(out)?;
    let bytes = out.len() - start;
    interrupts::work(UNITS_OF_A_DOCUMENT + units_of_bytes(bytes))?;
    bounds::check_bytes(bytes)?;
    Ok(found)
}

/// Shows the documents that `next` appends, until it has none.
pub(crate) fn show_all(
    show: &mut Show<'_>,
    mut next: impl FnMut(&mut Vec<u8>) -> Result<bool>,
) -> Result<()> {
    let mut buffer = Buffer::default();
    while let Some(document) = buffer.read(&mut next)? {
        show(document)?;
    }
    Ok(())
}

/// Shows the document that `write` appends to a buffer, counted and bounded as one that is handed on.
pub(super) fn show_made(
    buffer: &mut Buffer,
    show: &mut Show<'_>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let append = |out: &mut Vec<u8>| hand_on(out, |out| write(out).map(|()| true));
    if let Some(document) = buffer.read(append)? {
        show(document)?;
    }
    Ok(())
}

/// The stages through which documents are shown: each stands on the stack twice then, once below the documents and once above.
const STAGES_SHOWN_THROUGH: usize = 50;

/// The work of handing a document from one stage to the next, beside that on its bytes.
const UNITS_OF_A_DOCUMENT: usize = 10;

/// The bytes that a buffer keeps for the next document: a pipeline may have a thousand stages, each with one.
const BUFFER_BYTES_KEPT: usize = 16 * 1024;

/// Where a stage has the document that it works on.
#[derive(Debug, Default)]
pub(super) struct Buffer(Counted);

impl Buffer {
    /// Gives up the document, and the room that a large one took.
    pub(super) fn empty(&mut self) {
        let Counted { bytes, charge } = &mut self.0;
        bytes.clear();
        if bytes.capacity() > BUFFER_BYTES_KEPT {
            *bytes = Vec::new();
        }
        *charge = Charge::default();
    }

    /// Puts a document in, counted until the buffer is emptied.
    pub(super) fn fill(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<RawDocument<'_>> {
        self.empty();
        write(&mut self.0.bytes);
        self.count()
    }

    /// Lets `next` append a document if there is one, counted until the buffer is emptied.
    pub(super) fn read(
        &mut self,
        next: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<Option<RawDocument<'_>>> {
        self.empty();
        if !next(&mut self.0.bytes)? {
            return Ok(None);
        }
        self.count().map(Some)
    }

    fn count(&mut self) -> Result<RawDocument<'_>> {
        self.0.charge = Charge::of(self.0.bytes.capacity());
        memory::check()?;
        Ok(RawDocument::new(&self.0.bytes)?)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}
