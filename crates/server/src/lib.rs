//! Quarry server.
