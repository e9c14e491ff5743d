//! Quarry storage.
