//! The choice between the indexes of a collection, by the shape of the bounds that a filter gives them: a whole
//! unique key, then more fields of equality, then a range, then an order that is asked for; else the collection. Where
//! two indexes do different things for the query, `contest` tries them.

use std::cmp::Reverse;

use quarry_bson::RawDocument;
use quarry_database::{Collection, Ident, IndexCatalog};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::contest::{contenders, decide, remembered};
use super::filter_bounds::FilterBounds;
use super::geo;
use super::hints::{is_wildcards, natural_hint};
use super::merged::merge_of_branches;
use super::scored::Scored;
use super::selectivity::is_selective;
use super::text;
use super::tree::{Solution, above};
use super::tried::Tried;
use super::union::{branch_scan, union};
use super::usable::{UNITS_OF_A_BRANCH, best, usable};
use super::wanted::Wanted;
use super::wildcard;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::matcher::Matcher;
use crate::plan::{CollectionScan, KeySource, Leaf, NoRows, Node, PlanNode};
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
    let found = best(collection, index_catalog, &mut bounds, &wanted)?;
    let best = match found.is_contested {
        false => found.scored,
        true => {
            let contenders = contenders(collection, index_catalog, &mut bounds, &wanted)?;
            decide(index_catalog, contenders, &bounds, &wanted)?
        }
    };
    let best = worthwhile(best, &bounds, &wanted)?;
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
