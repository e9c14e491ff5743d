//! Distinct values: the keys of `$group`, what `$addToSet` gathers, and arrays that expressions read as sets.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};
use quarry_bson::{RawValue, Value};

use crate::Collation;
use crate::error::Result;
use crate::interrupts::{self, units_collated, units_of};

/// The bytes that a value of a `ValueSet` takes, in its list and in its table.
pub(crate) fn entry_bytes(value: &Value) -> usize {
    size_of::<Value>() + 2 * size_of::<usize>() + value.as_bytes().len()
}

/// The work of looking for a value by its hash.
const UNITS_OF_A_PLACE: usize = 10;

/// Distinct values in the order in which they came, found by hash.
#[derive(Debug, Default)]
pub(crate) struct ValueSet {
    values: Vec<Value>,
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
    /// How strings are compared.
    collation: Collation,
}

impl ValueSet {
    /// A set of values that are distinct by the collation.
    pub(crate) fn new(collation: &Collation) -> ValueSet {
        ValueSet {
            collation: collation.clone(),
            ..ValueSet::default()
        }
    }

    /// Has the set, which is empty, tell values apart by the collation.
    pub(crate) fn collate(&mut self, collation: &Collation) {
        debug_assert!(self.values.is_empty(), "values were told apart otherwise");
        self.collation.clone_from(collation);
    }

    /// The place of the value, and by how many bytes the set grew: 0 if an equal one was there.
    pub(crate) fn insert(&mut self, value: RawValue<'_>) -> Result<(usize, usize)> {
        interrupts::work(self.units_of_search(value))?;
        let ValueSet {
            values,
            places,
            hasher,
            collation,
        } = self;
        let hash_of = |value: RawValue<'_>| {
            let mut state = hasher.build_hasher();
            collation.hash(value, &mut state);
            state.finish()
        };
        let hash = hash_of(value);
        let is_equal = |place: &usize| collation.are_equal(values[*place].as_raw(), value);
        if let Some(place) = places.find(hash, is_equal) {
            return Ok((*place, 0));
        }
        let place = values.len();
        values.push(Value::from(value));
        places.insert_unique(hash, place, |place| hash_of(values[*place].as_raw()));
        Ok((place, entry_bytes(&values[place])))
    }

    /// How the set tells strings apart.
    pub(crate) fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Whether an equal value is there.
    pub(crate) fn contains(&self, value: RawValue<'_>) -> Result<bool> {
        Ok(self.place(value)?.is_some())
    }

    /// The place of an equal value, if one is there.
    pub(crate) fn place(&self, value: RawValue<'_>) -> Result<Option<usize>> {
        interrupts::work(self.units_of_search(value))?;
        let mut state = self.hasher.build_hasher();
        self.collation.hash(value, &mut state);
        let is_equal =
            |place: &usize| (self.collation).are_equal(self.values[*place].as_raw(), value);
        Ok(self.places.find(state.finish(), is_equal).copied())
    }

    fn units_of_search(&self, value: RawValue<'_>) -> usize {
        UNITS_OF_A_PLACE + units_collated(&self.collation, units_of(value))
    }

    pub(crate) fn into_values(self) -> std::vec::IntoIter<Value> {
        self.values.into_iter()
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// As the sum of what `insert` has answered.
    pub(crate) fn held_bytes(&self) -> usize {
        self.values.iter().map(entry_bytes).sum()
    }
}
