//! A geometry on the sphere, whatever GeoJSON calls it: points, lines and polygons side by side.

use s2::point::Point;

use crate::bounds::{Disc, Edge};
use crate::flat::FlatPoint;
use crate::polygon::Polygon;
use crate::sphere::SpherePoint;

/// A valid geometry on the sphere. A collection is what its members are together.
#[derive(Debug, Clone, Default)]
pub struct Geometry {
    pub(crate) points: Vec<Point>,
    pub(crate) lines: Vec<Line>,
    pub(crate) polygons: Vec<Polygon>,
}

/// A chain of at least one edge.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub edges: Vec<Edge>,
    pub disc: Disc,
}

/// The geometry that a document has in a field.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its coordinates, where it is one point: the plane knows nothing else.
    pub flat: Option<FlatPoint>,
    /// The geometry on the sphere; a legacy point beyond its longitudes and latitudes has none.
    pub on_sphere: Option<Geometry>,
}

impl Line {
    pub fn new(vertices: &[Point]) -> Line {
        let edges = vertices.windows(2).map(|pair| Edge::new(pair[0], pair[1]));
        Line {
            edges: edges.collect(),
            disc: Disc::around(vertices.iter()),
        }
    }
}

impl Geometry {
    /// The geometry of one point.
    pub fn of_point(point: SpherePoint) -> Geometry {
        Geometry {
            points: vec![point.0],
            ..Geometry::default()
        }
    }

    /// The point, if it is one and nothing else.
    pub fn as_point(&self) -> Option<SpherePoint> {
        match (
            self.points.as_slice(),
            self.lines.as_slice(),
            self.polygons.as_slice(),
        ) {
            ([only], [], []) => Some(SpherePoint(*only)),
            _ => None,
        }
    }

    /// Whether it has polygons and nothing else, so that something can lie within it.
    pub fn is_area(&self) -> bool {
        !self.polygons.is_empty() && self.points.is_empty() && self.lines.is_empty()
    }

    /// How many points and edges it has, which its work grows with.
    pub fn len(&self) -> usize {
        let lines = self.lines.iter().map(|line| line.edges.len());
        let polygons = self.polygons.iter().map(Polygon::edges_len);
        self.points.len() + lines.sum::<usize>() + polygons.sum::<usize>()
    }

    /// The bytes that it takes in memory, without what a part has beside its points and edges.
    pub fn held_bytes(&self) -> usize {
        self.len() * size_of::<Edge>()
    }

    /// Whether it has nothing; no geometry that was read is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds what another geometry has.
    pub(crate) fn add(&mut self, other: Geometry) {
        self.points.extend(other.points);
        self.lines.extend(other.lines);
        self.polygons.extend(other.polygons);
    }

    /// A disc that all of it lies in.
    pub(crate) fn disc(&self) -> Disc {
        let points = self.points.iter().map(|point| Disc {
            center: *point,
            radius: 0.0,
        });
        let lines = self.lines.iter().map(|line| line.disc);
        let polygons = self.polygons.iter().map(|polygon| polygon.disc);
        let all = points.chain(lines).chain(polygons);
        let all = all.reduce(|all, disc| all.union(&disc));
        all.expect("a geometry that was read is not empty")
    }
}
