//! Quarry bench.
fn main() {}
