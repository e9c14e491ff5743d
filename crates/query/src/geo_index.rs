//! The kinds `2dsphere` and `2d`: the cells under which an index keeps what a document has in its geospatial fields, beside the
//! values of its other fields.
//!
//! A `2dsphere` index (version 3) keeps a geometry under the cells of S2 that cover it, and a point under the smallest one, as
//! Int64s. It has no entry of a document without any of its geospatial fields. A `2d` index keeps points of the plane under the
//! hash of their coordinates. Fields with several values make every combination of them. Leaves out: the plans that read the
//! cells (`planner/geo.rs`).

use std::any::Any;
use std::sync::Arc;

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_database::{ErrorCode, Index, KeyPattern, SpecialKeys, TakeKey};
use quarry_geometry::{
    GeoHash, Geometry, Invalid, Shown, cells_of, parse_flat_point, parse_stored,
};

use crate::error::{Error, Result};
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts;
use crate::memory::{self, Charge};

const SPHERE_VERSION: i32 = 3;
const BITS: i32 = 26;
const EXTENT: f64 = 180.0;

/// The combinations of one document's values that an index keeps at most.
const KEYS_MAX: usize = 1_000_000;

/// The maker of the keys of a geospatial index.
#[derive(Debug)]
pub(crate) struct GeoKeys {
    fields: Vec<KeyPath>,
    /// How places become cells.
    pub cells: Cells,
}

/// How an index keeps places.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cells {
    /// As cells of S2.
    Sphere,
    /// As hashes of coordinates.
    Plane(GeoHash),
}

#[derive(Debug)]
struct KeyPath {
    path: FieldPath,
    is_geo: bool,
}

/// The values that one field gives to the keys of a document.
struct Values<'a> {
    list: Vec<RawValue<'a>>,
    /// There may be several.
    are_several: bool,
}

impl GeoKeys {
    /// The maker of an index's keys, if it is a geospatial one.
    pub fn of(index: &Index) -> Option<&GeoKeys> {
        (index.special.as_deref()? as &dyn Any).downcast_ref()
    }

    fn new(pattern: &KeyPattern, cells: Cells) -> Result<GeoKeys> {
        let fields = pattern.fields.iter().map(|field| {
            Ok(KeyPath {
                path: FieldPath::parse(&field.path)?,
                is_geo: field.is_special,
            })
        });
        Ok(GeoKeys {
            fields: fields.collect::<Result<_>>()?,
            cells,
        })
    }

    /// Whether its places are cells of the sphere.
    pub fn is_sphere(&self) -> bool {
        matches!(self.cells, Cells::Sphere)
    }

    /// The cells of what stands at a geospatial field; none where there is nothing.
    fn cells_at(&self, document: RawDocument<'_>, path: &FieldPath) -> Result<Vec<i64>> {
        let mut cells = Vec::new();
        let mut failure = None;
        each_value(document, path.parts(), &mut |value| {
            let added = match (self.cells, value) {
                (_, RawValue::Null | RawValue::Undefined) => Ok(()),
                (_, RawValue::Array(array)) if array.is_empty() => Ok(()),
                (Cells::Sphere, value) => add_sphere_cells(value, &mut cells),
                (Cells::Plane(hash), value) => add_hashes(&hash, value, &mut cells),
            };
            if let Err(reason) = added {
                failure.get_or_insert(reason);
            }
        });
        interrupts::work(1)?;
        match failure {
            None => {
                cells.sort_unstable();
                cells.dedup();
                Ok(cells)
            }
            Some(Refused::Geometry(reason)) => {
                let text = format!("Can't extract geo keys: {}  {reason}", Shown(document));
                Err(Error::location(16_755, text))
            }
            Some(Refused::Bounds(text)) => Err(Error::location(13_027, text)),
            Some(Refused::Memory(error)) => Err(error),
        }
    }
}

/// Why there are no cells.
enum Refused {
    Geometry(String),
    Bounds(String),
    Memory(Error),
}

/// Counts a geometry that was read, as long as the charge is held.
pub(crate) fn held(geometry: &Geometry) -> Result<Charge> {
    let held = Charge::of(geometry.held_bytes());
    memory::check()?;
    Ok(held)
}

fn add_sphere_cells(value: RawValue<'_>, cells: &mut Vec<i64>) -> std::result::Result<(), Refused> {
    let stored = parse_stored(value, interrupts::is_over);
    let stored = stored.map_err(|Invalid(reason)| Refused::Geometry(reason))?;
    let Some(geometry) = stored.on_sphere else {
        let (x, y) = stored.flat.map_or((0.0, 0.0), |point| (point.x, point.y));
        return Err(Refused::Geometry(format!(
            "longitude/latitude is out of bounds, lng: {x} lat: {y}"
        )));
    };
    let _held = held(&geometry).map_err(Refused::Memory)?;
    cells.extend(cells_of(geometry, interrupts::is_over));
    Ok(())
}

/// Adds the hash of a point, or those of an array of points.
fn add_hashes(
    hash: &GeoHash,
    value: RawValue<'_>,
    cells: &mut Vec<i64>,
) -> std::result::Result<(), Refused> {
    let mut add = |value: RawValue<'_>| {
        let point = parse_flat_point(value);
        let point = point.map_err(|Invalid(reason)| Refused::Geometry(reason))?;
        let Some(cell) = hash.hash(point) else {
            return Err(Refused::Bounds(format!(
                "point not in interval of [ {}, {} ] :: caused by :: {}",
                hash.min,
                hash.max,
                Shown(value)
            )));
        };
        cells.push(cell);
        Ok(())
    };
    match value {
        RawValue::Array(array) if !array.get(0).is_some_and(|first| first.is_number()) => {
            array.iter().try_for_each(add)
        }
        value => add(value),
    }
}

/// The things that a path met on its way to values.
#[derive(Default)]
pub(crate) struct Met {
    /// An array, which was opened.
    array: bool,
    /// Something without the rest of the path.
    end: bool,
}

/// Hands over what a path reaches. Arrays on the way are opened, one at its end is not.
pub(crate) fn each_value<'a>(
    document: RawDocument<'a>,
    path: &[PathPart],
    take: &mut dyn FnMut(RawValue<'a>),
) -> Met {
    let mut met = Met::default();
    met.follow_field(document, path, take);
    met
}

impl Met {
    fn follow_field<'a>(
        &mut self,
        document: RawDocument<'a>,
        path: &[PathPart],
        take: &mut dyn FnMut(RawValue<'a>),
    ) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        match document.get(first.name()) {
            Some(value) => self.follow(value, rest, take),
            None => self.end = true,
        }
    }

    /// Recursion is as deep as the path is long.
    fn follow<'a>(
        &mut self,
        value: RawValue<'a>,
        rest: &[PathPart],
        take: &mut dyn FnMut(RawValue<'a>),
    ) {
        let Some((next, after)) = rest.split_first() else {
            return take(value);
        };
        match value {
            RawValue::Document(document) => self.follow_field(document, rest, take),
            RawValue::Array(array) => {
                self.array = true;
                if let Some(element) = next.index().and_then(|index| array.get(index as usize)) {
                    return self.follow(element, after, take);
                }
                for element in array {
                    if interrupts::is_over(1) {
                        break;
                    }
                    match element {
                        RawValue::Document(document) => self.follow_field(document, rest, take),
                        _ => self.end = true,
                    }
                }
            }
            _ => self.end = true,
        }
    }
}

/// The values of an ordinary field, those of an array one by one. Where a document within an array lacks the field, null is one of
/// them: a filter for null means it.
fn plain_values<'a>(document: RawDocument<'a>, path: &FieldPath) -> Values<'a> {
    let mut list = Vec::new();
    let mut are_several = false;
    let met = each_value(document, path.parts(), &mut |value| match value {
        RawValue::Array(array) if array.is_empty() => {
            are_several = true;
            list.push(RawValue::Undefined);
        }
        RawValue::Array(array) => {
            are_several = true;
            list.extend(array.iter());
        }
        value => list.push(value),
    });
    if list.is_empty() || met.end {
        list.push(RawValue::Null);
    }
    // One value behind an array is one of several by the path: conditions may be met by different ones.
    are_several |= met.array || list.len() > 1;
    Values { list, are_several }
}

impl SpecialKeys for GeoKeys {
    fn keys(
        &self,
        document: RawDocument<'_>,
        take: &mut TakeKey<'_>,
    ) -> quarry_database::Result<u64> {
        let (mut values, mut has_place) = (Vec::with_capacity(self.fields.len()), false);
        for field in &self.fields {
            values.push(match field.is_geo {
                false => plain_values(document, &field.path),
                true => {
                    let cells = self.cells_at(document, &field.path);
                    let cells = cells.map_err(Error::into_database)?;
                    has_place |= !cells.is_empty();
                    let mut list: Vec<_> = cells.into_iter().map(RawValue::Int64).collect();
                    if list.is_empty() {
                        list.push(RawValue::Null);
                    }
                    Values {
                        are_several: list.len() > 1,
                        list,
                    }
                }
            });
        }
        if !has_place {
            return Ok(0);
        }
        combine(&values, take)?;
        let several = values
            .iter()
            .enumerate()
            .filter(|(_, values)| values.are_several);
        Ok(several.fold(0, |marks, (number, _)| marks | 1 << number))
    }
}

/// Hands over every combination of one value of each field.
fn combine(values: &[Values<'_>], take: &mut TakeKey<'_>) -> quarry_database::Result<()> {
    let lens = values.iter().map(|values| values.list.len());
    let combinations = lens.fold(1, usize::saturating_mul);
    if combinations > KEYS_MAX {
        let text = format!(
            "a document has {combinations} keys in a geospatial index, more than {KEYS_MAX}"
        );
        return Err(Error::new(ErrorCode::CANNOT_BUILD_INDEX_KEYS, text).into_database());
    }
    let mut key = Vec::with_capacity(values.len());
    for combination in 0..combinations {
        interrupts::work(values.len()).map_err(Error::into_database)?;
        key.clear();
        let mut left = combination;
        for Values { list, .. } in values {
            key.push(list[left % list.len()]);
            left /= list.len();
        }
        take(&key)?;
    }
    Ok(())
}

/// Checks the definition of a `2dsphere` index, and completes its options.
pub(crate) fn check_sphere(index: &Index) -> Result<Document> {
    for option in index.kind_options.as_raw() {
        if option.name() != "2dsphereIndexVersion" {
            return Err(unknown_option(
                option.name().to_string_lossy().as_ref(),
                "2dsphere",
            ));
        }
        match option.value().as_i64_exact() {
            Some(3) => {}
            Some(1 | 2) => {
                let text = "2dsphere indexes of the versions 1 and 2 are not supported yet";
                return Err(Error::cannot_create_index(text.to_owned()));
            }
            _ => {
                return Err(Error::cannot_create_index(format!(
                    "unsupported geo index version {{ 2dsphereIndexVersion : {} }}, only support versions: [1,2,3]",
                    option.value()
                )));
            }
        }
    }
    Ok(doc! { "2dsphereIndexVersion": SPHERE_VERSION })
}

pub(crate) fn compile_sphere(index: &Index) -> Result<Arc<dyn SpecialKeys>> {
    Ok(Arc::new(GeoKeys::new(&index.pattern, Cells::Sphere)?))
}

/// Checks the definition of a `2d` index, and completes its options.
pub(crate) fn check_plane(index: &Index) -> Result<Document> {
    let (pattern, options) = (&index.pattern, index.kind_options.as_raw());
    if !pattern.fields[0].is_special {
        return Err(Error::cannot_create_index(
            "2d has to be first in index".to_owned(),
        ));
    }
    if pattern.fields[1..].iter().any(|field| field.is_special) {
        return Err(Error::cannot_create_index(
            "can't have 2 2d fields".to_owned(),
        ));
    }
    for option in options {
        let name = option.name().to_string_lossy();
        if !["bits", "min", "max"].contains(&name.as_ref()) {
            return Err(unknown_option(&name, "2d"));
        }
    }
    let hash = hash_of(options)?;
    Ok(doc! { "bits": hash.bits as i32, "min": hash.min, "max": hash.max })
}

pub(crate) fn compile_plane(index: &Index) -> Result<Arc<dyn SpecialKeys>> {
    let cells = Cells::Plane(hash_of(index.kind_options.as_raw())?);
    Ok(Arc::new(GeoKeys::new(&index.pattern, cells)?))
}

fn hash_of(options: RawDocument<'_>) -> Result<GeoHash> {
    let number = |name: &str, default: f64| match options.get(name) {
        None => Ok(default),
        Some(value) => match value
            .as_f64_lossy()
            .filter(|number| number.is_finite() && value.is_number())
        {
            Some(number) => Ok(number),
            None => Err(Error::cannot_create_index(format!(
                "the index option `{name}` must be a number: {value}"
            ))),
        },
    };
    let bits = number("bits", f64::from(BITS))?;
    let (min, max) = (number("min", -EXTENT)?, number("max", EXTENT)?);
    if !(1.0..=32.0).contains(&bits) {
        let text = format!("bits for hash must be > 0 and <= 32, but {bits} bits were specified");
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, text));
    }
    if max <= min || !(max - min).is_finite() {
        let text = format!(
            "region for hash must be valid and have positive area, but [{min}, {max}] was specified"
        );
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, text));
    }
    Ok(GeoHash {
        min,
        max,
        bits: bits as u32,
    })
}

pub(crate) fn unknown_option(option: &str, kind: &str) -> Error {
    Error::cannot_create_index(format!(
        "the index option `{option}` is not for an index of the kind '{kind}'"
    ))
}
