//! Bounds of the paths that a collection's indexes name: intervals, made when a candidate first asks
//! for a path and kept for the others, by the path's number.

use quarry_bson::{RawDocument, RawValue};
use quarry_database::{DocumentFilter, PathNumbers, holds_text};
use smallvec::SmallVec;

use super::bounds::{self, PathBounds};
use super::conjuncts::{Asked, Conjuncts, Element, Question};
use super::implication::implies;
use super::interval::{Interval, UNITS_OF_AN_INTERVAL};
use super::texts::Texts;
use crate::Collation;
use crate::field_path::may_name_positions;
use crate::hashed_index::hashes_of_equal;
use crate::interrupts;
use crate::matcher::{MatchExpression, Predicate};
use crate::partial_filter::PartialFilter;

/// The intervals of each path that a candidate asked for: candidates share fields.
pub struct FilterBounds<'m> {
    /// The filter, unless it was never parsed.
    filter: Option<&'m MatchExpression>,
    /// The whole filter, where `filter` is a branch of it.
    around: Option<&'m MatchExpression>,
    /// The filter says more than predicates of paths that indexes name.
    says_more: bool,
    /// With the numbers of their paths; what no index names is left out, and so are the points.
    conjuncts: SmallVec<[(u16, Asked<'m>); 12]>,
    /// How many of these the filter itself asks; the others stand beside a branch.
    own_len: usize,
    /// The values that paths are equal to, where a path has no other predicate.
    points: SmallVec<[RawValue<'m>; 12]>,
    /// By the number of a path, what is known of it where no arrays are on it.
    paths: SmallVec<[PathState; 64]>,
    known: SmallVec<[Known<'m>; 12]>,
    /// How the filter compares strings.
    collation: &'m Collation,
}

#[derive(Clone, Copy)]
enum PathState {
    NotAsked,
    /// There is a predicate of it.
    Asked,
    /// Its place in `known`, for indexes that keep texts as the filter compares them.
    Known(u16),
    /// Its place in `points`.
    Point(u16),
}

/// The bound of a path: the place of its value, or of its intervals.
#[derive(Clone, Copy)]
pub enum Bound {
    Point(u16),
    Intervals(u16),
}

/// The bound of a path, looked up.
#[derive(Clone, Copy)]
pub enum Bounds<'b, 'm> {
    Point(RawValue<'m>),
    Intervals(&'b [Interval<'m>]),
}

/// The form in which an index keeps the values at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As they are.
    Values,
    /// The elements of arrays, one by one.
    Elements,
    /// Their hashes.
    Hashed,
}

impl Form {
    fn of_values(is_multikey: bool) -> Form {
        match is_multikey {
            true => Form::Elements,
            false => Form::Values,
        }
    }
}

/// The known bounds of one path in one form; None if it is not bounded.
struct Known<'m> {
    path: u16,
    form: Form,
    /// For indexes that keep texts as the filter compares them.
    is_alike: bool,
    /// For indexes that keep the strings themselves.
    keeps_bytes: bool,
    bounds: PathBounds<'m>,
}

impl<'m> FilterBounds<'m> {
    pub fn new(
        filter: &'m MatchExpression,
        collation: &'m Collation,
        paths: &PathNumbers,
    ) -> FilterBounds<'m> {
        FilterBounds::of_conjuncts(filter, Conjuncts::of(filter), collation, paths)
    }

    fn of_conjuncts(
        filter: &'m MatchExpression,
        conjuncts: Conjuncts<'m>,
        collation: &'m Collation,
        paths: &PathNumbers,
    ) -> FilterBounds<'m> {
        let Conjuncts {
            asked,
            own_len,
            are_all,
            ..
        } = conjuncts;
        let mut bounds = FilterBounds::of_none(paths);
        bounds.says_more = !are_all;
        bounds.filter = Some(filter);
        bounds.collation = collation;
        for (number, (path, asked)) in asked.into_iter().enumerate() {
            let Some(path) = paths.get(&path) else {
                bounds.says_more = true;
                continue;
            };
            bounds.paths[usize::from(path)] = PathState::Asked;
            bounds.conjuncts.push((path, asked));
            bounds.own_len += usize::from(number < own_len);
        }
        bounds
    }

    /// The bounds of a filter that is nothing but fields and the plain values that they are equal to, each field the whole path
    /// of some index's; None of any other.
    pub fn of_equalities(filter: RawDocument<'m>, paths: &PathNumbers) -> Option<FilterBounds<'m>> {
        let mut bounds = FilterBounds::of_none(paths);
        for element in filter {
            let name = element.name().as_str().ok()?;
            let path = paths.get(name)?;
            let value = element.value();
            let state = &mut bounds.paths[usize::from(path)];
            let is_first = matches!(state, PathState::NotAsked);
            let is_operator = name.starts_with('$');
            if !is_first || !is_plain(value) || is_operator || may_name_positions(name) {
                return None;
            }
            *state = PathState::Point(u16::try_from(bounds.points.len()).ok()?);
            bounds.points.push(value);
        }
        Some(bounds)
    }

    fn of_none(paths: &PathNumbers) -> FilterBounds<'m> {
        FilterBounds {
            filter: None,
            around: None,
            says_more: false,
            conjuncts: SmallVec::new(),
            own_len: 0,
            points: SmallVec::new(),
            paths: SmallVec::from_elem(PathState::NotAsked, paths.end()),
            known: SmallVec::new(),
            collation: simple(),
        }
    }

    /// How the filter compares strings.
    pub fn collation(&self) -> &'m Collation {
        self.collation
    }

    /// Like `new`, for a branch: what matches it matches the filter around it, too.
    pub fn of_branch(
        branch: &'m MatchExpression,
        around: &'m MatchExpression,
        collation: &'m Collation,
        paths: &PathNumbers,
    ) -> FilterBounds<'m> {
        let conjuncts = Conjuncts::of_branch(branch, around);
        FilterBounds {
            around: Some(around),
            ..FilterBounds::of_conjuncts(branch, conjuncts, collation, paths)
        }
    }

    /// Whether whatever matches the filter matches that of a partial index. Not known of a filter that was never parsed.
    pub fn imply(&self, partial: &dyn DocumentFilter) -> bool {
        let Some(partial) = PartialFilter::of(partial) else {
            return false;
        };
        let mut filters = [self.filter, self.around].into_iter().flatten();
        filters.any(|filter| implies((filter, self.collation), partial.matcher()))
    }

    /// Whether a predicate names the path at all.
    #[inline]
    pub fn mention(&self, path: u16) -> bool {
        !matches!(self.paths[usize::from(path)], PathState::NotAsked)
    }

    /// Finds the bound of a path in an index that keeps its texts by a collation, if it has one there.
    #[inline]
    pub fn of(
        &mut self,
        path: u16,
        name: &str,
        is_multikey: bool,
        kept: &Collation,
    ) -> Option<Bound> {
        let is_alike = kept == self.collation;
        let place = match self.paths[usize::from(path)] {
            PathState::NotAsked => return None,
            PathState::Point(place) => {
                let is_found = is_alike || !holds_text(self.points[usize::from(place)]);
                return is_found.then_some(Bound::Point(place));
            }
            PathState::Known(place) if !is_multikey && is_alike => place,
            PathState::Asked if !is_multikey && is_alike => {
                let place = self.learn(path, name, false, kept);
                self.paths[usize::from(path)] = PathState::Known(place);
                place
            }
            _ => self.special(path, name, is_multikey, kept),
        };
        let is_bounded = self.known[usize::from(place)].bounds.intervals.is_some();
        is_bounded.then_some(Bound::Intervals(place))
    }

    /// The bound of a path whose values an index keeps hashed; none unless the filter means single values. Hashes are those of
    /// the strings themselves, so that `kept` is simple.
    #[cold]
    pub fn of_hashes(&mut self, path: u16, name: &str, kept: &Collation) -> Option<Bound> {
        let known = |known: &Known<'_>| known.path == path && known.form == Form::Hashed;
        let place = match self.known.iter().position(known) {
            Some(place) => place,
            None => {
                let bound = self.of(path, name, false, kept)?;
                let intervals = hashed(self.get(bound));
                let asked_len = self.asked_of(path).count();
                self.known.push(Known {
                    path,
                    form: Form::Hashed,
                    is_alike: kept == self.collation,
                    keeps_bytes: kept.is_simple(),
                    bounds: PathBounds {
                        intervals,
                        asked_len,
                        are_exact: false,
                        are_weak: false,
                        leave_out: false,
                        element: None,
                    },
                });
                self.known.len() - 1
            }
        };
        let is_bounded = self.known[place].bounds.intervals.is_some();
        let place = u16::try_from(place).expect("a few places for each indexed path at most");
        is_bounded.then_some(Bound::Intervals(place))
    }

    /// Whether the filter says nothing that the bounds of these paths do not say: a document with keys within them matches.
    pub fn are_all(&self, bounded: &[Bound]) -> bool {
        let mut answered = 0;
        for bound in bounded {
            answered += match *bound {
                Bound::Point(_) => 1,
                Bound::Intervals(place) => {
                    let bounds = &self.known[usize::from(place)].bounds;
                    if !bounds.are_exact {
                        return false;
                    }
                    bounds.asked_len
                }
            };
        }
        !self.says_more && answered == self.points.len() + self.conjuncts.len()
    }

    /// The place of what is known where arrays are on the path, or texts are kept otherwise than the filter compares them.
    fn special(&mut self, path: u16, name: &str, is_multikey: bool, kept: &Collation) -> u16 {
        let is_alike = kept == self.collation;
        let keeps_bytes = kept.is_simple();
        let mut known = self.known.iter();
        let place = known.position(|known| {
            known.path == path
                && known.form == Form::of_values(is_multikey)
                && known.is_alike == is_alike
                && known.keeps_bytes == keeps_bytes
        });
        place.map_or_else(
            || self.learn(path, name, is_multikey, kept),
            |place| place as u16,
        )
    }

    fn learn(&mut self, path: u16, name: &str, is_multikey: bool, kept: &Collation) -> u16 {
        let texts = Texts::of(kept, self.collation);
        let bounds = bounds::of_path(self.asked_of(path), name, is_multikey, texts);
        self.known.push(Known {
            path,
            form: Form::of_values(is_multikey),
            is_alike: kept == self.collation,
            keeps_bytes: kept.is_simple(),
            bounds,
        });
        let place = u16::try_from(self.known.len() - 1);
        place.expect("a few places for each indexed path at most")
    }

    fn asked_of(&self, path: u16) -> impl Iterator<Item = Asked<'m>> + Clone + '_ {
        let of_path = self.conjuncts.iter().filter(move |(of, _)| *of == path);
        of_path.map(|(_, asked)| *asked)
    }

    /// Whether the filter asks for documents that have something at the path, be it null.
    pub fn ask_existence(&self, path: u16) -> bool {
        self.asked_of(path)
            .any(|asked| matches!(asked.question, Question::Meets(Predicate::Exists)))
    }

    /// Whether the filter itself bounds one of these paths. What stands beside a branch alone bounds the other branches as well.
    pub fn ask_one_of(&self, paths: &[u16]) -> bool {
        let own = &self.conjuncts[..self.own_len];
        self.around.is_none() || own.iter().any(|(path, _)| paths.contains(path))
    }

    /// Whether the bound may leave nearly all that there is.
    pub fn is_weak(&self, bound: Bound) -> bool {
        match bound {
            Bound::Point(_) => false,
            Bound::Intervals(place) => self.known[usize::from(place)].bounds.are_weak,
        }
    }

    /// Whether one of the bounds leaves values out.
    pub fn leave_out(&self, bounded: &[Bound]) -> bool {
        bounded.iter().any(|bound| match *bound {
            Bound::Point(_) => false,
            Bound::Intervals(place) => self.known[usize::from(place)].bounds.leave_out,
        })
    }

    /// The element of an array by which the bound is met, where the filter asks one.
    pub fn element(&self, bound: Bound) -> Option<Element> {
        match bound {
            Bound::Point(_) => None,
            Bound::Intervals(place) => self.known[usize::from(place)].bounds.element,
        }
    }

    pub fn get(&self, bound: Bound) -> Bounds<'_, 'm> {
        match bound {
            Bound::Point(place) => Bounds::Point(self.points[usize::from(place)]),
            Bound::Intervals(place) => {
                let bounds = &self.known[usize::from(place)].bounds;
                let intervals = bounds.intervals.as_deref();
                Bounds::Intervals(intervals.unwrap_or_default())
            }
        }
    }
}

/// The hashes of values that an index keeps hashed; None unless they are single ones.
fn hashed<'m>(bounds: Bounds<'_, '_>) -> Option<Vec<Interval<'m>>> {
    let mut hashes: Vec<i64> = Vec::new();
    let mut add = |value: RawValue<'_>| {
        hashes.extend(hashes_of_equal(value)?);
        Some(())
    };
    match bounds {
        Bounds::Point(value) => add(value)?,
        Bounds::Intervals(intervals) => {
            for interval in intervals {
                if interrupts::is_over(UNITS_OF_AN_INTERVAL) {
                    return None;
                }
                // A missing field is kept as null.
                match interval.is_null() {
                    true => [RawValue::Null, RawValue::Undefined]
                        .into_iter()
                        .try_for_each(&mut add)?,
                    false => add(interval.value()?)?,
                }
            }
        }
    }
    hashes.sort_unstable();
    hashes.dedup();
    let points = hashes
        .into_iter()
        .map(|hash| Interval::point(RawValue::Int64(hash)));
    Some(points.collect())
}

fn simple() -> &'static Collation {
    static SIMPLE: Collation = Collation::SIMPLE;
    &SIMPLE
}

/// Whether a filter means equality by it, and an index keeps it as it is.
fn is_plain(value: RawValue<'_>) -> bool {
    matches!(
        value,
        RawValue::String(_)
            | RawValue::Int32(_)
            | RawValue::Int64(_)
            | RawValue::Double(_)
            | RawValue::Decimal128(_)
            | RawValue::ObjectId(_)
            | RawValue::DateTime(_)
            | RawValue::Boolean(_)
            | RawValue::Binary(_)
            | RawValue::Timestamp(_)
    )
}

impl<'b, 'm> Bounds<'b, 'm> {
    /// One value, or intervals.
    pub fn intervals_len(&self) -> usize {
        match self {
            Bounds::Point(_) => 1,
            Bounds::Intervals(intervals) => intervals.len(),
        }
    }

    pub fn are_points(&self) -> bool {
        match self {
            Bounds::Point(_) => true,
            Bounds::Intervals(intervals) => intervals.iter().all(|interval| interval.is_point),
        }
    }

    pub fn hold_null(&self) -> bool {
        match self {
            Bounds::Point(_) => false,
            Bounds::Intervals(intervals) => intervals.iter().any(Interval::holds_null),
        }
    }

    /// As intervals, for who prints them.
    pub fn to_intervals(self) -> Vec<Interval<'m>> {
        match self {
            Bounds::Point(value) => vec![Interval::point(value)],
            Bounds::Intervals(intervals) => intervals.to_vec(),
        }
    }
}
