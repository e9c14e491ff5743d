//! The parsers of the geospatial operators. `$geoWithin` and `$geoIntersects` ask a question of each value (`geo_question.rs`); `$near` and `$nearSphere`
//! wish an order by distance (`near.rs`), which only a plan over an index gives, so that they stand at the top of a filter alone.
//!
//! Every kind of operand that MongoDB takes is read here, with its texts.

use quarry_bson::{RawDocument, RawValue};
use quarry_geometry::{
    FlatShape, Geometry, Invalid, SpherePoint, parse_flat_point, parse_geometry,
};

use super::expression::{MatchExpression, Predicate};
use super::geo_question::GeoQuestion;
use super::near::{From, Near, distance_of};
use super::parse::Operand;
use crate::error::{Error, Result};
use crate::interrupts;

/// Parses `$geoWithin` and its old name `$within`.
pub(super) fn within(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    let shape = shape_of(operand)?;
    let (name, value) = (shape.name, shape.value);
    let question = match name {
        "$geometry" => {
            let area = geometry(value)?;
            if !area.is_area() {
                let text = format!(
                    "$within not supported with provided geometry: {}",
                    operand.value
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
                    "unknown geo specifier: {name}: {value}"
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
        let text = format!(
            "$geoIntersects not supported with provided geometry: {}",
            operand.value
        );
        return Err(Error::bad_value(text));
    }
    let question = GeoQuestion::Intersects(geometry(shape.value)?);
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
            operand.name, operand.value
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
    found.ok_or_else(|| Error::bad_value(format!("{} needs a geometry: {members}", operand.name)))
}

fn geometry(value: RawValue<'_>) -> Result<Geometry> {
    let Some(geometry) = value.as_document() else {
        return Err(Error::bad_value(format!(
            "$geometry must be an object: {value}"
        )));
    };
    let parsed = parse_geometry(geometry, interrupts::is_over);
    // It was cut short where the operation is to end.
    interrupts::work(1)?;
    parsed.map_err(refused)
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
            operand.value
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
