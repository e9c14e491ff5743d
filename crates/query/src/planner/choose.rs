//! The choice between the indexes of a collection, by the shape of the bounds that a filter gives them: a whole
//! unique key, then more fields of equality, then a range, then an order that is asked for; else the collection.

use quarry_bson::{Document, RawValue};
use quarry_database::{Collection, Detail, Ident, Index, KeyRange, meeting_cut_keys};
use quarry_keystring::Direction;

use super::bounds;
use super::interval::Interval;
use super::key_ranges::{apart, compose};
use super::plan::{Access, IndexAccess, Plan};
use crate::error::{Error, Result};
use crate::matcher::{FieldPredicate, Matcher};
use crate::sort::SortPattern;

/// What a plan is asked for.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    pub matcher: &'w Matcher,
    pub sort: Option<&'w SortPattern>,
    /// The name of an index, its key pattern, or `{$natural: ±1}`.
    pub hint: Option<RawValue<'w>>,
}

/// An index, or the records of a clustered collection, as the planner sees it.
struct Candidate<'c> {
    name: &'c str,
    ident: Ident,
    prefix: &'c [u8],
    pattern: Document,
    fields: Vec<(&'c str, Direction)>,
    multikey: u64,
    has_cut_keys: bool,
    is_unique: bool,
    is_sparse: bool,
    is_clustered: bool,
}

/// Better plans are greater.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Score {
    is_whole_unique_key: bool,
    equalities: usize,
    has_range: bool,
    gives_order: bool,
    is_clustered: bool,
}

struct Scored {
    score: Score,
    plan: Plan,
    leaves_out_missing: bool,
}

pub fn choose(collection: &Collection, detail: &Detail, wanted: Wanted<'_>) -> Result<Plan> {
    let natural = wanted.sort.and_then(SortPattern::natural);
    if let Some(direction) = natural {
        return Ok(whole(collection, direction, true));
    }
    if let Some(direction) = natural_hint(wanted.hint)? {
        return Ok(whole(collection, direction, wanted.sort.is_none()));
    }
    let conjuncts = bounds::conjuncts(wanted.matcher.root());
    let mut best: Option<Scored> = None;
    let mut is_hint_known = false;
    for candidate in candidates(collection, detail) {
        if let Some(hint) = wanted.hint {
            if !candidate.is_meant(hint) {
                continue;
            }
            is_hint_known = true;
        }
        let scored = candidate.plan(&conjuncts, wanted.sort);
        let is_usable = wanted.hint.is_some()
            || (!scored.leaves_out_missing
                && (scored.score.equalities > 0
                    || scored.score.has_range
                    || scored.score.gives_order));
        if is_usable && best.as_ref().is_none_or(|best| scored.score > best.score) {
            best = Some(scored);
        }
    }
    if wanted.hint.is_some() && !is_hint_known {
        return Err(Error::bad_value(
            "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
        ));
    }
    Ok(best.map_or_else(
        || whole(collection, Direction::Ascending, wanted.sort.is_none()),
        |best| best.plan,
    ))
}

fn whole(collection: &Collection, direction: Direction, is_sorted: bool) -> Plan {
    let range = KeyRange::new(collection.prefix.as_bytes(), collection.prefix.end());
    Plan {
        access: Access::Collection,
        ranges: vec![range],
        is_reversed: direction == Direction::Descending,
        is_sorted,
    }
}

fn natural_hint(hint: Option<RawValue<'_>>) -> Result<Option<Direction>> {
    let Some(RawValue::Document(pattern)) = hint else {
        return Ok(None);
    };
    let Some(natural) = pattern.get("$natural") else {
        return Ok(None);
    };
    match natural.as_i64_exact() {
        Some(1) => Ok(Some(Direction::Ascending)),
        Some(-1) => Ok(Some(Direction::Descending)),
        _ => Err(Error::bad_value(
            "$natural hint cannot be set to a value other than -1 or 1.",
        )),
    }
}

fn candidates<'c>(collection: &'c Collection, detail: &'c Detail) -> Vec<Candidate<'c>> {
    let mut found = Vec::with_capacity(detail.indexes.len() + 1);
    if collection.is_clustered() {
        let mut pattern = Document::new();
        pattern.append("_id", 1);
        found.push(Candidate {
            name: "_id_",
            ident: collection.ident,
            prefix: collection.prefix.as_bytes(),
            pattern,
            fields: vec![("_id", Direction::Ascending)],
            multikey: 0,
            has_cut_keys: false,
            is_unique: true,
            is_sparse: false,
            is_clustered: true,
        });
    }
    let usable = |index: &&Index| {
        let is_repeated = collection.is_clustered() && index.name == "_id_";
        !index.building && !index.hidden && !is_repeated
    };
    for index in detail.indexes.iter().filter(usable) {
        found.push(Candidate {
            name: &index.name,
            ident: index.ident,
            prefix: index.prefix.as_bytes(),
            pattern: index.pattern.document.clone(),
            fields: index
                .pattern
                .fields
                .iter()
                .map(|field| (field.path.as_str(), field.direction))
                .collect(),
            multikey: index.multikey_components(),
            has_cut_keys: index.has_cut_keys(),
            is_unique: index.unique,
            is_sparse: index.sparse,
            is_clustered: false,
        });
    }
    found
}

impl Candidate<'_> {
    fn is_meant(&self, hint: RawValue<'_>) -> bool {
        match hint {
            RawValue::String(name) => name == self.name,
            RawValue::Document(pattern) => {
                quarry_bson::compare::compare_documents(pattern, self.pattern.as_raw()).is_eq()
            }
            _ => false,
        }
    }

    fn plan(&self, conjuncts: &[&FieldPredicate], sort: Option<&SortPattern>) -> Scored {
        let (bounded, equalities, has_range) = self.bound(conjuncts);
        let order = sort.and_then(|sort| self.order(sort, &bounded[..equalities]));
        let is_whole_unique_key = self.is_unique
            && equalities == self.fields.len()
            && bounded.iter().all(|(intervals, _)| intervals.len() <= 1);
        let is_reversed = order.unwrap_or(false);
        let score = Score {
            is_whole_unique_key,
            equalities,
            has_range,
            gives_order: order.is_some(),
            is_clustered: self.is_clustered,
        };
        let leaves_out_missing = self.is_sparse && bounded[0].0.iter().any(Interval::holds_null);
        let access = IndexAccess {
            name: self.name.to_owned(),
            ident: self.ident,
            pattern: self.pattern.clone(),
            is_multikey: self.multikey != 0,
            is_unique: self.is_unique,
            is_sparse: self.is_sparse,
            bounds: self.texts(&bounded, is_reversed),
            is_point: self.is_clustered && is_whole_unique_key,
        };
        let plan = Plan {
            access: if self.is_clustered {
                Access::Records(access)
            } else {
                Access::Index(access)
            },
            ranges: self.ranges(&bounded),
            is_reversed,
            is_sorted: sort.is_none() || order.is_some(),
        };
        Scored {
            score,
            plan,
            leaves_out_missing,
        }
    }

    /// The intervals of the leading fields; how many of them are equalities; whether a range follows. There is
    /// at least one.
    fn bound(
        &self,
        conjuncts: &[&FieldPredicate],
    ) -> (Vec<(Vec<Interval>, Direction)>, usize, bool) {
        let mut bounded = Vec::new();
        let mut equalities = 0;
        let mut has_array = false;
        for (number, (path, direction)) in self.fields.iter().enumerate() {
            let is_multikey = self.multikey & (1 << number) != 0;
            // Fields of one array are keyed element by element, but may be met by different elements.
            if is_multikey && has_array {
                break;
            }
            let Some(intervals) = bounds::of_path(conjuncts, path, is_multikey) else {
                break;
            };
            has_array |= is_multikey;
            let all_points = intervals.iter().all(|interval| interval.is_point);
            bounded.push((intervals, *direction));
            if !all_points {
                return (bounded, equalities, true);
            }
            equalities += 1;
        }
        if bounded.is_empty() {
            bounded.push((vec![Interval::all()], self.fields[0].1));
        }
        (bounded, equalities, false)
    }

    /// Records have whole keys; those of an index may be cut.
    fn ranges(&self, bounded: &[(Vec<Interval>, Direction)]) -> Vec<KeyRange> {
        let ranges = compose(self.prefix, bounded);
        if self.is_clustered {
            return ranges;
        }
        apart(ranges.into_iter().map(meeting_cut_keys))
    }

    /// Whether the keys are in the wanted order, and if so whether from behind. Fields that have one value do
    /// not count.
    fn order(&self, sort: &SortPattern, equalities: &[(Vec<Interval>, Direction)]) -> Option<bool> {
        if self.multikey != 0 || self.is_sparse || self.has_cut_keys {
            return None;
        }
        let is_constant = |path: &str| {
            let number = self.fields.iter().position(|(field, _)| *field == path);
            number.is_some_and(|number| {
                equalities
                    .get(number)
                    .is_some_and(|(intervals, _)| intervals.len() <= 1)
            })
        };
        let mut fields = self.fields.iter().filter(|(path, _)| !is_constant(path));
        let mut is_reversed = None;
        let asked = sort.fields().iter();
        for asked in asked.filter(|asked| !is_constant(asked.path.as_str())) {
            let (path, direction) = fields.next()?;
            if *path != asked.path.as_str() {
                return None;
            }
            let differs = *direction != asked.direction;
            if *is_reversed.get_or_insert(differs) != differs {
                return None;
            }
        }
        Some(is_reversed.unwrap_or(false))
    }

    fn texts(
        &self,
        bounded: &[(Vec<Interval>, Direction)],
        is_reversed: bool,
    ) -> Vec<(String, Vec<String>)> {
        let all = vec![Interval::all()];
        let fields = self.fields.iter().enumerate();
        let texts = fields.map(|(number, (path, direction))| {
            let intervals = bounded.get(number).map_or(&all, |(intervals, _)| intervals);
            let turns = (*direction == Direction::Descending) != is_reversed;
            let mut shown: Vec<String> = intervals
                .iter()
                .map(|interval| interval.text(turns))
                .collect();
            if turns {
                shown.reverse();
            }
            ((*path).to_owned(), shown)
        });
        texts.collect()
    }
}
