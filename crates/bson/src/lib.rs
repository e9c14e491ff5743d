//! Quarry bson.
