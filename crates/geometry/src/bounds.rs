//! Bounds of edges and of whole shapes, by which most questions are answered without a look at the edges.

use s2::point::Point;

use crate::TOUCH_RADIANS;
use crate::sphere::angle;

/// A box in space that an edge lies in, with what it bulges out over its chord.
#[derive(Debug, Clone, Copy)]
pub struct EdgeBox {
    pub low: [f64; 3],
    pub high: [f64; 3],
}

/// An edge with its box.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    pub a: Point,
    pub b: Point,
    pub bounds: EdgeBox,
}

/// A disc that a shape lies in.
#[derive(Debug, Clone, Copy)]
pub struct Disc {
    pub center: Point,
    pub radius: f64,
}

impl EdgeBox {
    pub fn of(a: &Point, b: &Point) -> EdgeBox {
        let (x, y) = ([a.0.x, a.0.y, a.0.z], [b.0.x, b.0.y, b.0.z]);
        let chord_squared: f64 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
        // The arc stands no higher over its chord than 1 - sqrt(1 - c²/4).
        let bulge = chord_squared / 4.0 + TOUCH_RADIANS;
        EdgeBox {
            low: std::array::from_fn(|i| x[i].min(y[i]) - bulge),
            high: std::array::from_fn(|i| x[i].max(y[i]) + bulge),
        }
    }

    pub fn meets(&self, other: &EdgeBox) -> bool {
        (0..3).all(|i| self.low[i] <= other.high[i] && other.low[i] <= self.high[i])
    }

    pub fn union(&self, other: &EdgeBox) -> EdgeBox {
        EdgeBox {
            low: std::array::from_fn(|i| self.low[i].min(other.low[i])),
            high: std::array::from_fn(|i| self.high[i].max(other.high[i])),
        }
    }
}

impl Edge {
    pub fn new(a: Point, b: Point) -> Edge {
        Edge {
            bounds: EdgeBox::of(&a, &b),
            a,
            b,
        }
    }
}

impl Disc {
    pub const EVERYTHING: f64 = std::f64::consts::PI;

    /// The disc around points, and around the edges between them and what these enclose on their smaller side.
    pub fn around<'p>(points: impl Iterator<Item = &'p Point> + Clone) -> Disc {
        let sum = points
            .clone()
            .fold(Point::default(), |sum, point| sum + *point);
        let center = match sum.norm() > 1e-9 {
            true => sum.normalize(),
            false => Point::from_coords(1.0, 0.0, 0.0),
        };
        let farthest = points
            .map(|point| angle(&center, point))
            .fold(0.0, f64::max);
        // Only a disc that is smaller than half the sphere has the arcs between its points.
        let radius = match farthest < std::f64::consts::FRAC_PI_2 - 1e-9 {
            true => farthest + TOUCH_RADIANS,
            false => Disc::EVERYTHING,
        };
        Disc { center, radius }
    }

    pub fn may_hold(&self, point: &Point) -> bool {
        self.radius >= Disc::EVERYTHING || angle(&self.center, point) <= self.radius + TOUCH_RADIANS
    }

    pub fn may_meet(&self, other: &Disc) -> bool {
        let apart = angle(&self.center, &other.center);
        apart <= self.radius + other.radius + TOUCH_RADIANS
    }

    /// A disc that both lie in.
    pub fn union(&self, other: &Disc) -> Disc {
        let reach = angle(&self.center, &other.center) + other.radius;
        Disc {
            center: self.center,
            radius: self.radius.max(reach).min(Disc::EVERYTHING),
        }
    }
}
