//! Paths to fields and elements that an update has changed, as its description names them.

use quarry_bson::RawElement;
use smallvec::SmallVec;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStep<'p> {
    /// Into a field of a document.
    Field(&'p str),
    /// Into an element of an array.
    Element(usize),
}

pub(super) type Steps<'p> = SmallVec<[PathStep<'p>; 4]>;

/// How the change of a document is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// By the paths of the fields that have changed.
    ByFields,
    /// By the whole document.
    AsAWhole,
}

/// Whether two values are the same to the byte.
pub(super) fn is_same(old: &RawElement<'_>, new: &RawElement<'_>) -> bool {
    old.element_type() == new.element_type() && old.value_bytes() == new.value_bytes()
}
