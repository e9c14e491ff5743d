//! The plan of a `distinct` whose values stand in an index: one key is read for each of them. So is the plan of a `$group` that takes the
//! first document of each value in an order that the index gives.

use quarry_database::{Collection, IndexCatalog};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::candidate::{Bounded, Candidate, FieldBounds, candidates};
use super::filter_bounds::{Bound, Bounds, FilterBounds};
use super::hints::natural_hint;
use super::key_ranges::are_combined;
use super::wanted::Wanted;
use crate::error::Result;
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::plan::{DistinctScan, KeyDocument, Node};
use crate::sort::SortPattern;

/// The value of a document that does not have the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It has none, and the elements of an array are its values: what `distinct` asks for.
    IsNone,
    /// It is null, and an array is one value: what `$group` asks for.
    Counts,
}

/// Chooses an index that has all values at `path` of the documents that match: the one with the most fields of equality before
/// the path; None if there is none. Where an order is wanted, the index has to give it, and the document of the first key of each value
/// is given.
pub fn choose_distinct(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    (path, missing): (&FieldPath, Missing),
    wanted: Wanted<'_>,
) -> Result<Option<Node>> {
    if natural_hint(wanted.hint)?.is_some() {
        return Ok(None);
    }
    let mut bounds = FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths);
    let mut best: Option<(usize, Candidate<'_>, Bounded)> = None;
    for candidate in candidates(collection, index_catalog, matcher.collation()) {
        if !candidate.is_allowed(&wanted)
            || wanted.hint.is_some_and(|hint| !candidate.is_meant(hint))
        {
            continue;
        }
        if candidate.hashed.is_some() || (wanted.hint.is_none() && candidate.leaves_out(&bounds)) {
            continue;
        }
        if missing == Missing::Counts && !candidate.tells_missing() {
            continue;
        }
        let Some((place, bounded)) = usable(&candidate, path, &mut bounds) else {
            continue;
        };
        if let Some(sort) = wanted.sort
            && !gives_firsts(&candidate, (place, &bounded), sort, &bounds)
        {
            continue;
        }
        if best.as_ref().is_none_or(|(known, ..)| place > *known) {
            best = Some((place, candidate, bounded));
        }
    }
    let Some((place, candidate, bounded)) = best else {
        return Ok(None);
    };
    let bounded: SmallVec<[(Bounds<'_, '_>, Direction); 10]> = bounded
        .iter()
        .zip(candidate.fields())
        .map(|(bound, (_, direction))| (bounds.get(*bound), direction))
        .collect();
    let (ranges, are_exact) = candidate.ranges(&bounded);
    if !are_exact || !are_combined(&bounded) {
        return Ok(None);
    }
    let is_clustered = collection.is_clustered();
    let of_key = |index| KeyDocument::of(index, is_clustered, [path.as_str()].into_iter());
    let document = match (wanted.sort, candidate.index.and_then(of_key)) {
        // What is taken of the first document is not in its key.
        (Some(_), _) => None,
        (None, Some(document)) => Some(document),
        (None, None) => return Ok(None),
    };
    let texts = match wanted.shows_bounds {
        true => candidate.texts(
            |number| bounded.get(number).map(|(bounds, _)| *bounds),
            false,
        ),
        false => Vec::new(),
    };
    let directions = candidate.fields().take(place + 1);
    let directions = directions.map(|(_, direction)| direction).collect();
    let access = candidate.access(texts);
    let scan = DistinctScan::new(access, ranges, directions, document, path.clone());
    Ok(Some(Box::new(scan)))
}

/// The number of the path among the index's fields, and the bounds, if the keys within them have just the values that are asked
/// for: behind fields that the filter says one value of, or several, and with nothing of the filter left to ask.
fn usable(
    candidate: &Candidate<'_>,
    path: &FieldPath,
    bounds: &mut FilterBounds<'_>,
) -> Option<(usize, Bounded)> {
    // Values are not to be had from sort keys.
    if !candidate.index?.collation.is_simple() {
        return None;
    }
    let place = candidate
        .fields()
        .position(|(field, _)| field == path.as_str())?;
    let FieldBounds {
        leading: bounded,
        equalities,
        ..
    } = candidate.bound(bounds);
    // A filter of elements finds documents that have other elements, too.
    let may_have_others = candidate.multikey != 0 && (place > 0 || !bounded.is_empty());
    let is_usable = equalities >= place
        && bounded.len() <= place + 1
        && bounds.are_all(&bounded)
        && !candidate.has_cut_keys
        && !may_have_others;
    is_usable.then_some((place, bounded))
}

/// Whether the first of the keys with each value at that place is the one of the first document of that value in the order.
fn gives_firsts(
    candidate: &Candidate<'_>,
    (place, bounded): (usize, &Bounded),
    sort: &SortPattern,
    bounds: &FilterBounds<'_>,
) -> bool {
    let is_single = |bound: &Bound| bounds.get(*bound).intervals_len() <= 1;
    let keys = candidate.fields().skip(place);
    let mut pairs = sort.fields().iter().zip(keys);
    !sort.fields().is_empty()
        && candidate.tells_missing()
        && bounded.iter().take(place).all(is_single)
        && sort.fields().len() <= candidate.fields_len() - place
        && pairs.all(|(field, (path, direction))| {
            field.path.as_str() == path && field.direction == direction
        })
}
