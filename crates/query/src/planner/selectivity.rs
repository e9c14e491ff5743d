//! Whether bounds that may leave nearly all of an index leave so little that reading it pays: `$ne`, `$nin`, `$not`, `$type` and
//! what is there at all.
//!
//! A few keys within them are counted: where that is all, it pays. Where there are more and few results are wanted, a scan meets as many soon.
//! Where all are wanted, and the collection is not small, the engine's estimates tell which part of the index they are.
//! Keeps true: telling costs a small part of what is told about.

use quarry_database::{CollectionSnapshot, KeyRange};
use quarry_keystring::prefix_end;

use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::wanted::{Ground, Wanted};
use crate::error::Result;
use crate::interrupts;
use crate::plan::{Flow, PlanContext, RangeWalk};

/// Documents that are read one by one by their keys cost several times those of a scan.
const DOCUMENTS_A_KEY: u64 = 8;
/// So few keys pay however few documents there are.
const KEYS_MIN: u64 = 16;
const UNITS_OF_AN_ESTIMATE: usize = 100;
/// The keys that are counted at most.
const KEYS_MAX: u64 = 1000;

/// Whether the bounds of a candidate leave few of the documents. Yes where there is no data to tell.
pub fn is_selective(
    scored: &Scored<'_>,
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<bool> {
    let Some(ground) = wanted.ground else {
        return Ok(true);
    };
    let documents = ground.snapshot.documents()?;
    let ranges = scored.scan_of_ranges(bounds, wanted).node.ranges().to_vec();
    let paying = documents / DOCUMENTS_A_KEY;
    let limit = wanted.limit.map(|limit| limit.saturating_add(wanted.skip));
    let counted = match limit {
        // With more keys than that, a scan meets the wanted documents within as many.
        Some(limit) => documents.saturating_mul(limit).isqrt() / 2,
        None => KEYS_MAX,
    };
    let keys_max = counted.min(paying).max(KEYS_MIN);
    if has_at_most(keys_max, ranges.clone(), &ground)? {
        return Ok(true);
    }
    let is_undecided = limit.is_none() && keys_max < paying;
    Ok(is_undecided && is_small_part(&ranges, scored.candidate.prefix, ground.snapshot)?)
}

/// Whether the ranges have no more keys than that.
fn has_at_most(keys_max: u64, ranges: Vec<KeyRange>, ground: &Ground<'_>) -> Result<bool> {
    let context = PlanContext {
        snapshot: ground.snapshot,
        operation: ground.operation,
        parsed: ground.parsed,
        is_replay: false,
    };
    let mut keys = 0;
    let has_more = RangeWalk::new(ranges, false).walk(&context, false, |_| {
        keys += 1;
        match keys > keys_max {
            true => Ok(Flow::Stop),
            false => Ok(Flow::Continue),
        }
    })?;
    Ok(!has_more)
}

/// Whether the ranges are a small part of an index, as far as the engine knows without a look at it.
fn is_small_part(
    ranges: &[KeyRange],
    prefix: &[u8],
    snapshot: &CollectionSnapshot,
) -> Result<bool> {
    let whole = KeyRange::new(prefix.to_vec(), prefix_end(prefix));
    let mut within = 0_u64;
    for range in ranges {
        interrupts::work(UNITS_OF_AN_ESTIMATE)?;
        within += snapshot.size_estimate(range)?;
    }
    Ok(within.saturating_mul(DOCUMENTS_A_KEY) <= snapshot.size_estimate(&whole)?)
}
