//! Any document as a collation: it is refused, or orders texts as the keys that an index has in their place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::{RawValue, Value, extjson};
use quarry_collation::Collation;

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let (Some(specification), Some(a), Some(b)) = (lines.next(), lines.next(), lines.next()) else {
        return;
    };
    let Ok(specification) = extjson::parse(specification) else {
        return;
    };
    let Ok(collation) = Collation::parse(specification.as_raw()) else {
        return;
    };
    if let Some(specification) = collation.specification() {
        // What is shown of it is the same collation.
        assert!(Collation::parse(specification.as_raw()).is_ok_and(|shown| shown == collation));
    }
    let order = collation.compare(RawValue::from(a), RawValue::from(b));
    let kept = |text: &str| {
        let value = RawValue::from(text);
        collation
            .index_value(value)
            .unwrap_or_else(|| Value::from(text))
    };
    let by_keys = match (kept(a).as_raw(), kept(b).as_raw()) {
        (RawValue::String(a), RawValue::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (RawValue::Binary(a), RawValue::Binary(b)) => a.bytes.cmp(b.bytes),
        (a, b) => panic!("{a} {b}"),
    };
    assert_eq!(order, by_keys, "{a:?} {b:?}");
});
