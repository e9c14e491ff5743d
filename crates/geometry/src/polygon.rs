//! Polygons on the sphere: an outer loop and holes.
//!
//! Whether a point lies within a loop is told by the edges that an arc from a fixed point of the sphere to it crosses, with S2's exact
//! predicates: no point is missed where edges meet, and of two polygons with a common edge one has each point beside it.

use s2::edge_crossings::{EdgeCrosser, angle_contains_vertex};
use s2::point::Point;
use s2::predicates::{Direction, robust_sign};

use crate::Pace;
use crate::bounds::{Disc, Edge};
use crate::sphere::is_on_edge;

/// The work of measuring one corner.
const UNITS_OF_A_CORNER: usize = 20;

/// A closed chain of at least three edges. What lies to the left of them is inside.
#[derive(Debug, Clone)]
pub struct Loop {
    pub edges: Vec<Edge>,
    is_origin_inside: bool,
}

/// An outer loop and its holes.
#[derive(Debug, Clone)]
pub struct Polygon {
    /// The outer one is the first.
    pub loops: Vec<Loop>,
    pub disc: Disc,
}

impl Loop {
    /// The loop around the smaller of the two sides of its vertices.
    pub fn around_smaller(mut vertices: Vec<Point>, pace: Pace) -> Loop {
        if turning(&vertices, pace) < 0.0 {
            vertices.reverse();
        }
        Loop::to_the_left(vertices, pace)
    }

    /// The loop around what lies to the left of its vertices, as they are given.
    pub fn to_the_left(vertices: Vec<Point>, pace: Pace) -> Loop {
        pace(vertices.len() * UNITS_OF_A_CORNER);
        let next = vertices.iter().cycle().skip(1);
        let edges = vertices.iter().zip(next).map(|(a, b)| Edge::new(*a, *b));
        let mut made = Loop {
            edges: edges.collect(),
            is_origin_inside: false,
        };
        let [first, second, third] = [0, 1, 2].map(|place| vertices[place]);
        let is_inside = first != third && angle_contains_vertex(&first, &second, &third);
        made.is_origin_inside = is_inside != made.holds(&second);
        made
    }

    /// Whether the point lies inside.
    fn holds(&self, point: &Point) -> bool {
        let mut crosser = EdgeCrosser::new_with_c(&Point::origin(), point, &self.edges[0].a);
        let crossed = self.edges.iter();
        crossed.fold(self.is_origin_inside, |is_inside, edge| {
            is_inside ^ crosser.chain_edge_or_vertex_crossing(&edge.b)
        })
    }
}

/// The angles by which a walk along the vertices turns to the left: the larger side of the loop turns it to the right.
fn turning(vertices: &[Point], pace: Pace) -> f64 {
    let len = vertices.len();
    let unfinished = (0..len).take_while(|_| !pace(UNITS_OF_A_CORNER));
    let corners = unfinished.map(|at| {
        let [a, b, c] = [at, at + 1, at + 2].map(|place| vertices[place % len]);
        let angle = a.cross(&b).distance(&b.cross(&c)).rad();
        match robust_sign(&a, &b, &c) {
            Direction::CounterClockwise => angle,
            _ => -angle,
        }
    });
    corners.sum()
}

impl Polygon {
    /// The polygon of these loops, of which the first is the outer one.
    pub fn new(loops: Vec<Loop>) -> Polygon {
        let disc = Disc::around(loops[0].edges.iter().map(|edge| &edge.a));
        Polygon { loops, disc }
    }

    /// The polygon of one loop, which may take in more than half of the sphere.
    pub fn of_any_size(outer: Loop) -> Polygon {
        let mut made = Polygon::new(vec![outer]);
        made.disc.radius = Disc::EVERYTHING;
        made
    }

    pub fn edges(&self) -> impl Iterator<Item = &Edge> + Clone {
        self.loops.iter().flat_map(|one| &one.edges)
    }

    pub fn edges_len(&self) -> usize {
        self.loops.iter().map(|one| one.edges.len()).sum()
    }

    /// Whether the point lies inside; of points on the boundary some do.
    pub fn holds(&self, point: &Point, pace: Pace) -> bool {
        if !self.disc.may_hold(point) || pace(self.edges_len()) {
            return false;
        }
        let [outer, holes @ ..] = self.loops.as_slice() else {
            return false;
        };
        outer.holds(point) && !holes.iter().any(|hole| hole.holds(point))
    }

    /// Whether the point lies inside or on the boundary.
    pub fn covers(&self, point: &Point, pace: Pace) -> bool {
        self.holds(point, pace) || self.is_on_boundary(point, pace)
    }

    pub fn is_on_boundary(&self, point: &Point, pace: Pace) -> bool {
        if !self.disc.may_hold(point) || pace(self.edges_len()) {
            return false;
        }
        let at = Edge::new(*point, *point).bounds;
        let mut near = self.edges().filter(|edge| edge.bounds.meets(&at));
        near.any(|edge| is_on_edge(point, &edge.a, &edge.b))
    }
}
