//! Points and edges on the unit sphere.

use s2::latlng::LatLng;
use s2::point::Point;

use crate::TOUCH_RADIANS;

/// The radius of the sphere on which MongoDB measures.
pub const EARTH_RADIUS_METRES: f64 = 6_378_100.0;

/// A point on the unit sphere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpherePoint(pub(crate) Point);

impl SpherePoint {
    /// The point at a longitude and a latitude in degrees, if they are within ±180 and ±90.
    pub fn new(longitude: f64, latitude: f64) -> Option<SpherePoint> {
        let is_valid = (-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude);
        is_valid.then(|| SpherePoint(point(longitude, latitude)))
    }

    /// The angle to another point, in radians.
    pub fn radians_to(self, other: SpherePoint) -> f64 {
        angle(&self.0, &other.0)
    }
}

pub fn point(longitude: f64, latitude: f64) -> Point {
    Point::from(LatLng::from_degrees(latitude, longitude))
}

pub fn angle(a: &Point, b: &Point) -> f64 {
    a.distance(b).rad()
}

/// The angle from `x` to the nearest point of the edge from `a` to `b`.
pub fn distance_to_edge(x: &Point, a: &Point, b: &Point) -> f64 {
    let nearest_end = angle(x, a).min(angle(x, b));
    let normal = a.cross(b).0;
    let length = normal.norm();
    if length == 0.0 {
        return nearest_end;
    }
    // The foot of the perpendicular lies between the two planes that stand on the ends.
    let is_beside = x.0.dot(&normal.cross(&a.0)) >= 0.0 && x.0.dot(&b.0.cross(&normal)) >= 0.0;
    match is_beside {
        true => (x.0.dot(&normal) / length)
            .abs()
            .min(1.0)
            .asin()
            .min(nearest_end),
        false => nearest_end,
    }
}

/// Whether `x` lies on the edge, as far as things touch.
pub fn is_on_edge(x: &Point, a: &Point, b: &Point) -> bool {
    distance_to_edge(x, a, b) <= TOUCH_RADIANS
}

/// The middle of the edge from `a` to `b`; `a` where they are opposite to each other.
pub fn middle(a: &Point, b: &Point) -> Point {
    let sum = *a + *b;
    match sum.norm() > 1e-12 {
        true => sum.normalize(),
        false => *a,
    }
}
