//! The seam between a stage that takes all of its input and an input that several threads read.
//!
//! Such an input has an order, and comes in parts: the stage's own thread is shown the documents of one part, and other threads
//! make rows of those of the next ones in the meantime (`GroupRows`), which the stage takes when their turn has come. So the stage
//! sees everything in the order in which one thread would have shown it, and what it makes of it is the same to the last bit: no two
//! sums are added to each other, and what it holds and where it spills is decided on one thread.
//!
//! A stage asks for it with `share`, and is then shown documents until they come to an end; `next_part` says what follows. A thread that
//! fails has its documents shown to the stage's own thread again, where the error comes in its place.

use std::cell::RefCell;

use super::execution::Source;
use super::group_rows::GroupRows;
use crate::error::Result;

/// An input that other threads may read beside the one that pulls.
pub trait SharedInput {
    /// From now on its documents come to an end where `next_part` is to be asked what follows.
    fn share(&mut self);

    /// Says what follows where the documents have come to an end: nothing, unless it is shared. `gather` makes what another thread needs.
    fn next_part(&mut self, gather: &mut GatherFor<'_>) -> Result<Part>;
}

/// Makes the stages of another thread.
pub type GatherFor<'g> = dyn FnMut() -> Box<dyn Gather> + 'g;

/// The continuation of a shared input.
#[derive(Debug)]
pub enum Part {
    /// More documents are shown.
    Documents,
    /// Rows that another thread has made of the next documents.
    Rows(GroupRows),
    /// Nothing.
    End,
}

/// The stages of a pipeline as another thread runs them.
pub trait Gather: Send {
    /// Has the source show all its documents, and makes rows of what comes of them. The source takes the rows out between two documents.
    fn gather(&mut self, source: &mut dyn Source, rows: &RefCell<GroupRows>) -> Result<()>;
}
