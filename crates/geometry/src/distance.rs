//! Distances on the sphere, in radians.

use crate::Pace;
use crate::geometry::Geometry;
use crate::polygon::Polygon;
use crate::sphere::{SpherePoint, angle, distance_to_edge};

impl Geometry {
    /// The angle from the point to the nearest point of the geometry: 0 within a polygon.
    pub fn radians_from(&self, point: SpherePoint, pace: Pace) -> f64 {
        let from = &point.0;
        pace(self.len());
        let points = self.points.iter().map(|point| angle(from, point));
        let lines = self.lines.iter().flat_map(|line| &line.edges);
        let borders = self.polygons.iter().flat_map(Polygon::edges);
        let edges = lines.chain(borders);
        let edges = edges.map(|edge| distance_to_edge(from, &edge.a, &edge.b));
        let nearest = points.chain(edges).fold(f64::INFINITY, f64::min);
        let is_inside = || {
            self.polygons
                .iter()
                .any(|polygon| polygon.holds(from, pace))
        };
        match nearest > 0.0 && is_inside() {
            true => 0.0,
            false => nearest,
        }
    }
}
