//! Orders that an index gives in each of several ranges, and that the branches of an `$or` give one by one: their ranges are
//! merged.

use quarry_keystring::{Direction, decode_prefix_len};
use smallvec::SmallVec;

use super::candidate::RangeOrder;
use super::scored::Scored;
use crate::plan::{IndexScan, MayRepeat, MergedRange, RangeWalk, SortMerge};

/// The ranges of one index, merged.
pub fn merge_of_ranges(
    scored: &Scored<'_>,
    scan: Box<IndexScan>,
) -> Result<SortMerge, Box<IndexScan>> {
    let ranges = (scored.merged).and_then(|order| merged_ranges(scored, &scan, 0, order));
    match ranges {
        Some(ranges) => Ok(SortMerge::of_ranges(*scan, ranges)),
        None => Err(scan),
    }
}

/// The ranges of an input; None if they do not begin with whole values.
pub fn merged_ranges(
    scored: &Scored<'_>,
    scan: &IndexScan,
    input: usize,
    order: RangeOrder,
) -> Option<Vec<MergedRange>> {
    let candidate = &scored.candidate;
    let RangeOrder {
        is_reversed,
        passed_over,
    } = order;
    let directions: SmallVec<[Direction; 8]> = candidate
        .fields()
        .take(passed_over)
        .map(|(_, direction)| direction)
        .collect();
    let may_repeat = match candidate.multikey {
        0 => MayRepeat::Never,
        // Where the values of the fields that are passed over alone come from arrays, the keys of one record are the same behind them, but for
        // a unique index, whose keys do not name records.
        arrays if arrays >> passed_over == 0 && !candidate.is_unique => MayRepeat::InARow,
        _ => MayRepeat::Anywhere,
    };
    let prefix_bytes = candidate.index?.prefix.as_bytes().len();
    let ranges = scan.ranges().iter().map(|range| {
        let fields = range.start.get(prefix_bytes..)?;
        let constant = decode_prefix_len(fields, passed_over, &directions).ok()?;
        let walk = RangeWalk::new(vec![range.clone()], is_reversed);
        let constant_bytes = prefix_bytes + constant;
        Some(MergedRange::new(input, walk, constant_bytes, may_repeat))
    });
    ranges.collect()
}
