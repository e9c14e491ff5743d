//! Plans: from a parsed filter and a sort to the key ranges that have to be read.
//!
//! Keeps true: the ranges of a plan take in every document that matches, so that the whole filter, asked again of
//! each document, gives what a scan of the collection would. Leaves out: statistics and trial runs (a plan is
//! chosen by the shape of its bounds), and plans that never read documents.

mod bounds;
mod choose;
mod describe;
mod filter_bounds;
mod interval;
mod key_ranges;
mod plan;

pub use choose::{Wanted, choose, choose_for_equalities};
pub use describe::{Measured, number};
pub use interval::Interval;
pub use plan::{Access, IndexAccess, Plan};
