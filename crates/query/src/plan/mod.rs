//! Plans: trees of nodes that run and explain themselves.
//!
//! The planner makes a tree, the executor runs it, and explain prints it, before a run or behind one. A node hands its rows
//! to a sink, one after the other, until the sink stops it (`PlanNode::next`): documents are looked at where the engine
//! has them, and no node copies one to hand it on. Between two calls a node holds its position and nothing of the
//! engine's, so that a cursor that waits for its client costs the engine nothing. Whoever reads ahead marks the tree
//! before each chunk (`PlanNode::mark`), and can have it go back there (`PlanNode::rewind`).
//!
//! The leaves are COLLSCAN, IDHACK, IXSCAN and EOF. IXSCAN gives record keys, above which FETCH gets the documents and
//! asks the filter; where the keys have all that is read of the documents, it gives documents made of them and there is no
//! FETCH. COUNT_SCAN is an IXSCAN whose keys are only counted, DISTINCT_SCAN passes over the keys between two values. OR reads its inputs one after the other and gives each record once;
//! GEO_NEAR_2DSPHERE and GEO_NEAR_2D give documents by distance; TEXT_OR gives those that have words of a search, with their scores, and TEXT_MATCH holds them against the rest of it; SORT_MERGE reads ranges that are in order side by side. SORT, SKIP, LIMIT and
//! PROJECTION stand above these, in the order in which they are named from below. COUNT counts, and UPDATE and DELETE stand
//! above the plan of a write that is explained. Where somebody asks for metadata, a node that explain does not print attaches it to
//! the documents below the sort (`attach.rs`); RETURN_KEY gives the keys of the index in place of documents.
//!
//! Keeps true: each document once, even where an index holds it under several keys. What was written behind the
//! position between two calls may or may not be met. A node's counts are of its own rows, and those of the leaves and of FETCH
//! are added to the operation's as well.

mod attach;
mod collection_scan;
mod count;
mod covering;
mod distinct_scan;
mod earlier_keys;
mod explain;
mod fetch;
mod geo_near;
mod geo_scan;
mod id_hack;
mod index_access;
mod index_scan;
mod key_document;
mod key_tests;
mod keyed_entries;
mod limit;
mod no_rows;
mod node;
mod or;
mod parsed;
mod projection;
mod range_walk;
mod return_key;
mod seen_records;
mod shown;
mod skip;
mod sort;
mod sort_merge;
mod subplan;
mod term_scan;
mod term_union;
mod text_match;
mod text_or;
mod trial_bound;
mod watched;
mod write;

pub(crate) use attach::{Attach, KeySource};
pub(crate) use collection_scan::CollectionScan;
pub(crate) use count::Count;
pub(crate) use covering::Covering;
pub(crate) use distinct_scan::DistinctScan;
pub(crate) use explain::explain_node;
pub(crate) use fetch::Fetch;
pub(crate) use geo_near::GeoNear;
pub(crate) use geo_scan::GeoScan;
pub(crate) use id_hack::IdHack;
pub(crate) use index_access::IndexAccess;
pub(crate) use index_scan::IndexScan;
pub(crate) use key_document::KeyDocument;
pub(crate) use key_tests::{FieldTest, KeyTests};
pub(crate) use keyed_entries::KeyedEntries;
pub(crate) use limit::Limit;
pub(crate) use no_rows::NoRows;
pub(crate) use node::{Flow, Leaf, Node, PlanContext, PlanNode, Purpose, Row, SplitLeaf, run};
pub(crate) use or::Or;
pub(crate) use parsed::{Parsed, ReturnedKey};
pub(crate) use projection::{Covered, ProjectionNode};
pub(crate) use range_walk::{RangeWalk, behind};
pub(crate) use return_key::ReturnKey;
pub(crate) use seen_records::SeenRecords;
pub(crate) use shown::{Shown, number};
pub(crate) use skip::Skip;
pub(crate) use sort::{Kept, Sort};
pub(crate) use sort_merge::{MERGED_RANGES_MAX, MayRepeat, MergedRange, SortMerge};
pub(crate) use subplan::Subplan;
pub(crate) use term_scan::TermScan;
pub(crate) use term_union::TermUnion;
pub(crate) use text_match::TextMatch;
pub(crate) use text_or::{RowScore, TextOr};
pub(crate) use trial_bound::TrialBound;
pub(crate) use watched::{Watch, Watched};
pub(crate) use write::Write;
