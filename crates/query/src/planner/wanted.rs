//! The wishes that a plan has to meet beside a filter.

use std::cell::RefCell;

use quarry_bson::RawValue;
use quarry_database::{CollectionSnapshot, Index, IndexFilter, Operation};

use super::tried::Tried;
use crate::field_path::FieldPath;
use crate::matcher::MatchExpression;
use crate::metadata::MetadataKinds;
use crate::plan::{Kept, Parsed, ReturnedKey};
use crate::projection::Projection;
use crate::query_settings::QuerySettings;
use crate::query_shape::QueryParts;
use crate::sort::SortPattern;

/// The wishes that a plan has to meet beside a filter.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// The order that is asked for.
    pub sort: Option<&'w SortPattern>,
    /// The name of an index, its key pattern, or `{$natural: ±1}`.
    pub hint: Option<RawValue<'w>>,
    /// Rows to leave out at the beginning.
    pub skip: u64,
    /// Rows at most, if they are bounded.
    pub limit: Option<u64>,
    /// The projection of the documents, if they are not given as they are.
    pub projection: Option<&'w Projection>,
    /// The paths that are read of the documents beside what the filter and the order ask for; None if documents are read as a
    /// whole.
    pub read: Option<&'w [FieldPath]>,
    /// The metadata that documents come with.
    pub metadata: MetadataKinds,
    /// The keys by which documents are found are returned in place of the documents.
    pub returned_key: Option<&'w ReturnedKey>,
    /// The filter's tree; None where the keys of an index answer it alone. The planner sets it.
    pub filter: Option<&'w MatchExpression>,
    /// The reader stops behind `limit` rows by himself, so that no node has to.
    pub stops_itself: bool,
    /// The part of each row that a sort in memory holds.
    pub kept: Kept,
    /// The plan goes on at the end of a capped collection: it reads that forwards, whatever the filter.
    pub follows: bool,
    /// The data on which plans are tried, where the shapes of their bounds do not tell which is the best. The planner sets it.
    pub ground: Option<Ground<'w>>,
    /// The query as it was sent, for who lists the plans that were chosen; None where nobody does.
    pub asked: Option<&'w QueryParts<'w>>,
    /// The settings of the query. Behind them stands the index filter, so that there are none where a filter is asked.
    pub settings: Option<&'w QuerySettings>,
    /// The indexes that plans may use, where an operator has said so.
    pub allowed: Option<&'w IndexFilter>,
    /// Explain prints the bounds; a run has no use for their text.
    pub shows_bounds: bool,
}

/// The data on which plans are tried.
#[derive(Clone, Copy)]
pub struct Ground<'g> {
    /// The collection in the snapshot that the query reads.
    pub snapshot: &'g CollectionSnapshot,
    /// The operation, which may end a trial.
    pub operation: &'g Operation,
    /// The filter that documents are held against.
    pub parsed: &'g Parsed,
    /// Takes the plans that are tried, for who shows them.
    pub tried: Option<&'g RefCell<Vec<Tried>>>,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Wanted {
            sort: None,
            hint: None,
            skip: 0,
            limit: None,
            projection: None,
            read: None,
            metadata: MetadataKinds::NONE,
            returned_key: None,
            filter: None,
            stops_itself: false,
            kept: Kept::Document,
            follows: false,
            ground: None,
            asked: None,
            settings: None,
            allowed: None,
            shows_bounds: false,
        }
    }
}

impl Wanted<'_> {
    /// Whether the plan may use the index.
    #[inline]
    pub fn allows(&self, index: &Index) -> bool {
        self.allowed.is_none_or(|filter| filter.allows_index(index))
    }

    /// The wishes of a branch of an `$or`, which is planned by itself.
    pub fn of_branch(&self) -> Wanted<'_> {
        Wanted {
            allowed: self.allowed,
            shows_bounds: self.shows_bounds,
            ..Wanted::default()
        }
    }
}
