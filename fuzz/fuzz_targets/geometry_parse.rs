//! Any document as a geometry is refused or read, and what was read has cells that its own covering finds again.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use quarry_bson::{RawDocument, RawValue};
use quarry_geometry::{cells_of, parse_stored, ranges_of};

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = RawDocument::validated(bytes) else {
        return;
    };
    let endless = |_| false;
    let Ok(stored) = parse_stored(RawValue::Document(document), endless) else {
        return;
    };
    if let Some(geometry) = stored.on_sphere.map(Arc::new) {
        assert!(geometry.intersects(&geometry, endless));
        let ranges = ranges_of(&geometry, endless);
        let found = |cell: &i64| ranges.iter().any(|range| (range.low..=range.high).contains(cell));
        assert!(cells_of(Arc::unwrap_or_clone(geometry), endless).iter().any(found));
    }
});
