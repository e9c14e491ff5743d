//! Plans of an `$or`, branch by branch, where an index bounds every one of them: merged where each branch comes in the wanted order
//! (SORT_MERGE), else one after the other (OR).
//!
//! What stands beside the `$or` bounds the branches, too, as far as an index of the branch's own fields goes on with it: `{a: 1, $or: [{b: 2}, {c: 3}]}`
//! is two ranges of indexes over `a` and `b`, and `a` and `c`. A branch for which that alone is bounded has no plan here, because
//! the index that serves it would serve the whole filter.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use quarry_database::{Collection, IndexCatalog};

use super::filter_bounds::FilterBounds;
use super::merged::merged_ranges;
use super::scored::Scored;
use super::tree::Solution;
use super::usable::{UNITS_OF_A_BRANCH, best_where};
use super::wanted::Wanted;
use super::wildcard;
use crate::error::Result;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher};
use crate::plan::{
    Covered, Fetch, IndexScan, KeySource, MERGED_RANGES_MAX, MergedRange, Node, Or, PlanNode,
    Purpose, SortMerge, TrialBound, Watch, Watched,
};

/// Branches of an `$or` that are planned one by one: with more of them the collection is scanned.
const UNION_BRANCHES_MAX: usize = 1000;

/// Ranges of all branches together: a request of a megabyte must not ask for half a gigabyte of them.
const UNION_RANGES_MAX: usize = 65_536;

/// The scans of the branches of an `$or`.
pub struct Branches {
    inputs: Vec<IndexScan>,
    /// Their ranges, where all of them are in the wanted order.
    merged: Option<Vec<MergedRange>>,
    /// The filter is the `$or` and nothing else.
    are_all: bool,
    /// Tells the indexes and what each of them does, without the values that it is asked for.
    shape: u64,
    /// The remembered trial that they were chosen by, if they were.
    pub watch: Option<Box<Watch>>,
}

impl Branches {
    /// Whether the documents come in the wanted order.
    pub fn are_merged(&self) -> bool {
        self.merged.is_some()
    }

    /// Adds what the plan does for the query to a hash.
    pub fn hash_shape(&self, hash: &mut impl Hasher) {
        hash.write_u8(u8::from(self.are_merged()));
        hash.write_u64(self.shape);
    }

    /// The documents of the branches.
    pub fn solution(self, wanted: &Wanted<'_>) -> Solution {
        let is_sorted = wanted.sort.is_none() || self.are_merged();
        let node: Node = match self.merged {
            // A document is given by the branch that it was found to match.
            Some(ranges) => {
                let merge = SortMerge::of_branches(self.inputs, ranges);
                Box::new(Fetch::new(Box::new(merge), !self.are_all))
            }
            None => {
                let inputs = self.inputs.into_iter().map(|scan| Box::new(scan) as Node);
                Box::new(Fetch::new(Box::new(Or::new(inputs.collect())), true))
            }
        };
        Solution {
            node: match self.watch {
                None => node,
                Some(watch) => Box::new(Watched::new(node, *watch)),
            },
            is_sorted,
            is_of_branches: self.are_all,
            covered: Covered::No,
            key: KeySource::Nothing,
        }
    }

    /// The tree of a trial, which reads as many keys as it is allowed, all branches together.
    pub fn trial(&self, allowance: &Arc<AtomicU64>) -> Node {
        let inputs = self.inputs.iter().map(IndexScan::of_every_key);
        let below: Node = match &self.merged {
            Some(ranges) => {
                let ranges = ranges.iter().map(MergedRange::begun_anew).collect();
                let merge = SortMerge::of_branches(inputs.collect(), ranges);
                Box::new(merge.within(Arc::clone(allowance)))
            }
            None => {
                let bounded = inputs.map(|scan| {
                    Box::new(TrialBound::new(Box::new(scan), Arc::clone(allowance))) as Node
                });
                Box::new(Or::new(bounded.collect()))
            }
        };
        let asks_filter = !(self.are_merged() && self.are_all);
        let mut fetch = Fetch::new(below, asks_filter);
        // A read that can remember no more would go on over the whole collection.
        fetch.set_purpose(Purpose::ChangeInPlace);
        Box::new(fetch)
    }
}

/// The plan of the filter's `$or`, if an index bounds each of its branches: the merge of them where it can be had.
pub fn branches(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Option<Branches>> {
    let Some(first) = matcher.branches() else {
        return Ok(None);
    };
    // A client that names an index has decided.
    if wanted.hint.is_some() || wanted.follows {
        return Ok(None);
    }
    let planner = Planner {
        collection,
        index_catalog,
        matcher,
        whole: FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths),
        wanted: wanted.of_branch(),
    };
    if wanted.sort.is_some()
        && let Some(merge) = planner.merge(first, wanted)?
    {
        return Ok(Some(merge));
    }
    planner.union()
}

/// Who plans the branches of an `$or` one by one.
struct Planner<'p> {
    collection: &'p Collection,
    index_catalog: &'p IndexCatalog,
    matcher: &'p Matcher,
    /// The bounds of the whole filter.
    whole: FilterBounds<'p>,
    wanted: Wanted<'p>,
}

/// The scans of branches that were planned.
#[derive(Default)]
struct Planned {
    inputs: Vec<IndexScan>,
    ranges: usize,
    shape: DefaultHasher,
}

impl Planned {
    fn push(&mut self, scan: IndexScan) {
        self.ranges += scan.ranges_len();
        self.shape.write_u64(scan.access().ident.0);
        self.inputs.push(scan);
    }

    fn truncate(&mut self, len: usize) {
        self.inputs.truncate(len);
        self.ranges = self.inputs.iter().map(IndexScan::ranges_len).sum();
    }
}

impl<'p> Planner<'p> {
    fn bounds_of(&self, branch: &'p MatchExpression) -> FilterBounds<'p> {
        let (matcher, paths) = (self.matcher, &self.index_catalog.paths);
        FilterBounds::of_branch(branch, matcher.root(), matcher.collation(), paths)
    }

    /// Whether a candidate serves a branch otherwise than it would serve the whole filter.
    fn is_of_branch(&self, scored: &Scored<'_>) -> bool {
        scored.asks_itself || scored.candidate.leaves_out(&self.whole)
    }

    fn is_whole_filter(&self) -> bool {
        matches!(self.matcher.root(), MatchExpression::Or(_))
    }

    /// Plans every one of the branches in the wanted order; None if an index does not give one of them in order.
    fn merge(
        &self,
        branches: &'p [MatchExpression],
        wanted: &Wanted<'_>,
    ) -> Result<Option<Branches>> {
        let Some(sort) = wanted.sort.filter(|_| branches.len() <= MERGED_RANGES_MAX) else {
            return Ok(None);
        };
        let of_branch = Wanted {
            sort: Some(sort),
            ..self.wanted
        };
        let (mut planned, mut ranges) = (Planned::default(), Vec::new());
        for branch in branches {
            interrupts::work(UNITS_OF_A_BRANCH)?;
            let mut bounds = self.bounds_of(branch);
            let (collection, index_catalog) = (self.collection, self.index_catalog);
            let best = best_where(
                collection,
                index_catalog,
                &mut bounds,
                &of_branch,
                |scored| {
                    scored.is_bounded()
                        && self.is_of_branch(scored)
                        && scored.range_order(sort).is_some()
                },
            )?;
            let Some(mut best) = best else {
                return Ok(None);
            };
            let Some(order) = best.range_order(sort) else {
                return Ok(None);
            };
            best.order = Some(order.is_reversed);
            let scan = best.scan(&bounds, &of_branch).node;
            let Some(of_scan) = merged_ranges(&best, &scan, planned.inputs.len(), order) else {
                return Ok(None);
            };
            ranges.extend(of_scan);
            if ranges.len() > MERGED_RANGES_MAX {
                return Ok(None);
            }
            best.hash_shape(&mut planned.shape);
            planned.push(*scan);
        }
        Ok(Some(Branches {
            inputs: planned.inputs,
            merged: Some(ranges),
            are_all: self.is_whole_filter(),
            shape: planned.shape.finish(),
            watch: None,
        }))
    }

    /// Plans the branches in no order; None if an index does not bound every one of them.
    fn union(&self) -> Result<Option<Branches>> {
        let mut planned = Planned::default();
        if !self.collect_branches(self.matcher.root(), &mut planned)? {
            return Ok(None);
        }
        Ok(Some(Branches {
            inputs: planned.inputs,
            merged: None,
            are_all: self.is_whole_filter(),
            shape: planned.shape.finish(),
            watch: None,
        }))
    }

    /// Plans the branches of the first `$or` in a conjunction all of whose branches have an index; false if there is none.
    /// Recursion is bounded by the depth of the filter.
    fn collect_branches(&self, filter: &'p MatchExpression, planned: &mut Planned) -> Result<bool> {
        let disjunctions = match filter {
            MatchExpression::And(children) => children.as_slice(),
            other => std::slice::from_ref(other),
        };
        let before = planned.inputs.len();
        for disjunction in disjunctions {
            let MatchExpression::Or(children) = disjunction else {
                continue;
            };
            let mut are_all = before + children.len() <= UNION_BRANCHES_MAX;
            for child in children {
                if !are_all {
                    break;
                }
                are_all = self.plan_branch(child, planned)?;
            }
            if are_all {
                return Ok(true);
            }
            planned.truncate(before);
        }
        Ok(false)
    }

    /// Plans one branch, or those of an `$or` within it; false if it has no index.
    fn plan_branch(&self, child: &'p MatchExpression, planned: &mut Planned) -> Result<bool> {
        interrupts::work(UNITS_OF_A_BRANCH)?;
        let mut bounds = self.bounds_of(child);
        let (collection, index_catalog) = (self.collection, self.index_catalog);
        // Nobody tries how much a weak bound leaves.
        let best = best_where(
            collection,
            index_catalog,
            &mut bounds,
            &self.wanted,
            |scored| !scored.is_weak() && self.is_of_branch(scored),
        )?;
        if let Some(best) = &best {
            best.hash_shape(&mut planned.shape);
        }
        let scan = scan_of(best, index_catalog, child, &mut bounds, &self.wanted)?;
        let Some(scan) = scan else {
            return self.collect_branches(child, planned);
        };
        planned.push(scan);
        Ok(planned.ranges <= UNION_RANGES_MAX)
    }
}

/// The scan of one branch of an `$or`, if an index bounds it. The union knows the records again.
pub fn branch_scan<'m>(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    branch: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    of_branch: &Wanted<'_>,
) -> Result<Option<IndexScan>> {
    let is_bounded = |scored: &Scored<'_>| !scored.is_weak();
    let best = best_where(collection, index_catalog, bounds, of_branch, is_bounded)?;
    scan_of(best, index_catalog, branch, bounds, of_branch)
}

/// The scan of a candidate, or of a wildcard index where there is none.
fn scan_of<'m>(
    best: Option<Scored<'_>>,
    index_catalog: &IndexCatalog,
    branch: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    of_branch: &Wanted<'_>,
) -> Result<Option<IndexScan>> {
    let mut scan = match best {
        Some(best) => Some(*best.scan(bounds, of_branch).node),
        None if index_catalog.has_special => {
            wildcard::scan_of_branch(index_catalog, branch, bounds, of_branch)?
        }
        None => None,
    };
    if let Some(scan) = &mut scan {
        scan.forget_repeats();
    }
    Ok(scan)
}
