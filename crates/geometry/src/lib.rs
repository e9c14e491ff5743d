//! Geometry as MongoDB's geospatial operators mean it: GeoJSON and legacy points read from BSON, shapes on the sphere and in the plane,
//! the questions of a filter (within, intersects, how far), and the cells under which an index finds a shape.
//!
//! On the sphere an edge is the shorter arc of a great circle, and cells and exact predicates are those of S2 (the `s2` crate). That crate
//! has no polygons, so the loops here are our own, over its edge crossings. In the plane longitude and latitude are plain
//! coordinates, which needs a few lines and no library.
//!
//! Keeps true: a point on a boundary belongs to the shape, within `TOUCH_RADIANS`, as in MongoDB, which asks the smallest
//! cell of a point; a shape that was read is valid; a covering takes in all of its shape. Long work counts itself through a [`Pace`]. Leaves
//! out: filters, indexes, and distances on an ellipsoid.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bounds;
mod cells;
mod distance;
mod flat;
mod geohash;
mod geometry;
mod parse;
mod polygon;
mod relation;
mod shown;
mod sphere;
mod validity;

pub use cells::{CellRange, Ring, cells_of, ranges_of, ranges_of_ring};
pub use flat::{FlatPoint, FlatShape};
pub use geohash::{GeoHash, HashRange};
pub use geometry::{Geometry, Stored};
pub use parse::{Invalid, parse_flat_point, parse_geometry, parse_stored};
pub use shown::Shown;
pub use sphere::{EARTH_RADIUS_METRES, SpherePoint};

/// Counts units of work, of about ten nanoseconds each, and says whether the work is to end. A loop that is to end stops with
/// any answer; whoever gave the pace knows that it means nothing.
pub type Pace = fn(usize) -> bool;

/// The distance at which things touch: the width of S2's smallest cell, less than a centimetre.
pub(crate) const TOUCH_RADIANS: f64 = 1e-9;
