//! Quarry timing.
