//! Plans over a text index: each term of a search is a range of keys, whose records are held against the rest of the search.
//!
//! The fields of the index that stand before the terms must have one value each by the filter, because the keys of a term lie apart where
//! those values differ. Where a search stands in an `$or`, the other branches must have indexes, too; the whole filter is then asked of
//! each document, which goes through its texts once more.

use quarry_bson::{Document, RawValue, doc};
use quarry_database::{
    Collection, Index, IndexCatalog, KeyField, KeyRange, Namespace, meeting_cut_keys,
};
use quarry_keystring::{Direction, TypeBits, encode_value, prefix_end};

use super::filter_bounds::FilterBounds;
use super::key_ranges::{apart, compose};
use super::tree::Solution;
use super::wanted::Wanted;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::matcher::{BoundText, MatchExpression, Matcher, no_text_index};
use crate::metadata::MetadataKinds;
use crate::plan::{
    Covered, Fetch, IndexAccess, IndexScan, KeySource, NoRows, Node, Or, RowScore, TermScan,
    TermUnion, TextMatch, TextOr,
};
use crate::sort::SortPattern;
use crate::text_index::{TextKeys, term_in_keys};

/// The combinations of values of the fields before the terms, and the ranges of keys of all terms.
const STARTS_MAX: usize = 1000;
const RANGES_MAX: usize = 65_536;
/// Branches of an `$or` that searches, and the work of planning one.
const BRANCHES_MAX: usize = 1000;
const UNITS_OF_A_BRANCH: usize = 100;

/// A search with the index that answers it.
struct Search<'c> {
    index: &'c Index,
    keys: &'c TextKeys,
    paths: &'c [u16],
    text: &'c BoundText,
    shows_bounds: bool,
}

/// Makes the scan of a branch of an `$or` that does not search, if an index bounds it.
pub type ScanOfBranch<'s> =
    &'s dyn for<'m> Fn(&'m MatchExpression, &mut FilterBounds<'m>) -> Result<Option<IndexScan>>;

/// Where a search stands in a filter.
enum Place<'m> {
    /// Every document must have what it asks for.
    Top,
    /// One of these branches asks for it.
    Branch(&'m [MatchExpression]),
}

/// The plan of a filter with a search for words. Fails where no index gives it, and for a request that cannot be served with one.
pub fn solution(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    scan: ScanOfBranch<'_>,
    wanted: &Wanted<'_>,
) -> Result<Solution> {
    refuse_others(wanted)?;
    let root = matcher.root();
    let text = root.text().ok_or_else(no_text_index)?;
    let mut bounds = FilterBounds::new(root, matcher.collation(), &index_catalog.paths);
    let (position, index, keys) = find(index_catalog)?;
    let search = Search {
        index,
        keys,
        paths: index_catalog.paths.of_index(position),
        text: text.bind(&keys.spec)?,
        shows_bounds: wanted.shows_bounds,
    };
    if index
        .filter
        .as_deref()
        .is_some_and(|filter| !bounds.imply(filter))
    {
        return Err(no_solution(collection, PREFIX));
    }
    match place_of(root) {
        Some(Place::Top) => search.at_top(collection, root, &mut bounds, wanted),
        Some(Place::Branch(branches)) => {
            let planned = Branches {
                collection,
                index_catalog,
                matcher,
                scan,
            };
            search.in_branch(&planned, branches, wanted)
        }
        None => Err(no_solution(collection, UNDER_OR)),
    }
}

/// Refuses what leaves the choice of a plan to the client, or needs another one.
fn refuse_others(wanted: &Wanted<'_>) -> Result<()> {
    let text = if wanted.sort.and_then(SortPattern::natural).is_some() {
        "text expression not allowed with $natural sort order"
    } else if wanted.hint.is_some() {
        "text and hint not allowed in same query"
    } else if wanted.follows {
        "text and tailable cursor not allowed in same query"
    } else {
        return Ok(());
    };
    Err(Error::bad_value(text))
}

/// The text index of a collection.
fn find(index_catalog: &IndexCatalog) -> Result<(usize, &Index, &TextKeys)> {
    let indexes = index_catalog.indexes.iter().enumerate();
    let mut usable = indexes.filter(|(_, index)| !index.building && !index.hidden);
    let found = usable.find_map(|(position, index)| Some((position, index, TextKeys::of(index)?)));
    found.ok_or_else(no_text_index)
}

fn place_of(root: &MatchExpression) -> Option<Place<'_>> {
    let conjuncts = match root {
        MatchExpression::And(children) => children.as_slice(),
        other => std::slice::from_ref(other),
    };
    conjuncts.iter().find_map(|conjunct| match conjunct {
        MatchExpression::Text(_) => Some(Place::Top),
        MatchExpression::Or(branches) if branches.iter().any(asks_for_text) => {
            Some(Place::Branch(branches))
        }
        _ => None,
    })
}

/// Whether a branch must have what a search asks for.
fn asks_for_text(branch: &MatchExpression) -> bool {
    match branch {
        MatchExpression::Text(_) => true,
        MatchExpression::And(children) => children
            .iter()
            .any(|child| matches!(child, MatchExpression::Text(_))),
        _ => false,
    }
}

/// Whether a filter asks for equality of a path with null.
fn asks_for_null(filter: &MatchExpression, path: &str) -> bool {
    let conjuncts = match filter {
        MatchExpression::And(children) => children.as_slice(),
        other => std::slice::from_ref(other),
    };
    conjuncts
        .iter()
        .any(|conjunct| match conjunct.as_equality() {
            Some((asked, RawValue::Null)) => asked.as_str() == path,
            _ => false,
        })
}

/// The keys of what equals null: it, a missing field, and what is not defined.
fn keys_of_null(direction: Direction) -> Vec<Vec<u8>> {
    let keys = [RawValue::Undefined, RawValue::Null]
        .into_iter()
        .map(|value| {
            let mut key = Vec::new();
            encode_value(&mut key, &mut TypeBits::new(), value, direction);
            key
        });
    keys.collect()
}

const PREFIX: &str = "failed to use text index to satisfy $text query (if text index is compound, are equality predicates given for all prefix fields?)";
const UNDER_OR: &str = "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be indexed as well.";

fn no_solution(collection: &Collection, why: &str) -> Error {
    let text = format!(
        "error processing query: ns={} planner returned error :: caused by :: {why}",
        collection.namespace
    );
    Error::new(ErrorCode::NO_QUERY_EXECUTION_PLANS, text)
}

/// The surroundings of an `$or` whose branches are planned.
struct Branches<'b> {
    collection: &'b Collection,
    index_catalog: &'b IndexCatalog,
    matcher: &'b Matcher,
    scan: ScanOfBranch<'b>,
}

impl Search<'_> {
    fn at_top(
        &self,
        collection: &Collection,
        filter: &MatchExpression,
        bounds: &mut FilterBounds<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<Solution> {
        let starts = self.starts(collection, filter, bounds)?;
        let has_scores = wanted.metadata.has(MetadataKinds::TEXT_SCORE);
        let score = RowScore::default();
        let scans = self.scans(&starts)?;
        let found: Node = match (scans.is_empty(), has_scores) {
            (true, _) => Box::new(NoRows::EOF),
            (false, true) => Box::new(TextOr::new(scans, score.clone())),
            (false, false) => self.records(scans),
        };
        let mut node: Node = Box::new(TextMatch::new(found, self.shown(&starts)));
        if !matches!(filter, MatchExpression::Text(_)) {
            node = Box::new(Fetch::beside_texts(node));
        }
        Ok(Solution {
            node,
            is_sorted: wanted.sort.is_none(),
            is_of_branches: false,
            covered: Covered::No,
            key: match has_scores {
                true => KeySource::Score(score),
                false => KeySource::Nothing,
            },
        })
    }

    /// The documents of the records that the scans give.
    fn records(&self, scans: Vec<TermScan>) -> Node {
        Box::new(Fetch::new(Box::new(TermUnion::new(scans)), false))
    }

    fn in_branch(
        &self,
        planned: &Branches<'_>,
        branches: &[MatchExpression],
        wanted: &Wanted<'_>,
    ) -> Result<Solution> {
        if branches.len() > BRANCHES_MAX {
            return Err(no_solution(planned.collection, UNDER_OR));
        }
        let score = wanted.metadata.has(MetadataKinds::TEXT_SCORE);
        let score = score.then(RowScore::default);
        let mut nodes: Vec<Node> = Vec::with_capacity(branches.len());
        for branch in branches {
            interrupts::work(UNITS_OF_A_BRANCH)?;
            let (matcher, paths) = (planned.matcher, &planned.index_catalog.paths);
            let around = matcher.root();
            let mut bounds = FilterBounds::of_branch(branch, around, matcher.collation(), paths);
            if asks_for_text(branch) {
                let node = self.searched(planned, branch, &mut bounds, score.as_ref())?;
                // What was searched for comes first, so that whatever has a score is given with it.
                nodes.insert(0, node);
                continue;
            }
            let Some(scan) = (planned.scan)(branch, &mut bounds)? else {
                return Err(no_solution(planned.collection, UNDER_OR));
            };
            nodes.push(Box::new(scan));
        }
        let (union, key) = match score {
            None => (Or::new(nodes), KeySource::Nothing),
            Some(score) => (Or::by_scores(nodes, score.clone()), KeySource::Score(score)),
        };
        Ok(Solution {
            node: Box::new(Fetch::new(Box::new(union), true)),
            is_sorted: wanted.sort.is_none(),
            is_of_branches: false,
            covered: Covered::No,
            key,
        })
    }

    /// The plan of the branch that searches.
    fn searched(
        &self,
        planned: &Branches<'_>,
        branch: &MatchExpression,
        bounds: &mut FilterBounds<'_>,
        score: Option<&RowScore>,
    ) -> Result<Node> {
        if score.is_some() && !matches!(branch, MatchExpression::Text(_)) {
            // A document may have what is searched for, and not what stands beside it, and match by another branch, without a score.
            let text = "{$meta: \"textScore\"} with a $text beside other conditions within an $or is not supported yet";
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        let starts = self.starts(planned.collection, branch, bounds)?;
        let scans = self.scans(&starts)?;
        let found: Node = match (scans.is_empty(), score) {
            (true, _) => Box::new(NoRows::EOF),
            (false, Some(score)) => Box::new(TextOr::new(scans, score.clone())),
            (false, None) => self.records(scans),
        };
        Ok(Box::new(TextMatch::new(found, self.shown(&starts))))
    }

    /// The beginnings of the keys that the filter's values of the fields before the terms have, behind the index's prefix, in order.
    fn starts(
        &self,
        collection: &Collection,
        filter: &MatchExpression,
        bounds: &mut FilterBounds<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let fields = &self.index.pattern.fields[..self.keys.spec.before.len()];
        let mut starts = vec![Vec::new()];
        for (field, path) in fields.iter().zip(self.paths) {
            let values = match asks_for_null(filter, &field.path) {
                true => Some(keys_of_null(field.direction)),
                false => self.keys_of(field, *path, bounds),
            };
            let Some(values) = values.filter(|values| values.len() * starts.len() <= STARTS_MAX)
            else {
                return Err(no_solution(collection, PREFIX));
            };
            let longer = starts.iter().flat_map(|start| {
                let longer = values.iter().map(|value| [&start[..], value].concat());
                longer.collect::<Vec<_>>()
            });
            starts = longer.collect();
            interrupts::work(starts.len())?;
        }
        starts.sort_unstable();
        Ok(starts)
    }

    /// The keys of the single values that a field has by the filter.
    fn keys_of(
        &self,
        field: &KeyField,
        path: u16,
        bounds: &mut FilterBounds<'_>,
    ) -> Option<Vec<Vec<u8>>> {
        let bound = bounds.of(path, &field.path, false, &self.index.collation)?;
        let bounded = bounds.get(bound);
        if !bounded.are_points() || bounded.intervals_len() > STARTS_MAX {
            return None;
        }
        let ranges = compose(&[], &[(bounded, field.direction)]);
        Some(ranges.into_iter().map(|range| range.start).collect())
    }

    /// The scans of the search's terms behind these beginnings, in the order of the terms.
    fn scans(&self, starts: &[Vec<u8>]) -> Result<Vec<TermScan>> {
        let terms = self.text.search.keys.iter();
        let mut ranges_len = 0;
        let scans = terms.map(|term| {
            let term = term_in_keys(term);
            let mut encoded = Vec::new();
            let value = RawValue::from(term.as_str());
            encode_value(
                &mut encoded,
                &mut TypeBits::new(),
                value,
                Direction::Ascending,
            );
            let beginnings = starts.iter().map(|start| {
                interrupts::work_on_bytes(start.len() + encoded.len())?;
                Ok([start.as_slice(), &encoded].concat())
            });
            let beginnings: Vec<Vec<u8>> = beginnings.collect::<Result<_>>()?;
            ranges_len += beginnings.len();
            if ranges_len > RANGES_MAX {
                let text = format!("a $text asks for more than {RANGES_MAX} ranges of keys");
                return Err(Error::bad_value(text));
            }
            let ranges = beginnings.iter().map(|beginning| {
                let start = [self.index.prefix.as_bytes(), beginning].concat();
                let end = prefix_end(&start);
                meeting_cut_keys(KeyRange::new(start, end))
            });
            Ok(TermScan::new(self.access(), apart(ranges), beginnings))
        });
        scans.collect()
    }

    fn access(&self) -> IndexAccess {
        IndexAccess {
            name: self.index.name.clone(),
            ident: self.index.ident,
            is_of_records: false,
            pattern: self.index.pattern.document.clone(),
            is_multikey: self.index.is_multikey(),
            is_unique: false,
            is_sparse: self.index.sparse,
            collation: None,
            is_partial: self.index.filter.is_some(),
            bounds: Vec::new(),
        }
    }

    /// The search as explain prints it.
    fn shown(&self, starts: &[Vec<u8>]) -> Document {
        if !self.shows_bounds {
            return Document::new();
        }
        let search = &self.text.search;
        let parsed = Document::build(|out| {
            let negated = search.negated_terms.iter();
            let lists: [(&str, Vec<&String>); 4] = [
                ("terms", search.terms.iter().collect()),
                ("negatedTerms", negated.collect()),
                ("phrases", search.phrases.iter().collect()),
                ("negatedPhrases", search.negated_phrases.iter().collect()),
            ];
            for (name, list) in lists {
                let mut texts = out.array(name);
                for text in list {
                    texts.push(text.as_str());
                }
                texts.finish();
            }
        });
        doc! {
            "indexPrefix": (self.shown_prefix(starts)),
            "indexName": (&*self.index.name),
            "parsedTextQuery": parsed,
            "textIndexVersion": 3,
        }
    }

    /// The values of the fields before the terms, as the keys have them: the last ones, where there are several.
    fn shown_prefix(&self, starts: &[Vec<u8>]) -> Document {
        let start = starts.last().map_or(&[][..], Vec::as_slice);
        let fields = &self.index.pattern.fields[..self.keys.spec.before.len()];
        let mut decoder = quarry_keystring::Decoder::new(start, &[]);
        let mut prefix = Document::new();
        for field in fields {
            if let Ok(value) = decoder.next(field.direction) {
                prefix.append(field.path.as_str(), value.as_raw());
            }
        }
        prefix
    }
}

/// Refuses a search for words in a collection that does not exist.
pub fn refuse_without_index(matcher: &Matcher, namespace: &Namespace) -> Result<()> {
    if matcher.texts() == 0 {
        return Ok(());
    }
    let text = format!("text index required for $text query (no such collection '{namespace}')");
    Err(Error::new(ErrorCode::INDEX_NOT_FOUND, text))
}
