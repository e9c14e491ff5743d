//! The operation that runs on this thread, for work within one document: a path over a large array, a loop of an
//! expression. Between documents the executor looks itself.

pub use quarry_database::{Running, run_as};

use crate::error::Result;

/// Fails when the operation is to end. Without one nothing ends.
pub(crate) fn check() -> Result<()> {
    Ok(quarry_database::check_running()?)
}
