//! Unions: an `$or` is read branch by branch where an index bounds every one of them.

use quarry_database::{Collection, IndexCatalog};

use super::filter_bounds::FilterBounds;
use super::tree::Solution;
use super::usable::{UNITS_OF_A_BRANCH, best};
use super::wanted::Wanted;
use super::wildcard;
use crate::error::Result;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher};
use crate::plan::{Fetch, IndexScan, KeySource, Node, Or};

/// Branches of an `$or` that are planned one by one: with more of them the collection is scanned.
const UNION_BRANCHES_MAX: usize = 1000;

/// Ranges of all branches together: a request of a megabyte must not ask for half a gigabyte of them.
const UNION_RANGES_MAX: usize = 65_536;

/// A plan for each branch of an `$or`, if an index bounds every one of them.
pub fn union(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Option<Solution>> {
    let of_branch = wanted.of_branch();
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
        let scan = branch_scan(collection, index_catalog, child, &mut bounds, self.wanted)?;
        let Some(scan) = scan else {
            return self.collect_branches(child);
        };
        self.branches.push(scan);
        let ranges: usize = self.branches.iter().map(IndexScan::ranges_len).sum();
        Ok(ranges <= UNION_RANGES_MAX)
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
    let best = best(collection, index_catalog, bounds, of_branch)?;
    let mut scan = match best.scored {
        // Nobody tries how much it leaves.
        Some(best) if best.is_weak() => None,
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
