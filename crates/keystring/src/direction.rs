//! The direction of a key.

/// The order of one field of a compound key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Lower values come first.
    Ascending,
    /// Higher values come first: all bytes of the field are inverted.
    Descending,
}
