//! Shapes in the plane, where longitude and latitude are plain coordinates: `$box`, `$center` and `$polygon`.

/// A point in the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlatPoint {
    /// The first coordinate: a longitude, if it is a place.
    pub x: f64,
    /// The second coordinate: a latitude, if it is a place.
    pub y: f64,
}

/// A shape in the plane. Its border belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum FlatShape {
    /// `$box`.
    Box {
        /// The corner with the smaller coordinates.
        low: FlatPoint,
        /// The corner with the larger coordinates.
        high: FlatPoint,
    },
    /// `$center`: what is no farther from a point.
    Disc {
        /// The point.
        center: FlatPoint,
        /// The distance.
        radius: f64,
    },
    /// `$polygon`: at least three corners; the last is joined to the first.
    Polygon(Vec<FlatPoint>),
}

/// A rectangle, as an index of hashes divides the plane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlatRect {
    pub low: FlatPoint,
    pub high: FlatPoint,
}

impl FlatPoint {
    /// The distance in the plane.
    pub fn distance_to(self, other: FlatPoint) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }
}

impl FlatShape {
    /// Whether the point lies within the shape or on its border.
    pub fn covers(&self, point: FlatPoint) -> bool {
        match self {
            FlatShape::Box { low, high } => FlatRect {
                low: *low,
                high: *high,
            }
            .holds(point),
            FlatShape::Disc { center, radius } => {
                point.distance_to(*center) <= radius * (1.0 + f64::EPSILON)
            }
            FlatShape::Polygon(corners) => polygon_covers(corners, point),
        }
    }

    /// How many corners it has, which the work of a question grows with.
    pub fn len(&self) -> usize {
        match self {
            FlatShape::Polygon(corners) => corners.len(),
            FlatShape::Box { .. } | FlatShape::Disc { .. } => 1,
        }
    }

    /// No shape is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rectangle around it.
    pub(crate) fn rect(&self) -> FlatRect {
        match self {
            FlatShape::Box { low, high } => FlatRect {
                low: *low,
                high: *high,
            },
            FlatShape::Disc { center, radius } => FlatRect::around(*center, *radius),
            FlatShape::Polygon(corners) => {
                let of = |coordinate: fn(&FlatPoint) -> f64, pick: fn(f64, f64) -> f64| {
                    let all = corners.iter().map(coordinate).reduce(pick);
                    all.unwrap_or(0.0)
                };
                FlatRect {
                    low: FlatPoint {
                        x: of(|p| p.x, f64::min),
                        y: of(|p| p.y, f64::min),
                    },
                    high: FlatPoint {
                        x: of(|p| p.x, f64::max),
                        y: of(|p| p.y, f64::max),
                    },
                }
            }
        }
    }
}

impl FlatRect {
    /// The square around a disc.
    pub fn around(center: FlatPoint, radius: f64) -> FlatRect {
        let radius = radius * (1.0 + f64::EPSILON);
        FlatRect {
            low: FlatPoint {
                x: center.x - radius,
                y: center.y - radius,
            },
            high: FlatPoint {
                x: center.x + radius,
                y: center.y + radius,
            },
        }
    }

    pub fn holds(&self, point: FlatPoint) -> bool {
        (self.low.x..=self.high.x).contains(&point.x)
            && (self.low.y..=self.high.y).contains(&point.y)
    }

    pub fn meets(&self, other: &FlatRect) -> bool {
        self.low.x <= other.high.x
            && other.low.x <= self.high.x
            && self.low.y <= other.high.y
            && other.low.y <= self.high.y
    }

    /// The distances from a point to the nearest and to the farthest point of the rectangle.
    pub fn distances_from(&self, point: FlatPoint) -> (f64, f64) {
        let near = |low: f64, high: f64, at: f64| (low - at).max(at - high).max(0.0);
        let far = |low: f64, high: f64, at: f64| (at - low).abs().max((high - at).abs());
        let (low, high) = (self.low, self.high);
        (
            near(low.x, high.x, point.x).hypot(near(low.y, high.y, point.y)),
            far(low.x, high.x, point.x).hypot(far(low.y, high.y, point.y)),
        )
    }
}

/// Counts the sides that a ray from the point crosses; a point on a side is inside.
fn polygon_covers(corners: &[FlatPoint], point: FlatPoint) -> bool {
    let mut is_inside = false;
    let next = corners.iter().cycle().skip(1);
    for (a, b) in corners.iter().zip(next) {
        // Twice the area of the triangle: the side on which the point lies.
        let turn = (b.x - a.x) * (point.y - a.y) - (b.y - a.y) * (point.x - a.x);
        let low = FlatPoint {
            x: a.x.min(b.x),
            y: a.y.min(b.y),
        };
        let high = FlatPoint {
            x: a.x.max(b.x),
            y: a.y.max(b.y),
        };
        if turn == 0.0 && (FlatRect { low, high }).holds(point) {
            return true;
        }
        if (a.y > point.y) != (b.y > point.y) && (turn > 0.0) == (b.y > a.y) {
            is_inside = !is_inside;
        }
    }
    is_inside
}
