//! The operand of `$in`: values sorted in BSON order and searched by halves, and regular expressions tried one
//! by one. Null in the list also matches a missing field.

use quarry_bson::compare::compare_values;
use quarry_bson::{RawValue, Value};

use super::regex::RegexPredicate;
use crate::error::{Error, Result};
use crate::interrupts::{self, units_of};
use crate::sorter::sort_in_steps;

/// The work of comparing two members.
const UNITS_OF_A_COMPARISON: usize = 3;

/// The operand of `$in`: values, sorted, and regular expressions.
#[derive(Debug)]
pub struct InList {
    values: Vec<Value>,
    regexes: Vec<RegexPredicate>,
    has_null: bool,
}

impl InList {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.regexes.is_empty() && !self.has_null
    }

    pub(super) fn new(mut values: Vec<Value>, regexes: Vec<RegexPredicate>) -> Result<InList> {
        sort_in_steps(&mut values, |a, b| compare_values(a.as_raw(), b.as_raw()))?;
        interrupts::work(values.len() * UNITS_OF_A_COMPARISON)?;
        values.dedup_by(|a, b| compare_values(a.as_raw(), b.as_raw()).is_eq());
        let has_null = values
            .iter()
            .any(|value| matches!(value.as_raw(), RawValue::Null));
        Ok(InList {
            values,
            regexes,
            has_null,
        })
    }

    /// The work of looking a value up.
    #[inline]
    pub(super) fn units_of_search(&self, value: Option<RawValue<'_>>) -> usize {
        let comparisons = self.values.len().checked_ilog2().unwrap_or(0) as usize;
        value.map_or(1, |value| 1 + comparisons * units_of(value))
    }

    /// Sorted in BSON order, without duplicates.
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
            .binary_search_by(|member| compare_values(member.as_raw(), value))
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
