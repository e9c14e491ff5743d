//! The operand of `$in`: values sorted by the collation and searched by halves, and regular expressions tried one
//! by one. Null in the list also matches a missing field.

use quarry_bson::{RawValue, Value};

use super::regex::RegexPredicate;
use crate::Collation;
use crate::error::{Error, Result};
use crate::interrupts::{self, units_collated, units_of};
use crate::sorter::sort_in_steps;

/// The work of comparing two members.
const UNITS_OF_A_COMPARISON: usize = 3;

/// The operand of `$in`: values, sorted, and regular expressions.
#[derive(Debug)]
pub struct InList {
    values: Vec<Value>,
    regexes: Vec<RegexPredicate>,
    has_null: bool,
    /// How its values are sorted, and looked up.
    collation: Collation,
}

impl InList {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.regexes.is_empty() && !self.has_null
    }

    pub(super) fn new(
        mut values: Vec<Value>,
        regexes: Vec<RegexPredicate>,
        collation: &Collation,
    ) -> Result<InList> {
        sort_in_steps(&mut values, |a, b| {
            collation.compare(a.as_raw(), b.as_raw())
        })?;
        interrupts::work(values.len() * UNITS_OF_A_COMPARISON)?;
        values.dedup_by(|a, b| collation.are_equal(a.as_raw(), b.as_raw()));
        let has_null = values
            .iter()
            .any(|value| matches!(value.as_raw(), RawValue::Null));
        Ok(InList {
            values,
            regexes,
            has_null,
            collation: collation.clone(),
        })
    }

    /// The work of looking a value up.
    #[inline]
    pub(super) fn units_of_search(&self, value: Option<RawValue<'_>>) -> usize {
        let comparisons = self.values.len().checked_ilog2().unwrap_or(0) as usize;
        let units = |value| units_collated(&self.collation, units_of(value));
        value.map_or(1, |value| 1 + comparisons * units(value))
    }

    /// Sorted by the collation, without duplicates.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether null is among the values, which a missing field matches, too.
    pub fn has_null(&self) -> bool {
        self.has_null
    }

    /// The regular expressions of the list.
    pub fn regexes(&self) -> &[RegexPredicate] {
        &self.regexes
    }

    #[inline]
    pub(super) fn matches(&self, value: Option<RawValue<'_>>, failure: &mut Option<Error>) -> bool {
        let Some(value) = value else {
            return self.has_null;
        };
        let found = self
            .values
            .binary_search_by(|member| self.collation.compare(member.as_raw(), value))
            .is_ok();
        found
            || self
                .regexes
                .iter()
                .any(|regex| keep_failure(regex.matches(value), failure))
    }
}

/// False for a failed test, whose error is kept for the caller of the whole match.
pub(super) fn keep_failure(outcome: Result<bool>, failure: &mut Option<Error>) -> bool {
    outcome.unwrap_or_else(|error| {
        failure.get_or_insert(error);
        false
    })
}
