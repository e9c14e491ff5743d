//! Tests of the keys of an index by the values of fields that its ranges do not bound: those behind a range, or behind a
//! field that the filter says nothing of. A key that does not pass leads to no document that matches, so that none is read for it.

use quarry_keystring::{Direction, skip_value};
use smallvec::SmallVec;

use crate::error::Result;
use crate::exec::broken_entry;

/// The bounds of one field.
#[derive(Debug)]
pub struct FieldTest {
    /// The number of the field in the index.
    field: usize,
    /// The first bytes of its values and the end, in the order of the keys and apart.
    cuts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FieldTest {
    /// A test by bounds that are in the order of the keys and apart.
    pub fn new(field: usize, cuts: Vec<(Vec<u8>, Vec<u8>)>) -> FieldTest {
        debug_assert!(
            cuts.is_sorted_by(|a, b| a.1 <= b.0),
            "bounds stand apart, in order"
        );
        FieldTest { field, cuts }
    }

    /// Whether a value that `bytes` begin with lies in one of the intervals.
    fn passes(&self, bytes: &[u8]) -> bool {
        let behind = self
            .cuts
            .partition_point(|(low, _)| low.as_slice() <= bytes);
        let last = behind.checked_sub(1).map(|at| &self.cuts[at]);
        last.is_some_and(|(_, high)| bytes < high.as_slice())
    }
}

/// The tests of a key's fields.
#[derive(Debug)]
pub struct KeyTests {
    /// In the order of their fields.
    tests: SmallVec<[FieldTest; 2]>,
    directions: SmallVec<[Direction; 8]>,
}

impl KeyTests {
    /// Tests of the fields of keys whose directions are these.
    pub fn new(tests: SmallVec<[FieldTest; 2]>, directions: SmallVec<[Direction; 8]>) -> KeyTests {
        debug_assert!(
            tests.is_sorted_by(|a, b| a.field < b.field),
            "tests are in the order of their fields"
        );
        KeyTests { tests, directions }
    }

    /// Whether a key with these fields passes.
    pub fn pass(&self, fields: &[u8]) -> Result<bool> {
        let (mut rest, mut at) = (fields, 0);
        for test in &self.tests {
            for direction in &self.directions[at..test.field] {
                let bytes = skip_value(rest, *direction).map_err(broken_entry)?;
                rest = &rest[bytes..];
            }
            at = test.field;
            if !test.passes(rest) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
