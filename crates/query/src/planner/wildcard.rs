//! Plans over wildcard indexes: the keys of one path that the filter bounds, with the bounds of that path, or all of them where it is
//! only asked whether the path is there.
//!
//! Keeps true: an index is read only where each document that matches has a key within the ranges. There are no keys of what is missing, of whole documents and of whole arrays,
//! so that predicates which those may meet bound nothing here; a path that may name a position in an array has keys of another
//! path. The filter is asked of all that is found. The fields before the wildcard one must have single values by the filter. Leaves out: trials against other indexes (a wildcard index is read where no
//! other one is bounded), and documents made of keys.

use std::borrow::Cow;
use std::sync::Arc;

use quarry_bson::{RawValue, doc};
use quarry_database::{Index, IndexCatalog, KeyRange, meeting_cut_keys};
use quarry_keystring::{Direction, TypeBits, prefix_end};
use smallvec::SmallVec;

use super::bounds;
use super::conjuncts::{Asked, Conjuncts, Question};
use super::filter_bounds::{Bound, Bounds, FilterBounds};
use super::interval::Interval;
use super::key_ranges::{apart, compose};
use super::texts::Texts;
use super::tree::Solution;
use super::wanted::{Ground, Wanted};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::may_name_positions;
use crate::interrupts;
use crate::matcher::{MatchExpression, Predicate};
use crate::metadata::MetadataKinds;
use crate::plan::{Covered, Fetch, IndexAccess, IndexScan, KeySource, KeyedEntries, Node};
use crate::wildcard_index::{ARRAY_MARK, WildcardKeys};
use crate::{Collation, encode_collated};

/// The work of looking at an index for one predicate.
const UNITS_OF_A_LOOK: usize = 20;

/// Predicates that are looked at: each says enough by itself, and a request may have very many of them.
const PREDICATES_MAX: usize = 200;

/// The name that explain gives the path of a key, as MongoDB does.
pub const PATH_FIELD: &str = "$_path";

/// How well the keys of a path serve; better is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Exists,
    Range,
    Points,
    Point,
}

/// A path of an index that the filter bounds.
struct Candidate<'c, 'm> {
    index: &'c Index,
    keys: &'c WildcardKeys,
    path: Cow<'m, str>,
    /// The bounds of the fields before the wildcard one.
    before: SmallVec<[Bound; 4]>,
    /// None where any value will do, and any below the path.
    intervals: Option<Vec<Interval<'m>>>,
    is_multikey: bool,
    shape: Shape,
}

/// The plan of a filter over the best wildcard index, if one serves it. Fails where the hint names one that does not.
pub fn solution<'m>(
    index_catalog: &IndexCatalog,
    filter: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    wanted: &Wanted<'_>,
) -> Result<Option<Solution>> {
    if wanted.follows {
        return Ok(None);
    }
    let is_hinted = |hint: RawValue<'_>| {
        let mut wildcards = index_catalog.indexes.iter().filter(|index| usable(index));
        wildcards.any(|index| index.is_meant(hint))
    };
    let best = match wanted.hint {
        Some(hint) if !is_hinted(hint) => return Ok(None),
        _ => best(index_catalog, filter, bounds, wanted)?,
    };
    let Some(best) = best else {
        return match wanted.hint {
            None => Ok(None),
            Some(_) => Err(Error::new(
                ErrorCode::NO_QUERY_EXECUTION_PLANS,
                "error processing query: planner returned error :: caused by :: the wildcard index of the hint does not serve the query",
            )),
        };
    };
    let order = best.order(wanted, bounds.collation());
    let scan = best.scan(bounds, wanted, order.unwrap_or(false));
    let asks_filter = true;
    let (node, key): (Node, KeySource) = match wanted.metadata.has(MetadataKinds::INDEX_KEY) {
        true => (
            scan.giving_keys(KeyedEntries::new()),
            KeySource::Rows { asks_filter },
        ),
        false => (Box::new(Fetch::new(scan, asks_filter)), KeySource::Nothing),
    };
    Ok(Some(Solution {
        node,
        is_sorted: wanted.sort.is_none() || order.is_some(),
        is_of_branches: false,
        covered: Covered::No,
        key,
    }))
}

/// The scan of a branch of an `$or`, if a wildcard index serves it.
pub fn scan_of_branch<'m>(
    index_catalog: &IndexCatalog,
    branch: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    wanted: &Wanted<'_>,
) -> Result<Option<IndexScan>> {
    let best = best(index_catalog, branch, bounds, wanted)?;
    Ok(best.map(|best| *best.scan(bounds, wanted, false)))
}

fn usable(index: &Index) -> bool {
    !index.building && !index.hidden && !index.is_outdated() && WildcardKeys::of(index).is_some()
}

/// The path and the index whose keys serve the filter best; the first one of equals.
fn best<'c, 'm>(
    index_catalog: &'c IndexCatalog,
    filter: &'m MatchExpression,
    bounds: &mut FilterBounds<'m>,
    wanted: &Wanted<'_>,
) -> Result<Option<Candidate<'c, 'm>>> {
    let mut predicates = Conjuncts::of(filter).asked;
    predicates.truncate(PREDICATES_MAX);
    let mut best: Option<Candidate<'c, 'm>> = None;
    for (position, index) in index_catalog.indexes.iter().enumerate() {
        let Some(keys) = WildcardKeys::of(index).filter(|_| usable(index)) else {
            continue;
        };
        if !wanted.allows(index) {
            continue;
        }
        let is_meant = match wanted.hint {
            Some(hint) => index.is_meant(hint),
            None => {
                let partial = index.filter.as_deref();
                partial.is_none_or(|partial| bounds.imply(partial))
            }
        };
        if !is_meant {
            continue;
        }
        let numbers = index_catalog.paths.of_index(position);
        let Some(before) = fields_before(index, keys, numbers, bounds) else {
            continue;
        };
        for (path, _) in &predicates {
            interrupts::work(UNITS_OF_A_LOOK + predicates.len())?;
            let held = best.as_ref().map(|best| best.shape);
            if held == Some(Shape::Point) || may_name_positions(path) || !keys.keeps(path) {
                continue;
            }
            let kept = KeptPath::of(index, keys, path, wanted.ground.as_ref());
            let texts = Texts::of(&index.collation, bounds.collation());
            if let Some((shape, intervals, is_multikey)) = kept.bounds(&predicates, texts)?
                && held.is_none_or(|held| shape > held)
            {
                best = Some(Candidate {
                    index,
                    keys,
                    path: path.clone(),
                    before: before.clone(),
                    intervals,
                    is_multikey,
                    shape,
                });
            }
        }
    }
    Ok(best)
}

/// The bounds of the fields before the wildcard one; None unless the filter says single values of all of them.
fn fields_before(
    index: &Index,
    keys: &WildcardKeys,
    numbers: &[u16],
    bounds: &mut FilterBounds<'_>,
) -> Option<SmallVec<[Bound; 4]>> {
    let fields = index.pattern.fields.iter().zip(numbers).enumerate();
    let multikey = index.multikey_components();
    let before = fields.take(keys.place()).map(|(number, (field, path))| {
        let is_multikey = multikey & (1 << number) != 0;
        let bound = bounds.of(*path, &field.path, is_multikey, &index.collation)?;
        bounds.get(bound).are_points().then_some(bound)
    });
    before.collect()
}

/// A path of an index, to be bounded.
struct KeptPath<'f> {
    index: &'f Index,
    keys: &'f WildcardKeys,
    path: &'f str,
    ground: Option<&'f Ground<'f>>,
}

/// The bounds of a path: how well they serve, the intervals, and whether one document may have several keys there.
type Bounded<'m> = (Shape, Option<Vec<Interval<'m>>>, bool);

impl<'f> KeptPath<'f> {
    fn of(
        index: &'f Index,
        keys: &'f WildcardKeys,
        path: &'f str,
        ground: Option<&'f Ground<'f>>,
    ) -> KeptPath<'f> {
        KeptPath {
            index,
            keys,
            path,
            ground,
        }
    }

    fn bounds<'m>(
        &self,
        predicates: &[(Cow<'m, str>, Asked<'m>)],
        texts: Texts<'_>,
    ) -> Result<Option<Bounded<'m>>> {
        let of_path = || {
            let predicates = predicates
                .iter()
                .filter(|(path, _)| path.as_ref() == self.path);
            predicates.map(|(_, asked)| *asked)
        };
        let serving = || of_path().filter(|asked| serves(asked.question));
        if serving().next().is_none() {
            let exists =
                of_path().any(|asked| matches!(asked.question, Question::Meets(Predicate::Exists)));
            return Ok(exists.then_some((Shape::Exists, None, true)));
        }
        let is_multikey = self.may_have_arrays()?;
        let bounded = bounds::of_path(serving(), self.path, is_multikey, texts);
        let Some(intervals) = bounded.intervals else {
            return Ok(None);
        };
        let are_points = intervals.iter().all(|interval| interval.is_point);
        let shape = match (are_points, intervals.len()) {
            (true, 0 | 1) => Shape::Point,
            (true, _) => Shape::Points,
            (false, _) => Shape::Range,
        };
        Ok(Some((shape, Some(intervals), is_multikey)))
    }

    /// Whether a document may have an array at the path or on the way to it: whether one has a key that says so.
    fn may_have_arrays(&self) -> Result<bool> {
        let place = self.keys.place();
        if self.index.multikey_components() & (1 << place) == 0 {
            return Ok(false);
        }
        let Some(ground) = self.ground else {
            return Ok(true);
        };
        let dots = self.path.match_indices('.').map(|(dot, _)| dot);
        for end in dots.chain([self.path.len()]) {
            interrupts::work(UNITS_OF_A_LOOK)?;
            let range = self.array_keys(&self.path[..end]);
            let mut cursor = ground.snapshot.cursor(range.clone())?;
            crate::exec::stored(cursor.seek(&range.start))?;
            if cursor.valid() && cursor.key() < range.end.as_slice() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys that say that there is an array at a path. Where the index has a collation, they also tell of paths that are equal by it, so
    /// that a path may be taken for one with arrays.
    fn array_keys(&self, path: &str) -> KeyRange {
        let mut start = self.index.prefix.as_bytes().to_vec();
        let path = RawValue::from(path);
        let before = self.index.pattern.fields.iter().take(self.keys.place());
        let wildcard = &self.index.pattern.fields[self.keys.place()];
        let before = before.map(|field| (RawValue::MinKey, field.direction));
        let marked = [
            (ARRAY_MARK, Direction::Ascending),
            (path, wildcard.direction),
        ];
        for (value, direction) in before.chain(marked) {
            let (collation, bits) = (&self.index.collation, &mut TypeBits::new());
            encode_collated(collation, &mut start, bits, value, direction);
        }
        let end = prefix_end(&start);
        meeting_cut_keys(KeyRange::new(start, end))
    }
}

/// Whether all that meets a predicate has a key that its bounds hold: not what is missing, and no whole documents and arrays.
fn serves(question: Question<'_>) -> bool {
    let Question::Meets(predicate) = question else {
        return false;
    };
    let has_keys = |value: RawValue<'_>| {
        !matches!(
            value,
            RawValue::Document(_) | RawValue::Array(_) | RawValue::Null | RawValue::Undefined
        )
    };
    match predicate {
        Predicate::Compare { value, .. } => has_keys(value.as_raw()),
        Predicate::In(list) => {
            !list.has_null() && list.values().iter().all(|value| has_keys(value.as_raw()))
        }
        Predicate::Regex(_) => true,
        _ => false,
    }
}

impl Candidate<'_, '_> {
    fn direction(&self) -> Direction {
        self.index.pattern.fields[self.keys.place()].direction
    }

    /// Whether the keys of the path are in the wanted order, by the collation asked for, and if so whether from behind.
    fn order(&self, wanted: &Wanted<'_>, collation: &Collation) -> Option<bool> {
        let [asked] = wanted.sort?.fields() else {
            return None;
        };
        let gives_order = self.intervals.is_some()
            && self.before.is_empty()
            && !self.is_multikey
            && !self.index.has_cut_keys()
            && self.index.collation == *collation
            && asked.path.as_str() == self.path;
        gives_order.then(|| asked.direction != self.direction())
    }

    fn scan(
        &self,
        bounds: &FilterBounds<'_>,
        wanted: &Wanted<'_>,
        is_reversed: bool,
    ) -> Box<IndexScan> {
        let below = format!("{}.", self.path);
        let path = Interval::point(RawValue::from(self.path.as_ref()));
        let paths = match &self.intervals {
            Some(_) => vec![path],
            None => vec![path, Interval::text_prefix(&below)],
        };
        let mut bounded: SmallVec<[(Bounds<'_, '_>, Direction); 6]> = self
            .before
            .iter()
            .zip(&self.index.pattern.fields)
            .map(|(bound, field)| (bounds.get(*bound), field.direction))
            .collect();
        bounded.push((Bounds::Intervals(&paths), Direction::Ascending));
        if let Some(intervals) = &self.intervals {
            bounded.push((Bounds::Intervals(intervals), self.direction()));
        }
        let ranges = compose(self.index.prefix.as_bytes(), &bounded);
        let ranges = apart(ranges.into_iter().map(meeting_cut_keys));
        let texts = match wanted.shows_bounds {
            true => self.texts(&paths, &bounded, is_reversed),
            false => Vec::new(),
        };
        Box::new(IndexScan::new(
            self.access(texts),
            ranges,
            is_reversed,
            false,
        ))
    }

    /// The index as the one of the path that it stands for.
    fn access(&self, bounds: Vec<(String, Vec<String>)>) -> IndexAccess {
        let mut pattern = doc! {};
        for (number, element) in self.index.pattern.document.iter().enumerate() {
            if number == self.keys.place() {
                pattern.append(PATH_FIELD, 1);
                pattern.append(self.path.as_ref(), element.value());
            } else {
                let name = element.name().to_string_lossy();
                pattern.append(name.as_ref(), element.value());
            }
        }
        IndexAccess {
            name: Arc::clone(&self.index.name),
            ident: self.index.ident,
            is_of_records: false,
            pattern: Arc::new(pattern),
            is_multikey: self.is_multikey,
            is_unique: false,
            is_sparse: true,
            collation: self.index.collation.specification().cloned(),
            is_partial: self.index.filter.is_some(),
            bounds,
        }
    }

    /// The bounds of every field, as explain prints them.
    fn texts(
        &self,
        paths: &[Interval<'_>],
        bounded: &[(Bounds<'_, '_>, Direction)],
        is_reversed: bool,
    ) -> Vec<(String, Vec<String>)> {
        let shown = |intervals: &[Interval<'_>], direction: Direction| {
            let turns = (direction == Direction::Descending) != is_reversed;
            let mut texts: Vec<String> = intervals.iter().map(|one| one.text(turns)).collect();
            if turns {
                texts.reverse();
            }
            texts
        };
        let all = [Interval::all()];
        let mut texts = Vec::new();
        for (number, field) in self.index.pattern.fields.iter().enumerate() {
            if number == self.keys.place() {
                let paths = shown(paths, Direction::Ascending);
                texts.push((PATH_FIELD.to_owned(), paths));
                let intervals = self.intervals.as_deref().unwrap_or(&all);
                texts.push((self.path.to_string(), shown(intervals, field.direction)));
                continue;
            }
            let intervals = match bounded.get(number).filter(|_| number < self.keys.place()) {
                Some((bounds, _)) => bounds.to_intervals(),
                None => all.to_vec(),
            };
            texts.push((field.path.clone(), shown(&intervals, field.direction)));
        }
        texts
    }
}
