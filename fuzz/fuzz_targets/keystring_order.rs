//! Keys of the fields of any valid document order as the fields compare and come back as they were; any
//! bytes as a key are refused or decoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::{ElementType, RawDocument, RawValue, compare_values};
use quarry_keystring::{Direction, TypeBits, decode, encode_value, skip_value};

fuzz_target!(|bytes: &[u8]| {
    let directions = [Direction::Ascending, Direction::Descending];
    for direction in directions {
        let skipped = skip_value(bytes, direction);
        if decode(bytes, &[], &[direction]).is_ok() {
            assert!(skipped.is_ok());
        }
    }
    let Ok(document) = RawDocument::validated(bytes) else {
        return;
    };
    let values: Vec<RawValue<'_>> = document.iter().map(|element| element.value()).collect();
    for direction in directions {
        for pair in values.windows(2) {
            let (left, right) = (key(pair[0], direction).0, key(pair[1], direction).0);
            let order = compare_values(pair[0], pair[1]);
            let expected = if direction == Direction::Ascending {
                order
            } else {
                order.reverse()
            };
            assert_eq!(left.cmp(&right), expected);
        }
        for &value in &values {
            let (key, type_bits) = key(value, direction);
            assert_eq!(skip_value(&key, direction), Ok(key.len()));
            let decoded = decode(&key, type_bits.as_bytes(), &[direction]).unwrap();
            assert!(compare_values(decoded[0].as_raw(), value).is_eq());
            // Names of array elements are not kept.
            if !matches!(
                value.element_type(),
                ElementType::Array | ElementType::Document
            ) {
                assert_eq!(decoded[0].element_type(), value.element_type());
            }
        }
    }
});

fn key(value: RawValue<'_>, direction: Direction) -> (Vec<u8>, TypeBits) {
    let (mut key, mut type_bits) = (Vec::new(), TypeBits::new());
    encode_value(&mut key, &mut type_bits, value, direction);
    (key, type_bits)
}
