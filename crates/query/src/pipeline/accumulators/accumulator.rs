//! The trait of accumulators, and the row that each has in their table.

use quarry_bson::{DocumentBuilder, RawValue};

use crate::Collation;
use crate::error::Result;

/// The state that is kept of the values of one group. Its default is that of a group that has no values yet.
pub trait Accumulator: Default + Send {
    /// Has it compare strings by the collation; it has no values yet.
    fn collate(&mut self, _: &Collation) {}

    /// Takes the value of one document, None for Missing; answers by how many bytes it grew.
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize>;

    /// The bytes that it takes beside its own size: as much as `add` has answered.
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
    /// The column of no groups.
    pub start: fn(&Collation) -> Box<dyn Column>,
    /// The bytes that the accumulator of a group takes that has no values yet.
    pub start_bytes: usize,
}

/// One accumulator for each group, in the order in which the groups came: a group more is no allocation of its own.
pub trait Column: Send {
    /// Begins the next group, which has this key.
    fn begin_group(&mut self, key: RawValue<'_>) -> Result<()>;

    /// Has the accumulator of a group take a value; answers by how many bytes it grew.
    fn add(&mut self, group: usize, value: Option<RawValue<'_>>) -> Result<usize>;

    /// Appends the result of a group as it is now; the group may take more values.
    fn show(&self, group: usize, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()>;

    /// Appends the result of a group, which is given up; answers how many bytes it held.
    fn hand_out(
        &mut self,
        group: usize,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<usize>;
}

/// The accumulators of one kind.
pub struct Accumulators<A> {
    groups: Vec<A>,
    collation: Collation,
}

impl<A> Accumulators<A> {
    pub fn new(collation: &Collation) -> Accumulators<A> {
        Accumulators {
            groups: Vec::new(),
            collation: collation.clone(),
        }
    }
}

impl<A: Accumulator> Column for Accumulators<A> {
    fn begin_group(&mut self, _: RawValue<'_>) -> Result<()> {
        let mut accumulator = A::default();
        if !self.collation.is_simple() {
            accumulator.collate(&self.collation);
        }
        self.groups.push(accumulator);
        Ok(())
    }

    fn add(&mut self, group: usize, value: Option<RawValue<'_>>) -> Result<usize> {
        self.groups[group].add(value)
    }

    fn show(&self, group: usize, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        self.groups[group].write(name, out)
    }

    fn hand_out(
        &mut self,
        group: usize,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<usize> {
        let accumulator = std::mem::take(&mut self.groups[group]);
        accumulator.write(name, out)?;
        Ok(accumulator.held_bytes())
    }
}

/// The argument that follows the name of an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// One expression.
    Expression,
    /// An empty document: the values do not matter.
    Nothing,
}
