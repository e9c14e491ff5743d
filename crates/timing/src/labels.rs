//! What an operation's figures are also kept under: its namespace and the shape of its query.
//!
//! A label is a hash on the way of every operation; its text is made once, when the label is first met. Two with one
//! hash are counted as one.

/// The labels of one operation.
#[derive(Clone, Copy)]
pub struct Labels<'a> {
    /// The hash of the namespace; 0 for none.
    pub namespace: u64,
    /// The hash of the query's shape; 0 for none.
    pub shape: u64,
    pub texts: &'a dyn LabelTexts,
    /// Shown with the bucket that the operation's wall time falls into.
    pub exemplar: Option<Exemplar>,
}

impl Labels<'_> {
    /// An operation on no collection.
    pub const NONE: Labels<'static> = Labels {
        namespace: 0,
        shape: 0,
        texts: &NoTexts,
        exemplar: None,
    };
}

/// Makes the texts of labels that are met for the first time.
pub trait LabelTexts {
    fn namespace(&self) -> String;
    fn shape(&self) -> String;
}

struct NoTexts;

impl LabelTexts for NoTexts {
    fn namespace(&self) -> String {
        String::new()
    }

    fn shape(&self) -> String {
        String::new()
    }
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
