//! `==`, `<` and hashes of the borrowed types, by MongoDB's order.
//!
//! They stand here and not beside the types, so that a type knows nothing of the order that is made of all of them.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{compare_documents, exact::compare_decimals, hash_value, values_equal};
use crate::{Decimal128, RawArray, RawDocument, RawValue};

impl PartialEq for RawValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        values_equal(*self, *other)
    }
}

impl PartialEq for RawDocument<'_> {
    /// Equal by MongoDB's comparison: the same names in the same order with equal values.
    fn eq(&self, other: &Self) -> bool {
        compare_documents(*self, *other).is_eq()
    }
}

impl PartialEq for RawArray<'_> {
    /// Equal by MongoDB's comparison: equal values in the same order.
    fn eq(&self, other: &Self) -> bool {
        values_equal(RawValue::Array(*self), RawValue::Array(*other))
    }
}

impl Decimal128 {
    /// MongoDB's numeric order: NaN first and equal to itself.
    pub fn compare(&self, other: &Self) -> Ordering {
        compare_decimals(*self, *other)
    }
}

impl PartialEq for Decimal128 {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Eq for Decimal128 {}

impl PartialOrd for Decimal128 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal128 {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other)
    }
}

impl Hash for Decimal128 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value((*self).into(), state);
    }
}
