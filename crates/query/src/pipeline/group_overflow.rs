//! The rows of a `$group` whose groups have outgrown its memory: they are sorted by group, on disk, and each group of them is
//! made when its turn comes.
//!
//! The groups that are in memory stay there. First only documents of other groups go into the files, and where the values
//! of the groups in memory grow on (`$push`), all documents do. A row is keyed so that those of the groups in memory come first, in
//! the order of these groups, and those of each other group together; within a group the order in which the documents came
//! is kept. So an accumulator never has to be written, only the values that it takes, and it takes them in the same order as in
//! memory.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_keystring::{Direction, TypeBits};
use smallvec::{SmallVec, smallvec};

use super::accumulators::Column;
use crate::encode_collated;
use crate::error::Result;
use crate::interrupts;
use crate::memory::{Charge, bytes_of};
use crate::sorter::{Row, Sorted, Sorter};
use crate::spilling::{DiskUse, GROUPS};
use crate::value_set::ValueSet;

/// The first byte of the key of a row: its group is in memory, and the number of the group follows.
const IN_MEMORY: u8 = 0;
/// Its group is not, and the group's key follows.
const ELSEWHERE: u8 = 1;
/// The name of the group's key in a row; the others are the numbers of the fields.
const KEY: &str = "k";
/// A buffer of rows that has grown larger than this is not kept.
const PAYLOAD_BYTES_KEPT: usize = 64 << 10;

/// The bytes that the groups in memory may take, and whose crossing comes next.
pub(super) struct GroupMemory {
    /// The bytes at which something is to be done.
    pub limit: usize,
    bytes_max: usize,
    disk_use: DiskUse,
}

/// The rows that the groups in memory do not take.
pub(super) struct Overflow {
    sorter: Sorter,
    takes_all: bool,
    /// Those of the row that is being made.
    key: Vec<u8>,
    payload: Vec<u8>,
    /// The bytes of the longest payload so far.
    charge: Charge,
}

/// A row that is being made: what each value adds to it is charged before it is copied.
pub(super) struct RowBuilder<'o> {
    document: DocumentBuilder<'o>,
    charge: &'o mut Charge,
}

impl GroupMemory {
    pub fn new(disk_use: DiskUse) -> GroupMemory {
        let bytes_max = GROUPS.memory.bytes();
        GroupMemory {
            // Where there is a disk, a quarter is for values that grow on, and a quarter for the rows on their way there.
            limit: match GROUPS.space(disk_use) {
                Ok(_) => bytes_max / 2,
                Err(_) => bytes_max,
            },
            bytes_max,
            disk_use,
        }
    }

    /// The groups have crossed the limit. Fails where there is no disk.
    #[cold]
    pub fn exceeded(&mut self, overflow: &mut Option<Overflow>) -> Result<()> {
        match overflow {
            None => {
                GROUPS.space(self.disk_use)?;
                *overflow = Some(Overflow::new(self.disk_use, self.bytes_max / 4));
                self.limit = self.bytes_max / 4 * 3;
            }
            Some(overflow) => {
                overflow.takes_all = true;
                self.limit = usize::MAX;
            }
        }
        Ok(())
    }
}

impl Overflow {
    fn new(disk_use: DiskUse, bytes_max: usize) -> Overflow {
        Overflow {
            sorter: Sorter::new(&GROUPS, None, disk_use).with_memory(bytes_max),
            takes_all: false,
            key: Vec::new(),
            payload: Vec::new(),
            charge: Charge::default(),
        }
    }

    /// Whether a document of this group goes here. If so, `push` is next.
    pub fn takes(&mut self, groups: &ValueSet, key: RawValue<'_>) -> Result<bool> {
        self.key.clear();
        match groups.place(key)? {
            Some(_) if !self.takes_all => return Ok(false),
            Some(group) => {
                self.key.push(IN_MEMORY);
                self.key.extend_from_slice(&(group as u64).to_be_bytes());
            }
            None => {
                self.key.push(ELSEWHERE);
                let mut type_bits = TypeBits::default();
                let direction = Direction::Ascending;
                let collation = groups.collation();
                encode_collated(collation, &mut self.key, &mut type_bits, key, direction);
            }
        }
        Ok(true)
    }

    /// Keeps a document: the key of its group, and the values of the fields that `put_values` puts.
    pub fn push(
        &mut self,
        key: RawValue<'_>,
        put_values: impl FnOnce(&mut RowBuilder<'_>) -> Result<()>,
    ) -> Result<()> {
        self.payload.clear();
        let mut row = RowBuilder {
            document: DocumentBuilder::new(&mut self.payload),
            charge: &mut self.charge,
        };
        row.append(KEY, key)?;
        put_values(&mut row)?;
        drop(row);
        self.sorter.push(&self.key, &self.payload)?;
        if self.payload.capacity() > PAYLOAD_BYTES_KEPT {
            self.payload = Vec::new();
            self.charge = Charge::default();
        }
        Ok(())
    }

    /// The rows by group.
    pub fn finish(self) -> Result<GroupedRows> {
        let mut sorted = self.sorter.finish()?;
        Ok(GroupedRows {
            ahead: sorted.next()?,
            sorted,
        })
    }
}

impl RowBuilder<'_> {
    /// Puts the value of a field, None for Missing.
    pub fn put(&mut self, number: usize, value: Option<RawValue<'_>>) -> Result<()> {
        value.map_or(Ok(()), |value| self.append(&number.to_string(), value))
    }

    fn append(&mut self, name: &str, value: RawValue<'_>) -> Result<()> {
        let value_bytes = bytes_of(value);
        let bytes = self.document.len_bytes() + value_bytes;
        if bytes > self.charge.bytes() {
            self.charge.grow(bytes - self.charge.bytes())?;
        }
        interrupts::work_on_bytes(value_bytes)?;
        self.document.append(name, value);
        Ok(())
    }
}

/// The rows by group: those of the groups in memory first.
pub(super) struct GroupedRows {
    sorted: Sorted,
    /// The next one.
    ahead: Option<Row>,
}

impl GroupedRows {
    /// The next row, if there is one and `is_wanted` takes its key.
    fn next_if(&mut self, is_wanted: impl FnOnce(&[u8]) -> bool) -> Result<Option<Row>> {
        let Some(row) = self.ahead.take_if(|row| is_wanted(row.key())) else {
            return Ok(None);
        };
        self.ahead = self.sorted.next()?;
        Ok(Some(row))
    }

    /// The next row of a group in memory, if it has one.
    pub fn next_in_memory(&mut self, group: usize) -> Result<Option<Row>> {
        let group = (group as u64).to_be_bytes();
        self.next_if(|key| key.split_first() == Some((&IN_MEMORY, &group[..])))
    }

    /// The first row of the next group that is not in memory.
    pub fn next_group(&mut self) -> Result<Option<Row>> {
        self.next_if(|key| key.first() == Some(&ELSEWHERE))
    }

    /// The next row of the same group as another.
    pub fn next_like(&mut self, row: &Row) -> Result<Option<Row>> {
        self.next_if(|key| key == row.key())
    }
}

/// The key of the group that a row is of.
pub(super) fn group_key(row: &Row) -> Result<RawValue<'_>> {
    let row = RawDocument::new(row.payload())?;
    Ok(row.get(KEY).unwrap_or(RawValue::Null))
}

/// Has a group's accumulators take the values of a row.
pub(super) fn add(
    row: &Row,
    group: usize,
    columns: &mut [Box<dyn Column>],
    memory: &mut Charge,
) -> Result<()> {
    let row = RawDocument::new(row.payload())?;
    let mut values: SmallVec<[Option<RawValue<'_>>; 8]> = smallvec![None; columns.len()];
    for element in row.iter().skip(1) {
        let number = element.name().as_str()?.parse::<usize>().ok();
        if let Some(value) = number.and_then(|number| values.get_mut(number)) {
            *value = Some(element.value());
        }
    }
    for (column, value) in columns.iter_mut().zip(values) {
        memory.grow(column.add(group, value)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;
    use crate::error_code::ErrorCode;
    use crate::memory::OPERATION_BYTES_MAX;

    #[test]
    fn a_row_with_a_document_many_times_is_refused_before_it_is_there() {
        let mut overflow = Overflow::new(DiskUse::Denied, OPERATION_BYTES_MAX);
        let document = doc! { "text": ("x".repeat(100_000)) };
        let value = RawValue::Document(document.as_raw());
        let pushed = |overflow: &mut Overflow, count: usize| {
            overflow.key.clear();
            overflow.key.push(ELSEWHERE);
            overflow.push(RawValue::Null, |row| {
                (0..count).try_for_each(|number| row.put(number, Some(value)))
            })
        };
        pushed(&mut overflow, 2).unwrap();
        assert_eq!(
            (overflow.payload.capacity(), overflow.charge.bytes()),
            (0, 0)
        );
        let refused = pushed(&mut overflow, 5000).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::EXCEEDED_MEMORY_LIMIT.0);
        assert!(overflow.payload.len() <= OPERATION_BYTES_MAX);
    }
}
