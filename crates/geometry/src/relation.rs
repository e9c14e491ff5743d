//! The questions of `$geoWithin` and `$geoIntersects` between two geometries on the sphere.

use s2::edge_crossings::{Crossing, crossing_sign};
use s2::point::Point;

use crate::Pace;
use crate::TOUCH_RADIANS;
use crate::bounds::Edge;
use crate::geometry::{Geometry, Line};
use crate::polygon::{Loop, Polygon};
use crate::sphere::{SpherePoint, angle, is_on_edge, middle};

/// The work of comparing two parts that are not near each other.
const UNITS_OF_A_LOOK: usize = 3;

impl Geometry {
    /// Whether all of it lies within the other one. Each of its parts lies within one polygon of that.
    pub fn is_within(&self, area: &Geometry, pace: Pace) -> bool {
        // Each polygon is looked at, if only at its disc.
        let within = |holds: &dyn Fn(&Polygon) -> bool| {
            !pace(area.polygons.len() * UNITS_OF_A_LOOK) && area.polygons.iter().any(holds)
        };
        self.points
            .iter()
            .all(|point| within(&|area| area.covers(point, pace)))
            && (self.lines.iter()).all(|line| within(&|area| covers_chain(area, &line.edges, pace)))
            && (self.polygons.iter()).all(|inner| within(&|area| covers_polygon(area, inner, pace)))
    }

    /// Whether all of it lies within a disc on the sphere, whose radius is in radians: for a polygon, whether its border does.
    pub fn is_within_disc(&self, center: SpherePoint, radius: f64, pace: Pace) -> bool {
        if radius >= std::f64::consts::PI {
            return true;
        }
        if pace(self.len()) {
            return false;
        }
        let is_near = |point: &Point| angle(&center.0, point) <= radius + f64::EPSILON;
        let lines = self.lines.iter().flat_map(|line| &line.edges);
        let borders = self.polygons.iter().flat_map(Polygon::edges);
        let mut edges = lines.chain(borders);
        // A disc of more than half the sphere has a hole, which an arc between two of its points may cross.
        let opposite = Point(center.0.0 * -1.0);
        let hole = std::f64::consts::PI - radius;
        let is_large = radius > std::f64::consts::FRAC_PI_2;
        let avoids_hole = |edge: &Edge| {
            !is_large || crate::sphere::distance_to_edge(&opposite, &edge.a, &edge.b) >= hole
        };
        self.points.iter().all(is_near)
            && edges.all(|edge| is_near(&edge.a) && is_near(&edge.b) && avoids_hole(edge))
            && !(is_large && self.polygons.iter().any(|one| one.holds(&opposite, pace)))
    }

    /// Whether the two have a point in common.
    pub fn intersects(&self, other: &Geometry, pace: Pace) -> bool {
        self.points_meet(other, pace)
            || self.lines_meet(other, pace)
            || other.lines_meet(self, pace)
            || self.polygons_meet(other, pace)
            || other.polygons_meet(self, pace)
    }

    /// Whether one of its points is one of the others.
    fn points_meet(&self, other: &Geometry, pace: Pace) -> bool {
        unless_over(&self.points, other.points.len(), pace)
            .any(|a| (other.points.iter()).any(|b| angle(a, b) <= TOUCH_RADIANS))
    }

    /// Whether one of its lines has something of the points or of the lines of the other.
    fn lines_meet(&self, other: &Geometry, pace: Pace) -> bool {
        let compared = other.points.len() + other.lines.len();
        unless_over(&self.lines, compared, pace).any(|line| {
            (other.points.iter()).any(|point| is_on_line(point, line, pace))
                || (other.lines.iter())
                    .any(|b| line.disc.may_meet(&b.disc) && meet(&line.edges, &b.edges, pace))
        })
    }

    /// Whether one of its polygons has something of the other.
    fn polygons_meet(&self, other: &Geometry, pace: Pace) -> bool {
        let compared = other.points.len() + other.lines.len() + other.polygons.len();
        unless_over(&self.polygons, compared, pace).any(|polygon| {
            (other.points.iter()).any(|point| polygon.covers(point, pace))
                || (other.lines.iter()).any(|line| meets_line(polygon, line, pace))
                || (other.polygons.iter()).any(|b| polygons_meet(polygon, b, pace))
        })
    }
}

/// The parts of one geometry, each of which is compared with so many parts of another. The work of that is counted before each, because
/// most comparisons are over with a look at two discs, which counts nothing.
fn unless_over<T>(parts: &[T], compared: usize, pace: Pace) -> impl Iterator<Item = &T> {
    let parts = parts.iter();
    parts.take_while(move |_| !pace(compared * UNITS_OF_A_LOOK))
}

fn is_on_line(point: &Point, line: &Line, pace: Pace) -> bool {
    if !line.disc.may_hold(point) || pace(line.edges.len()) {
        return false;
    }
    let mut edges = line.edges.iter();
    edges.any(|edge| is_on_edge(point, &edge.a, &edge.b))
}

/// Whether an edge of one chain meets one of the other, or ends on it.
pub fn meet<'e>(
    edges: &[Edge],
    others: impl IntoIterator<Item = &'e Edge> + Clone,
    pace: Pace,
) -> bool {
    edges.iter().any(|edge| {
        let mut seen = 0;
        let met = others.clone().into_iter().any(|other| {
            seen += 1;
            edge.bounds.meets(&other.bounds) && edges_meet(edge, other)
        });
        pace(seen) || met
    })
}

fn edges_meet(edge: &Edge, other: &Edge) -> bool {
    crossing_sign(&edge.a, &edge.b, &other.a, &other.b) != Crossing::DoNotCross
        || ends_on(edge, other)
}

/// Whether an end of one of the two lies on the other one.
fn ends_on(edge: &Edge, other: &Edge) -> bool {
    is_on_edge(&edge.a, &other.a, &other.b)
        || is_on_edge(&edge.b, &other.a, &other.b)
        || is_on_edge(&other.a, &edge.a, &edge.b)
        || is_on_edge(&other.b, &edge.a, &edge.b)
}

fn meets_line(polygon: &Polygon, line: &Line, pace: Pace) -> bool {
    polygon.disc.may_meet(&line.disc)
        && (polygon.covers(&line.edges[0].a, pace)
            || polygon
                .loops
                .iter()
                .any(|one| meet(&line.edges, &one.edges, pace)))
}

fn polygons_meet(a: &Polygon, b: &Polygon, pace: Pace) -> bool {
    let begins_in = |one: &Loop, other: &Polygon| other.covers(&one.edges[0].a, pace);
    a.disc.may_meet(&b.disc)
        && (begins_in(&b.loops[0], a)
            || begins_in(&a.loops[0], b)
            || (a.loops.iter()).any(|one| {
                b.loops
                    .iter()
                    .any(|other| meet(&one.edges, &other.edges, pace))
            }))
}

/// Whether all of a chain lies within the polygon: its vertices and the middles of its edges do, and no edge leaves it.
fn covers_chain(area: &Polygon, edges: &[Edge], pace: Pace) -> bool {
    edges.iter().all(|edge| {
        area.covers(&edge.a, pace)
            && area.covers(&edge.b, pace)
            && area.covers(&middle(&edge.a, &edge.b), pace)
            && !pace(area.edges_len())
            && !area.edges().any(|border| {
                border.bounds.meets(&edge.bounds)
                    && crossing_sign(&edge.a, &edge.b, &border.a, &border.b) == Crossing::Cross
                    && !ends_on(edge, border)
            })
    })
}

fn covers_polygon(area: &Polygon, inner: &Polygon, pace: Pace) -> bool {
    let is_in_inner = |hole: &Loop| {
        if pace(hole.edges.len() * UNITS_OF_A_LOOK) {
            return false;
        }
        let mut corners = hole.edges.iter().map(|edge| edge.a);
        corners.any(|corner| inner.holds(&corner, pace) && !inner.is_on_boundary(&corner, pace))
    };
    // A polygon of more than half the sphere may have its border inside and lie outside.
    let is_outside = |outer: &Loop| {
        let corner = &outer.edges[0].a;
        inner.holds(corner, pace) && !inner.is_on_boundary(corner, pace)
    };
    inner
        .loops
        .iter()
        .all(|one| covers_chain(area, &one.edges, pace))
        && !area.loops[1..].iter().any(is_in_inner)
        && !is_outside(&area.loops[0])
}
