//! How an index keeps texts, as a filter meets them: intervals are made of what is kept.

use quarry_bson::RawValue;
use quarry_database::holds_text;

use super::interval::Interval;
use crate::Collation;

/// The texts of an index as a filter meets them.
#[derive(Clone, Copy)]
pub enum Texts<'c> {
    /// The index keeps the strings as they are, and the filter compares their bytes.
    Bytes,
    /// The index keeps sort keys of the collation by which the filter compares.
    SortKeys(&'c Collation),
    /// The index keeps its strings for another comparison than the filter's: what has none is found all the same.
    OfOthers {
        /// Sort keys are kept, and not the strings.
        are_sort_keys: bool,
    },
}

impl<'c> Texts<'c> {
    /// The texts of an index with the one collation, for a filter with the other one.
    pub fn of(kept: &Collation, asked: &'c Collation) -> Texts<'c> {
        match (kept == asked, kept.is_simple()) {
            (true, true) => Texts::Bytes,
            (true, false) => Texts::SortKeys(asked),
            (false, is_simple) => Texts::OfOthers {
                are_sort_keys: !is_simple,
            },
        }
    }

    /// Makes intervals of the value that is kept in place of this one; none where nobody knows it.
    pub fn intervals<'m>(
        self,
        value: RawValue<'m>,
        make: impl Fn(RawValue<'_>) -> Vec<Interval<'_>>,
    ) -> Option<Vec<Interval<'m>>> {
        match self {
            Texts::Bytes => {}
            Texts::SortKeys(collation) => {
                if let Some(kept) = collation.index_value(value) {
                    let made = make(kept.as_raw()).into_iter();
                    return Some(made.map(Interval::into_owned).collect());
                }
            }
            Texts::OfOthers { .. } if holds_text(value) => return None,
            Texts::OfOthers { .. } => {}
        }
        Some(make(value))
    }

    pub fn are_sort_keys(self) -> bool {
        match self {
            Texts::Bytes => false,
            Texts::SortKeys(_) => true,
            Texts::OfOthers { are_sort_keys } => are_sort_keys,
        }
    }
}
