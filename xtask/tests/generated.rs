//! The generated sources are what the generator makes of today's tables.

use std::fs;

use xtask::error_codes;

#[test]
fn the_error_code_module_is_current() {
    let root = xtask::repository_root();
    let table = fs::read_to_string(root.join(error_codes::TABLE_PATH)).unwrap();
    let entries = error_codes::parse(&table).unwrap();
    let checked_in = fs::read_to_string(root.join(error_codes::OUTPUT_PATH)).unwrap();
    assert!(
        error_codes::render(&entries) == checked_in,
        "{} is out of date: run `cargo xtask generate`",
        error_codes::OUTPUT_PATH
    );
}

#[test]
fn constant_names_split_at_words_and_acronyms() {
    for (name, constant) in [
        ("BadValue", "BAD_VALUE"),
        ("MaxTimeMSExpired", "MAX_TIME_MS_EXPIRED"),
        ("BSONObjectTooLarge", "BSON_OBJECT_TOO_LARGE"),
        ("InvalidBSON", "INVALID_BSON"),
        ("NotAReplicaSet", "NOT_A_REPLICA_SET"),
    ] {
        assert_eq!(error_codes::constant_name(name), constant);
    }
}

#[test]
fn a_malformed_table_is_refused_with_its_line() {
    for (table, message) in [
        ("1 A", "line 1: expected code, tab, name"),
        ("# x\nx\tA", "line 2: `x` is not a code"),
        ("1\ta b", "line 1: `a b` is not a code name"),
        ("2\tB\n1\tA", "line 2: code 1 is out of order"),
        ("1\tA\n2\tA", "line 2: name `A` occurs twice"),
    ] {
        assert_eq!(error_codes::parse(table).unwrap_err(), message);
    }
}
