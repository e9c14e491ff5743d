//! `$firstN $lastN $minN $maxN $top $topN $bottom $bottomN`: some values of a group, by their place or by an order.
//!
//! Keeps true: a group holds no more than the values wanted, in a tree by key and by the number of the document, so that
//! equal keys keep the order in which they came. What the documents of a group are picked by is the key: empty for
//! `$firstN` and `$lastN`, the value itself for `$minN` and `$maxN`, the sort key for the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value};
use quarry_keystring::{Direction, TypeBits};

use super::accumulator::Column;
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, bounds};
use crate::interrupts;
use crate::sort::SortPattern;
use crate::{Collation, encode_collated};

/// The way in which an accumulator picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Place,
    Value(Direction),
    Order,
}

/// A row of the table of accumulators that pick.
#[derive(Debug)]
pub struct PickKind {
    name: &'static str,
    by: By,
    /// The values with the highest keys are wanted, not those with the lowest.
    is_from_end: bool,
    /// The result is one value and no array of them.
    is_single: bool,
}

/// The accumulator of that name, `$` included.
pub fn find(name: &str) -> Option<&'static PickKind> {
    PICKS.iter().find(|kind| kind.name == name)
}

const fn row(name: &'static str, by: By, is_from_end: bool, is_single: bool) -> PickKind {
    PickKind {
        name,
        by,
        is_from_end,
        is_single,
    }
}

static PICKS: &[PickKind] = &[
    row("$bottom", By::Order, true, true),
    row("$bottomN", By::Order, true, false),
    row("$firstN", By::Place, false, false),
    row("$lastN", By::Place, true, false),
    row("$maxN", By::Value(Direction::Descending), false, false),
    row("$minN", By::Value(Direction::Ascending), false, false),
    row("$top", By::Order, false, true),
    row("$topN", By::Order, false, false),
];

/// An accumulator that picks, as it was parsed.
#[derive(Debug)]
pub struct Pick {
    kind: &'static PickKind,
    wanted: Count,
    pattern: Option<SortPattern>,
    collation: Collation,
}

/// How many values a group wants.
#[derive(Debug)]
enum Count {
    Constant(usize),
    /// An expression of the group's key, whose fields it reads where that is a document.
    OfKey(Expression),
}

impl PickKind {
    /// Parses the operand of the accumulator: the pick, and the expression of what it takes of a document. That is the
    /// value, or for those that go by an order an array of the value and the fields that the order asks for.
    /// `parse` parses an expression, and evaluates one that reads no document.
    pub fn parse(
        &'static self,
        operand: RawValue<'_>,
        collation: &Collation,
        parse: impl Fn(RawValue<'_>) -> Result<Expression>,
    ) -> Result<(Pick, Value)> {
        let is_ordered = self.by == By::Order;
        let RawValue::Document(options) = operand else {
            let code = if is_ordered { 5_788_001 } else { 5_787_801 };
            let text = format!(
                "specification must be an object; found {}: {operand}",
                self.name
            );
            return Err(Error::location(code, text));
        };
        let (mut value, mut n, mut order) = (None, None, None);
        for option in options {
            match option.name().as_bytes() {
                b"n" if !self.is_single => n = Some(option.value()),
                b"output" if is_ordered => value = Some(option.value()),
                b"sortBy" if is_ordered => order = Some(option.value()),
                b"input" if !is_ordered => value = Some(option.value()),
                _ => {
                    let code = if is_ordered { 5_788_002 } else { 5_787_901 };
                    let text = format!("Unknown argument to {} '{}'", self.name, option.name());
                    return Err(Error::location(code, text));
                }
            }
        }
        let missing = |ordered, other, name| {
            let code = if is_ordered { ordered } else { other };
            Error::location(code, format!("Missing value for '{name}'"))
        };
        let wanted = match n {
            _ if self.is_single => Count::Constant(1),
            Some(n) => {
                let expression = parse(n)?;
                match expression.constant() {
                    Some(value) => Count::Constant(count(value.as_raw())?),
                    None => Count::OfKey(expression),
                }
            }
            None => return Err(missing(5_788_003, 5_787_906, "n")),
        };
        let name = if is_ordered { "output" } else { "input" };
        let value = value.ok_or_else(|| missing(5_788_004, 5_787_907, name))?;
        let (pattern, operand) = match order {
            _ if !is_ordered => (None, value.to_value()),
            Some(RawValue::Document(order)) => {
                let pattern = SortPattern::parse_in(order, collation)?;
                let operand = with_fields_of(value, &pattern);
                (Some(pattern), operand)
            }
            Some(_) => {
                let text = "invalid parameter: expected an object (sortBy)";
                return Err(Error::location(10065, text));
            }
            None => return Err(missing(5_788_005, 5_788_005, "sortBy")),
        };
        let pick = Pick {
            kind: self,
            wanted,
            pattern,
            collation: collation.clone(),
        };
        Ok((pick, operand))
    }
}

/// The value of `n` as a number of values.
fn count(value: RawValue<'_>) -> Result<usize> {
    if !value.is_number() {
        let text = format!("Value for 'n' must be of integral type, but found {value}");
        return Err(Error::location(5_787_902, text));
    }
    let n = value.as_i64_exact().ok_or_else(|| {
        let text = format!("Value for 'n' must be of integral type, but found {value}");
        Error::location(5_787_903, text)
    })?;
    if n <= 0 {
        let text = format!("'n' must be greater than 0, found {n}");
        return Err(Error::location(5_787_908, text));
    }
    Ok(usize::try_from(n).unwrap_or(usize::MAX))
}

/// `[value, {a: "$a", ..}]` with the top-level fields of the order.
fn with_fields_of(value: RawValue<'_>, pattern: &SortPattern) -> Value {
    let built = Document::build(|out| {
        let mut both = out.array("v");
        both.push(value);
        let mut fields = both.document();
        let mut heads: Vec<&str> = pattern
            .fields()
            .iter()
            .map(|field| field.path.first())
            .collect();
        heads.sort_unstable();
        heads.dedup();
        for head in heads {
            fields.append(head, format!("${head}").as_str());
        }
        fields.finish();
        both.finish();
    });
    built.get("v").unwrap_or(RawValue::Null).to_value()
}

/// The groups' picks.
pub struct Picks {
    pick: Arc<Pick>,
    groups: Vec<Picked>,
    documents: u64,
}

/// The bytes that a group takes that has no values yet.
pub const START_BYTES: usize = size_of::<Picked>();

/// The values of one group.
#[derive(Debug, Default)]
struct Picked {
    /// How many values it keeps at most.
    wanted: usize,
    values: BTreeMap<(Box<[u8]>, u64), Value>,
    bytes: usize,
    /// The most that `bytes` has been.
    bytes_charged: usize,
}

impl Pick {
    /// The column of no groups.
    pub fn start(self: &Arc<Self>) -> Box<dyn Column> {
        Box::new(Picks {
            pick: Arc::clone(self),
            groups: Vec::new(),
            documents: 0,
        })
    }

    /// The key by which a value is picked, and the value; None for one that does not count.
    fn taken<'v>(&self, value: Option<RawValue<'v>>) -> Result<Option<(Vec<u8>, RawValue<'v>)>> {
        let mut key = Vec::new();
        let value = value.unwrap_or(RawValue::Null);
        Ok(match (self.kind.by, &self.pattern) {
            (By::Value(_), _) if value.is_nullish() => None,
            (By::Value(direction), _) => {
                let (collation, mut bits) = (&self.collation, TypeBits::default());
                encode_collated(collation, &mut key, &mut bits, value, direction);
                Some((key, value))
            }
            (By::Order, Some(pattern)) => {
                let mut both = value.as_array().into_iter().flat_map(|both| both.iter());
                let value = both.next().unwrap_or(RawValue::Null);
                let fields = both.next().and_then(|fields| fields.as_document());
                pattern.key(fields.unwrap_or(RawDocument::EMPTY), &mut key)?;
                Some((key, value))
            }
            _ => Some((key, value)),
        })
    }
}

impl Picked {
    fn insert(
        &mut self,
        pick: &Pick,
        key: Vec<u8>,
        number: u64,
        value: RawValue<'_>,
    ) -> Result<()> {
        let is_full = self.values.len() >= self.wanted;
        if is_full && !pick.kind.is_from_end {
            // A later document loses against an equal key.
            let last = self.values.last_key_value();
            if last.is_some_and(|((last, _), _)| **last <= *key) {
                return Ok(());
            }
        }
        bounds::check_depth(value, 2)?;
        let value = Value::from(value);
        self.bytes += entry_bytes(&key, &value);
        self.values.insert((key.into_boxed_slice(), number), value);
        if is_full {
            let given_up = if pick.kind.is_from_end {
                self.values.pop_first()
            } else {
                self.values.pop_last()
            };
            self.bytes -= given_up.map_or(0, |((key, _), value)| entry_bytes(&key, &value));
        }
        bounds::check_bytes(self.bytes)
    }
}

fn entry_bytes(key: &[u8], value: &Value) -> usize {
    size_of::<(Box<[u8]>, u64, Value)>() + key.len() + value.as_bytes().len()
}

/// The work of finding a place in a tree.
const UNITS_OF_A_PLACE: usize = 20;

impl Column for Picks {
    fn begin_group(&mut self, key: RawValue<'_>) -> Result<()> {
        let wanted = match &self.pick.wanted {
            Count::Constant(n) => *n,
            Count::OfKey(expression) => {
                let key = key.as_document().unwrap_or(RawDocument::EMPTY);
                let n = expression.evaluate(&mut Context::new(key))?;
                count(n.as_raw().unwrap_or(RawValue::Null))?
            }
        };
        self.groups.push(Picked {
            wanted,
            ..Picked::default()
        });
        Ok(())
    }

    fn add(&mut self, group: usize, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some((key, value)) = self.pick.taken(value)? else {
            return Ok(0);
        };
        interrupts::work(UNITS_OF_A_PLACE + interrupts::units_of(value))?;
        self.documents += 1;
        let picked = &mut self.groups[group];
        picked.insert(&self.pick, key, self.documents, value)?;
        let grown = picked.bytes.saturating_sub(picked.bytes_charged);
        picked.bytes_charged += grown;
        Ok(grown)
    }

    fn hand_out(
        &mut self,
        group: usize,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<usize> {
        self.show(group, name, out)?;
        let picked = std::mem::take(&mut self.groups[group]);
        Ok(picked.bytes_charged)
    }

    fn show(&self, group: usize, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let picked = &self.groups[group];
        if self.pick.kind.is_single {
            let only = picked.values.values().next();
            out.append(name, only.map_or(RawValue::Null, Value::as_raw));
            return Ok(());
        }
        let mut array = out.array(name);
        for value in picked.values.values() {
            interrupts::work_on_bytes(value.as_bytes().len())?;
            array.push(value);
        }
        array.finish();
        Ok(())
    }
}
