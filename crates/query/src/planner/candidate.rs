//! The candidates: what a plan may read, which is an index or the records of a collection that are ordered by a field: by `_id`, or by the time
//! of a time series. A candidate says which of its
//! leading fields a filter bounds, in which order its keys are, and which ranges of keys the bounds are.

use std::sync::Arc;

use quarry_bson::{Document, RawValue, doc};
use quarry_database::{
    Collection, ID_INDEX_NAME, Ident, Index, IndexCatalog, KeyRange, is_widened_by_cut_keys,
    meeting_cut_keys,
};
use quarry_keystring::Direction;
use smallvec::SmallVec;

use super::conjuncts::Element;
use super::filter_bounds::{Bound, Bounds, FilterBounds};
use super::interval::Interval;
use super::key_ranges::{apart, compose};
use super::wanted::Wanted;
use crate::Collation;
use crate::field_path::may_name_positions;
use crate::hashed_index::HashedKeys;
use crate::plan::IndexAccess;
use crate::sort::SortPattern;

/// An index, or the records of a collection in the order of their keys, as the planner sees it.
pub struct Candidate<'c> {
    pub name: &'c str,
    pub ident: Ident,
    /// Its fields' paths by number.
    pub paths: &'c [u16],
    pub prefix: &'c [u8],
    /// None for the records.
    pub index: Option<&'c Index>,
    /// The path that the records are ordered by; not looked at with an index.
    pub records_path: &'c str,
    pub multikey: u64,
    pub has_cut_keys: bool,
    pub is_unique: bool,
    pub is_sparse: bool,
    /// The number of the field whose values are kept hashed.
    pub hashed: Option<usize>,
    /// How it keeps strings.
    pub collation: &'c Collation,
    /// Strings are kept as the filter compares them.
    pub is_alike: bool,
}

/// The name under which plans show the records of a time series, which listIndexes does not list.
const RECORDS_BY_TIME: &str = "$time";

/// Records are kept under their `_id` or time as it is, and so are the keys of most indexes.
static SIMPLE: Collation = Collation::SIMPLE;

/// The leading fields of a candidate that the filter bounds.
pub type Bounded = SmallVec<[Bound; 12]>;

/// The bounds that a filter gives the fields of a candidate.
pub struct FieldBounds {
    /// The leading fields, which ranges of keys bound.
    pub leading: Bounded,
    /// How many of them are equalities.
    pub equalities: usize,
    /// The range behind the equalities.
    pub range: RangeKind,
    /// The fields behind, by number: each key is held against their bounds.
    pub tested: SmallVec<[(usize, Bound); 4]>,
}

/// The fields of the keys that a scan gives as far as bounds tell of them, a bit a field.
#[derive(Clone, Copy, Default)]
pub struct KnownFields {
    one_value: u64,
    bounded: u64,
}

impl KnownFields {
    /// Every field may be bounded, to whatever.
    pub const ALL_BOUNDED: KnownFields = KnownFields {
        one_value: 0,
        bounded: u64::MAX,
    };

    /// Adds a field that is bounded, and says whether to one value.
    pub fn add(&mut self, number: usize, has_one_value: bool) {
        self.bounded |= 1 << number;
        self.one_value |= u64::from(has_one_value) << number;
    }

    /// Like `self`, in a range in which the first fields, and no others, have one value.
    fn of_first(self, fields: usize) -> KnownFields {
        KnownFields {
            one_value: (1 << fields) - 1,
            ..self
        }
    }

    fn has_one_value(self, number: usize) -> bool {
        self.one_value & (1 << number) != 0
    }

    fn is_bounded(self, number: usize) -> bool {
        self.bounded & (1 << number) != 0
    }
}

/// The order of the keys within each range of a scan.
#[derive(Clone, Copy)]
pub struct RangeOrder {
    /// It is met from behind.
    pub is_reversed: bool,
    /// The leading fields, bounded to one value a range, that the keys of different ranges do not compare by.
    pub passed_over: usize,
}

/// How much a range leaves. Better ones are greater.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy, Hash)]
pub enum RangeKind {
    /// There is none.
    None,
    /// Perhaps nearly all that there is.
    Weak,
    /// Values between two ends.
    Bounded,
}

/// The indexes that plans may use, and the records in their order, for a filter that compares strings so.
pub fn candidates<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    asked: &Collation,
) -> impl Iterator<Item = Candidate<'c>> {
    let records = collection.records_path().map(|path| Candidate {
        name: match collection.series {
            None => collection.id_index_name(),
            Some(_) => RECORDS_BY_TIME,
        },
        records_path: path,
        ident: collection.ident,
        paths: index_catalog.paths.of_records(),
        prefix: collection.prefix.as_bytes(),
        index: None,
        multikey: 0,
        has_cut_keys: false,
        // Several measurements may have one time.
        is_unique: collection.series.is_none(),
        is_sparse: false,
        hashed: None,
        collation: &SIMPLE,
        is_alike: asked.is_simple(),
    });
    // The keys of an index with a kind are no values: only plans that know the kind read it. Hashes are values of another field.
    let usable = |(_, index): &(usize, &Index)| {
        let is_repeated = collection.is_clustered() && &*index.name == ID_INDEX_NAME;
        let is_usable = !index.building && !index.hidden && !index.is_outdated();
        is_usable && is_of_values(index) && !is_repeated
    };
    let indexes = index_catalog.indexes.iter().enumerate().filter(usable);
    let indexes = indexes.map(|(position, index)| Candidate {
        name: &index.name,
        ident: index.ident,
        paths: index_catalog.paths.of_index(position),
        prefix: index.prefix.as_bytes(),
        index: Some(index),
        records_path: "",
        multikey: index.multikey_components(),
        has_cut_keys: index.has_cut_keys(),
        is_unique: index.unique,
        is_sparse: index.sparse,
        hashed: hashed_place(index),
        collation: &index.collation,
        is_alike: index.collation == *asked,
    });
    records.into_iter().chain(indexes)
}

/// Whether its keys are values of the fields of its pattern, or hashes of them.
fn is_of_values(index: &Index) -> bool {
    index.special.is_none() || hashed_place(index).is_some()
}

fn hashed_place(index: &Index) -> Option<usize> {
    index.special.as_ref()?;
    HashedKeys::of(index).map(|keys| keys.place)
}

impl<'c> Candidate<'c> {
    /// Whether it is the records of the collection themselves.
    pub fn is_of_records(&self) -> bool {
        self.index.is_none()
    }

    /// Whether it is the records of a time series.
    pub fn is_by_time(&self) -> bool {
        self.index.is_none() && !self.is_unique
    }

    pub fn fields_len(&self) -> usize {
        self.index.map_or(1, |index| index.pattern.fields.len())
    }

    pub fn field(&self, number: usize) -> (&'c str, Direction) {
        match self.index {
            None => (self.records_path, Direction::Ascending),
            Some(index) => {
                let field = &index.pattern.fields[number];
                (&field.path, field.direction)
            }
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = (&'c str, Direction)> + '_ {
        (0..self.fields_len()).map(|number| self.field(number))
    }

    fn pattern(&self) -> Arc<Document> {
        match self.index {
            None => Arc::new(doc! { (self.records_path): 1 }),
            Some(index) => Arc::clone(&index.pattern.document),
        }
    }

    /// Whether it is a partial index that may lack documents which match. One that a hint names is used all the same, as
    /// a sparse one is.
    pub fn leaves_out(&self, bounds: &FilterBounds<'_>) -> bool {
        let filter = self.index.and_then(|index| index.filter.as_deref());
        filter.is_some_and(|filter| !bounds.imply(filter))
    }

    /// Whether plans may use it.
    #[inline]
    pub fn is_allowed(&self, wanted: &Wanted<'_>) -> bool {
        match wanted.allowed {
            None => true,
            Some(filter) => filter.allows(self.name, &self.pattern()),
        }
    }

    /// Whether every document has one entry, be the fields there or not.
    pub fn tells_missing(&self) -> bool {
        self.multikey == 0 && !self.is_sparse
    }

    /// Whether a hint means it. No hint means the order of a time series, which is no index.
    pub fn is_meant(&self, hint: RawValue<'_>) -> bool {
        if self.is_by_time() {
            return false;
        }
        match hint {
            RawValue::String(name) => name == self.name,
            RawValue::Document(pattern) => {
                quarry_bson::compare::compare_documents(pattern, self.pattern().as_raw()).is_eq()
            }
            _ => false,
        }
    }

    /// The order of the keys in each range of a scan whose first `equalities` fields are bounded to one value a range, if it is the wanted one.
    pub fn range_order(
        &self,
        sort: &SortPattern,
        equalities: usize,
        known: KnownFields,
    ) -> Option<RangeOrder> {
        let asked = sort.fields();
        let is_asked = |path: &str| asked.iter().any(|field| field.path.as_str() == path);
        let leading = self.fields().take(equalities);
        let passed_over = leading.take_while(|(path, _)| !is_asked(path)).count();
        self.index?;
        Some(RangeOrder {
            is_reversed: self.order(sort, known.of_first(passed_over))?,
            passed_over,
        })
    }

    /// The bounds of the fields.
    pub fn bound(&self, bounds: &mut FilterBounds<'_>) -> FieldBounds {
        let mut found = FieldBounds {
            leading: Bounded::new(),
            equalities: 0,
            range: RangeKind::None,
            tested: SmallVec::new(),
        };
        let mut arrays = SmallVec::<[(&str, Option<Element>); 2]>::new();
        let mut leads = true;
        for (number, &path) in self.paths.iter().enumerate() {
            let name = self.field(number).0;
            let is_multikey = self.is_multikey(number);
            let bound = match self.hashed == Some(number) {
                false => bounds.of(path, name, is_multikey, self.collation),
                true if leads => self.bound_of_hashes(number, bounds),
                true => None,
            };
            // Fields of one array are keyed element by element, but may be met by different elements.
            let element = bound.and_then(|bound| bounds.element(bound));
            let bound = bound.filter(|_| !is_multikey || have_one_key(&arrays, name, element));
            let Some(bound) = bound else {
                leads = false;
                if found.leading.is_empty() {
                    break;
                }
                continue;
            };
            if is_multikey {
                arrays.push((name, element));
            }
            if !leads {
                found.tested.push((number, bound));
                continue;
            }
            found.leading.push(bound);
            if bounds.get(bound).are_points() {
                found.equalities += 1;
                continue;
            }
            leads = false;
            found.range = match bounds.is_weak(bound) {
                true => RangeKind::Weak,
                false => RangeKind::Bounded,
            };
        }
        found
    }

    /// Whether a document has met an array at the field.
    pub fn is_multikey(&self, number: usize) -> bool {
        self.multikey & (1 << number) != 0
    }

    /// The bound of the hashed field. A sparse index has no entry of a document without its first field.
    fn bound_of_hashes(&self, number: usize, bounds: &mut FilterBounds<'_>) -> Option<Bound> {
        let (path, name) = (self.paths[number], self.field(number).0);
        let bound = bounds.of(path, name, false, self.collation)?;
        let may_lack = self.is_sparse && number == 0 && bounds.get(bound).hold_null();
        match may_lack {
            true => None,
            false => bounds.of_hashes(path, name, self.collation),
        }
    }

    /// Whether the keys are in the wanted order, and if so whether from behind. Fields that have one value do not count.
    pub fn order(&self, sort: &SortPattern, known: KnownFields) -> Option<bool> {
        if self.has_cut_keys || !self.is_alike {
            return None;
        }
        // An array that is equal to a value has others, too, and documents are in the order of their least or greatest elements.
        let is_constant = |path: &str| {
            let number = self.fields().position(|(field, _)| field == path);
            number.is_some_and(|number| known.has_one_value(number) && !self.is_multikey(number))
        };
        // Behind a hash that is not one value nothing is in order.
        let in_order = self.hashed.unwrap_or(usize::MAX);
        let fields = self.fields().enumerate();
        let fields =
            fields.take_while(|(number, _)| *number != in_order || known.has_one_value(*number));
        let mut fields = fields.filter(|(number, _)| !known.has_one_value(*number));
        let mut is_reversed = None;
        let asked = sort.fields().iter();
        for asked in asked.filter(|asked| !is_constant(asked.path.as_str())) {
            let (number, (path, direction)) = fields.next()?;
            if path != asked.path.as_str() || !self.sorts_by(number, known) {
                return None;
            }
            let differs = direction != asked.direction;
            if *is_reversed.get_or_insert(differs) != differs {
                return None;
            }
        }
        Some(is_reversed.unwrap_or(false))
    }

    /// Whether the first key of a document within the bounds has the value of this field that the document is sorted by. Of an array that is its
    /// least or greatest element: the bounds may leave out none of its elements, neither by this field nor by another one that the same array is on. As
    /// in MongoDB, a field counts for that which begins with the same component.
    fn sorts_by(&self, number: usize, known: KnownFields) -> bool {
        if !self.is_multikey(number) {
            return true;
        }
        let first = |path: &'c str| path.split('.').next();
        let path = self.field(number).0;
        let shares_bounds = |(other, (other_path, _)): (usize, (&'c str, Direction))| {
            known.is_bounded(other) && self.is_multikey(other) && first(other_path) == first(path)
        };
        // A place in an array is sorted by as it is, and kept element by element.
        !known.is_bounded(number)
            && !may_name_positions(path)
            && !self.fields().enumerate().any(shares_bounds)
    }
}

/// Whether a document that meets the bounds of several fields that arrays are on has one key that meets them all.
fn have_one_key(arrays: &[(&str, Option<Element>)], name: &str, element: Option<Element>) -> bool {
    arrays
        .iter()
        .all(|&(other_name, other)| match (element, other) {
            (Some(element), Some(other)) => element.has_key_of(name, (other, other_name)),
            _ => false,
        })
}

impl Candidate<'_> {
    /// Describes the index to those who scan it and those who show it.
    pub fn access(&self, bounds: Vec<(String, Vec<String>)>) -> IndexAccess {
        IndexAccess {
            name: self
                .index
                .map_or_else(|| self.name.into(), |index| Arc::clone(&index.name)),
            ident: self.ident,
            is_of_records: self.is_of_records(),
            pattern: self.pattern(),
            is_multikey: self.multikey != 0,
            is_unique: self.is_unique,
            is_sparse: self.is_sparse,
            collation: self.collation.specification().cloned(),
            is_partial: self.index.is_some_and(|index| index.filter.is_some()),
            bounds,
        }
    }

    /// The ranges of keys, and whether they hold no other keys than those within the bounds. Records have whole keys; those of
    /// an index may be cut.
    pub fn ranges(&self, bounded: &[(Bounds<'_, '_>, Direction)]) -> (Vec<KeyRange>, bool) {
        let ranges = compose(self.prefix, bounded);
        if self.is_of_records() {
            return (ranges, true);
        }
        let are_exact = !ranges.iter().any(is_widened_by_cut_keys);
        (apart(ranges.into_iter().map(meeting_cut_keys)), are_exact)
    }

    /// The bounds of every field, as explain prints them; none is one that is not bounded.
    pub fn texts<'b, 'm: 'b>(
        &self,
        bounds_of: impl Fn(usize) -> Option<Bounds<'b, 'm>>,
        is_reversed: bool,
    ) -> Vec<(String, Vec<String>)> {
        let fields = self.fields().enumerate();
        let texts = fields.map(|(number, (path, direction))| {
            let intervals =
                bounds_of(number).map_or_else(|| vec![Interval::all()], Bounds::to_intervals);
            let turns = (direction == Direction::Descending) != is_reversed;
            let text = |interval: &Interval<'_>| match self.collation.is_simple() {
                true => interval.text(turns),
                false => interval.text_of_sort_keys(turns),
            };
            let mut shown: Vec<String> = intervals.iter().map(text).collect();
            if turns {
                shown.reverse();
            }
            (path.to_owned(), shown)
        });
        texts.collect()
    }
}
