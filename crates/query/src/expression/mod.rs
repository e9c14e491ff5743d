//! Aggregation expressions, parsed once into a tree and evaluated over raw documents.
//!
//! Keeps true: no document is decoded to evaluate one; Missing is told from Null; a result never borrows from
//! another result, so that a variable outlives the expression that bound it. Depth is bounded at parse time.
//! Leaves out: `$function` and `$accumulator` (no JavaScript).

mod arithmetic;
mod array_ends;
mod arrays;
mod binary_conversion;
mod bitwise;
pub(crate) mod bounds;
mod comparison;
mod conditional;
mod constants;
mod context;
mod conversion;
mod dates;
mod evaluated;
mod fields;
pub(crate) mod fold;
pub(crate) mod hashing;
mod implied;
mod iteration;
mod let_variables;
mod literal;
mod meta;
pub(crate) mod number;
pub(crate) mod objects;
mod operators;
mod parameters;
mod parse;
pub(crate) mod path;
pub(crate) mod quantiles;
mod random;
mod redaction;
mod regexes;
mod replacing;
mod rounding;
mod searching;
mod sets;
mod sizes;
mod sort_array;
mod strings;
mod substrings;
pub(crate) mod sum;
mod tree;
mod trigonometry;
mod trimming;
mod variables;
mod zip;

pub use context::ExpressionContext;
pub(crate) use dates::Unit;
pub use evaluated::{Built, Evaluated, Made, type_name};
pub(crate) use let_variables::LetVariables;
pub use parse::EXPRESSION_DEPTH_MAX;
pub use path::Path;
pub use tree::{Call, Expression};
pub use variables::{Context, Variables};

/// The names of the operators of expressions, `$` included.
pub fn operator_names() -> Vec<&'static str> {
    operators::names()
}
