//! The parsers of the geospatial operators. `$geoWithin` and `$geoIntersects` ask a question of each value (`geo_question.rs`); `$near` and `$nearSphere`
//! wish an order by distance (`near.rs`), which only a plan over an index gives, so that they stand at the top of a filter alone.
//!
//! Every kind of operand that MongoDB takes is read here, with its texts.

use std::sync::Arc;

use quarry_bson::{RawDocument, RawValue};
use quarry_geometry::{
    FlatShape, Geometry, Invalid, Shown, SpherePoint, parse_flat_point, parse_geometry,
    parse_stored,
};

use super::expression::{MatchExpression, Predicate};
use super::geo_question::GeoQuestion;
use super::near::{From, Near, distance_of};
use super::parse::Operand;
use crate::error::{Error, Result};
use crate::geo_index::held;
use crate::interrupts;

/// Parses `$geoWithin` and its old name `$within`.
pub(super) fn within(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    let shape = shape_of(operand)?;
    let (name, value) = (shape.name, shape.value);
    let question = match name {
        "$geometry" => {
            let area = geometry(operand, value)?;
            if !area.is_area() {
                let text = format!(
                    "$within not supported with provided geometry: {}",
                    Shown(operand.value)
                );
                return Err(Error::bad_value(text));
            }
            GeoQuestion::WithinArea(area)
        }
        "$centerSphere" => {
            let (center, radius) = FlatShape::parse_disc(value).map_err(refused)?;
            let Some(point) = SpherePoint::new(center.x, center.y) else {
                return Err(Error::bad_value(
                    "Spherical circle would require (unimplemented) splitting",
                ));
            };
            GeoQuestion::WithinDisc(center, point, radius)
        }
        _ => match FlatShape::parse(name, value, interrupts::is_over).map_err(refused)? {
            Some(shape) => GeoQuestion::WithinFlat(shape),
            None => {
                return Err(Error::bad_value(format!(
                    "unknown geo specifier: {name}: {}",
                    Shown(value)
                )));
            }
        },
    };
    interrupts::work(1)?;
    Ok(Some(asked(operand, question)))
}

/// Parses `$geoIntersects`.
pub(super) fn intersects(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    let shape = shape_of(operand)?;
    if shape.name != "$geometry" {
        return Err(not_supported(operand));
    }
    let question = GeoQuestion::Intersects(geometry(operand, shape.value)?);
    Ok(Some(asked(operand, question)))
}

fn asked(operand: Operand<'_>, question: GeoQuestion) -> MatchExpression {
    MatchExpression::field(operand.path, Predicate::Test(Box::new(question)))
}

/// The name of a shape and its operand.
struct Shape<'o> {
    name: &'o str,
    value: RawValue<'o>,
}

fn shape_of(operand: Operand<'_>) -> Result<Shape<'_>> {
    let Some(members) = operand.value.as_document() else {
        let text = format!(
            "{} must be given an object: {}",
            operand.name,
            Shown(operand.value)
        );
        return Err(Error::bad_value(text));
    };
    let mut found = None;
    for element in members {
        match element.name().as_str()? {
            "$uniqueDocs" => {}
            name if found.is_none() => {
                found = Some(Shape {
                    name,
                    value: element.value(),
                });
            }
            name => return Err(Error::bad_value(format!("can't parse extra field: {name}"))),
        }
    }
    found.ok_or_else(|| {
        Error::bad_value(format!(
            "{} needs a geometry: {}",
            operand.name,
            Shown(members)
        ))
    })
}

/// Reads a geometry of the sphere. A legacy point may stand for one.
fn geometry(operand: Operand<'_>, value: RawValue<'_>) -> Result<Arc<Geometry>> {
    let parsed = match value {
        // Only GeoJSON has a system that means large polygons, which are asked for and never stored.
        RawValue::Document(geometry) if geometry.get("crs").is_some() => {
            parse_geometry(geometry, interrupts::is_over).map(Some)
        }
        RawValue::Document(_) | RawValue::Array(_) => {
            parse_stored(value, interrupts::is_over).map(|stored| stored.on_sphere)
        }
        _ => {
            let text = format!("$geometry must be an object: {}", Shown(value));
            return Err(Error::bad_value(text));
        }
    };
    // It was cut short where the operation is to end.
    interrupts::work(1)?;
    let Some(geometry) = parsed.map_err(refused)? else {
        return Err(not_supported(operand));
    };
    held(&geometry)?;
    Ok(Arc::new(geometry))
}

fn not_supported(operand: Operand<'_>) -> Error {
    let text = format!(
        "{} not supported with provided geometry: {}",
        operand.name,
        Shown(operand.value)
    );
    Error::bad_value(text)
}

fn refused(Invalid(text): Invalid) -> Error {
    Error::bad_value(text)
}

/// Parses `$near`, `$nearSphere` and the old `$geoNear`.
pub(super) fn near(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    operand.level.check_near()?;
    let mut near = near_of(operand)?;
    near.path = Some(operand.path.clone());
    Ok(Some(MatchExpression::Near(Box::new(near))))
}

/// `$maxDistance` and `$minDistance`: the operator beside them reads them.
pub(super) fn beside_near(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    let near = ["$near", "$nearSphere", "$geoNear"];
    match near
        .iter()
        .any(|near| operand.siblings.get(*near).is_some())
    {
        true => Ok(None),
        false => Err(Error::bad_value(format!(
            "unknown operator: {}",
            operand.name
        ))),
    }
}

fn near_of(operand: Operand<'_>) -> Result<Near> {
    let given = operand.value.as_document();
    let geometry = given.and_then(|given| given.get("$geometry"));
    if let (Some(given), Some(geometry)) = (given, geometry) {
        let unknown = given.iter().find(|element| {
            let name = element.name();
            !["$geometry", "$maxDistance", "$minDistance"]
                .iter()
                .any(|known| name == *known)
        });
        if let Some(element) = unknown {
            let text = format!("invalid argument in geo near query: {}", element.name());
            return Err(Error::bad_value(text));
        }
        let from = From::of_geometry(geometry)?;
        return bounded(Near::new(from), &[given, operand.siblings]);
    }
    let point = parse_flat_point(operand.value).map_err(|Invalid(reason)| {
        let text = format!(
            "invalid point in geo near query $near argument: {}  {reason}",
            Shown(operand.value)
        );
        Error::bad_value(text)
    })?;
    let from = match operand.name {
        "$nearSphere" => From::legacy_on_sphere(point)?,
        _ => From::Flat(point),
    };
    let mut near = Near::new(from);
    // The old form has the largest distance behind the coordinates.
    let third = operand.value.as_array().and_then(|array| array.get(2));
    if let Some(distance) = third {
        near.max = distance_of("$maxDistance", distance)?;
    }
    bounded(near, &[operand.siblings])
}

/// Reads the bounds of the distance, in the units in which the operator measures.
fn bounded(mut near: Near, places: &[RawDocument<'_>]) -> Result<Near> {
    for place in places {
        if let Some(distance) = place.get("$maxDistance") {
            near.max = distance_of("$maxDistance", distance)?;
        }
        if let Some(distance) = place.get("$minDistance") {
            near.min = distance_of("$minDistance", distance)?;
        }
    }
    Ok(near)
}
