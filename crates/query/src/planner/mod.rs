//! Planning: from a parsed filter and a sort to the tree of nodes that finds the documents.
//!
//! The candidates are the indexes, and the records of a clustered collection by `_id`. Each is scored by the shape of the
//! bounds that the filter gives it, and the best one becomes an access. The branches of an `$or`, each by its own access, are a plan as well (`branches.rs`). Where shapes do not
//! tell which plan is the best, they are tried (`contest.rs`); where there is none, the collection is scanned. Bounds of keys that a client names leave no choice (`key_bounds.rs`). Above the access stand the nodes that the rest of the request asks for. Documents are
//! not read where the keys of an index have all that is read of them (`covered.rs`), and of a field's different values one key
//! each (`distinct.rs`). Where no other index is bounded, a wildcard index serves a path of the filter (`wildcard.rs`). A search for words is answered by the text index and by no other (`text.rs`). A partial index is a candidate where the filter implies its own (`implication.rs`). Ranges that are in the wanted order one by one are merged (`merged.rs`).
//! Bounds that may leave nearly everything are used where they leave little (`selectivity.rs`).
//!
//! Keeps true: the ranges of a plan take in every document that matches, so that the whole filter, asked again of
//! each document, gives what a scan of the collection would. Leaves out: statistics.

mod access;
mod bounds;
mod branches;
mod candidate;
mod choose;
mod conjuncts;
mod contender;
mod contest;
mod covered;
mod distinct;
mod filter_bounds;
mod geo;
mod hints;
mod implication;
mod interval;
mod key_bounds;
mod key_ranges;
mod merged;
mod predicate_bounds;
mod scored;
mod selectivity;
mod text;
mod texts;
mod tree;
mod tried;
mod usable;
mod wanted;
mod wildcard;

pub(crate) use choose::{Choice, choose, choose_for_equalities, choose_to_show};
pub(crate) use contest::cache_keys;
pub(crate) use distinct::{Missing, choose_distinct};
pub use interval::Interval;
pub(crate) use key_bounds::{KeyBounds, choose_between};
pub(crate) use text::refuse_without_index;
pub(crate) use tried::Tried;
pub(crate) use wanted::{Ground, Wanted};
