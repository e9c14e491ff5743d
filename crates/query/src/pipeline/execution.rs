//! A pipeline at work: each stage pulls documents from those before it, the first one from the input.

use std::fmt;

use quarry_bson::{RawDocument, RawValue};

use crate::error::Result;
use crate::expression::{Context, Interrupt, bounds};

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

/// What a request lends to the pipeline for one pull.
pub struct Run<'r> {
    pub input: &'r mut dyn Source,
    pub interrupt: Interrupt<'r>,
    pub foreign: &'r dyn ForeignCollections,
}

/// A pipeline between two pulls.
pub struct Execution {
    stages: Vec<Box<dyn Running>>,
    now_ms: i64,
}

impl Execution {
    pub(super) fn new(stages: Vec<Box<dyn Running>>, now_ms: i64) -> Execution {
        Execution { stages, now_ms }
    }

    /// Appends the next result to `out`; false, and nothing appended, at the end. After an error the pipeline
    /// is of no further use and `out` is as long as it was.
    pub fn next(&mut self, run: &mut Run<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let mut upstream = Upstream {
            stages: &mut self.stages,
            run,
            now_ms: self.now_ms,
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
pub(super) trait Running: Send {
    /// As `Source::next`, from the stages before.
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool>;
}

/// The stages before a stage, and what the request lends.
pub(super) struct Upstream<'u, 'r> {
    stages: &'u mut [Box<dyn Running>],
    run: &'u mut Run<'r>,
    now_ms: i64,
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
            now_ms: self.now_ms,
        };
        let found = last.next(&mut upstream, out)?;
        bounds::check_bytes(out.len() - start)?;
        Ok(found)
    }

    /// Reads the next document into a buffer of the stage's own.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<RawDocument<'b>>> {
        buffer.clear();
        if self.next(buffer)? {
            Ok(Some(RawDocument::new(buffer)?))
        } else {
            Ok(None)
        }
    }

    pub(super) fn check_interrupt(&self) -> Result<()> {
        (self.run.interrupt)()
    }

    pub(super) fn context<'a>(&'a self, root: RawDocument<'a>) -> Context<'a> {
        Context::new(root, self.now_ms).with_interrupt(self.run.interrupt)
    }

    pub(super) fn foreign(&self) -> &dyn ForeignCollections {
        self.run.foreign
    }
}

/// Documents between two looks at the interrupt.
const DOCUMENTS_BETWEEN_CHECKS: u32 = 128;

/// Paces the looks at the interrupt in a stage's loop.
#[derive(Debug, Default)]
pub(super) struct Pace(u32);

impl Pace {
    pub(super) fn step(&mut self, upstream: &Upstream<'_, '_>) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(DOCUMENTS_BETWEEN_CHECKS) {
            upstream.check_interrupt()
        } else {
            Ok(())
        }
    }
}
