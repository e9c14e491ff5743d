//! The exact bytes of keys: goldens.txt holds `value | ascending key | type bits` lines, the value in
//! Extended JSON. `UPDATE=1` rewrites the bytes; a changed byte of a key is a new format version.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use quarry_bson::extjson;
use quarry_keystring::{Direction, TypeBits, decode, encode_value};

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(" ")
}

fn line_of(text: &str) -> String {
    let value = extjson::parse_value(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (mut key, mut type_bits) = (Vec::new(), TypeBits::new());
    encode_value(
        &mut key,
        &mut type_bits,
        value.as_raw(),
        Direction::Ascending,
    );
    let decoded = decode(&key, type_bits.as_bytes(), &[Direction::Ascending]).unwrap();
    assert_eq!(decoded[0].element_type(), value.element_type(), "{text}");
    assert_eq!(decoded[0].as_bytes(), value.as_bytes(), "{text}");
    format!("{text} | {} | {}", hex(&key), hex(type_bits.as_bytes()))
}

#[test]
fn keys_have_the_bytes_of_their_format_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens.txt");
    let expected = fs::read_to_string(&path).unwrap();
    let mut actual = String::new();
    let mut values = 0;
    for line in expected.lines() {
        if line.starts_with('#') {
            writeln!(actual, "{line}").unwrap();
            continue;
        }
        values += 1;
        let text = line.split(" | ").next().unwrap();
        writeln!(actual, "{}", line_of(text).trim_end()).unwrap();
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &actual).unwrap();
        return;
    }
    assert!(values > 40, "goldens.txt was cut");
    for (expected, actual) in expected.lines().zip(actual.lines()) {
        assert_eq!(expected, actual);
    }
}
