//! Transactions whose parts stand in several entries: they take effect with the last.

use std::collections::HashMap;

use super::entry::{Entry, Operation, Part};

/// All open transactions together. A larger one would not be applied in memory.
const OPEN_BYTES_MAX: usize = 1 << 30;

/// Transactions that have begun and not ended.
#[derive(Default)]
pub struct Transactions {
    open: HashMap<Vec<u8>, Open>,
    bytes: usize,
}

/// One of them, and its bytes, which are not added up again with each of very many parts.
#[derive(Default)]
struct Open {
    operations: Vec<Operation>,
    bytes: usize,
}

impl Transactions {
    /// Takes an entry; the operations that take effect with it.
    ///
    /// # Errors
    /// The text says why the transaction cannot be put together.
    pub fn take(&mut self, entry: Entry) -> Result<Vec<Operation>, String> {
        let at = entry.time;
        let taken = match entry.operation {
            Operation::Several {
                operations,
                part: None,
            } => Ok(operations),
            Operation::Several {
                operations,
                part: Some(part),
            } => self.add(operations, part),
            Operation::Commit(part) => self.add(Vec::new(), part),
            Operation::Abort(part) => {
                self.remove(&part);
                Ok(Vec::new())
            }
            operation => Ok(vec![operation]),
        };
        taken.map_err(|what| format!("the entry of {}:{}: {what}", at.time, at.increment))
    }

    fn add(&mut self, operations: Vec<Operation>, part: Part) -> Result<Vec<Operation>, String> {
        let known = self.remove(&part);
        if part.has_earlier && known.is_none() {
            return Err("the beginning of its transaction is not here".to_owned());
        }
        // Its name counts, so that very many without operations are not for nothing.
        let mut all = known.unwrap_or_else(|| Open {
            bytes: part.transaction.len(),
            ..Open::default()
        });
        all.bytes += operations.iter().map(Operation::len_bytes).sum::<usize>();
        all.operations.extend(operations);
        if part.is_last {
            return Ok(all.operations);
        }
        self.bytes += all.bytes;
        self.open.insert(part.transaction, all);
        match self.bytes > OPEN_BYTES_MAX {
            true => Err(format!(
                "open transactions of more than {OPEN_BYTES_MAX} bytes"
            )),
            false => Ok(Vec::new()),
        }
    }

    fn remove(&mut self, part: &Part) -> Option<Open> {
        let known = self.open.remove(&part.transaction)?;
        self.bytes -= known.bytes;
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Timestamp, Value};

    use super::super::change::Change;
    use super::*;
    use crate::namespaces::Namespace;

    fn deletion(id: i32) -> Operation {
        Operation::Document {
            namespace: Namespace::new("db", "c"),
            id: Value::from(id),
            change: Change::Delete,
        }
    }

    fn part(transaction: u8, has_earlier: bool, is_last: bool) -> Part {
        Part {
            transaction: vec![transaction],
            has_earlier,
            is_last,
        }
    }

    fn entry(operation: Operation) -> Entry {
        Entry {
            time: Timestamp::from_u64(7 << 32),
            operation,
        }
    }

    fn several(id: i32, part: Part) -> Entry {
        let operations = vec![deletion(id)];
        entry(Operation::Several {
            operations,
            part: Some(part),
        })
    }

    #[test]
    fn parts_take_effect_with_the_last() {
        let mut open = Transactions::default();
        let none = Vec::new();
        assert_eq!(open.take(several(1, part(1, false, false))).unwrap(), none);
        assert_eq!(open.take(several(2, part(2, false, false))).unwrap(), none);
        assert_eq!(open.take(entry(deletion(9))).unwrap(), [deletion(9)]);
        let last = open.take(several(3, part(1, true, true))).unwrap();
        assert_eq!(last, [deletion(1), deletion(3)]);
        let commit = Operation::Commit(part(2, true, true));
        assert_eq!(open.take(entry(commit)).unwrap(), [deletion(2)]);
        assert_eq!(open.take(several(4, part(3, false, false))).unwrap(), none);
        assert_eq!(
            open.take(entry(Operation::Abort(part(3, true, true))))
                .unwrap(),
            none
        );
        assert!(open.open.is_empty() && open.bytes == 0);
        assert_eq!(
            open.take(entry(Operation::Several {
                operations: Vec::new(),
                part: Some(part(4, false, false))
            }))
            .unwrap(),
            none
        );
        assert!(open.bytes > 0, "one without operations counts, too");
    }

    #[test]
    fn a_transaction_without_its_beginning_is_refused() {
        let mut open = Transactions::default();
        let error = open.take(several(1, part(1, true, true))).unwrap_err();
        assert_eq!(
            error,
            "the entry of 7:0: the beginning of its transaction is not here"
        );
    }
}
