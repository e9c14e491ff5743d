//! Tests of the keys of an index by the values of fields that its ranges do not bound: those behind a range, or behind a
//! field that the filter says nothing of. A key that does not pass leads to no document that matches, so that none is read for it.
//! Where many in a row do not pass, the next one that may is told, so that a scan goes there at once.

use quarry_keystring::{Direction, prefix_end, skip_value};
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

    /// Whether a value that `bytes` begin with lies in one of the intervals; if not, where the next one begins, if there is one.
    fn ask(&self, bytes: &[u8]) -> Result<(), Option<&[u8]>> {
        let behind = self
            .cuts
            .partition_point(|(low, _)| low.as_slice() <= bytes);
        let last = behind.checked_sub(1).map(|at| &self.cuts[at]);
        match last {
            Some((_, high)) if bytes < high.as_slice() => Ok(()),
            _ => Err(self.cuts.get(behind).map(|(low, _)| low.as_slice())),
        }
    }
}

/// The outcome of the tests of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Tested {
    /// It passes.
    Passed,
    /// It does not.
    Failed,
    /// It does not, and neither does any before these bytes.
    FailedUpTo(Vec<u8>),
}

/// The tests of a key's fields.
#[derive(Debug)]
pub struct KeyTests {
    /// In the order of their fields.
    tests: SmallVec<[FieldTest; 2]>,
    directions: SmallVec<[Direction; 8]>,
    /// The keys in a row that have not passed.
    failed: u32,
}

/// The keys in a row that are looked at before it pays to go elsewhere, which costs as much as several of them. Fewer where everything is
/// tested.
const FAILED_MAX: u32 = if cfg!(debug_assertions) { 2 } else { 16 };

impl KeyTests {
    /// Tests of the fields of keys whose directions are these.
    pub fn new(tests: SmallVec<[FieldTest; 2]>, directions: SmallVec<[Direction; 8]>) -> KeyTests {
        debug_assert!(
            tests.is_sorted_by(|a, b| a.field < b.field),
            "tests are in the order of their fields"
        );
        KeyTests {
            tests,
            directions,
            failed: 0,
        }
    }

    /// Tests a key with these fields.
    pub fn test(&mut self, fields: &[u8]) -> Result<Tested> {
        let (mut rest, mut at) = (fields, 0);
        for test in &self.tests {
            for direction in &self.directions[at..test.field] {
                let bytes = skip_value(rest, *direction).map_err(broken_entry)?;
                rest = &rest[bytes..];
            }
            at = test.field;
            let Err(next) = test.ask(rest) else {
                continue;
            };
            self.failed += 1;
            if self.failed < FAILED_MAX {
                return Ok(Tested::Failed);
            }
            self.failed = 0;
            let before = &fields[..fields.len() - rest.len()];
            return Ok(Tested::FailedUpTo(match next {
                Some(low) => [before, low].concat(),
                None => prefix_end(before),
            }));
        }
        self.failed = 0;
        Ok(Tested::Passed)
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::RawValue;
    use quarry_keystring::{TypeBits, encode_value};
    use smallvec::smallvec;

    use super::*;

    fn key(values: &[(i32, Direction)]) -> Vec<u8> {
        let mut key = Vec::new();
        for (value, direction) in values {
            let value = RawValue::Int32(*value);
            encode_value(&mut key, &mut TypeBits::new(), value, *direction);
        }
        key
    }

    #[test]
    fn many_failures_in_a_row_tell_where_to_go_on() {
        for direction in [Direction::Ascending, Direction::Descending] {
            let fields = |a, b| key(&[(a, Direction::Ascending), (b, direction)]);
            let point = |value| {
                let low = key(&[(value, direction)]);
                let high = prefix_end(&low);
                (low, high)
            };
            let mut points = vec![point(10), point(20)];
            points.sort();
            let (first, last) = match direction {
                Direction::Ascending => (10, 20),
                Direction::Descending => (20, 10),
            };
            let test = FieldTest::new(1, points);
            let mut tests =
                KeyTests::new(smallvec![test], smallvec![Direction::Ascending, direction]);
            assert_eq!(tests.test(&fields(7, 20)).unwrap(), Tested::Passed);
            let mut up_to = |b| loop {
                match tests.test(&fields(7, b)).unwrap() {
                    Tested::Failed => {}
                    other => break other,
                }
            };
            assert_eq!(up_to(15), Tested::FailedUpTo(fields(7, last)));
            let (before, behind) = match direction {
                Direction::Ascending => (5, 25),
                Direction::Descending => (25, 5),
            };
            assert_eq!(up_to(before), Tested::FailedUpTo(fields(7, first)));
            let next = prefix_end(&key(&[(7, Direction::Ascending)]));
            assert_eq!(up_to(behind), Tested::FailedUpTo(next));
        }
    }
}
