//! The applied LSN, as whoever has an engine reads it.

use crate::{APPLIED_LSN_KEY, Engine, Result};

/// The applied LSN of what the engine shows now; 0 where it has none.
pub fn applied_lsn(engine: &dyn Engine) -> Result<u64> {
    let mut lsn = 0;
    engine.get(APPLIED_LSN_KEY, &mut |value| {
        lsn = value.try_into().map_or(0, u64::from_le_bytes);
    })?;
    Ok(lsn)
}
