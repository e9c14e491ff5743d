//! Labels: an operation's figures are also kept under its namespace and the shape of its query.
//!
//! A label is a hash on the way of every operation; its text is made once, when the label is first met. Two with one
//! hash are counted as one.

/// The labels of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The hash of the namespace; 0 for none.
    pub namespace: u64,
    /// The hash of the query's shape; 0 for none.
    pub shape: u64,
}

impl Labels {
    /// An operation on no collection.
    pub const NONE: Labels = Labels {
        namespace: 0,
        shape: 0,
    };
}

/// Makes the texts of labels that are met for the first time.
pub trait LabelTexts {
    /// The namespace, as `database.collection`.
    fn namespace(&self) -> String;
    /// The query's shape: its fields and operators without its values.
    fn shape(&self) -> String;
}

/// For [`Labels::NONE`].
#[derive(Debug)]
pub struct NoTexts;

impl LabelTexts for NoTexts {
    fn namespace(&self) -> String {
        String::new()
    }

    fn shape(&self) -> String {
        String::new()
    }
}

/// One operation that stands for the bucket that its wall time falls into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// The number of the operation.
    pub opid: u32,
    /// The trace that the client said the operation belongs to; 0 without one.
    pub trace: u128,
    /// The operation's time from a request's first byte to its reply's last.
    pub wall_ns: u64,
    /// When it ended, in milliseconds since 1970.
    pub unix_ms: u64,
}
