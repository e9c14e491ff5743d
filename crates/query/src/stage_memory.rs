//! The account that a stage keeps of what it holds: a bound of its own, as MongoDB's stages have one, within the one
//! for the whole operation. Stages that can spill to disk ask `spilling` instead.

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::memory::Charge;

/// The bytes that one stage may hold in memory, as MongoDB bounds its own.
pub const MEMORY_BYTES_MAX: usize = if cfg!(test) {
    1536 * 1024
} else {
    100 * 1024 * 1024
};

#[derive(Debug, Default)]
pub(crate) struct BoundedMemory {
    charge: Charge,
}

impl BoundedMemory {
    #[inline]
    pub(crate) fn grow(&mut self, bytes: usize, stage: &str) -> Result<()> {
        self.charge.grow(bytes)?;
        if self.charge.bytes() <= MEMORY_BYTES_MAX {
            return Ok(());
        }
        Err(exceeded(stage))
    }
}

#[cold]
fn exceeded(stage: &str) -> Error {
    let text = format!(
        "{stage} exceeded its memory limit of {MEMORY_BYTES_MAX} bytes, and what it holds cannot be spilled to disk"
    );
    Error::new(
        ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
        text,
    )
}
