//! The candidates that are of use for a query, and the best of them by the shape of its bounds.

use quarry_database::{Collection, IndexCatalog};

use super::candidate::candidates;
use super::filter_bounds::FilterBounds;
use super::hints::no_such_hint;
use super::scored::Scored;
use super::wanted::Wanted;
use crate::error::Result;

/// The work of planning a branch of an `$or`.
pub const UNITS_OF_A_BRANCH: usize = 100;

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
pub struct Best<'c> {
    /// The first of the best candidates that are of use.
    pub scored: Option<Scored<'c>>,
    /// The shapes of the bounds do not tell that it is the best.
    pub is_contested: bool,
}

/// Finds the best candidate by the shape of its bounds.
pub fn best<'c>(
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

/// Finds the best candidate, by the shape of its bounds, among those that `accepts` takes.
pub fn best_where<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
    accepts: impl Fn(&Scored<'c>) -> bool,
) -> Result<Option<Scored<'c>>> {
    let mut best: Option<Scored<'c>> = None;
    each_usable(collection, index_catalog, bounds, wanted, |scored| {
        let is_better = best.as_ref().is_none_or(|best| scored.score > best.score);
        if is_better && accepts(&scored) {
            best = Some(scored);
        }
    })?;
    Ok(best)
}

/// Scores the candidates and hands over those that are of use, in the order of the indexes.
#[inline]
fn each_usable<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
    mut take: impl FnMut(Scored<'c>),
) -> Result<()> {
    let is_by_filter = wanted.hint.is_none() && wanted.sort.is_none();
    let mut is_hint_known = false;
    let all = candidates(collection, index_catalog, bounds.collation());
    // `for_each`, because a chain's `next` asks on every step which of its halves is left: most indexes cost less to look at.
    all.for_each(|candidate| {
        let is_mentioned = !is_by_filter || bounds.mention(candidate.paths[0]);
        if !is_mentioned || !candidate.is_allowed(wanted) {
            return;
        }
        if let Some(hint) = wanted.hint {
            if !candidate.is_meant(hint) {
                return;
            }
            is_hint_known = true;
        } else if candidate.leaves_out(bounds) {
            return;
        }
        let scored = Scored::of(candidate, bounds, collection.is_clustered(), wanted);
        let is_usable = wanted.hint.is_some()
            || (!scored.leaves_out_missing(bounds)
                && (scored.is_bounded() || scored.score.gives_order));
        if is_usable {
            take(scored);
        }
    });
    if let Some(hint) = wanted.hint
        && !is_hint_known
    {
        return Err(no_such_hint(index_catalog, hint));
    }
    Ok(())
}
