//! The choice between the indexes of a collection, by the shape of the bounds that a filter gives them: a whole
//! unique key, then more fields of equality, then a range, then an order that is asked for; else the collection. Where
//! two indexes do different things for the query, `contest` tries them.

use std::cmp::Reverse;
use std::hash::Hasher;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{
    Collection, Ident, Index, IndexCatalog, KeyRange, is_widened_by_cut_keys, may_meet_cut_keys,
    meeting_cut_keys,
};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::contest::{contenders, decide, remembered};
use super::covered::key_document;
use super::filter_bounds::{Bound, Bounds, FilterBounds};
use super::geo;
use super::interval::Interval;
use super::key_ranges::{apart, are_combined, compose};
use super::merged::{merge_of_branches, merge_of_ranges};
use super::text;
use super::tree::{Solution, above};
use super::tried::Tried;
use super::wanted::Wanted;
use super::wildcard;
use crate::Collation;
use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::hashed_index::HashedKeys;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher};
use crate::metadata::MetadataKinds;
use crate::plan::{
    CollectionScan, Covering, Fetch, IdHack, IndexAccess, IndexScan, KeyDocument, KeySource,
    KeyedEntries, Leaf, MERGED_RANGES_MAX, NoRows, Node, Or, PlanNode,
};
use crate::sort::SortPattern;
use crate::wildcard_index::WildcardKeys;

/// Branches of an `$or` that are planned one by one: with more of them the collection is scanned.
const UNION_BRANCHES_MAX: usize = 1000;

/// Ranges of all branches together: a request of a megabyte must not ask for half a gigabyte of them.
const UNION_RANGES_MAX: usize = 65_536;

/// The work of planning a branch.
pub const UNITS_OF_A_BRANCH: usize = 100;

/// The plan that was chosen, and those that would do as well.
pub struct Choice {
    /// The best plan.
    pub winning: Node,
    /// The others, the better ones first.
    pub rejected: Vec<Node>,
    /// Those that were tried on the data, the chosen one among them.
    pub tried: Vec<Tried>,
}

impl Choice {
    /// The only plan that there is.
    pub fn of(winning: Node) -> Choice {
        Choice {
            winning,
            rejected: Vec::new(),
            tried: Vec::new(),
        }
    }
}

/// An index, or the records of a clustered collection, as the planner sees it.
pub struct Candidate<'c> {
    name: &'c str,
    ident: Ident,
    /// Its fields' paths by number.
    paths: &'c [u16],
    pub prefix: &'c [u8],
    /// None for the records: their pattern is `{_id: 1}`.
    pub index: Option<&'c Index>,
    pub multikey: u64,
    pub has_cut_keys: bool,
    is_unique: bool,
    is_sparse: bool,
    /// The number of the field whose values are kept hashed.
    pub hashed: Option<usize>,
    /// How it keeps strings.
    pub collation: &'c Collation,
    /// Strings are kept as the filter compares them.
    pub is_alike: bool,
}

/// Records are kept under their `_id` as it is, and so are the keys of most indexes.
static SIMPLE: Collation = Collation::SIMPLE;

/// Better plans are greater.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub struct Score {
    is_whole_unique_key: bool,
    /// How many leading fields are bounded to single values.
    pub equalities: usize,
    has_range: bool,
    gives_order: bool,
    is_covering: bool,
    is_clustered: bool,
}

/// A candidate with what the filter and the order say about it; the plan is made of the best one only.
pub struct Scored<'c> {
    pub candidate: Candidate<'c>,
    pub score: Score,
    bounded: Bounded,
    /// Whether the order is met from behind; None when it is not met.
    pub order: Option<bool>,
    /// The order is met in each range, and not from one to the next.
    is_merged: bool,
}

/// The leading fields of a candidate that the filter bounds.
pub type Bounded = SmallVec<[Bound; 12]>;

/// Chooses the plan for a filter: the best index, or a scan of the collection.
pub fn choose(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: Wanted<'_>,
) -> Result<Node> {
    let wanted = Wanted {
        filter: Some(matcher.root()),
        ..wanted
    };
    if matcher.texts() > 0 {
        return with_text(collection, index_catalog, matcher, &wanted);
    }
    let near = matcher.root().near();
    if let Some(natural) = natural(collection, &wanted)? {
        if near.is_some() {
            let text = "a query by distance cannot have a $natural sort or hint";
            return Err(Error::bad_value(text));
        }
        return Ok(above(natural, &wanted));
    }
    let mut bounds = FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths);
    if let Some(near) = near {
        let solution = geo::near_solution(index_catalog, collection, near, &mut bounds, &wanted)?;
        return Ok(above(solution, &wanted));
    }
    if index_catalog.has_special
        && let Some(solution) = geo::solution(index_catalog, matcher.root(), &mut bounds, &wanted)
    {
        // Cells were cut short where the operation is to end.
        interrupts::work(1)?;
        return Ok(above(solution, &wanted));
    }
    if index_catalog.has_special
        && let Some(hint) = wanted.hint
        && is_wildcards(index_catalog, hint)
        && let Some(solution) =
            wildcard::solution(index_catalog, matcher.root(), &mut bounds, &wanted)?
    {
        return Ok(above(solution, &wanted));
    }
    let found = best(collection, index_catalog, &mut bounds, &wanted)?;
    let best = match found.is_contested {
        false => found.scored,
        true => {
            let contenders = contenders(collection, index_catalog, &mut bounds, &wanted)?;
            decide(index_catalog, contenders, &bounds, &wanted)?
        }
    };
    let is_bounded = best.as_ref().is_some_and(Scored::is_bounded);
    if index_catalog.has_special
        && !is_bounded
        && wanted.hint.is_none()
        && let Some(solution) =
            wildcard::solution(index_catalog, matcher.root(), &mut bounds, &wanted)?
    {
        interrupts::work(1)?;
        return Ok(above(solution, &wanted));
    }
    let merge = match is_bounded {
        true => None,
        false => merge_of_branches(collection, index_catalog, matcher, &wanted)?,
    };
    if let Some(merge) = merge {
        return Ok(above(merge, &wanted));
    }
    let solution = match best {
        Some(best) if !wanted.follows => best.solution(&bounds, collection, &wanted),
        best => {
            let has_index = best.is_some();
            without_index(collection, index_catalog, matcher, &wanted, has_index)?
        }
    };
    // Bounds were cut short where the operation is to end.
    interrupts::work(1)?;
    Ok(above(solution, &wanted))
}

/// The plan of a filter with a search for words, of which there is one at most.
#[cold]
fn with_text(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Node> {
    let shows_bounds = wanted.shows_bounds;
    let solution = text::solution(
        collection,
        index_catalog,
        matcher,
        &|branch, bounds| branch_scan(collection, index_catalog, branch, bounds, shows_bounds),
        wanted,
    )?;
    Ok(above(solution, wanted))
}

/// Like `choose`, and makes the plans of the other indexes, too, for who shows them.
pub fn choose_to_show(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: Wanted<'_>,
) -> Result<Choice> {
    let wanted = Wanted {
        shows_bounds: true,
        filter: Some(matcher.root()),
        ..wanted
    };
    let winning = choose(collection, index_catalog, matcher, wanted)?;
    let mut rejected = Vec::new();
    let is_wildcards = |hint| is_wildcards(index_catalog, hint);
    let has_no_choice = matcher.root().near().is_some()
        || matcher.texts() > 0
        || wanted.hint.is_some_and(is_wildcards);
    if !has_no_choice && natural(collection, &wanted)?.is_none() {
        let mut bounds =
            FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths);
        let mut usable = usable(collection, index_catalog, &mut bounds, &wanted)?;
        usable.sort_by_key(|scored| Reverse(scored.score));
        let chosen = sole_index(&*winning);
        let chosen = usable
            .iter()
            .position(|scored| Some(scored.ident()) == chosen);
        // Where several indexes or none were chosen, the best one alone has had its turn.
        let chosen = chosen.unwrap_or(0);
        let others = usable.iter().enumerate();
        for (_, other) in others.filter(|(number, _)| *number != chosen) {
            interrupts::work(UNITS_OF_A_BRANCH)?;
            rejected.push(above(other.solution(&bounds, collection, &wanted), &wanted));
        }
    }
    Ok(Choice {
        rejected,
        ..Choice::of(winning)
    })
}

/// Whether a hint means a wildcard index.
fn is_wildcards(index_catalog: &IndexCatalog, hint: RawValue<'_>) -> bool {
    let mut indexes = index_catalog.indexes.iter();
    indexes.any(|index| WildcardKeys::of(index).is_some() && index.is_meant(hint))
}

/// The index that a plan reads, if it is one.
fn sole_index(root: &dyn PlanNode) -> Option<Ident> {
    let mut idents = SmallVec::<[Ident; 4]>::new();
    root.leaves(&mut |leaf| {
        if let Leaf::Index(access) | Leaf::Count(access) | Leaf::Distinct(access) = leaf {
            idents.push(access.ident);
        }
    });
    idents.dedup();
    match idents.as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

/// The scan that a natural order asks for, of the sort or of the hint.
fn natural(collection: &Collection, wanted: &Wanted<'_>) -> Result<Option<Solution>> {
    let of_sort = wanted.sort.and_then(SortPattern::natural);
    if let Some(direction) = of_sort {
        return whole(collection, direction, true, wanted).map(Some);
    }
    match natural_hint(wanted.hint)? {
        Some(direction) => whole(collection, direction, wanted.sort.is_none(), wanted).map(Some),
        None => Ok(None),
    }
}

/// The plan where no index is the best one: a union, or the whole collection.
fn without_index(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
    has_index: bool,
) -> Result<Solution> {
    if !wanted.follows && matcher.root().matches_nothing() {
        return Ok(Solution {
            node: Box::new(NoRows::EOF),
            is_sorted: true,
            is_of_branches: false,
            is_covered: false,
            key: KeySource::Nothing,
        });
    }
    // An index that only gives the order is kept, too: what a union finds would have to be held and sorted, all of it
    // before the first document, however few are asked for.
    if !has_index
        && !wanted.follows
        && let Some(union) = union(collection, index_catalog, matcher, wanted)?
    {
        return Ok(union);
    }
    let is_sorted = wanted.sort.is_none();
    whole(collection, Direction::Ascending, is_sorted, wanted)
}

/// A plan for each branch of an `$or`, if an index bounds every one of them.
fn union(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Option<Solution>> {
    let of_branch = Wanted {
        shows_bounds: wanted.shows_bounds,
        ..Wanted::default()
    };
    let mut union = Union {
        collection,
        index_catalog,
        matcher,
        wanted: &of_branch,
        branches: Vec::new(),
    };
    let filter = matcher.root();
    if !union.collect_branches(filter)? {
        return Ok(None);
    }
    let branches = union.branches;
    let branches = branches.into_iter().map(|scan| Box::new(scan) as Node);
    Ok(Some(Solution {
        node: Box::new(Fetch::new(Box::new(Or::new(branches.collect())), true)),
        is_sorted: wanted.sort.is_none(),
        is_of_branches: matches!(filter, MatchExpression::Or(_)),
        is_covered: false,
        key: KeySource::Nothing,
    }))
}

/// The branches of an `$or` while they are planned.
struct Union<'u> {
    collection: &'u Collection,
    index_catalog: &'u IndexCatalog,
    matcher: &'u Matcher,
    wanted: &'u Wanted<'u>,
    branches: Vec<IndexScan>,
}

impl<'u> Union<'u> {
    /// Plans the branches of the first `$or` in a conjunction all of whose branches have an index; false if there is none.
    /// Recursion is bounded by the depth of the filter.
    fn collect_branches(&mut self, filter: &'u MatchExpression) -> Result<bool> {
        let disjunctions = match filter {
            MatchExpression::And(children) => children.as_slice(),
            other => std::slice::from_ref(other),
        };
        let before = self.branches.len();
        for disjunction in disjunctions {
            let MatchExpression::Or(children) = disjunction else {
                continue;
            };
            let mut are_all = before + children.len() <= UNION_BRANCHES_MAX;
            for child in children {
                if !are_all {
                    break;
                }
                are_all = self.plan_branch(child)?;
            }
            if are_all {
                return Ok(true);
            }
            self.branches.truncate(before);
        }
        Ok(false)
    }

    /// Plans one branch, or those of an `$or` within it; false if it has no index.
    fn plan_branch(&mut self, child: &'u MatchExpression) -> Result<bool> {
        interrupts::work(UNITS_OF_A_BRANCH)?;
        let (matcher, paths) = (self.matcher, &self.index_catalog.paths);
        let mut bounds = FilterBounds::of_branch(child, matcher.root(), matcher.collation(), paths);
        let (collection, index_catalog) = (self.collection, self.index_catalog);
        let shows_bounds = self.wanted.shows_bounds;
        let scan = branch_scan(collection, index_catalog, child, &mut bounds, shows_bounds)?;
        let Some(scan) = scan else {
            return self.collect_branches(child);
        };
        self.branches.push(scan);
        let ranges: usize = self.branches.iter().map(IndexScan::ranges_len).sum();
        Ok(ranges <= UNION_RANGES_MAX)
    }
}

/// The scan of one branch of an `$or`, if an index bounds it. The union knows the records again.
fn branch_scan<'m>(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    branch: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    shows_bounds: bool,
) -> Result<Option<IndexScan>> {
    let wanted = Wanted {
        shows_bounds,
        ..Wanted::default()
    };
    let best = best(collection, index_catalog, bounds, &wanted)?;
    let mut scan = match best.scored {
        Some(best) => Some(*best.scan(bounds, &wanted).node),
        None if index_catalog.has_special => {
            wildcard::scan_of_branch(index_catalog, branch, bounds, &wanted)?
        }
        None => None,
    };
    if let Some(scan) = &mut scan {
        scan.forget_repeats();
    }
    Ok(scan)
}

/// Like `choose`, for a filter that is not parsed, if it is nothing but equalities and the plan answers it alone.
pub fn choose_for_equalities(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    filter: RawDocument<'_>,
    wanted: Wanted<'_>,
) -> Option<Node> {
    // Whether a partial index has all that is meant is told by the parsed filter.
    if index_catalog.has_partial {
        return None;
    }
    let mut bounds = FilterBounds::of_equalities(filter, &index_catalog.paths)?;
    let found = best(collection, index_catalog, &mut bounds, &wanted).ok()?;
    let best = match found.is_contested {
        false => found.scored?,
        // A trial needs the parsed filter.
        true => {
            let contenders = contenders(collection, index_catalog, &mut bounds, &wanted);
            remembered(index_catalog, &mut contenders.ok()?, &wanted)?
        }
    };
    let scan = best.scan(&bounds, &wanted);
    let is_clustered = collection.is_clustered();
    (scan.answers).then(|| above(best.access(scan, is_clustered, &wanted), &wanted))
}

/// All candidates that are of use, in the order of the indexes.
pub fn usable<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Vec<Scored<'c>>> {
    let mut usable = Vec::new();
    each_usable(collection, index_catalog, bounds, wanted, |scored| {
        usable.push(scored);
    })?;
    Ok(usable)
}

/// The outcome of scoring the candidates.
struct Best<'c> {
    /// The first of the best candidates that are of use.
    scored: Option<Scored<'c>>,
    /// The shapes of the bounds do not tell that it is the best.
    is_contested: bool,
}

/// Finds the best candidate by the shape of its bounds.
fn best<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Best<'c>> {
    let mut best = Best {
        scored: None,
        is_contested: false,
    };
    each_usable(collection, index_catalog, bounds, wanted, |scored| {
        let Some(held) = &best.scored else {
            best.scored = Some(scored);
            return;
        };
        best.is_contested |= !held.serves(&scored) && !scored.serves(held);
        if scored.score > held.score {
            best.scored = Some(scored);
        }
    })?;
    // A client that names an index has decided, and a whole unique key finds one document at most.
    if best.is_contested {
        let is_sure = |best: &Scored<'_>| best.score.is_whole_unique_key;
        let is_decided = wanted.hint.is_some() || wanted.follows;
        best.is_contested = !is_decided && !best.scored.as_ref().is_some_and(is_sure);
    }
    Ok(best)
}

/// Scores the candidates and hands over those that are of use, in the order of the indexes.
#[inline]
pub fn each_usable<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
    mut take: impl FnMut(Scored<'c>),
) -> Result<()> {
    let is_by_filter = wanted.hint.is_none() && wanted.sort.is_none();
    let mut is_hint_known = false;
    for candidate in candidates(collection, index_catalog, bounds.collation()) {
        if is_by_filter && !bounds.mention(candidate.paths[0]) {
            continue;
        }
        if let Some(hint) = wanted.hint {
            if !candidate.is_meant(hint) {
                continue;
            }
            is_hint_known = true;
        } else if candidate.leaves_out(bounds) {
            continue;
        }
        let scored = candidate.score(bounds, collection.is_clustered(), wanted);
        let is_usable = wanted.hint.is_some()
            || (!scored.leaves_out_missing(bounds)
                && (scored.is_bounded() || scored.score.gives_order));
        if is_usable {
            take(scored);
        }
    }
    if let Some(hint) = wanted.hint
        && !is_hint_known
    {
        return Err(no_such_hint(index_catalog, hint));
    }
    Ok(())
}

/// The error of a hint that is no index's that plans may use: of one whose sort keys nobody can make any more, what is to be done.
#[cold]
pub fn no_such_hint(index_catalog: &IndexCatalog, hint: RawValue<'_>) -> Error {
    let mut indexes = index_catalog.indexes.iter();
    let meant = indexes.find(|index| index.is_meant(hint));
    if let Some(Err(error)) = meant.map(Index::check_sort_keys) {
        return error.into();
    }
    Error::bad_value(
        "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
    )
}

fn whole(
    collection: &Collection,
    direction: Direction,
    is_sorted: bool,
    wanted: &Wanted<'_>,
) -> Result<Solution> {
    let is_reversed = direction == Direction::Descending;
    let scan = match wanted.follows {
        true if is_reversed => {
            return Err(Error::bad_value(format!(
                "error processing query: tailable cursor on {} cannot read backwards",
                collection.namespace
            )));
        }
        true => CollectionScan::following(collection),
        false => CollectionScan::new(collection, is_reversed),
    };
    Ok(Solution {
        node: Box::new(scan),
        is_sorted: is_sorted || wanted.follows,
        is_of_branches: false,
        is_covered: false,
        key: KeySource::Nothing,
    })
}

/// The direction of a hint `{$natural: ±1}`.
pub fn natural_hint(hint: Option<RawValue<'_>>) -> Result<Option<Direction>> {
    let Some(RawValue::Document(pattern)) = hint else {
        return Ok(None);
    };
    let Some(natural) = pattern.get("$natural") else {
        return Ok(None);
    };
    match natural.as_i64_exact() {
        Some(1) => Ok(Some(Direction::Ascending)),
        Some(-1) => Ok(Some(Direction::Descending)),
        _ => Err(Error::bad_value(
            "$natural hint cannot be set to a value other than -1 or 1.",
        )),
    }
}

/// The indexes that plans may use, and the records of a clustered collection, for a filter that compares strings so.
pub fn candidates<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    asked: &Collation,
) -> impl Iterator<Item = Candidate<'c>> {
    let records = collection.is_clustered().then(|| Candidate {
        name: "_id_",
        ident: collection.ident,
        paths: index_catalog.paths.of_records(),
        prefix: collection.prefix.as_bytes(),
        index: None,
        multikey: 0,
        has_cut_keys: false,
        is_unique: true,
        is_sparse: false,
        hashed: None,
        collation: &SIMPLE,
        is_alike: asked.is_simple(),
    });
    // The keys of an index with a kind are no values: only plans that know the kind read it. Hashes are values of another field.
    let usable = |(_, index): &(usize, &Index)| {
        let is_repeated = collection.is_clustered() && &*index.name == "_id_";
        let is_usable = !index.building && !index.hidden && !index.is_outdated();
        is_usable && is_of_values(index) && !is_repeated
    };
    let indexes = index_catalog.indexes.iter().enumerate().filter(usable);
    let indexes = indexes.map(|(position, index)| Candidate {
        name: &index.name,
        ident: index.ident,
        paths: index_catalog.paths.of_index(position),
        prefix: index.prefix.as_bytes(),
        index: Some(index),
        multikey: index.multikey_components(),
        has_cut_keys: index.has_cut_keys(),
        is_unique: index.unique,
        is_sparse: index.sparse,
        hashed: hashed_place(index),
        collation: &index.collation,
        is_alike: index.collation == *asked,
    });
    records.into_iter().chain(indexes)
}

/// Whether its keys are values of the fields of its pattern, or hashes of them.
fn is_of_values(index: &Index) -> bool {
    index.special.is_none() || hashed_place(index).is_some()
}

fn hashed_place(index: &Index) -> Option<usize> {
    index.special.as_ref()?;
    HashedKeys::of(index).map(|keys| keys.place)
}

impl<'c> Candidate<'c> {
    pub fn is_clustered(&self) -> bool {
        self.index.is_none()
    }

    pub fn fields_len(&self) -> usize {
        self.index.map_or(1, |index| index.pattern.fields.len())
    }

    pub fn field(&self, number: usize) -> (&'c str, Direction) {
        match self.index {
            None => ("_id", Direction::Ascending),
            Some(index) => {
                let field = &index.pattern.fields[number];
                (&field.path, field.direction)
            }
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = (&'c str, Direction)> + '_ {
        (0..self.fields_len()).map(|number| self.field(number))
    }

    fn pattern(&self) -> Arc<Document> {
        match self.index {
            None => Arc::new(doc! { "_id": 1 }),
            Some(index) => Arc::clone(&index.pattern.document),
        }
    }

    /// Whether it is a partial index that may lack documents which match. One that a hint names is used all the same, as
    /// a sparse one is.
    pub fn leaves_out(&self, bounds: &FilterBounds<'_>) -> bool {
        let filter = self.index.and_then(|index| index.filter.as_deref());
        filter.is_some_and(|filter| !bounds.imply(filter))
    }

    /// Whether every document has one entry, be the fields there or not.
    pub fn tells_missing(&self) -> bool {
        self.multikey == 0 && !self.is_sparse
    }

    pub fn is_meant(&self, hint: RawValue<'_>) -> bool {
        match hint {
            RawValue::String(name) => name == self.name,
            RawValue::Document(pattern) => {
                quarry_bson::compare::compare_documents(pattern, self.pattern().as_raw()).is_eq()
            }
            _ => false,
        }
    }

    fn score(
        self,
        bounds: &mut FilterBounds<'_>,
        is_clustered: bool,
        wanted: &Wanted<'_>,
    ) -> Scored<'c> {
        let (bounded, equalities, has_range) = self.bound(bounds);
        let single = |bound: &Bound| bounds.get(*bound).intervals_len() <= 1;
        let mut order = wanted.sort.and_then(|sort| {
            self.order(sort, |number| {
                number < equalities && single(&bounded[number])
            })
        });
        let mut is_merged = false;
        if let (None, Some(sort)) = (order, wanted.sort)
            && ranges_len(bounds, &bounded) <= MERGED_RANGES_MAX
        {
            order = self.range_order(sort, equalities);
            is_merged = order.is_some();
        }
        let is_whole_unique_key =
            self.is_unique && equalities == self.fields_len() && bounded.iter().all(single);
        let is_covering = !is_merged
            && wanted.read.is_some()
            && self.index.is_some_and(|index| {
                let asks_filter = !bounds.are_all(&bounded);
                let sorts = order.is_none();
                key_document(index, is_clustered, wanted, asks_filter, sorts).is_some()
            });
        let score = Score {
            is_whole_unique_key,
            equalities,
            has_range,
            gives_order: order.is_some(),
            is_covering,
            is_clustered: self.is_clustered(),
        };
        Scored {
            candidate: self,
            score,
            bounded,
            order,
            is_merged,
        }
    }

    /// The order of the keys in each range that the leading fields are bounded to one value of each, if it is the wanted one: whether
    /// it is met from behind. None of those fields may be sorted by.
    fn range_order(&self, sort: &SortPattern, equalities: usize) -> Option<bool> {
        let mut leading = self.fields().take(equalities);
        let asked = sort.fields();
        let is_asked =
            leading.any(|(path, _)| asked.iter().any(|field| field.path.as_str() == path));
        match self.index {
            Some(_) if !is_asked => self.order(sort, |number| number < equalities),
            _ => None,
        }
    }

    /// The intervals of the leading fields; how many of them are equalities; whether a range follows.
    pub fn bound(&self, bounds: &mut FilterBounds<'_>) -> (Bounded, usize, bool) {
        let mut bounded = Bounded::new();
        let mut has_array = false;
        for (number, &path) in self.paths.iter().enumerate() {
            let is_multikey = self.multikey & (1 << number) != 0;
            // Fields of one array are keyed element by element, but may be met by different elements.
            if is_multikey && has_array {
                break;
            }
            let bound = match self.hashed == Some(number) {
                false => bounds.of(path, self.field(number).0, is_multikey, self.collation),
                true => self.bound_of_hashes(number, bounds),
            };
            let Some(bound) = bound else {
                break;
            };
            has_array |= is_multikey;
            bounded.push(bound);
            if !bounds.get(bound).are_points() {
                let equalities = bounded.len() - 1;
                return (bounded, equalities, true);
            }
        }
        let equalities = bounded.len();
        (bounded, equalities, false)
    }

    /// The bound of the hashed field. A sparse index has no entry of a document without its first field.
    fn bound_of_hashes(&self, number: usize, bounds: &mut FilterBounds<'_>) -> Option<Bound> {
        let (path, name) = (self.paths[number], self.field(number).0);
        let bound = bounds.of(path, name, false, self.collation)?;
        let may_lack = self.is_sparse && number == 0 && bounds.get(bound).hold_null();
        match may_lack {
            true => None,
            false => bounds.of_hashes(path, name, self.collation),
        }
    }

    /// Whether the keys are in the wanted order, and if so whether from behind. Fields that have one value, by
    /// number, do not count.
    pub fn order(&self, sort: &SortPattern, has_one_value: impl Fn(usize) -> bool) -> Option<bool> {
        if self.multikey != 0 || self.is_sparse || self.has_cut_keys || !self.is_alike {
            return None;
        }
        let is_constant = |path: &str| {
            let number = self.fields().position(|(field, _)| field == path);
            number.is_some_and(&has_one_value)
        };
        // Behind a hash that is not one value nothing is in order.
        let in_order = self.hashed.unwrap_or(usize::MAX);
        let fields = self.fields().enumerate();
        let fields = fields.take_while(|(number, _)| *number != in_order || has_one_value(*number));
        let fields = fields.map(|(_, field)| field);
        let mut fields = fields.filter(|(path, _)| !is_constant(path));
        let mut is_reversed = None;
        let asked = sort.fields().iter();
        for asked in asked.filter(|asked| !is_constant(asked.path.as_str())) {
            let (path, direction) = fields.next()?;
            if path != asked.path.as_str() {
                return None;
            }
            let differs = direction != asked.direction;
            if *is_reversed.get_or_insert(differs) != differs {
                return None;
            }
        }
        Some(is_reversed.unwrap_or(false))
    }
}

/// The scan of a candidate's keys.
pub struct Scan {
    pub node: Box<IndexScan>,
    /// All that the keys lead to matches: no predicate asks more than the ranges say, and none of these was widened. Keys order
    /// as values compare, so that what lies between two keys lies between their values.
    pub answers: bool,
    /// Each range is the one key of a record.
    has_whole_keys: bool,
}

/// How many ranges these bounds are, all fields' intervals combined.
fn ranges_len(bounds: &FilterBounds<'_>, bounded: &[Bound]) -> usize {
    let lens = bounded
        .iter()
        .map(|bound| bounds.get(*bound).intervals_len());
    lens.fold(1, usize::saturating_mul)
}

impl Scored<'_> {
    /// Like `Candidate::range_order`.
    pub fn range_order(&self, sort: &SortPattern) -> Option<bool> {
        self.candidate.range_order(sort, self.score.equalities)
    }

    /// Whether the filter keeps the scan from going through the whole index.
    pub fn is_bounded(&self) -> bool {
        self.score.equalities > 0 || self.score.has_range
    }

    /// The index that is read, or the records.
    pub fn ident(&self) -> Ident {
        self.candidate.ident
    }

    /// The paths of the fields that the filter bounds.
    fn bounded_paths(&self) -> &[u16] {
        &self.candidate.paths[..self.bounded.len()]
    }

    /// Whether the other one has nothing that this one has not: it bounds no other field, and gives no order and no documents
    /// where this one does not.
    pub fn serves(&self, other: &Scored<'_>) -> bool {
        let has = |path: &u16| self.bounded_paths().contains(path);
        other.bounded_paths().iter().all(has)
            && self.score.gives_order >= other.score.gives_order
            && self.score.is_covering >= other.score.is_covering
    }

    /// Adds what the candidate does for the query to a hash, without the values that it is asked for.
    pub fn hash_shape(&self, hash: &mut impl Hasher) {
        hash.write_usize(self.bounded.len());
        hash.write_usize(self.score.equalities);
        let flags = [
            self.score.has_range,
            self.score.gives_order,
            self.score.is_covering,
            self.order == Some(true),
            self.is_merged,
            self.candidate.is_alike,
        ];
        for flag in flags {
            hash.write_u8(u8::from(flag));
        }
    }

    /// A sparse index has no entry for a document that the filter may mean.
    fn leaves_out_missing(&self, bounds: &FilterBounds<'_>) -> bool {
        self.candidate.is_sparse
            && self
                .bounded
                .first()
                .is_none_or(|first| bounds.get(*first).hold_null())
    }

    /// Whether each range is one value of every field of a key that names one record, uncut.
    fn has_whole_keys(&self, bounded: &[(Bounds<'_, '_>, Direction)], ranges: &[KeyRange]) -> bool {
        let candidate = &self.candidate;
        if !candidate.is_unique || self.score.equalities != candidate.fields_len() {
            return false;
        }
        candidate.is_clustered()
            || (are_combined(bounded) && ranges.iter().all(|range| !may_meet_cut_keys(range)))
    }

    /// The scan of the candidate's keys.
    pub fn scan(&self, bounds: &FilterBounds<'_>, wanted: &Wanted<'_>) -> Scan {
        let candidate = &self.candidate;
        let is_reversed = self.order.unwrap_or(false);
        let bounded: SmallVec<[(Bounds<'_, '_>, Direction); 10]> = self
            .bounded
            .iter()
            .zip(candidate.fields())
            .map(|(bound, (_, direction))| (bounds.get(*bound), direction))
            .collect();
        let texts = match wanted.shows_bounds {
            true => candidate.texts(&bounded, is_reversed),
            false => Vec::new(),
        };
        let access = candidate.access(texts);
        let (ranges, are_exact) = candidate.ranges(&bounded);
        let has_whole_keys = self.has_whole_keys(&bounded, &ranges);
        let is_one_key = self.score.equalities == candidate.fields_len() && ranges.len() == 1;
        let mut node = Box::new(IndexScan::new(access, ranges, is_reversed, has_whole_keys));
        if are_exact && is_one_key {
            node.forget_repeats();
        }
        Scan {
            node,
            answers: are_exact && are_combined(&bounded) && bounds.are_all(&self.bounded),
            has_whole_keys,
        }
    }

    fn solution(
        &self,
        bounds: &FilterBounds<'_>,
        collection: &Collection,
        wanted: &Wanted<'_>,
    ) -> Solution {
        let scan = self.scan(bounds, wanted);
        self.access(scan, collection.is_clustered(), wanted)
    }

    /// The documents of the scan's keys, or of what is read of them.
    fn access(&self, scan: Scan, is_clustered: bool, wanted: &Wanted<'_>) -> Solution {
        if wanted.metadata.has(MetadataKinds::INDEX_KEY) {
            return self.keyed_access(scan, wanted);
        }
        let answers = scan.answers;
        let is_id = answers && self.candidate.is_clustered() && self.score.is_whole_unique_key;
        let (mut is_covered, mut is_merged) = (false, self.is_merged);
        let node: Node = match scan.node.ranges() {
            // No value meets what is asked of a field.
            [] => Box::new(NoRows::EOF),
            [record] if is_id => Box::new(IdHack::new(record.start.clone())),
            _ if is_merged => match merge_of_ranges(self, scan.node) {
                Ok(merge) => Box::new(Fetch::new(Box::new(merge), !answers)),
                Err(scan) => {
                    is_merged = false;
                    Box::new(Fetch::new(scan, !answers))
                }
            },
            _ => match self.covering(&scan, is_clustered, wanted) {
                Some(covering) => {
                    is_covered = true;
                    scan.node.covering(covering)
                }
                None => Box::new(Fetch::new(scan.node, !answers)),
            },
        };
        Solution {
            node,
            is_sorted: wanted.sort.is_none()
                || (self.order.is_some() && is_merged == self.is_merged),
            is_of_branches: false,
            is_covered,
            key: KeySource::Nothing,
        }
    }

    /// Like `access`, with the keys by which the documents are found.
    #[cold]
    fn keyed_access(&self, scan: Scan, wanted: &Wanted<'_>) -> Solution {
        let answers = scan.answers;
        let is_of_records = self.candidate.is_clustered();
        let is_id = answers && is_of_records && self.score.is_whole_unique_key;
        let is_sorted = wanted.sort.is_none() || (self.order.is_some() && !self.is_merged);
        let (node, key): (Node, KeySource) = match scan.node.ranges() {
            [] => (Box::new(NoRows::EOF), KeySource::Nothing),
            [record] if is_id => (Box::new(IdHack::new(record.start.clone())), KeySource::Id),
            _ if is_of_records => (Box::new(Fetch::new(scan.node, !answers)), KeySource::Id),
            _ => {
                let reads_documents = wanted.returned_key.is_none()
                    || wanted.metadata.has(MetadataKinds::SORT_KEY)
                    || !is_sorted;
                let key = match answers && !reads_documents {
                    true => KeySource::KeysAlone,
                    false => KeySource::Rows {
                        asks_filter: !answers,
                    },
                };
                (scan.node.giving_keys(KeyedEntries::new()), key)
            }
        };
        Solution {
            node,
            is_sorted,
            is_of_branches: false,
            is_covered: false,
            key,
        }
    }

    /// How keys serve in place of documents, if they do.
    fn covering(&self, scan: &Scan, is_clustered: bool, wanted: &Wanted<'_>) -> Option<Covering> {
        wanted.read?;
        let (asks_filter, sorts) = (!scan.answers, self.order.is_none());
        if let Some(index) = self.candidate.index {
            let document = key_document(index, is_clustered, wanted, asks_filter, sorts)?;
            return Some(Covering::new(document, asks_filter));
        }
        // The key of a record says that it is there, and that alone; gets of whole keys do not even say that.
        let counts = wanted.read.is_some_and(<[FieldPath]>::is_empty)
            && !asks_filter
            && !scan.has_whole_keys
            && (wanted.sort.is_none() || !sorts);
        counts.then(|| Covering::new(KeyDocument::default(), false))
    }
}

impl Candidate<'_> {
    /// Describes the index to those who scan it and those who show it.
    pub fn access(&self, bounds: Vec<(String, Vec<String>)>) -> IndexAccess {
        IndexAccess {
            name: self
                .index
                .map_or_else(|| self.name.into(), |index| Arc::clone(&index.name)),
            ident: self.ident,
            is_of_records: self.is_clustered(),
            pattern: self.pattern(),
            is_multikey: self.multikey != 0,
            is_unique: self.is_unique,
            is_sparse: self.is_sparse,
            collation: self.collation.specification().cloned(),
            is_partial: self.index.is_some_and(|index| index.filter.is_some()),
            bounds,
        }
    }

    /// The ranges of keys, and whether they hold no other keys than those within the bounds. Records have whole keys; those of
    /// an index may be cut.
    pub fn ranges(&self, bounded: &[(Bounds<'_, '_>, Direction)]) -> (Vec<KeyRange>, bool) {
        let ranges = compose(self.prefix, bounded);
        if self.is_clustered() {
            return (ranges, true);
        }
        let are_exact = !ranges.iter().any(is_widened_by_cut_keys);
        (apart(ranges.into_iter().map(meeting_cut_keys)), are_exact)
    }

    /// The bounds of every field, as explain prints them.
    pub fn texts(
        &self,
        bounded: &[(Bounds<'_, '_>, Direction)],
        is_reversed: bool,
    ) -> Vec<(String, Vec<String>)> {
        let fields = self.fields().enumerate();
        let texts = fields.map(|(number, (path, direction))| {
            let intervals = bounded.get(number).map_or_else(
                || vec![Interval::all()],
                |(bounds, _)| bounds.to_intervals(),
            );
            let turns = (direction == Direction::Descending) != is_reversed;
            let mut shown: Vec<String> = intervals
                .iter()
                .map(|interval| interval.text(turns))
                .collect();
            if turns {
                shown.reverse();
            }
            (path.to_owned(), shown)
        });
        texts.collect()
    }
}
