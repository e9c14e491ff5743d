//! The wish for an order by distance: from where, in which units, between which bounds. `$near` and its kin parse into it, and so does
//! the stage `$geoNear`, which has a find go through the collection for it.

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_geometry::{
    EARTH_RADIUS_METRES, FlatPoint, Invalid, Shown, SpherePoint, parse_flat_point, parse_stored,
};

use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::geo_index::held;
use crate::interrupts;

/// A filter's wish for documents in the order of their distances.
#[derive(Debug)]
pub struct Near {
    /// The field; none where the only geospatial index of the collection tells it.
    pub path: Option<FieldPath>,
    /// The point that distances are measured from.
    pub from: From,
    /// The smallest distance that is meant, in the units of `from`.
    pub min: f64,
    /// The largest distance that is meant.
    pub max: f64,
    /// The fields that `$geoNear` adds to each document.
    pub adds: Option<NearFields>,
}

/// A point that distances are measured from.
#[derive(Debug, Clone, Copy)]
pub enum From {
    /// In the plane, in the units of the coordinates.
    Flat(FlatPoint),
    /// On the sphere.
    Sphere {
        /// The point.
        center: SpherePoint,
        /// The unit is the metre; else it is the radian.
        is_in_metres: bool,
    },
}

/// The fields that `$geoNear` adds to each document.
#[derive(Debug, Clone)]
pub struct NearFields {
    /// The distance.
    pub distance: Option<FieldPath>,
    /// The place that was measured to.
    pub place: Option<FieldPath>,
    /// A factor of the distances that are shown.
    pub factor: f64,
}

impl From {
    /// A GeoJSON point, from which distances are measured in metres.
    pub fn of_geometry(value: RawValue<'_>) -> Result<From> {
        let stored = parse_stored(value, interrupts::is_over);
        let stored = stored.map_err(|Invalid(reason)| {
            let text = format!(
                "invalid point in geo near query $geometry argument: {}  {reason}",
                Shown(value)
            );
            Error::bad_value(text)
        })?;
        match stored.on_sphere.and_then(|geometry| geometry.as_point()) {
            Some(center) => Ok(From::Sphere {
                center,
                is_in_metres: true,
            }),
            None => Err(Error::bad_value(format!(
                "$near requires a point, given {}",
                Shown(value)
            ))),
        }
    }

    /// A legacy point on the sphere, from which distances are measured in radians.
    pub fn legacy_on_sphere(point: FlatPoint) -> Result<From> {
        match SpherePoint::new(point.x, point.y) {
            Some(center) => Ok(From::Sphere {
                center,
                is_in_metres: false,
            }),
            None => Err(Error::bad_value(format!(
                "Legacy point is out of bounds for spherical query: {} {}",
                point.x, point.y
            ))),
        }
    }
}

impl Near {
    /// Everything, from a point on.
    pub fn new(from: From) -> Near {
        Near {
            path: None,
            from,
            min: 0.0,
            max: f64::INFINITY,
            adds: None,
        }
    }

    /// How many of the units of `from` a radian is; in the plane there is no other unit.
    pub fn units_a_radian(&self) -> f64 {
        match self.from {
            From::Sphere {
                is_in_metres: true, ..
            } => EARTH_RADIUS_METRES,
            _ => 1.0,
        }
    }

    /// The distance of one value, in radians or in the units of the plane; none if it is no place that can be measured to.
    pub fn distance(&self, value: RawValue<'_>) -> Result<Option<f64>> {
        let Ok(stored) = parse_stored(value, interrupts::is_over) else {
            return Ok(None);
        };
        let _held = stored.on_sphere.as_ref().map(held).transpose()?;
        Ok(match (self.from, stored) {
            (From::Flat(from), stored) => stored.flat.map(|flat| from.distance_to(flat)),
            (From::Sphere { center, .. }, stored) => {
                let geometry = stored.on_sphere;
                geometry.map(|geometry| geometry.radians_from(center, interrupts::is_over))
            }
        })
    }

    /// Reads the specification of `$geoNear`, or its form within a filter.
    pub fn parse_stage(specification: RawDocument<'_>) -> Result<Near> {
        let near = specification.get("near");
        let is_spherical = specification
            .get("spherical")
            .is_some_and(|value| value.is_truthy());
        let from = match near {
            None => {
                return Err(Error::location(
                    5_860_400,
                    "$geoNear requires a 'near' argument",
                ));
            }
            Some(value @ RawValue::Document(point)) if point.get("type").is_some() => {
                From::of_geometry(value)?
            }
            Some(value) => {
                let point = parse_flat_point(value).map_err(|Invalid(reason)| {
                    let text = format!("invalid argument in geo near query: {reason}");
                    Error::location(5_860_401, text)
                })?;
                match is_spherical {
                    true => From::legacy_on_sphere(point)?,
                    false => From::Flat(point),
                }
            }
        };
        let mut wish = Near::new(from);
        if let Some(distance) = specification.get("maxDistance") {
            wish.max = distance_of("maxDistance", distance)?;
        }
        if let Some(distance) = specification.get("minDistance") {
            wish.min = distance_of("minDistance", distance)?;
        }
        let path = |name: &str| -> Result<Option<FieldPath>> {
            match specification.get(name) {
                None => Ok(None),
                Some(RawValue::String(path)) if !path.is_empty() => {
                    FieldPath::parse(path.as_str()?).map(Some)
                }
                Some(RawValue::String(_)) => Err(Error::bad_value(format!(
                    "{name} parameter to $geoNear cannot be empty"
                ))),
                Some(value) => {
                    let text = format!("{name} parameter to $geoNear must be a string: {value}");
                    Err(Error::type_mismatch(text))
                }
            }
        };
        wish.path = path("key")?;
        let factor = specification.get("distanceMultiplier");
        let factor = factor.map(|factor| distance_of("distanceMultiplier", factor));
        wish.adds = Some(NearFields {
            distance: path("distanceField")?,
            place: path("includeLocs")?,
            factor: factor.transpose()?.unwrap_or(1.0),
        });
        Ok(wish)
    }

    /// The filter of a find that does what `$geoNear` asks for.
    pub fn filter_of_stage(specification: RawDocument<'_>, query: RawDocument<'_>) -> Document {
        let mut filter = doc! { NEAR_OF_STAGE: specification.to_owned_document() };
        if !query.is_empty() {
            filter.append("$and", vec![query.to_owned_document()]);
        }
        filter
    }
}

/// A distance, which is a number that is not negative.
pub(super) fn distance_of(name: &str, value: RawValue<'_>) -> Result<f64> {
    if !value.is_number() {
        return Err(Error::bad_value(format!("{name} must be a number")));
    }
    match value.as_f64_lossy().filter(|distance| *distance >= 0.0) {
        Some(distance) => Ok(distance),
        None => Err(Error::bad_value(format!("{name} must be non-negative"))),
    }
}

/// Why a filter that is only asked whether documents match refuses the operators of distance.
pub(super) fn not_allowed() -> Error {
    let text = "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require sorting geospatial data. \
                If you do not need sort, consider using $geoWithin instead. Check out \
                https://dochub.mongodb.org/core/near-sort-operations and \
                https://dochub.mongodb.org/core/nearSphere-sort-operations for more details.";
    Error::location(5_626_500, text)
}

/// The form of the stage within the filter of the find that its pipeline begins with.
pub(crate) const NEAR_OF_STAGE: &str = "$_internalGeoNear";
