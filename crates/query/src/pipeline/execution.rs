//! A pipeline at work: each stage pulls documents from those before it, the first one from the input.
//!
//! A document is held by one stage at a time: a stage reads it into a buffer of its own, writes what it makes of it into
//! the next one's, and empties its own before it answers. A buffer that a large document has left is given up.

use std::fmt;

use quarry_bson::{RawDocument, RawValue};

use crate::error::Result;
use crate::expression::bounds;
use crate::interrupts::{self, units_of_bytes};
use crate::memory::{self, Charge, Counted};

/// Where documents come from.
pub trait Source {
    /// Appends the next document to `out`; false, and nothing appended, when there is none left.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool>;
}

/// The other collections of the database, for `$lookup`.
pub trait ForeignCollections {
    /// Hands over every document of `collection` in which the dotted path `foreign_field` matches `value` as an
    /// equality filter would: Null matches missing fields too, arrays match by their elements.
    fn find_equal(
        &self,
        collection: &str,
        foreign_field: &str,
        value: RawValue<'_>,
        each: &mut dyn FnMut(RawDocument<'_>) -> Result<()>,
    ) -> Result<()>;
}

/// For pipelines that read no other collection: every collection is empty.
#[derive(Debug, Clone, Copy)]
pub struct NoForeignCollections;

impl ForeignCollections for NoForeignCollections {
    fn find_equal(
        &self,
        _: &str,
        _: &str,
        _: RawValue<'_>,
        _: &mut dyn FnMut(RawDocument<'_>) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
}

/// The things that a request lends to the pipeline for one pull.
pub struct Run<'r> {
    /// The documents that go in.
    pub input: &'r mut dyn Source,
    /// Other collections, for stages that read them.
    pub foreign: &'r dyn ForeignCollections,
}

/// A pipeline between two pulls.
pub struct Execution {
    stages: Vec<Box<dyn Running>>,
}

impl Execution {
    pub(super) fn new(stages: Vec<Box<dyn Running>>) -> Execution {
        Execution { stages }
    }

    /// Appends the next result to `out`; false, and nothing appended, at the end. After an error the pipeline
    /// is of no further use and `out` is as long as it was.
    pub fn next(&mut self, run: &mut Run<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let mut upstream = Upstream {
            stages: &mut self.stages,
            run,
        };
        let result = upstream.next(out).and_then(|found| {
            bounds::check_document_bytes(out.len() - start)?;
            Ok(found)
        });
        if !matches!(result, Ok(true)) {
            out.truncate(start);
        }
        result
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
pub trait Running: Send {
    /// As `Source::next`, from the stages before.
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool>;
}

/// The stages before a stage, and what the request lends.
pub struct Upstream<'u, 'r> {
    stages: &'u mut [Box<dyn Running>],
    run: &'u mut Run<'r>,
}

impl Upstream<'_, '_> {
    /// Appends the next document that the stages before have.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some((last, before)) = self.stages.split_last_mut() else {
            return self.run.input.next(out);
        };
        let start = out.len();
        let mut upstream = Upstream {
            stages: before,
            run: self.run,
        };
        let found = last.next(&mut upstream, out)?;
        let bytes = out.len() - start;
        interrupts::work(UNITS_OF_A_DOCUMENT + units_of_bytes(bytes))?;
        bounds::check_bytes(bytes)?;
        Ok(found)
    }

    /// Reads the next document into a buffer of the stage's own, where it is counted until the buffer is emptied.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> Result<Option<RawDocument<'b>>> {
        buffer.empty();
        if !self.next(&mut buffer.0.bytes)? {
            return Ok(None);
        }
        buffer.count().map(Some)
    }

    pub(super) fn foreign(&self) -> &dyn ForeignCollections {
        self.run.foreign
    }
}

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

    fn count(&mut self) -> Result<RawDocument<'_>> {
        self.0.charge = Charge::of(self.0.bytes.capacity());
        memory::check()?;
        Ok(RawDocument::new(&self.0.bytes)?)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}
