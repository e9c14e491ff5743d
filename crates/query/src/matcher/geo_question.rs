//! The questions of `$geoWithin` and `$geoIntersects`. A value that is no geometry does not match.

use std::sync::Arc;

use quarry_bson::RawValue;
use quarry_geometry::{FlatPoint, FlatShape, Geometry, SpherePoint, Stored, parse_stored};

use super::value_test::ValueTest;
use crate::error::Result;
use crate::geo_index::held;
use crate::interrupts;

/// The work of reading a point from a document and asking about it.
const UNITS_OF_A_QUESTION: usize = 50;

/// The question of a geospatial operator.
#[derive(Debug)]
pub enum GeoQuestion {
    /// `$geoWithin` a shape of the plane.
    WithinFlat(FlatShape),
    /// `$geoWithin` a disc on the sphere: its center, also in the plane, and its radius in radians.
    WithinDisc(FlatPoint, SpherePoint, f64),
    /// `$geoWithin` polygons on the sphere.
    WithinArea(Arc<Geometry>),
    /// `$geoIntersects`.
    Intersects(Arc<Geometry>),
}

impl ValueTest for GeoQuestion {
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        if !matches!(value, RawValue::Document(_) | RawValue::Array(_)) {
            return Ok(false);
        }
        let Ok(Stored { flat, on_sphere }) = parse_stored(value, interrupts::is_over) else {
            return Ok(false);
        };
        let _held = on_sphere.as_ref().map(held).transpose()?;
        let pace = interrupts::is_over;
        Ok(match (self, flat, on_sphere) {
            (GeoQuestion::WithinFlat(shape), Some(point), _) => shape.covers(point),
            (GeoQuestion::WithinDisc(_, center, radius), _, Some(stored)) => {
                stored.is_within_disc(*center, *radius, pace)
            }
            (GeoQuestion::WithinArea(area), _, Some(stored)) => stored.is_within(area, pace),
            (GeoQuestion::Intersects(asked), _, Some(stored)) => stored.intersects(asked, pace),
            _ => false,
        })
    }

    fn units(&self, value: RawValue<'_>) -> usize {
        let corners = match self {
            GeoQuestion::WithinFlat(shape) => shape.len(),
            // These count their edges themselves.
            _ => 0,
        };
        interrupts::units_of(value) + UNITS_OF_A_QUESTION + corners
    }

    fn as_geo(&self) -> Option<&GeoQuestion> {
        Some(self)
    }
}
