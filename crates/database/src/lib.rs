//! Quarry database.
