//! The part of a geospatial index that a plan reads: the keys of cells behind given values of the fields before them.

use quarry_bson::RawValue;
use quarry_database::{KeyRange, meeting_cut_keys};
use quarry_geometry::CellRange;
use quarry_keystring::{Direction, TypeBits, encode_value, prefix_end};

use super::index_access::IndexAccess;
use super::index_scan::IndexScan;
use crate::interrupts;

/// The work of making a range of keys.
const UNITS_OF_A_RANGE: usize = 30;

/// Reads cells of an index.
pub struct GeoScan {
    /// The index.
    pub access: IndexAccess,
    /// The beginnings of the keys before their cells, in order.
    pub starts: Vec<Vec<u8>>,
    /// The geospatial field, where explain prints its cells.
    pub geo_field: Option<String>,
}

impl GeoScan {
    /// The scan of these cells' keys.
    pub fn of_cells(mut self, cells: &[CellRange]) -> IndexScan {
        let ranges = self.ranges(cells);
        if let Some(field) = self.geo_field.take() {
            let shown = cells
                .iter()
                .map(|range| format!("[{}, {}]", range.low, range.high));
            self.access.bounds = vec![(field, shown.collect())];
        }
        IndexScan::new(self.access, ranges, false, false)
    }

    /// The ranges of the keys of these cells, in order and apart from each other.
    pub fn ranges(&self, cells: &[CellRange]) -> Vec<KeyRange> {
        let encoded = |cell: i64| {
            let mut key = Vec::with_capacity(10);
            let value = RawValue::Int64(cell);
            encode_value(&mut key, &mut TypeBits::new(), value, Direction::Ascending);
            key
        };
        let cells: Vec<(Vec<u8>, Vec<u8>)> = cells
            .iter()
            .map(|range| (encoded(range.low), prefix_end(&encoded(range.high))))
            .collect();
        let mut joined: Vec<KeyRange> = Vec::new();
        let pairs = self
            .starts
            .iter()
            .flat_map(|start| cells.iter().map(move |cell| (start, cell)));
        for (start, (low, high)) in pairs {
            if interrupts::is_over(UNITS_OF_A_RANGE) {
                break;
            }
            let range = KeyRange::new(
                [start, low].map(Vec::as_slice).concat(),
                [start, high].map(Vec::as_slice).concat(),
            );
            let range = meeting_cut_keys(range);
            match joined.last_mut() {
                Some(last) if range.start < last.end => {
                    if range.end > last.end {
                        last.end = range.end;
                    }
                }
                _ => joined.push(range),
            }
        }
        joined
    }
}
