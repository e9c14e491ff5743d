//! The cells of an index in the plane: the coordinates of a point within fixed bounds, each cut to a number of bits, and these
//! taken in turn. The cells of fewer bits are ranges of hashes.

use crate::cells::CellRange;
use crate::flat::{FlatPoint, FlatRect, FlatShape};
use crate::sphere::SpherePoint;

/// The ranges that a region is covered with at most: with more, cells are taken as a whole that the region only meets.
const RANGES_MAX: usize = 64;

/// How an index cuts the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoHash {
    /// The smallest coordinate.
    pub min: f64,
    /// The largest coordinate.
    pub max: f64,
    /// The bits of each coordinate, 32 at most.
    pub bits: u32,
}

/// A range of hashes.
pub type HashRange = CellRange;

/// A cell: the first `depth` bits of both coordinates.
#[derive(Clone, Copy)]
struct Cell {
    x: u64,
    y: u64,
    depth: u32,
}

enum Relation {
    Apart,
    Meets,
    Holds,
}

impl GeoHash {
    /// The hash of a point; none if the point lies beyond the bounds.
    pub fn hash(&self, point: FlatPoint) -> Option<i64> {
        let (x, y) = (self.cut(point.x)?, self.cut(point.y)?);
        Some(ordered(interleave(x, y)))
    }

    fn cut(&self, coordinate: f64) -> Option<u64> {
        let is_inside = (self.min..=self.max).contains(&coordinate);
        let cells = (1_u64 << self.bits) as f64;
        let place = (coordinate - self.min) / (self.max - self.min) * cells;
        is_inside.then(|| (place as u64).min((1 << self.bits) - 1))
    }

    /// The ranges of the points that a shape covers.
    pub fn ranges_of(&self, shape: &FlatShape) -> Vec<HashRange> {
        let around = shape.rect();
        self.cover(&|rect| match shape {
            FlatShape::Box { .. } if around.holds(rect.low) && around.holds(rect.high) => {
                Relation::Holds
            }
            FlatShape::Disc { center, radius } => within_ring(rect, *center, 0.0, *radius),
            _ if around.meets(rect) => Relation::Meets,
            _ => Relation::Apart,
        })
    }

    /// The ranges of the points whose distance in the plane from `center` lies between two bounds.
    pub fn ranges_of_ring(&self, center: FlatPoint, inner: f64, outer: f64) -> Vec<HashRange> {
        self.cover(&|rect| within_ring(rect, center, inner, outer))
    }

    /// The ranges of the points that are within so many radians of a point of the sphere.
    pub fn ranges_of_disc_on_sphere(&self, center: SpherePoint, radians: f64) -> Vec<HashRange> {
        let around = rects_of_disc(center, radians);
        self.cover(
            &|rect| match around.iter().any(|around| around.meets(rect)) {
                true => Relation::Meets,
                false => Relation::Apart,
            },
        )
    }

    /// Divides cells, the largest first, until there are as many as there may be.
    fn cover(&self, relation: &dyn Fn(&FlatRect) -> Relation) -> Vec<HashRange> {
        let mut held = Vec::new();
        let mut meeting = vec![Cell {
            x: 0,
            y: 0,
            depth: 0,
        }];
        loop {
            let mut next = Vec::new();
            for cell in &meeting {
                for quarter in cell.quarters() {
                    match relation(&self.rect(quarter)) {
                        Relation::Apart => {}
                        Relation::Holds => held.push(quarter),
                        Relation::Meets => next.push(quarter),
                    }
                }
            }
            let is_deepest = next.first().is_none_or(|cell| cell.depth >= self.bits);
            if held.len() + next.len() > RANGES_MAX {
                held.retain(|cell| meeting.iter().all(|above| !above.holds(*cell)));
                held.extend(meeting);
                break;
            }
            meeting = next;
            if is_deepest {
                held.extend(meeting);
                break;
            }
        }
        CellRange::joined(held.iter().map(|cell| self.range(*cell)).collect())
    }

    fn range(&self, cell: Cell) -> HashRange {
        let shift = 2 * (self.bits - cell.depth);
        let first = interleave(cell.x, cell.y);
        let low = u128::from(first) << shift;
        let high = (u128::from(first + 1) << shift) - 1;
        CellRange {
            low: ordered(low as u64),
            high: ordered(high as u64),
        }
    }

    /// The cell in the plane, and a little around it for what rounding does.
    fn rect(&self, cell: Cell) -> FlatRect {
        let extent = self.max - self.min;
        let size = extent / (1_u64 << cell.depth) as f64;
        let margin = (extent + self.max.abs() + self.min.abs()) * 1e-15;
        let low = |place: u64| self.min + place as f64 * size - margin;
        let high = |place: u64| self.min + (place + 1) as f64 * size + margin;
        FlatRect {
            low: FlatPoint {
                x: low(cell.x),
                y: low(cell.y),
            },
            high: FlatPoint {
                x: high(cell.x),
                y: high(cell.y),
            },
        }
    }
}

impl Cell {
    fn quarters(self) -> [Cell; 4] {
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(x, y)| Cell {
            x: self.x << 1 | x,
            y: self.y << 1 | y,
            depth: self.depth + 1,
        })
    }

    fn holds(self, other: Cell) -> bool {
        let shift = other.depth.saturating_sub(self.depth);
        other.depth >= self.depth && other.x >> shift == self.x && other.y >> shift == self.y
    }
}

fn within_ring(rect: &FlatRect, center: FlatPoint, inner: f64, outer: f64) -> Relation {
    let (nearest, farthest) = rect.distances_from(center);
    let outer = outer * (1.0 + f64::EPSILON);
    match nearest > outer || farthest < inner {
        true => Relation::Apart,
        false if farthest <= outer && nearest >= inner => Relation::Holds,
        false => Relation::Meets,
    }
}

/// The rectangles of longitude and latitude around a disc on the sphere: two where it goes over the date line.
fn rects_of_disc(center: SpherePoint, radians: f64) -> Vec<FlatRect> {
    let latitude = center.0.latitude().rad();
    let longitude = center.0.longitude().deg();
    let margin = radians + 1e-9;
    let (low, high) = (latitude - margin, latitude + margin);
    let quarter = std::f64::consts::FRAC_PI_2;
    let rect = |west: f64, east: f64| FlatRect {
        low: FlatPoint {
            x: west,
            y: low.to_degrees(),
        },
        high: FlatPoint {
            x: east,
            y: high.to_degrees(),
        },
    };
    if low <= -quarter || high >= quarter {
        return vec![rect(-181.0, 181.0)];
    }
    let reach = (margin.sin() / latitude.cos())
        .clamp(-1.0, 1.0)
        .asin()
        .to_degrees()
        + 1e-9;
    let (west, east) = (longitude - reach, longitude + reach);
    let mut rects = vec![rect(west, east)];
    if west < -180.0 {
        rects.push(rect(west + 360.0, 181.0));
    }
    if east > 180.0 {
        rects.push(rect(-181.0, east - 360.0));
    }
    rects
}

/// The bits of both in turn, those of `x` first.
fn interleave(x: u64, y: u64) -> u64 {
    let spread = |value: u64| {
        let mut spread = value & 0xffff_ffff;
        for (shift, mask) in [
            (16, 0x0000_ffff_0000_ffff),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555_u64),
        ] {
            spread = (spread | spread << shift) & mask;
        }
        spread
    };
    spread(x) << 1 | spread(y)
}

/// Int64s in the order of the hashes.
fn ordered(hash: u64) -> i64 {
    (hash ^ 1 << 63) as i64
}
