//! The keys of a range as points on a line, so that a key some way ahead can be found without reading what lies between.
//!
//! Behind what all keys of the range begin with, sixteen bytes are a number: they hold an ObjectId with its type, any number, and what
//! tells most strings apart. A distance on the line says little of how many keys there are in it: whoever goes along it learns that as he
//! goes, and a distance too long or too short costs a little time and no correctness.

use quarry_database::{CollectionSnapshot, KeyRange};

use super::error::stored;
use crate::error::Result;

/// The bytes that make the number.
const NUMBER_BYTES: usize = 16;

/// The line through the keys of a range.
pub(super) struct KeyLine {
    /// The bytes that all keys begin with.
    common: Vec<u8>,
    /// The first key.
    first: Vec<u8>,
    /// The number of the last key.
    last: u128,
    /// The end of the range.
    end: Vec<u8>,
}

impl KeyLine {
    /// The line through the keys of a range in a snapshot; none where there are fewer than two.
    pub fn of(snapshot: &CollectionSnapshot, range: &KeyRange) -> Result<Option<KeyLine>> {
        let mut cursor = snapshot.cursor(range.clone())?;
        stored(cursor.first())?;
        let first = cursor.key().to_vec();
        stored(cursor.last())?;
        if !cursor.valid() || cursor.key() == first {
            return Ok(None);
        }
        let last = cursor.key();
        let is_common = |(one, other): &(&u8, &u8)| one == other;
        let common = first.iter().zip(last).take_while(is_common).count();
        Ok(Some(KeyLine {
            common: last[..common].to_vec(),
            last: number(&last[common..]),
            first,
            end: range.end.clone(),
        }))
    }

    /// The first key of the range.
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// The distance that one of so many equal parts of the line behind a key has.
    pub fn part(&self, key: &[u8], parts: u64) -> u128 {
        self.last.saturating_sub(self.number(key)) / u128::from(parts.max(1))
    }

    fn number(&self, key: &[u8]) -> u128 {
        number(key.strip_prefix(self.common.as_slice()).unwrap_or_default())
    }

    /// The first key that is further from a key of the range than a distance; none where that is beyond the last one.
    pub fn key_beyond(
        &self,
        snapshot: &CollectionSnapshot,
        key: &[u8],
        distance: u128,
    ) -> Result<Option<Vec<u8>>> {
        let beyond = self.number(key).checked_add(distance.max(1));
        let Some(number) = beyond.filter(|number| *number <= self.last) else {
            return Ok(None);
        };
        let mut sought = self.common.clone();
        sought.extend_from_slice(&number.to_be_bytes());
        let mut cursor = snapshot.cursor(KeyRange::new(sought.clone(), self.end.clone()))?;
        stored(cursor.seek(&sought))?;
        debug_assert!(sought.as_slice() > key, "a part has a key at least");
        Ok(cursor.valid().then(|| cursor.key().to_vec()))
    }
}

fn number(bytes: &[u8]) -> u128 {
    let mut number = [0; NUMBER_BYTES];
    let len = bytes.len().min(NUMBER_BYTES);
    number[..len].copy_from_slice(&bytes[..len]);
    u128::from_be_bytes(number)
}
