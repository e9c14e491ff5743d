//! A borrowed array: a document whose names are positions and are not looked at.

use std::fmt;

use crate::{Iter, RawDocument, RawElement, RawValue};

/// An array in place: its values in order, by position. What its elements are named is not looked at.
#[derive(Clone, Copy)]
pub struct RawArray<'a>(RawDocument<'a>);

impl<'a> RawArray<'a> {
    /// The array without values.
    pub const EMPTY: RawArray<'static> = RawArray(RawDocument::EMPTY);

    /// Reads a document as an array, whatever its names are.
    #[inline]
    pub fn from_document(document: RawDocument<'a>) -> Self {
        Self(document)
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> Values<'a> {
        Values(self.0.iter())
    }

    /// The elements in order, with the names that they happen to have.
    #[inline]
    pub fn elements(&self) -> Iter<'a> {
        self.0.iter()
    }

    /// The value at a position, whatever the elements are named.
    pub fn get(&self, index: usize) -> Option<RawValue<'a>> {
        self.0.iter().nth(index).map(|e| e.value())
    }

    /// The element at a position, by walking there.
    pub fn get_element(&self, index: usize) -> Option<RawElement<'a>> {
        self.0.iter().nth(index)
    }

    /// The array as the document that it is in bytes.
    #[inline]
    pub fn as_document(&self) -> RawDocument<'a> {
        self.0
    }

    /// All bytes: length, elements and terminator.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of elements, by walking.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The values of an array, in order.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(Iter<'a>);

impl Values<'_> {
    /// Whether the walk ended at bytes that do not hold together.
    pub fn malformed(&self) -> bool {
        self.0.malformed()
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = RawValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawValue<'a>> {
        self.0.next().map(|e| e.value())
    }
}

impl<'a> IntoIterator for RawArray<'a> {
    type Item = RawValue<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawArray<'a> {
    type Item = RawValue<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl fmt::Debug for RawArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&RawValue::Array(*self), f)
    }
}

impl PartialEq for RawArray<'_> {
    /// Equal by MongoDB's comparison: equal values in the same order.
    fn eq(&self, other: &Self) -> bool {
        crate::compare::values_equal(RawValue::Array(*self), RawValue::Array(*other))
    }
}
