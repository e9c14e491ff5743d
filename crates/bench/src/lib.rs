//! Quarry bench.
