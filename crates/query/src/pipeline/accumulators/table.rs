//! The accumulators by name. A new one is a row here, a type in a file that holds its like (or a file of its own), and a
//! section of `tests/pipeline_scripts/stages.txt`.

use super::accumulator::{Accumulator, AccumulatorKind, Accumulators, Column, Operand};
use super::deviations::{StdDevPop, StdDevSamp};
use super::first_and_last::{First, Last};
use super::lists::{AddToSet, Push};
use super::merge_objects::MergeObjects;
use super::min_and_max::{Max, Min};
use super::sums::{Avg, Count, Sum};
use crate::Collation;

/// The accumulator of that name, `$` included.
pub fn find(name: &str) -> Option<&'static AccumulatorKind> {
    ACCUMULATORS.iter().find(|kind| kind.name == name)
}

/// Why an accumulator of MongoDB's is not served; None for a name that MongoDB does not have either.
pub fn refusal(name: &str) -> Option<String> {
    if name == "$accumulator" {
        let text = "$accumulator is not supported: this server runs no JavaScript, by choice";
        return Some(text.to_owned());
    }
    None
}

const fn row<A: Accumulator + 'static>(name: &'static str) -> AccumulatorKind {
    AccumulatorKind {
        name,
        operand: Operand::Expression,
        start: start::<A>,
        start_bytes: size_of::<A>(),
    }
}

fn start<A: Accumulator + 'static>(collation: &Collation) -> Box<dyn Column> {
    Box::new(Accumulators::<A>::new(collation))
}

static ACCUMULATORS: &[AccumulatorKind] = &[
    row::<AddToSet>("$addToSet"),
    row::<Avg>("$avg"),
    AccumulatorKind {
        operand: Operand::Nothing,
        ..row::<Count>("$count")
    },
    row::<First>("$first"),
    row::<Last>("$last"),
    row::<Max>("$max"),
    row::<MergeObjects>("$mergeObjects"),
    row::<Min>("$min"),
    row::<Push>("$push"),
    row::<StdDevPop>("$stdDevPop"),
    row::<StdDevSamp>("$stdDevSamp"),
    row::<Sum>("$sum"),
];
