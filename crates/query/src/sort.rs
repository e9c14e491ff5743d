//! Sort patterns: `{a: 1, "b.c": -1}` turned into keys whose bytes compare as the documents sort.
//!
//! A missing field sorts as null, an empty array as undefined, and an array by its smallest element where the
//! field ascends, its largest where it descends. Fields through one array are taken from the same element.
//! `$natural` is recognised, and an order by the score of a search (`$meta`), which is read of the metadata that a document comes with. Keys are for comparing only: they are not decoded.

use std::cmp::Ordering;

use quarry_bson::{FieldSet, RawArray, RawDocument, RawElement, RawValue};
use quarry_keystring::{Direction, TypeBits};
use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts::{self, units_collated, units_of};
use crate::metadata::{self, not_available};
use crate::{Collation, encode_collated};

/// The work of one field of the key that an array's element gives.
const UNITS_OF_AN_ELEMENT: usize = 10;

/// As MongoDB: fields of one pattern.
pub const SORT_FIELDS_MAX: usize = 32;

/// A sort pattern as it was parsed.
#[derive(Debug)]
pub struct SortPattern {
    fields: Vec<SortField>,
    /// The top-level field that each path begins with.
    heads: FieldSet,
    natural: Option<Direction>,
    /// How strings are compared.
    collation: Collation,
}

/// One field of a sort pattern.
#[derive(Debug)]
pub struct SortField {
    /// The path.
    pub path: FieldPath,
    /// The direction.
    pub direction: Direction,
    /// The field is `{$meta: "textScore"}`: what is sorted by is how much a document is about the words that were searched for, the
    /// most first. The path means nothing then.
    pub is_score: bool,
}

impl SortField {
    /// The value that the field sorts a document by, or the way to it; `head` is the element that its path begins with.
    fn cursor<'a>(
        &self,
        document: RawDocument<'a>,
        head: Option<RawElement<'a>>,
    ) -> Cursor<'a, '_> {
        if !self.is_score {
            let value = head.map(|element| element.value());
            return resolve(value, &self.path.parts()[1..]);
        }
        let attached = document.get(metadata::FIELD);
        let attached = attached.and_then(|attached| attached.as_document());
        let score = attached.and_then(|attached| attached.get(metadata::TEXT_SCORE));
        Cursor::Value(score.unwrap_or(RawValue::Null))
    }
}

impl SortPattern {
    /// Parses a sort pattern. Fails for one that sorts by nothing or too much.
    pub fn parse(pattern: RawDocument<'_>) -> Result<SortPattern> {
        SortPattern::parse_in(pattern, &Collation::SIMPLE)
    }

    /// Like `parse`, with strings in the order of a collation.
    pub fn parse_in(pattern: RawDocument<'_>, collation: &Collation) -> Result<SortPattern> {
        if let Some(natural) = pattern.get_element("$natural") {
            return parse_natural(pattern, natural);
        }
        let mut fields: Vec<SortField> = Vec::new();
        for element in pattern {
            let (direction, is_score) = parse_direction(element)?;
            let field = SortField {
                path: parse_path(element)?,
                direction,
                is_score,
            };
            if fields.iter().any(|known| known.path == field.path) {
                let text = format!(
                    "$sort key must not contain duplicate keys (field: '{}')",
                    field.path.as_str()
                );
                return Err(Error::location(7472500, text));
            }
            if fields.len() == SORT_FIELDS_MAX {
                let text = format!("too many compound keys: at most {SORT_FIELDS_MAX} are allowed");
                return Err(Error::location(13103, text));
            }
            fields.push(field);
        }
        Ok(SortPattern {
            heads: FieldSet::new(fields.iter().map(|field| field.path.first())),
            fields,
            natural: None,
            collation: collation.clone(),
        })
    }

    /// In the order in which they count. Empty for `{}` and for `$natural`.
    pub fn fields(&self) -> &[SortField] {
        &self.fields
    }

    /// The direction of `{$natural: ..}`.
    pub fn natural(&self) -> Option<Direction> {
        self.natural
    }

    /// Whether it is by the scores of a search for words, among others.
    pub fn is_by_score(&self) -> bool {
        self.fields.iter().any(|field| field.is_score)
    }

    /// True if any order will do.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.natural.is_none()
    }

    /// Appends the document's sort key: `a` sorts before `b` if its key's bytes do. Fails for two arrays side
    /// by side, which have no order together.
    pub fn key(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut heads: SmallVec<[Option<RawElement<'_>>; 4]> = smallvec![None; self.fields.len()];
        self.heads.extract(document, &mut heads);
        let cursors: Cursors<'_, '_> = self
            .fields
            .iter()
            .zip(heads)
            .map(|(field, head)| field.cursor(document, head))
            .collect();
        let units = interrupts::units_of_bytes(document.len_bytes());
        interrupts::work(units_collated(&self.collation, units))?;
        let start = out.len();
        self.smallest_key(&cursors, start, out)
    }

    /// The values that a document sorts by, one for each field: of all combinations of arrays' elements, the one whose key is the
    /// smallest.
    pub fn values<'d>(&self, document: RawDocument<'d>) -> Result<Vec<RawValue<'d>>> {
        let cursors: Cursors<'d, '_> = self
            .fields
            .iter()
            .map(|field| field.cursor(document, document.get_element(field.path.first())))
            .collect();
        let mut least = None;
        self.least_values(&cursors, &mut least)?;
        Ok(least.map_or_else(Vec::new, |(_, values)| values))
    }

    /// Like `smallest_key`, and keeps the values with the key. As deep as the longest path.
    fn least_values<'d>(
        &self,
        cursors: &[Cursor<'d, '_>],
        least: &mut Option<(Vec<u8>, Vec<RawValue<'d>>)>,
    ) -> Result<()> {
        if let Some(array) = cursors.iter().find_map(Cursor::array) {
            if array.is_empty() {
                return self.least_values(&enter(cursors, None), least);
            }
            for element in array {
                interrupts::work(UNITS_OF_AN_ELEMENT * self.fields.len() + units_of(element))?;
                self.least_values(&enter(cursors, Some(element)), least)?;
            }
            return Ok(());
        }
        let mut key = Vec::new();
        self.encode(cursors, 0, &mut key);
        if least.as_ref().is_none_or(|(known, _)| key < *known) {
            let values = cursors.iter().map(|cursor| match cursor {
                Cursor::Value(value) => *value,
                Cursor::Array(..) => unreachable!("arrays are opened before"),
            });
            *least = Some((key, values.collect()));
        }
        Ok(())
    }

    /// Compares two documents by the pattern.
    pub fn compare(&self, a: RawDocument<'_>, b: RawDocument<'_>) -> Result<Ordering> {
        let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
        self.key(a, &mut key_a)?;
        self.key(b, &mut key_b)?;
        Ok(key_a.cmp(&key_b))
    }

    /// Opens one array after another; the smallest key of all combinations stays at `start`.
    fn smallest_key(
        &self,
        cursors: &[Cursor<'_, '_>],
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(array) = cursors.iter().find_map(Cursor::array) else {
            self.encode(cursors, start, out);
            return Ok(());
        };
        let parallel = |cursor: &Cursor<'_, '_>| {
            cursor
                .array()
                .is_some_and(|other| other.as_bytes().as_ptr() != array.as_bytes().as_ptr())
        };
        if cursors.iter().any(parallel) {
            return Err(Error::bad_value(
                "cannot sort with keys that are parallel arrays",
            ));
        }
        if array.is_empty() {
            return self.smallest_key(&enter(cursors, None), start, out);
        }
        for element in array {
            let units = units_collated(&self.collation, units_of(element));
            interrupts::work(UNITS_OF_AN_ELEMENT * self.fields.len() + units)?;
            self.smallest_key(&enter(cursors, Some(element)), start, out)?;
        }
        Ok(())
    }

    /// Keeps the key of these values if it is smaller than the one at `start`, or the first.
    fn encode(&self, cursors: &[Cursor<'_, '_>], start: usize, out: &mut Vec<u8>) {
        let best_end = out.len();
        // Sorting does not tell 1 from 1.0.
        let mut type_bits = TypeBits::default();
        for (field, cursor) in self.fields.iter().zip(cursors) {
            if let Cursor::Value(value) = cursor {
                let collation = &self.collation;
                encode_collated(collation, out, &mut type_bits, *value, field.direction);
            }
        }
        if best_end == start {
            return;
        }
        if out[best_end..] < out[start..best_end] {
            out.copy_within(best_end.., start);
            out.truncate(out.len() - (best_end - start));
        } else {
            out.truncate(best_end);
        }
    }
}

/// How far one field's path has been followed.
enum Cursor<'a, 'p> {
    Value(RawValue<'a>),
    /// An array is to be opened; the rest of the path goes on in its elements.
    Array(RawArray<'a>, &'p [PathPart]),
}

type Cursors<'a, 'p> = SmallVec<[Cursor<'a, 'p>; 4]>;

impl<'a> Cursor<'a, '_> {
    fn array(&self) -> Option<RawArray<'a>> {
        match self {
            Cursor::Value(_) => None,
            Cursor::Array(array, _) => Some(*array),
        }
    }
}

/// Follows a path through documents, and through arrays whose position it names, up to the first array that
/// has to be opened.
fn resolve<'a, 'p>(value: Option<RawValue<'a>>, rest: &'p [PathPart]) -> Cursor<'a, 'p> {
    let (mut value, mut rest) = (value, rest);
    loop {
        match (value, rest.split_first()) {
            (None, _) => return Cursor::Value(RawValue::Null),
            (Some(RawValue::Document(document)), Some((part, after))) => {
                value = document.get(part.name());
                rest = after;
            }
            (Some(RawValue::Array(array)), Some((part, after))) => {
                let Some(element) = part.index().and_then(|index| array.get(index as usize)) else {
                    return Cursor::Array(array, rest);
                };
                if after.is_empty() {
                    return Cursor::Value(element);
                }
                value = Some(element);
                rest = after;
            }
            (Some(RawValue::Array(array)), None) => return Cursor::Array(array, rest),
            (Some(value), None) => return Cursor::Value(value),
            (Some(_), Some(_)) => return Cursor::Value(RawValue::Null),
        }
    }
}

/// The cursors with the array that they share replaced by one of its elements, or by none if it is empty.
fn enter<'a, 'p>(cursors: &[Cursor<'a, 'p>], element: Option<RawValue<'a>>) -> Cursors<'a, 'p> {
    let enter_one = |cursor: &Cursor<'a, 'p>| match cursor {
        Cursor::Value(value) => Cursor::Value(*value),
        Cursor::Array(_, rest) => match (element, rest.split_first()) {
            (None, None) => Cursor::Value(RawValue::Undefined),
            (Some(element), None) => Cursor::Value(element),
            (Some(RawValue::Document(document)), Some((part, after))) => {
                resolve(document.get(part.name()), after)
            }
            (_, Some(_)) => Cursor::Value(RawValue::Null),
        },
    };
    cursors.iter().map(enter_one).collect()
}

fn parse_natural(pattern: RawDocument<'_>, natural: RawElement<'_>) -> Result<SortPattern> {
    if pattern.len() != 1 {
        return Err(Error::bad_value(
            "Cannot include '$natural' in compound sort",
        ));
    }
    let direction = match natural.value().as_i64_exact() {
        Some(1) => Direction::Ascending,
        Some(-1) => Direction::Descending,
        _ => {
            return Err(Error::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
    };
    Ok(SortPattern {
        fields: Vec::new(),
        heads: FieldSet::new([]),
        natural: Some(direction),
        collation: Collation::SIMPLE,
    })
}

/// The direction of a field, and whether it is by the scores of a search.
fn parse_direction(element: RawElement<'_>) -> Result<(Direction, bool)> {
    match element.value() {
        RawValue::Document(by) if by.get("$meta").is_some() => {
            let is_by_score = by.len() == 1
                && by.get("$meta").and_then(|kind| kind.as_str()) == Some(metadata::TEXT_SCORE);
            match is_by_score {
                true => Ok((Direction::Descending, true)),
                false => Err(refused_meta(by)),
            }
        }
        number if number.is_number() => match number.as_i64_exact() {
            Some(1) => Ok((Direction::Ascending, false)),
            Some(-1) => Ok((Direction::Descending, false)),
            _ => Err(Error::location(
                15975,
                "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
            )),
        },
        other => {
            let text = format!(
                "Illegal key in $sort specification: {}: {other}",
                element.name()
            );
            Err(Error::location(15974, text))
        }
    }
}

/// An order by metadata that no query has, or that MongoDB does not order by.
fn refused_meta(by: RawDocument<'_>) -> Error {
    let kind = by.get("$meta").and_then(|kind| kind.as_str());
    match kind {
        Some("geoNearDistance") => not_available("geoNear distance"),
        Some(kind @ ("randVal" | "searchScore" | "vectorSearchScore")) => Error::new(
            ErrorCode::NOT_IMPLEMENTED,
            format!("a sort by {{$meta: \"{kind}\"}} is not supported yet"),
        ),
        _ => Error::location(31_138, format!("Illegal $meta sort: {by}")),
    }
}

fn parse_path(element: RawElement<'_>) -> Result<FieldPath> {
    let dotted = element.name().as_str()?;
    if dotted.is_empty() {
        return Err(Error::location(
            40352,
            "FieldPath cannot be constructed with empty string",
        ));
    }
    if dotted.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    let path = FieldPath::parse(dotted)?;
    for part in path.parts() {
        if part.name().is_empty() {
            return Err(Error::location(
                15998,
                "FieldPath field names may not be empty strings.",
            ));
        }
        if part.name().starts_with('$') && !matches!(part.name(), "$ref" | "$id" | "$db") {
            let text = "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
            return Err(Error::location(16410, text));
        }
    }
    Ok(path)
}
