//! Orders that an index gives in each of several ranges, and that the branches of an `$or` give one by one: their ranges are
//! merged.

use quarry_database::{Collection, IndexCatalog};
use quarry_keystring::{Direction, decode_prefix_len};
use smallvec::SmallVec;

use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::tree::Solution;
use super::usable::{UNITS_OF_A_BRANCH, each_usable};
use super::wanted::Wanted;
use crate::error::Result;
use crate::interrupts;
use crate::matcher::{MatchExpression, Matcher};
use crate::plan::{
    Fetch, IndexScan, KeySource, MERGED_RANGES_MAX, MergedRange, RangeWalk, SortMerge,
};

/// A plan that reads every branch of the filter's `$or` in the wanted order and merges them; None if an index does not give one of
/// them in order.
pub fn merge_of_branches(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Option<Solution>> {
    let (Some(sort), None) = (wanted.sort, wanted.hint) else {
        return Ok(None);
    };
    let Some(branches) = matcher.branches() else {
        return Ok(None);
    };
    if wanted.follows || branches.len() > MERGED_RANGES_MAX {
        return Ok(None);
    }
    let of_branch = Wanted {
        sort: Some(sort),
        ..wanted.of_branch()
    };
    let (mut inputs, mut ranges) = (Vec::new(), Vec::new());
    for branch in branches {
        interrupts::work(UNITS_OF_A_BRANCH)?;
        let mut bounds = FilterBounds::of_branch(
            branch,
            matcher.root(),
            matcher.collation(),
            &index_catalog.paths,
        );
        let mut best: Option<(Scored<'_>, bool)> = None;
        each_usable(
            collection,
            index_catalog,
            &mut bounds,
            &of_branch,
            |scored| {
                let is_better = best
                    .as_ref()
                    .is_none_or(|(best, _)| scored.score > best.score);
                if is_better
                    && scored.is_bounded()
                    && let Some(is_reversed) = scored.range_order(sort)
                {
                    best = Some((scored, is_reversed));
                }
            },
        )?;
        let Some((mut best, is_reversed)) = best else {
            return Ok(None);
        };
        best.order = Some(is_reversed);
        let scan = best.scan(&bounds, &of_branch).node;
        let Some(of_scan) = merged_ranges(&best, &scan, inputs.len(), is_reversed) else {
            return Ok(None);
        };
        ranges.extend(of_scan);
        if ranges.len() > MERGED_RANGES_MAX {
            return Ok(None);
        }
        inputs.push(*scan);
    }
    let is_of_branches = matches!(matcher.root(), MatchExpression::Or(_));
    let merge = Box::new(SortMerge::of_branches(inputs, ranges));
    Ok(Some(Solution {
        node: Box::new(Fetch::new(merge, !is_of_branches)),
        is_sorted: true,
        is_of_branches,
        is_covered: false,
        key: KeySource::Nothing,
    }))
}

/// The ranges of one index, merged.
pub fn merge_of_ranges(
    scored: &Scored<'_>,
    scan: Box<IndexScan>,
) -> Result<SortMerge, Box<IndexScan>> {
    let is_reversed = scored.order.unwrap_or(false);
    match merged_ranges(scored, &scan, 0, is_reversed) {
        Some(ranges) => Ok(SortMerge::of_ranges(*scan, ranges)),
        None => Err(scan),
    }
}

/// The ranges of an input; None if they do not begin with whole values.
fn merged_ranges(
    scored: &Scored<'_>,
    scan: &IndexScan,
    input: usize,
    is_reversed: bool,
) -> Option<Vec<MergedRange>> {
    let candidate = &scored.candidate;
    let equalities = scored.score.equalities;
    let directions: SmallVec<[Direction; 8]> = candidate
        .fields()
        .take(equalities)
        .map(|(_, direction)| direction)
        .collect();
    let prefix_bytes = candidate.index?.prefix.as_bytes().len();
    let ranges = scan.ranges().iter().map(|range| {
        let fields = range.start.get(prefix_bytes..)?;
        let constant = decode_prefix_len(fields, equalities, &directions).ok()?;
        let walk = RangeWalk::new(vec![range.clone()], is_reversed);
        Some(MergedRange::new(
            input,
            walk,
            is_reversed,
            prefix_bytes + constant,
        ))
    });
    ranges.collect()
}
