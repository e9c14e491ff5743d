//! A question that is asked of single values, and that no index answers: `$type`, `$size`, `$mod`, the bit tests.

use std::fmt::Debug;

use quarry_bson::RawValue;

use super::geo_question::GeoQuestion;
use crate::error::Result;

/// A predicate over one value. The walk that follows a path asks it of each value that the path reaches; a path that reaches
/// none does not match.
pub trait ValueTest: Debug + Send + Sync {
    /// Whether the value passes. Fails where asking takes more memory than is left.
    fn passes(&self, value: RawValue<'_>) -> Result<bool>;

    /// The work of asking about the value, beside that of reaching it.
    fn units(&self, _: RawValue<'_>) -> usize {
        0
    }

    /// The BSON types that pass, a bit each, where that is all that is asked of a value.
    fn types(&self) -> Option<u32> {
        None
    }

    /// The BSON types that values which pass may have, a bit each; none where any may.
    fn kept_types(&self) -> Option<u32> {
        self.types()
    }

    /// The question, where it is a geospatial one, which an index of cells answers in part.
    fn as_geo(&self) -> Option<&GeoQuestion> {
        None
    }

    /// Whether an array at the path's end stands for its elements as well.
    fn opens_arrays(&self) -> bool {
        true
    }
}
