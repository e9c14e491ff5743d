//! Quarry wire.
