//! Feeds `field_set` of the entries that the BSON crate's own random test uses.
#![no_main]

#[path = "../../crates/bson/tests/hostile/entries.rs"]
#[allow(dead_code)]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::field_set(data));
