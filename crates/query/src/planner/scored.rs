//! A candidate held against a query: the score of its shape, whether it serves another's turn, and the scan of its keys.

use std::hash::Hasher;

use quarry_database::{Ident, KeyRange, may_meet_cut_keys};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::candidate::{Bounded, Candidate, FieldBounds, KnownFields, RangeKind, RangeOrder};
use super::covered::key_document;
use super::filter_bounds::{Bound, Bounds, FilterBounds};
use super::key_ranges::{are_combined, cuts};
use super::wanted::Wanted;
use crate::plan::{FieldTest, IndexScan, KeyTests, KeyedEntries, MERGED_RANGES_MAX, Watch};
use crate::sort::SortPattern;

/// Better plans are greater.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub struct Score {
    pub is_whole_unique_key: bool,
    /// How many leading fields are bounded to single values.
    pub equalities: usize,
    range: RangeKind,
    /// Fields behind the range that keys are held against.
    tested: usize,
    pub gives_order: bool,
    is_covering: bool,
    is_clustered: bool,
}

/// A candidate with what the filter and the order say about it; the plan is made of the best one only.
pub struct Scored<'c> {
    pub candidate: Candidate<'c>,
    pub score: Score,
    bounded: Bounded,
    /// The fields behind them, by number, that keys are held against.
    tested: SmallVec<[(usize, Bound); 4]>,
    /// The filter asks for what a sparse index has.
    asks_existence: bool,
    known: KnownFields,
    /// A predicate of the filter itself bounds it, and not only one that stands beside the filter, where that is a branch.
    pub asks_itself: bool,
    /// Whether the order is met from behind; None when it is not met.
    pub order: Option<bool>,
    /// The order in each range, where it is not met from one to the next.
    pub merged: Option<RangeOrder>,
    /// The remembered trial that it was chosen by, if it was.
    pub watch: Option<Box<Watch>>,
}

/// The scan of a candidate's keys.
pub struct Scan {
    pub node: Box<IndexScan>,
    /// All that the keys lead to matches: no predicate asks more than the ranges say, and none of these was widened. Keys order
    /// as values compare, so that what lies between two keys lies between their values.
    pub answers: bool,
    /// Each range is the one key of a record.
    pub has_whole_keys: bool,
}

/// How many ranges these bounds are, all fields' intervals combined.
fn ranges_len(bounds: &FilterBounds<'_>, bounded: &[Bound]) -> usize {
    let lens = bounded
        .iter()
        .map(|bound| bounds.get(*bound).intervals_len());
    lens.fold(1, usize::saturating_mul)
}

/// Tells which fields have one value by the bounds: of the leading ones, so many of which are equalities, and of those that keys are tested by.
fn known_fields(
    candidate: &Candidate<'_>,
    bounds: &FilterBounds<'_>,
    (leading, equalities): (&[Bound], usize),
    tested: &[(usize, Bound)],
) -> KnownFields {
    let single = |bound: &Bound| bounds.get(*bound).intervals_len() <= 1;
    let mut known = KnownFields::default();
    for (number, bound) in leading.iter().enumerate() {
        known.add(number, number < equalities && single(bound));
    }
    for (number, bound) in tested {
        let is_point = bounds.get(*bound).are_points() && single(bound);
        // The keys of a document with an array there have its other elements, too.
        known.add(*number, is_point && !candidate.is_multikey(*number));
    }
    known
}

impl<'c> Scored<'c> {
    /// Holds a candidate against the filter's bounds and what else is asked for.
    pub fn of(
        candidate: Candidate<'c>,
        bounds: &mut FilterBounds<'_>,
        is_clustered: bool,
        wanted: &Wanted<'_>,
    ) -> Scored<'c> {
        let FieldBounds {
            leading: bounded,
            equalities,
            mut range,
            tested,
        } = candidate.bound(bounds);
        let asks_existence = candidate.is_sparse && bounds.ask_existence(candidate.paths[0]);
        if asks_existence {
            range = range.max(RangeKind::Weak);
        }
        let single = |bound: &Bound| bounds.get(*bound).intervals_len() <= 1;
        let known = known_fields(&candidate, bounds, (&bounded[..], equalities), &tested);
        let mut order = wanted.sort.and_then(|sort| candidate.order(sort, known));
        let mut merged = None;
        if let (None, Some(sort)) = (order, wanted.sort)
            && ranges_len(bounds, &bounded) <= MERGED_RANGES_MAX
        {
            merged = candidate.range_order(sort, equalities, known);
            order = merged.map(|order| order.is_reversed);
        }
        let is_whole_unique_key = candidate.is_unique
            && equalities == candidate.fields_len()
            && bounded.iter().all(single);
        let is_covering = wanted.read.is_some()
            && candidate.index.is_some_and(|index| {
                let asks_filter = !bounds.are_all(&bounded);
                let sorts = order.is_none();
                key_document(index, is_clustered, wanted, asks_filter, sorts).is_some()
            });
        let mut of_tests = tested.iter().map(|(number, _)| candidate.paths[*number]);
        let asks_itself = bounds.ask_one_of(&candidate.paths[..bounded.len()])
            || of_tests.any(|path| bounds.ask_one_of(&[path]));
        let score = Score {
            is_whole_unique_key,
            equalities,
            range,
            tested: tested.len(),
            gives_order: order.is_some(),
            is_covering,
            is_clustered: candidate.is_of_records(),
        };
        Scored {
            candidate,
            score,
            bounded,
            tested,
            asks_existence,
            known,
            asks_itself,
            order,
            merged,
            watch: None,
        }
    }
}

impl Scored<'_> {
    /// Like `Candidate::range_order`.
    pub fn range_order(&self, sort: &SortPattern) -> Option<RangeOrder> {
        let equalities = self.score.equalities;
        self.candidate.range_order(sort, equalities, self.known)
    }

    /// Whether the filter keeps the scan from going through the whole index.
    pub fn is_bounded(&self) -> bool {
        self.score.equalities > 0 || self.score.range > RangeKind::None
    }

    /// Whether the filter may leave nearly all of the index.
    pub fn is_weak(&self) -> bool {
        self.score.equalities == 0 && self.score.range == RangeKind::Weak
    }

    /// Whether documents need not be read, or come in the wanted order.
    pub fn does_more(&self) -> bool {
        self.score.gives_order || self.score.is_covering
    }

    /// The index that is read, or the records.
    pub fn ident(&self) -> Ident {
        self.candidate.ident
    }

    /// The paths of the fields that the filter bounds.
    fn bounded_paths(&self) -> &[u16] {
        &self.candidate.paths[..self.bounded.len()]
    }

    /// Whether the other one has nothing that this one has not: it bounds no other field, and gives no order and no documents
    /// where this one does not.
    pub fn serves(&self, other: &Scored<'_>) -> bool {
        let has = |path: &u16| self.bounded_paths().contains(path);
        other.bounded_paths().iter().all(has)
            && self.score.gives_order >= other.score.gives_order
            && self.score.is_covering >= other.score.is_covering
    }

    /// Adds what the candidate does for the query to a hash, without the values that it is asked for.
    pub fn hash_shape(&self, hash: &mut impl Hasher) {
        hash.write_usize(self.bounded.len());
        hash.write_usize(self.score.equalities);
        hash.write_usize(self.score.tested);
        let flags = [
            self.score.range == RangeKind::Bounded,
            self.score.range == RangeKind::Weak,
            self.score.gives_order,
            self.score.is_covering,
            self.order == Some(true),
            self.merged.is_some(),
            self.candidate.is_alike,
        ];
        for flag in flags {
            hash.write_u8(u8::from(flag));
        }
    }

    /// A sparse index has no entry for a document that the filter may mean.
    pub fn leaves_out_missing(&self, bounds: &FilterBounds<'_>) -> bool {
        self.candidate.is_sparse
            && !self.asks_existence
            && self
                .bounded
                .first()
                .is_none_or(|first| bounds.get(*first).hold_null())
    }

    /// Whether each range is one value of every field of a key that names one record, uncut.
    fn has_whole_keys(&self, bounded: &[(Bounds<'_, '_>, Direction)], ranges: &[KeyRange]) -> bool {
        let candidate = &self.candidate;
        if !candidate.is_unique || self.score.equalities != candidate.fields_len() {
            return false;
        }
        let names_records = candidate.index.is_none_or(|index| index.unique_entries);
        candidate.is_of_records()
            || (names_records
                && are_combined(bounded)
                && ranges.iter().all(|range| !may_meet_cut_keys(range)))
    }

    /// The scan of the candidate's keys.
    pub fn scan(&self, bounds: &FilterBounds<'_>, wanted: &Wanted<'_>) -> Scan {
        let mut scan = self.scan_of_ranges(bounds, wanted);
        if !self.tested.is_empty() {
            let tests = self.tested.iter().map(|(number, bound)| {
                let (_, direction) = self.candidate.field(*number);
                let intervals = bounds.get(*bound).to_intervals();
                FieldTest::new(*number, cuts(&intervals, direction))
            });
            let directions = self.candidate.fields().map(|(_, direction)| direction);
            let tests = KeyTests::new(tests.collect(), directions.collect());
            scan.node = (scan.node).giving_keys(KeyedEntries::new().of_records().testing(tests));
        }
        scan
    }

    /// Like `scan`, and gives every key in its ranges.
    pub fn scan_of_ranges(&self, bounds: &FilterBounds<'_>, wanted: &Wanted<'_>) -> Scan {
        let candidate = &self.candidate;
        let is_reversed = self.order.unwrap_or(false);
        let bounded: SmallVec<[(Bounds<'_, '_>, Direction); 10]> = self
            .bounded
            .iter()
            .zip(candidate.fields())
            .map(|(bound, (_, direction))| (bounds.get(*bound), direction))
            .collect();
        let bounds_of = |number: usize| {
            let mut tested = self.tested.iter();
            let tested = || tested.find_map(|(of, bound)| (*of == number).then_some(bound));
            (self.bounded.get(number).or_else(tested)).map(|bound| bounds.get(*bound))
        };
        let texts = match wanted.shows_bounds {
            true => candidate.texts(bounds_of, is_reversed),
            false => Vec::new(),
        };
        let access = candidate.access(texts);
        let (ranges, are_exact) = candidate.ranges(&bounded);
        let has_whole_keys = self.has_whole_keys(&bounded, &ranges);
        // Arrays stand behind none but fields that are bounded to one value.
        let gives_once = candidate.multikey >> self.score.equalities == 0 && ranges.len() == 1;
        let mut node = Box::new(IndexScan::new(access, ranges, is_reversed, has_whole_keys));
        if are_exact && gives_once {
            node.forget_repeats();
        }
        // Who only counts reads one snapshot.
        let only_counts = wanted.read.is_some_and(<[_]>::is_empty);
        let may_change = !only_counts && bounds.leave_out(&self.bounded);
        let is_told = are_exact && !may_change && are_combined(&bounded);
        Scan {
            node,
            answers: is_told && bounds.are_all(&self.bounded),
            has_whole_keys,
        }
    }
}
