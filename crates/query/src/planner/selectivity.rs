//! Whether bounds that may leave nearly all of an index leave so little that reading it pays: `$ne`, `$nin`, `$not`, `$type` and
//! what is there at all. The keys within them are counted, up to a part of the collection's documents, which costs a
//! small part of what reading these does.

use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::wanted::Wanted;
use crate::error::Result;
use crate::plan::{Flow, PlanContext, RangeWalk};

/// Documents that are read one by one by their keys cost several times those of a scan.
const DOCUMENTS_A_KEY: u64 = 8;
/// So few keys are read however few documents there are.
const KEYS_MIN: u64 = 100;

/// Whether the bounds of a candidate leave few of the documents. Yes where there is no data to tell.
pub fn is_selective(
    scored: &Scored<'_>,
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<bool> {
    let Some(ground) = wanted.ground else {
        return Ok(true);
    };
    let context = PlanContext {
        snapshot: ground.snapshot,
        operation: ground.operation,
        parsed: ground.parsed,
        is_replay: false,
    };
    let keys_max = KEYS_MIN.max(ground.snapshot.documents()? / DOCUMENTS_A_KEY);
    let ranges = scored.scan_of_ranges(bounds, wanted).node.ranges().to_vec();
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
