//! Quarry keystring.
