//! The cells of S2 that an index keeps of a geometry, and the ranges of cells that a question reads.
//!
//! A cell that an index keeps meets the geometry; a range of a question has the cells within those of its own covering, and the
//! single cells around these. Two geometries that meet have cells of which one holds the other.

use std::sync::Arc;

use s2::cap::Cap;
use s2::cell::Cell;
use s2::cellid::CellID;
use s2::point::Point;
use s2::region::{Region, RegionCoverer};
use s2::s1::{Angle, Rad};

use crate::Pace;
use crate::bounds::{Disc, Edge, EdgeBox};
use crate::geometry::Geometry;
use crate::polygon::Polygon;
use crate::relation::meet;
use crate::sphere::{SpherePoint, angle};

/// The cells that cover a line or a polygon, as in MongoDB.
const CELLS_MAX: usize = 20;
/// The smallest cells of a line or a polygon: about ten metres.
const LEVEL_MAX: u8 = 20;

/// The work of looking whether a part is near a cell.
const UNITS_OF_A_PART: usize = 3;

/// Cells from one to another, both among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellRange {
    /// The first.
    pub low: i64,
    /// The last.
    pub high: i64,
}

/// A ring around a point: all that lies no nearer to it than `inner` and no farther than `outer`, in radians.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    /// The point.
    pub center: SpherePoint,
    /// The distance within which nothing is meant.
    pub inner: f64,
    /// The distance beyond which nothing is meant.
    pub outer: f64,
}

/// The cells under which an index keeps a geometry: a point under the smallest one.
pub fn cells_of(mut geometry: Geometry, pace: Pace) -> Vec<i64> {
    let points = std::mem::take(&mut geometry.points);
    let mut cells: Vec<CellID> = points.iter().map(CellID::from).collect();
    if !geometry.is_empty() {
        cells.extend(covering(Covered {
            geometry: Arc::new(geometry),
            pace,
        }));
    }
    let mut cells: Vec<i64> = cells.iter().map(|cell| cell.0 as i64).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// The ranges of cells of the geometries that may meet this one.
pub fn ranges_of(geometry: &Arc<Geometry>, pace: Pace) -> Vec<CellRange> {
    let region = Covered {
        geometry: Arc::clone(geometry),
        pace,
    };
    ranges_around(covering(region))
}

/// The ranges of cells of the geometries that may have a point in the ring.
pub fn ranges_of_ring(ring: Ring) -> Vec<CellRange> {
    ranges_around(covering(ring))
}

fn covering<R: Region + 'static>(region: R) -> Vec<CellID> {
    let coverer = RegionCoverer {
        min_level: 0,
        max_level: LEVEL_MAX,
        level_mod: 1,
        max_cells: CELLS_MAX,
    };
    coverer.covering(&region).0
}

/// The cells within these, and those around them.
fn ranges_around(cells: Vec<CellID>) -> Vec<CellRange> {
    let mut ranges = Vec::new();
    for cell in cells {
        ranges.push(CellRange {
            low: cell.range_min().0 as i64,
            high: cell.range_max().0 as i64,
        });
        for level in 0..cell.level() {
            let above = cell.parent(level).0 as i64;
            ranges.push(CellRange {
                low: above,
                high: above,
            });
        }
    }
    CellRange::joined(ranges)
}

impl CellRange {
    /// Takes away from the first ranges all that is in the others; both are in order and apart.
    pub fn without(ranges: &[CellRange], others: &[CellRange]) -> Vec<CellRange> {
        let mut left = Vec::new();
        let mut others = others.iter().peekable();
        for range in ranges {
            let mut low = Some(range.low);
            while others.next_if(|other| other.high < range.low).is_some() {}
            while let (Some(from), Some(other)) = (low, others.peek()) {
                if other.low > range.high {
                    break;
                }
                if other.low > from {
                    left.push(CellRange {
                        low: from,
                        high: other.low - 1,
                    });
                }
                if other.high >= range.high {
                    low = None;
                } else {
                    low = Some(other.high + 1);
                    others.next();
                }
            }
            left.extend(low.map(|low| CellRange {
                low,
                high: range.high,
            }));
        }
        left
    }

    /// Puts ranges in order, and joins those that have something in common.
    pub fn joined(mut ranges: Vec<CellRange>) -> Vec<CellRange> {
        ranges.sort_unstable();
        let mut joined: Vec<CellRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.low <= last.high.saturating_add(1) => {
                    last.high = last.high.max(range.high);
                }
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// A geometry as S2 covers it.
struct Covered {
    geometry: Arc<Geometry>,
    pace: Pace,
}

/// The corners and the sides of a cell.
struct Sides {
    corners: [Point; 4],
    edges: [Edge; 4],
    bounds: EdgeBox,
}

impl Sides {
    fn of(cell: &Cell) -> Sides {
        let corners = cell.vertices();
        let edges = std::array::from_fn(|at| Edge::new(corners[at], corners[(at + 1) % 4]));
        let around = edges.iter().map(|edge: &Edge| edge.bounds);
        let around = around.reduce(|all, one| all.union(&one));
        let mut bounds = around.expect("a cell has four sides");
        // The middle of a cell stands out over its sides, by no more than over the arc between two corners.
        let across = EdgeBox::of(&corners[0], &corners[2]);
        bounds = bounds
            .union(&across)
            .union(&EdgeBox::of(&corners[1], &corners[3]));
        Sides {
            corners,
            edges,
            bounds,
        }
    }

    fn meet_edges<'e>(
        &self,
        cell: &Cell,
        edges: impl Iterator<Item = &'e Edge> + Clone,
        pace: Pace,
    ) -> bool {
        let near = edges.filter(|edge| edge.bounds.meets(&self.bounds));
        near.clone()
            .any(|edge| cell.contains_point(&edge.a) || cell.contains_point(&edge.b))
            || meet(&self.edges, near, pace)
    }
}

fn disc_of(cell: &Cell) -> Disc {
    let center = cell.center();
    let corners = cell.vertices();
    let farthest = corners.iter().map(|corner| angle(&center, corner));
    Disc {
        radius: farthest.fold(0.0, f64::max) + 1e-12,
        center,
    }
}

fn cap(disc: Disc) -> Cap {
    match disc.radius >= Disc::EVERYTHING {
        true => Cap::full(),
        false => Cap::from_center_angle(&disc.center, &Angle::from(Rad(disc.radius))),
    }
}

impl Covered {
    /// Counts a look at each part, before their edges are looked at.
    fn is_over(&self) -> bool {
        let Geometry {
            points,
            lines,
            polygons,
        } = self.geometry.as_ref();
        (self.pace)((points.len() + lines.len() + polygons.len()) * UNITS_OF_A_PART)
    }

    fn polygon_meets(&self, polygon: &Polygon, cell: &Cell, sides: &Sides) -> bool {
        !(self.pace)(polygon.edges_len())
            && (sides.meet_edges(cell, polygon.edges(), self.pace)
                || polygon.holds(&sides.corners[0], self.pace))
    }
}

impl Region for Covered {
    fn cap_bound(&self) -> Cap {
        cap(self.geometry.disc())
    }

    fn contains_cell(&self, cell: &Cell) -> bool {
        let (sides, around) = (Sides::of(cell), disc_of(cell));
        if self.is_over() {
            return false;
        }
        self.geometry.polygons.iter().any(|polygon| {
            polygon.disc.may_meet(&around)
                && !(self.pace)(polygon.edges_len())
                && polygon.holds(&sides.corners[0], self.pace)
                && !sides.meet_edges(cell, polygon.edges(), self.pace)
        })
    }

    fn intersects_cell(&self, cell: &Cell) -> bool {
        let (sides, around) = (Sides::of(cell), disc_of(cell));
        let Geometry {
            points,
            lines,
            polygons,
        } = self.geometry.as_ref();
        if self.is_over() {
            return false;
        }
        points.iter().any(|point| cell.contains_point(point))
            || lines.iter().any(|line| {
                line.disc.may_meet(&around)
                    && !(self.pace)(line.edges.len())
                    && sides.meet_edges(cell, line.edges.iter(), self.pace)
            })
            || (polygons.iter()).any(|polygon| {
                polygon.disc.may_meet(&around) && self.polygon_meets(polygon, cell, &sides)
            })
    }
}

impl Region for Ring {
    fn cap_bound(&self) -> Cap {
        cap(Disc {
            center: self.center.0,
            radius: self.outer + 1e-12,
        })
    }

    fn contains_cell(&self, cell: &Cell) -> bool {
        let disc = disc_of(cell);
        let away = angle(&self.center.0, &disc.center);
        away + disc.radius <= self.outer && away - disc.radius >= self.inner
    }

    fn intersects_cell(&self, cell: &Cell) -> bool {
        let disc = disc_of(cell);
        let away = angle(&self.center.0, &disc.center);
        away - disc.radius <= self.outer && away + disc.radius >= self.inner
    }
}
