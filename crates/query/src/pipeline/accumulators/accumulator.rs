//! What an accumulator is, and what a row of the table of accumulators says.

use std::fmt;

use quarry_bson::{DocumentBuilder, RawValue};

use crate::error::Result;

/// What is kept of the values of one group.
pub trait Accumulator: fmt::Debug + Send {
    /// Takes the value of one document, None for Missing; answers by how many bytes it grew.
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize>;

    /// What it takes beside its own size: as much as `add` has answered.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Appends the result under a name.
    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()>;
}

/// A row of the table of accumulators.
#[derive(Debug)]
pub struct AccumulatorKind {
    pub name: &'static str,
    pub operand: Operand,
    /// The accumulator of a group that has no values yet.
    pub start: fn() -> Box<dyn Accumulator>,
    /// What such an accumulator takes.
    pub start_bytes: usize,
}

/// What follows the name of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// One expression.
    Expression,
    /// An empty document: the values do not matter.
    Nothing,
}
