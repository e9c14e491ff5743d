//! The account that a stage keeps of what it holds.

use super::MEMORY_BYTES_MAX;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

#[derive(Debug, Default)]
pub(super) struct BoundedMemory {
    bytes: usize,
}

impl BoundedMemory {
    pub(super) fn grow(&mut self, bytes: usize, stage: &str) -> Result<()> {
        self.bytes += bytes;
        if self.bytes <= MEMORY_BYTES_MAX {
            return Ok(());
        }
        let text = format!(
            "{stage} exceeded its memory limit of {MEMORY_BYTES_MAX} bytes, and spilling to disk is not supported"
        );
        Err(Error::new(
            ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
            text,
        ))
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
