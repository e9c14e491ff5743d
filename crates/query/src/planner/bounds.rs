//! Bounds of one path by a filter, as intervals. Only predicates that every match must satisfy count.
//!
//! What `$elemMatch` asks of an element is such a predicate of the path that leads through the array. It says more than that, so
//! that nothing is exact where one stands. What several operators ask of one value among the elements bounds it together.
//!
//! A filter may give very many. Where the operation is to end meanwhile the lists are cut short, and `choose` says why.
//!
//! Operands that an index keeps in another form than a filter compares them in (arrays, undefined, the ends of the
//! order) bound nothing; neither does a path with a component that may be an array position. Leaves out: bounds of several fields of an
//! index by what one `$elemMatch` asks of one element (the first one is bounded), and of one path within it (its values may be
//! arrays themselves, whose elements may meet one predicate each).

use std::borrow::Cow;

use quarry_bson::{RawValue, Value};
use quarry_database::holds_text;
use smallvec::SmallVec;

use super::interval::{Cut, Interval};
use crate::Collation;
use crate::field_path::may_name_positions;
use crate::interrupts;
use crate::matcher::{CompareOp, FieldPredicate, MatchExpression, Predicate, RegexPredicate};
use crate::sorter::sort_in_steps;

/// The work of making an interval, with its ends' bytes, and of laying two together.
pub(super) const UNITS_OF_AN_INTERVAL: usize = 30;
const UNITS_OF_A_JOIN: usize = 3;

/// The bytes of paths that are made for what elements are asked; what is beyond bounds nothing. A filter may have one long path of an
/// array and a million questions to its elements.
const MADE_PATH_BYTES_MAX: usize = 16 * 1024;

/// A predicate that every match of a filter meets by some value at the path.
#[derive(Clone, Copy)]
pub struct Asked<'m> {
    pub predicate: &'m Predicate,
    /// Those of one number but 0 are met by the same value.
    pub value: u32,
}

/// The predicates of a filter that all must hold, with their paths.
pub struct Conjuncts<'m> {
    pub predicates: SmallVec<[(Cow<'m, str>, Asked<'m>); 12]>,
    /// The filter says nothing else.
    pub are_all: bool,
    /// The numbers of values that are given out.
    values: u32,
    made_path_bytes: usize,
}

impl<'m> Conjuncts<'m> {
    pub fn of(root: &'m MatchExpression) -> Conjuncts<'m> {
        let mut found = Conjuncts {
            predicates: SmallVec::new(),
            are_all: true,
            values: 0,
            made_path_bytes: 0,
        };
        found.collect(root, None);
        found
    }

    /// Recursion is bounded by the depth of filters. `array` is the path of the array whose elements are asked, if they are.
    fn collect(&mut self, expression: &'m MatchExpression, array: Option<&str>) {
        match expression {
            MatchExpression::And(children) => {
                for child in children {
                    self.collect(child, array);
                }
            }
            MatchExpression::Or(children) if children.len() == 1 => {
                self.collect(&children[0], array);
            }
            MatchExpression::Field(field) => {
                let path = field.path.as_str();
                let path = match array {
                    None => Cow::Borrowed(path),
                    Some(array) if self.may_make(array.len() + 1 + path.len()) => {
                        Cow::Owned(format!("{array}.{path}"))
                    }
                    Some(_) => return,
                };
                self.collect_field(path, &field.predicate);
            }
            MatchExpression::AlwaysTrue => {}
            _ => self.are_all = false,
        }
    }

    fn collect_field(&mut self, path: Cow<'m, str>, predicate: &'m Predicate) {
        match predicate {
            Predicate::ElemMatchObject(filter) => {
                self.are_all = false;
                self.collect(filter.root(), Some(&path));
            }
            Predicate::ElemMatchValue(all) => {
                self.are_all = false;
                self.values += 1;
                for one in all {
                    self.collect_value(one, &path);
                }
            }
            _ => {}
        }
        let asked = Asked {
            predicate,
            value: 0,
        };
        self.predicates.push((path, asked));
    }

    /// An element that is an array itself is keyed as a whole, so that what its own elements are asked bounds nothing.
    fn collect_value(&mut self, expression: &'m MatchExpression, path: &str) {
        match expression {
            MatchExpression::And(children) => {
                for child in children {
                    self.collect_value(child, path);
                }
            }
            MatchExpression::Field(FieldPredicate { predicate, .. })
                if is_of_one(predicate) && self.may_make(path.len()) =>
            {
                let value = self.values;
                let path = Cow::Owned(path.to_owned());
                (self.predicates).push((path, Asked { predicate, value }));
            }
            _ => {}
        }
    }
}

impl Conjuncts<'_> {
    /// Whether a path of so many bytes may be made, which it counts then.
    fn may_make(&mut self, bytes: usize) -> bool {
        let made = self.made_path_bytes + bytes;
        let may = made <= MADE_PATH_BYTES_MAX;
        if may {
            self.made_path_bytes = made;
        }
        may
    }
}

/// Whether it asks for something that one key tells.
fn is_of_one(predicate: &Predicate) -> bool {
    matches!(
        predicate,
        Predicate::Compare { .. } | Predicate::In(_) | Predicate::Regex(_)
    )
}

/// The texts of an index as a filter meets them.
#[derive(Clone, Copy)]
pub enum Texts<'c> {
    /// The index keeps the strings as they are, and the filter compares their bytes.
    Bytes,
    /// The index keeps sort keys of the collation by which the filter compares.
    SortKeys(&'c Collation),
    /// The index keeps its strings for another comparison than the filter's: what has none is found all the same.
    OfOthers {
        /// Sort keys are kept, and not the strings.
        are_sort_keys: bool,
    },
}

impl<'c> Texts<'c> {
    /// The texts of an index with the one collation, for a filter with the other one.
    pub fn of(kept: &Collation, asked: &'c Collation) -> Texts<'c> {
        match (kept == asked, kept.is_simple()) {
            (true, true) => Texts::Bytes,
            (true, false) => Texts::SortKeys(asked),
            (false, is_simple) => Texts::OfOthers {
                are_sort_keys: !is_simple,
            },
        }
    }

    /// Makes intervals of the value that is kept in place of this one; none where nobody knows it.
    fn intervals<'m>(
        self,
        value: RawValue<'m>,
        make: impl Fn(RawValue<'_>) -> Vec<Interval<'_>>,
    ) -> Option<Vec<Interval<'m>>> {
        match self {
            Texts::Bytes => {}
            Texts::SortKeys(collation) => {
                if let Some(kept) = collation.index_value(value) {
                    let made = make(kept.as_raw()).into_iter();
                    return Some(made.map(Interval::into_owned).collect());
                }
            }
            Texts::OfOthers { .. } if holds_text(value) => return None,
            Texts::OfOthers { .. } => {}
        }
        Some(make(value))
    }

    fn are_sort_keys(self) -> bool {
        match self {
            Texts::Bytes => false,
            Texts::SortKeys(_) => true,
            Texts::OfOthers { are_sort_keys } => are_sort_keys,
        }
    }
}

/// The bounds of one path.
pub struct PathBounds<'m> {
    /// The values that the path is bounded to, in order and apart from each other; None if it is not bounded.
    pub intervals: Option<Vec<Interval<'m>>>,
    /// How many predicates the filter has of the path.
    pub predicates_len: usize,
    /// A document whose key lies within the intervals matches all of them.
    pub are_exact: bool,
}

impl PathBounds<'_> {
    const NONE: PathBounds<'static> = PathBounds {
        intervals: None,
        predicates_len: 0,
        are_exact: false,
    };
}

/// The bounds of `path` by its predicates. With arrays on the path each predicate may be met by another element, so that only
/// one of them bounds.
pub fn of_path<'m>(
    predicates: impl Iterator<Item = Asked<'m>>,
    path: &str,
    is_multikey: bool,
    texts: Texts<'_>,
) -> PathBounds<'m> {
    let is_dotted = path.as_bytes().contains(&b'.');
    if may_name_positions(path) {
        return PathBounds::NONE;
    }
    let mut bounded: Option<Vec<Interval<'m>>> = None;
    // The value that the intervals are of.
    let mut bounded_value = 0;
    let (mut predicates_len, mut are_exact) = (0, true);
    for Asked { predicate, value } in predicates {
        predicates_len += 1;
        are_exact &= is_exact(predicate) && !(is_multikey && predicates_len > 1);
        let Some(intervals) = of_predicate(predicate, texts) else {
            are_exact = false;
            continue;
        };
        // Nested arrays are keyed by their elements, which says nothing about what is missing between them.
        if is_multikey && is_dotted && intervals.iter().any(Interval::holds_null) {
            continue;
        }
        let is_same_value = value != 0 && value == bounded_value;
        bounded = Some(match bounded {
            Some(known) if !is_multikey || is_same_value => intersect(&known, &intervals),
            Some(known) if !is_tighter(&intervals, &known) => known,
            _ => {
                bounded_value = value;
                intervals
            }
        });
    }
    PathBounds {
        intervals: bounded,
        predicates_len,
        are_exact,
    }
}

/// Whether the values in the intervals of a predicate are just those that match it. A key of null says too little: it
/// stands for a missing field as well; and a regular expression asks more than its prefix.
fn is_exact(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Compare { value, .. } => !matches!(value.as_raw(), RawValue::Null),
        Predicate::In(list) => !list.has_null() && list.regexes().is_empty(),
        _ => false,
    }
}

/// Whether the one list surely bounds more than the other.
fn is_tighter(one: &[Interval<'_>], other: &[Interval<'_>]) -> bool {
    let points = |intervals: &[Interval<'_>]| intervals.iter().all(|interval| interval.is_point);
    match (points(one), points(other)) {
        (true, false) => true,
        (true, true) => one.len() < other.len(),
        (false, _) => false,
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

fn of_predicate<'m>(predicate: &'m Predicate, texts: Texts<'_>) -> Option<Vec<Interval<'m>>> {
    match predicate {
        Predicate::Compare { op, value } => of_comparison(*op, value.as_raw(), texts),
        Predicate::In(list) => {
            let mut intervals = Vec::new();
            for value in list.values() {
                if interrupts::is_over(UNITS_OF_AN_INTERVAL) {
                    return None;
                }
                intervals.extend(equality(value, texts)?);
            }
            for regex in list.regexes() {
                intervals.extend(of_regex(regex, texts)?);
            }
            Some(merged(intervals))
        }
        Predicate::Regex(regex) => of_regex(regex, texts),
        _ => None,
    }
}

fn equality<'m>(value: &'m Value, texts: Texts<'_>) -> Option<Vec<Interval<'m>>> {
    match value.as_raw() {
        RawValue::Array(_) | RawValue::Undefined => None,
        RawValue::Null => Some(vec![Interval::null()]),
        value => texts.intervals(value, |kept| vec![Interval::point(kept)]),
    }
}

fn of_comparison<'m>(
    op: CompareOp,
    value: RawValue<'m>,
    texts: Texts<'_>,
) -> Option<Vec<Interval<'m>>> {
    let is_nan = value.is_number() && value.as_f64_lossy().is_some_and(f64::is_nan);
    match value {
        RawValue::Array(_) | RawValue::Undefined => return None,
        RawValue::Null => {
            let takes_null = !matches!(op, CompareOp::Gt | CompareOp::Lt);
            return takes_null.then(|| vec![Interval::null()]);
        }
        _ if op == CompareOp::Eq => {
            return texts.intervals(value, |kept| vec![Interval::point(kept)]);
        }
        RawValue::MinKey | RawValue::MaxKey => return None,
        _ if is_nan => return None,
        _ => {}
    }
    texts.intervals(value, |kept| of_order(op, kept))
}

/// The values of the type of `value` that are above or below it.
fn of_order(op: CompareOp, value: RawValue<'_>) -> Vec<Interval<'_>> {
    let mut interval = Interval::type_of(value);
    match op {
        CompareOp::Gt => interval.low = Cut::behind(value).exclusive(),
        CompareOp::Gte | CompareOp::Eq => interval.low = Cut::before(value),
        CompareOp::Lt => interval.high = Cut::before(value).exclusive(),
        CompareOp::Lte => interval.high = Cut::behind(value),
    }
    match interval.is_empty() {
        true => Vec::new(),
        false => vec![interval],
    }
}

/// Texts with the prefix, and stored regular expressions. The sort key of a text does not tell what it begins with.
fn of_regex<'m>(regex: &'m RegexPredicate, texts: Texts<'_>) -> Option<Vec<Interval<'m>>> {
    let prefix = regex.prefix()?;
    let stored = quarry_bson::RawRegex {
        pattern: regex.pattern().into(),
        options: regex.options().into(),
    };
    Some(vec![
        match texts.are_sort_keys() {
            true => Interval::texts(),
            false => Interval::text_prefix(&prefix.text),
        },
        Interval::type_of(RawValue::Regex(stored)),
    ])
}

/// Sorts, and joins what overlaps.
fn merged(mut intervals: Vec<Interval<'_>>) -> Vec<Interval<'_>> {
    if sort_in_steps(&mut intervals, |a, b| a.low.bytes.cmp(&b.low.bytes)).is_err() {
        return Vec::new();
    }
    let mut apart: Vec<Interval<'_>> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        if interrupts::is_over(UNITS_OF_A_JOIN) {
            break;
        }
        match apart.last_mut() {
            Some(last) if interval.low.bytes < last.high.bytes => {
                last.is_point = false;
                if interval.high.bytes > last.high.bytes {
                    last.high = interval.high;
                }
            }
            _ => apart.push(interval),
        }
    }
    debug_assert!(
        apart.is_sorted_by(|a, b| a.high.bytes <= b.low.bytes),
        "intervals of a field stand apart, in order"
    );
    apart
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;
    use crate::matcher::Matcher;

    #[test]
    fn the_paths_that_are_made_for_elements_are_bounded() {
        let array = "a".repeat(1_000);
        let asked: Document = Document::build(|out| {
            for n in 0..10_000 {
                out.append("$gt", n);
            }
        });
        let of_values = doc! { (array.as_str()): { "$elemMatch": (asked) } };
        let fields: Vec<Document> = (0..10_000).map(|n| doc! { "b": n }).collect();
        let of_documents = doc! { (array.as_str()): { "$elemMatch": { "$and": fields } } };
        for filter in [of_values, of_documents] {
            let matcher = Matcher::parse(filter.as_raw()).unwrap();
            let found = Conjuncts::of(matcher.root());
            let made = found.predicates.iter().map(|(path, _)| match path {
                Cow::Borrowed(_) => 0,
                Cow::Owned(path) => path.len(),
            });
            let made: usize = made.sum();
            assert!(0 < made && made <= MADE_PATH_BYTES_MAX, "{made} bytes");
            assert!(!found.are_all);
        }
    }
}
