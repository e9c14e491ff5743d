//! What an operation's figures are also kept under: its namespace and the shape of its query.
//!
//! A label is a hash on the way of every operation; its text is made once, when the label is first met.

/// The labels of one operation.
#[derive(Clone, Copy, Default)]
pub struct Labels<'a> {
    pub namespace: Option<Label<'a>>,
    pub shape: Option<Label<'a>>,
    /// Shown with the bucket that the operation's wall time falls into.
    pub exemplar: Option<Exemplar>,
}

/// One label. Two with one hash are counted as one.
#[derive(Clone, Copy)]
pub struct Label<'a> {
    pub hash: u64,
    pub text: &'a dyn Fn() -> String,
}

/// One operation that stands for its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// The number of the operation.
    pub opid: u32,
    /// The trace that the client said the operation belongs to; 0 without one.
    pub trace: u128,
    pub wall_ns: u64,
    pub unix_ms: u64,
}
