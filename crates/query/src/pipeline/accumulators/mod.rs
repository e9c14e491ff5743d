//! The accumulators of `$group`: each keeps something of the values of one group and makes a result of it.

mod accumulator;
mod deviations;
mod first_and_last;
mod lists;
mod merge_objects;
mod min_and_max;
mod picks;
mod quantiles;
mod sums;
mod table;

pub(super) use accumulator::{AccumulatorKind, Column, Operand};
pub(super) use picks::{Pick, START_BYTES as PICK_BYTES, find as find_pick};
pub(super) use quantiles::{DIGEST_BYTES, Digests};
pub(super) use table::{find, refusal};
