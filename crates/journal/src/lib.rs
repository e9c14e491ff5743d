//! Quarry journal.
