//! The choice between the indexes of a collection, by the shape of the bounds that a filter gives them: a whole
//! unique key, then more fields of equality, then a range, then an order that is asked for; else the collection. Where
//! two indexes do different things for the query, `contest` tries them.

use std::cmp::Reverse;

use quarry_bson::RawDocument;
use quarry_database::{Collection, Ident, IndexCatalog};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::branches::{Branches, branch_scan, branches};
use super::contender::Contender;
use super::contest::{contenders, decide, remembered};
use super::filter_bounds::FilterBounds;
use super::geo;
use super::hints::{is_wildcards, natural_hint};
use super::scored::Scored;
use super::selectivity::is_selective;
use super::text;
use super::tree::{Solution, above};
use super::tried::Tried;
use super::usable::{UNITS_OF_A_BRANCH, best, usable};
use super::wanted::Wanted;
use super::wildcard;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::matcher::Matcher;
use crate::plan::{CollectionScan, Covered, KeySource, Leaf, NoRows, Node, PlanNode};
use crate::sort::SortPattern;

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
    let solution = by_indexes((collection, index_catalog), matcher, &mut bounds, &wanted)?;
    let solution = match solution {
        Some(solution) => solution,
        None => whole_or_nothing(collection, matcher, &wanted)?,
    };
    // Bounds were cut short where the operation is to end.
    interrupts::work(1)?;
    Ok(above(solution, &wanted))
}

/// The plan by the best index, or by an index for each branch of an `$or`; None if the collection is to be read.
fn by_indexes<'m>(
    (collection, index_catalog): (&Collection, &IndexCatalog),
    matcher: &'m Matcher,
    bounds: &mut FilterBounds<'m>,
    wanted: &Wanted<'_>,
) -> Result<Option<Solution>> {
    let found = best(collection, index_catalog, bounds, wanted)?;
    let is_bounded = found.scored.as_ref().is_some_and(Scored::is_bounded);
    let by_wildcard = |bounds: &mut FilterBounds<'m>| match index_catalog.has_special {
        true if wanted.hint.is_none() => {
            wildcard::solution(index_catalog, matcher.root(), bounds, wanted)
        }
        _ => Ok(None),
    };
    if !is_bounded && let Some(solution) = by_wildcard(&mut *bounds)? {
        return Ok(Some(solution));
    }
    let is_sure = |best: &Scored<'_>| best.score.is_whole_unique_key;
    let branches = match found.scored.as_ref().is_some_and(is_sure) {
        true => None,
        false => branches(collection, index_catalog, matcher, wanted)?,
    };
    let (best, branches) = match (found.scored, branches) {
        (best @ None, branches) => (best, branches),
        (best, None) if !found.is_contested => (best, None),
        (_, branches) => {
            let of_both = (&mut *bounds, branches);
            let mut ranked = contenders(collection, index_catalog, of_both, wanted)?;
            decide(index_catalog, &mut ranked, bounds, wanted)?;
            winner(ranked)
        }
    };
    let best = worthwhile(best, bounds, wanted)?;
    if is_bounded
        && branches.is_none()
        && !best.as_ref().is_some_and(Scored::is_bounded)
        && let Some(solution) = by_wildcard(&mut *bounds)?
    {
        return Ok(Some(solution));
    }
    Ok(match best {
        _ if wanted.follows => None,
        Some(best) => Some(best.solution(bounds, collection, wanted)),
        None => branches.map(|branches| branches.solution(wanted)),
    })
}

/// The index that comes before all other plans, if one does, and the plan by branches, if there is one.
fn winner(ranked: Vec<Contender<'_>>) -> (Option<Scored<'_>>, Option<Branches>) {
    let (mut best, mut branches) = (None, None);
    for (place, contender) in ranked.into_iter().enumerate() {
        match contender {
            Contender::Index(index) if place == 0 => best = Some(*index),
            Contender::Index(_) => {}
            Contender::Branches(of_or) => branches = Some(*of_or),
        }
    }
    (best, branches)
}

/// The best candidate, unless it leaves too much of the collection.
#[inline]
fn worthwhile<'c>(
    scored: Option<Scored<'c>>,
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Option<Scored<'c>>> {
    match scored {
        Some(weak) if weak.is_weak() && !weak.does_more() && wanted.hint.is_none() => {
            let is_worthwhile = is_selective(&weak, bounds, wanted)?;
            Ok(is_worthwhile.then_some(weak))
        }
        other => Ok(other),
    }
}

/// The plan of a filter with a search for words, of which there is one at most.
#[cold]
fn with_text(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Node> {
    let of_branch = wanted.of_branch();
    let solution = text::solution(
        collection,
        index_catalog,
        matcher,
        &|branch, bounds| branch_scan(collection, index_catalog, branch, bounds, &of_branch),
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
        rejected = others((collection, index_catalog), matcher, &*winning, &wanted)?;
    }
    Ok(Choice {
        rejected,
        ..Choice::of(winning)
    })
}

/// The plans that were not chosen: by the other indexes, the better ones first, and by the branches of an `$or`.
fn others(
    (collection, index_catalog): (&Collection, &IndexCatalog),
    matcher: &Matcher,
    winning: &dyn PlanNode,
    wanted: &Wanted<'_>,
) -> Result<Vec<Node>> {
    let mut bounds = FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths);
    let mut usable = usable(collection, index_catalog, &mut bounds, wanted)?;
    usable.sort_by_key(|scored| Reverse(scored.score));
    let branches = branches(collection, index_catalog, matcher, wanted)?;
    let read = indexes(winning);
    let is_by_branches = branches.is_some() && read.len() > 1;
    if !is_by_branches {
        let chosen = usable
            .iter()
            .position(|scored| read.as_slice() == [scored.ident()]);
        // Where no index was chosen, the best one alone has had its turn.
        let chosen = chosen.unwrap_or(0);
        if chosen < usable.len() {
            usable.remove(chosen);
        }
    }
    let mut others = Vec::new();
    if let Some(branches) = branches.filter(|_| !is_by_branches) {
        others.push(above(branches.solution(wanted), wanted));
    }
    for other in usable {
        interrupts::work(UNITS_OF_A_BRANCH)?;
        others.push(above(other.solution(&bounds, collection, wanted), wanted));
    }
    Ok(others)
}

/// The indexes that a plan reads, one for each of its leaves that reads one.
fn indexes(root: &dyn PlanNode) -> SmallVec<[Ident; 4]> {
    let mut idents = SmallVec::new();
    root.leaves(&mut |leaf| {
        if let Leaf::Index(access) | Leaf::Count(access) | Leaf::Distinct(access) = leaf {
            idents.push(access.ident);
        }
    });
    idents
}

/// The scan that a natural order asks for, of the sort or of the hint.
fn natural(collection: &Collection, wanted: &Wanted<'_>) -> Result<Option<Solution>> {
    let of_sort = wanted.sort.and_then(SortPattern::natural);
    if let Some(direction) = of_sort {
        match natural_hint(wanted.hint)? {
            Some(hinted) if hinted != direction => {
                let text = "$natural hint must be in the same direction as $natural sort order";
                return Err(Error::bad_value(text));
            }
            None if wanted.hint.is_some() => {
                let text = "index hint not allowed with $natural sort order";
                return Err(Error::bad_value(text));
            }
            _ => {}
        }
        return whole(collection, direction, true, wanted).map(Some);
    }
    match natural_hint(wanted.hint)? {
        Some(direction) => whole(collection, direction, wanted.sort.is_none(), wanted).map(Some),
        None => Ok(None),
    }
}

/// The plan where no index serves: the whole collection, unless nothing matches.
fn whole_or_nothing(
    collection: &Collection,
    matcher: &Matcher,
    wanted: &Wanted<'_>,
) -> Result<Solution> {
    if !wanted.follows && matcher.root().matches_nothing() {
        return Ok(Solution {
            node: Box::new(NoRows::EOF),
            is_sorted: true,
            is_of_branches: false,
            covered: Covered::No,
            key: KeySource::Nothing,
        });
    }
    let is_sorted = wanted.sort.is_none();
    whole(collection, Direction::Ascending, is_sorted, wanted)
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
            let contenders = contenders(collection, index_catalog, (&mut bounds, None), &wanted);
            let mut contenders = contenders.ok()?;
            if !remembered(index_catalog, &mut contenders, &wanted) {
                return None;
            }
            match contenders.into_iter().next()? {
                Contender::Index(best) => *best,
                Contender::Branches(_) => return None,
            }
        }
    };
    let scan = best.scan(&bounds, &wanted);
    let is_clustered = collection.is_clustered();
    (scan.answers).then(|| above(best.access(scan, is_clustered, &wanted), &wanted))
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
        covered: Covered::No,
        key: KeySource::Nothing,
    })
}
