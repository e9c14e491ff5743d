//! Definitions: how it changes which databases, collections and indexes there are, their listings, and how large they are.
//!
//! It stands above the commit path, as writes do: a change holds collections (`catalog::collection_holds`) and commits. It has no
//! lock of a record to take. `builds` is the register of the index builds that are running.

pub(crate) mod builds;
pub(crate) mod changes;
pub(crate) mod collection_stats;
pub(crate) mod database_drop;
pub(crate) mod database_stats;
mod differing_case;
pub(crate) mod index_changes;
pub(crate) mod known_index;
pub(crate) mod listing;
pub(crate) mod noted;
mod option_changes;
#[cfg(test)]
mod random_sizes;
mod remembered_sums;
pub(crate) mod replacement;
pub(crate) mod series_indexes;
mod unique_conversion;
