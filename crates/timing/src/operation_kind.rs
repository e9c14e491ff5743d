//! The kinds of operation that figures are kept apart for.

/// The kind of a client's operation. Kinds are few, because each holds a histogram a phase on every core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// `find`.
    Find,
    /// `getMore`.
    GetMore,
    /// `insert`.
    Insert,
    /// `update`.
    Update,
    /// `delete`.
    Delete,
    /// `findAndModify`.
    FindAndModify,
    /// `aggregate`.
    Aggregate,
    /// `count`.
    Count,
    /// `distinct`.
    Distinct,
    /// Collections and indexes made, changed and dropped.
    Catalog,
    /// Every other command.
    Command,
}

impl OperationKind {
    pub(crate) const COUNT: usize = 11;

    /// All kinds, in order: `ALL[k as usize] == k`.
    pub const ALL: [OperationKind; Self::COUNT] = [
        OperationKind::Find,
        OperationKind::GetMore,
        OperationKind::Insert,
        OperationKind::Update,
        OperationKind::Delete,
        OperationKind::FindAndModify,
        OperationKind::Aggregate,
        OperationKind::Count,
        OperationKind::Distinct,
        OperationKind::Catalog,
        OperationKind::Command,
    ];

    /// The name used in replies and log lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Find => "find",
            OperationKind::GetMore => "getMore",
            OperationKind::Insert => "insert",
            OperationKind::Update => "update",
            OperationKind::Delete => "delete",
            OperationKind::FindAndModify => "findAndModify",
            OperationKind::Aggregate => "aggregate",
            OperationKind::Count => "count",
            OperationKind::Distinct => "distinct",
            OperationKind::Catalog => "catalog",
            OperationKind::Command => "command",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_own_place() {
        for (index, kind) in OperationKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }
}
