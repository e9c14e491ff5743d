//! Bounds of one path by a filter, as intervals. Only what every match must answer counts (`conjuncts.rs`); the intervals of single
//! predicates are `predicate_bounds.rs`'s.
//!
//! What several operators ask of one value among the elements of an array bounds it together, and so does what no value may meet.
//!
//! A filter may give very many. Where the operation is to end meanwhile the lists are cut short, and `choose` says why.
//!
//! A path with a component that may be an array position is not bounded. Leaves out: bounds of one path by several predicates of
//! one `$elemMatch` over documents (its values may be arrays themselves, whose elements may meet one predicate each).

use super::conjuncts::{Asked, Element, Question};
use super::interval::{Interval, UNITS_OF_AN_INTERVAL};
use super::predicate_bounds::{
    Negation, complement, is_exact, merged, of_negation, of_predicate, of_total_order,
};
use super::texts::Texts;
use crate::field_path::may_name_positions;
use crate::interrupts;
use crate::matcher::Predicate;

/// The bounds of one path.
pub struct PathBounds<'m> {
    /// The values that the path is bounded to, in order and apart from each other; None if it is not bounded.
    pub intervals: Option<Vec<Interval<'m>>>,
    /// How many questions the filter asks of the path.
    pub asked_len: usize,
    /// A document whose key lies within the intervals answers all of them.
    pub are_exact: bool,
    /// Nothing but types and what is not to be bounds the path, which may leave nearly all that there is.
    pub are_weak: bool,
    /// Values are left out. Of a document that gets an array meanwhile a key within the intervals no longer tells that it matches.
    pub leave_out: bool,
    /// The element of an array by which the intervals are met, where one is asked.
    pub element: Option<Element>,
}

impl<'m> PathBounds<'m> {
    const NONE: PathBounds<'static> = PathBounds {
        intervals: None,
        asked_len: 0,
        are_exact: false,
        are_weak: false,
        leave_out: false,
        element: None,
    };

    fn of(narrowed: Option<Narrowed<'m>>, asked_len: usize, are_exact: bool) -> PathBounds<'m> {
        PathBounds {
            asked_len,
            are_exact,
            are_weak: narrowed.as_ref().is_some_and(|known| known.is_weak),
            leave_out: narrowed.as_ref().is_some_and(|known| known.leaves_out),
            element: narrowed.as_ref().and_then(|known| known.element),
            intervals: narrowed.map(|known| known.intervals),
        }
    }
}

/// The intervals of a path while its questions are gone through.
struct Narrowed<'m> {
    intervals: Vec<Interval<'m>>,
    /// The number of the value that they are of, or 0.
    value: u32,
    element: Option<Element>,
    is_weak: bool,
    leaves_out: bool,
}

/// A path as an index keeps its values.
#[derive(Clone, Copy)]
struct KeptPath<'t> {
    is_multikey: bool,
    is_dotted: bool,
    texts: Texts<'t>,
}

/// The bounds of `path` by its questions. With arrays on the path each predicate may be met by another element, so that only
/// one of them bounds; what no element may meet bounds beside it.
pub fn of_path<'m>(
    asked: impl Iterator<Item = Asked<'m>> + Clone,
    path: &str,
    is_multikey: bool,
    texts: Texts<'_>,
) -> PathBounds<'m> {
    if may_name_positions(path) {
        return PathBounds::NONE;
    }
    let kept = KeptPath {
        is_multikey,
        is_dotted: path.as_bytes().contains(&b'.'),
        texts,
    };
    let (mut asked_len, mut are_exact) = (0, true);
    let mut narrowed = None;
    for asked in asked.clone() {
        asked_len += 1;
        are_exact &= is_told(asked.question) && !(is_multikey && asked_len > 1);
        if !matches!(asked.question, Question::MeetsNot(_)) {
            are_exact &= narrow(&mut narrowed, asked, kept);
        }
    }
    let negated = asked.filter_map(|asked| match asked.question {
        Question::MeetsNot(predicate) => Some(predicate),
        Question::Meets(_) | Question::Ordered(..) => None,
    });
    are_exact &= leave_out(&mut narrowed, negated, kept);
    PathBounds::of(narrowed, asked_len, are_exact)
}

/// Narrows the intervals by a question; false if they do not tell its answer.
fn narrow<'m>(narrowed: &mut Option<Narrowed<'m>>, asked: Asked<'m>, kept: KeptPath<'_>) -> bool {
    let Some((intervals, is_weak)) = of_question(asked.question, kept) else {
        return false;
    };
    // Nested arrays are keyed by their elements, which says nothing about what is missing between them.
    if kept.is_multikey && kept.is_dotted && intervals.iter().any(Interval::holds_null) {
        return false;
    }
    let Asked { value, element, .. } = asked;
    match narrowed {
        Some(known) if !kept.is_multikey || (value != 0 && value == known.value) => {
            known.intervals = intersect(&known.intervals, &intervals);
            known.is_weak &= is_weak;
        }
        Some(known) if !is_tighter((&intervals, is_weak), known) => {}
        _ => {
            *narrowed = Some(Narrowed {
                intervals,
                value,
                element,
                is_weak,
                leaves_out: false,
            });
        }
    }
    true
}

/// Leaves out what no value may meet, all of it at once; false if that does not tell their answers.
fn leave_out<'m>(
    narrowed: &mut Option<Narrowed<'m>>,
    negated: impl Iterator<Item = &'m Predicate>,
    kept: KeptPath<'_>,
) -> bool {
    let (mut outside, mut is_missing, mut are_told) = (Vec::new(), false, true);
    for predicate in negated {
        are_told &= !kept.is_multikey;
        match of_negation(predicate, kept.texts) {
            _ if kept.is_multikey && kept.is_dotted => are_told = false,
            Some(Negation::Outside(intervals)) => outside.extend(intervals),
            Some(Negation::Missing) => is_missing = true,
            None => are_told = false,
        }
    }
    if is_missing {
        meet_all(narrowed, vec![Interval::null()], false);
    }
    if !outside.is_empty() {
        meet_all(narrowed, complement(merged(outside)), true);
        if let Some(known) = narrowed {
            known.leaves_out = true;
        }
    }
    are_told
}

/// Narrows the intervals by others that each value lies in.
fn meet_all<'m>(narrowed: &mut Option<Narrowed<'m>>, all: Vec<Interval<'m>>, is_weak: bool) {
    match narrowed {
        Some(known) => known.intervals = intersect(&known.intervals, &all),
        None => {
            *narrowed = Some(Narrowed {
                intervals: all,
                value: 0,
                element: None,
                is_weak,
                leaves_out: false,
            });
        }
    }
}

/// The intervals of a question, and whether they may leave nearly all that there is.
fn of_question<'m>(
    question: Question<'m>,
    kept: KeptPath<'_>,
) -> Option<(Vec<Interval<'m>>, bool)> {
    match question {
        Question::Meets(predicate) => {
            let is_weak = matches!(predicate, Predicate::Test(_));
            Some((of_predicate(predicate, kept.texts)?, is_weak))
        }
        // An expression takes an array as a whole, and keys have its elements.
        Question::Ordered(op, value) if !kept.is_multikey => {
            Some((of_total_order(op, value.as_raw(), kept.texts)?, false))
        }
        Question::Ordered(..) | Question::MeetsNot(_) => None,
    }
}

/// Whether the intervals of a question tell its answer, where no array is on the path.
fn is_told(question: Question<'_>) -> bool {
    match question {
        Question::Meets(predicate) | Question::MeetsNot(predicate) => is_exact(predicate),
        Question::Ordered(..) => false,
    }
}

/// Whether the one list surely bounds more than the other.
fn is_tighter((one, is_weak): (&[Interval<'_>], bool), other: &Narrowed<'_>) -> bool {
    let points = |intervals: &[Interval<'_>]| intervals.iter().all(|interval| interval.is_point);
    let other_intervals = other.intervals.as_slice();
    match (points(one), points(other_intervals)) {
        (true, false) => true,
        (true, true) => one.len() < other_intervals.len(),
        (false, true) => false,
        (false, false) => other.is_weak && !is_weak,
    }
}

/// Both lists ascend; so does what they share.
fn intersect<'m>(a: &[Interval<'m>], b: &[Interval<'m>]) -> Vec<Interval<'m>> {
    let (mut left, mut right) = (0, 0);
    let mut shared = Vec::new();
    while let (Some(x), Some(y)) = (a.get(left), b.get(right)) {
        if interrupts::is_over(UNITS_OF_AN_INTERVAL) {
            break;
        }
        shared.extend(x.intersect(y));
        if x.high.bytes <= y.high.bytes {
            left += 1;
        } else {
            right += 1;
        }
    }
    shared
}
