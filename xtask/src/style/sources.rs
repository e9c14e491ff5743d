//! Rules over Rust sources.

use super::breach::Breach;
use super::code::{lines_with_word, without_comments_and_strings};
use super::repository::File;
use crate::error_codes;

/// Crates that call other languages, each in its FFI files only.
const FFI_CRATES: [&str; 4] = ["allocator", "regex", "storage-rocksdb", "storage-mdbx"];
const ASYNC_CRATES: [&str; 2] = ["server", "bench"];
/// The folders of programs that are clients.
const CLIENTS: [&str; 2] = ["examples/", "tests/drivers/tools/rust/"];

/// The folders and files of `query` that are functions of BSON alone.
const PURE_FOLDERS: [&str; 6] = [
    "matcher",
    "update",
    "projection",
    "expression",
    "pipeline",
    "sort",
];
const IMPURE_CRATES: [&str; 3] = ["quarry_database", "quarry_storage", "quarry_journal"];

/// The crates whose matter BSON bytes and message headers are. `bench` stands outside: it reads messages
/// by itself, so that a fault of the server's codec cannot hide behind the same fault there.
const PARSERS: [&str; 3] = ["bson", "wire", "bench"];
/// Signed little-endian 32-bit numbers are how BSON and its messages write lengths, and Doubles stand in
/// BSON alone; the project's own formats have unsigned ones. So whoever reads these parses BSON by hand.
const BSON_READS: [&str; 2] = ["i32::from_le_bytes", "f64::from_le_bytes"];

/// Crates with no byte format of their own: any little-endian number that they read is out of a document or a
/// message, whose readers are `bson` and `wire`.
const FORMATLESS_CRATES: [&str; 2] = ["query", "server"];
const ANY_READ: [&str; 1] = ["from_le_bytes"];

/// The lines on which an error code is a number that the table of codes has a name for.
fn lines_with_named_codes(code: &str) -> Vec<usize> {
    const NUMBERED: &str = "ErrorCode(";
    let named = error_codes::parse(include_str!("../../error_codes.tsv")).unwrap_or_default();
    let is_named = |rest: &str| {
        let digits = rest.split(')').next().unwrap_or_default().replace('_', "");
        let number = digits.parse::<i32>();
        number.is_ok_and(|number| named.iter().any(|entry| entry.code == number))
    };
    let lines = code.lines().enumerate();
    let bad = lines.filter(|(_, line)| line.split(NUMBERED).skip(1).any(is_named));
    bad.map(|(index, _)| index + 1).collect()
}

pub(super) fn check(file: &File, found: &mut Vec<Breach>) {
    if !file.is_rust() {
        return;
    }
    let code = without_comments_and_strings(&file.text);
    let mut breach = |lines: Vec<usize>, what: &str| {
        let breaches = lines.into_iter();
        found.extend(breaches.map(|line| Breach {
            path: file.path.clone(),
            line,
            what: what.to_owned(),
        }));
    };
    if !file.text.starts_with("//!") {
        breach(
            vec![1],
            "a module begins with `//!`: what it is, keeps true, leaves out",
        );
    }
    if file.path != error_codes::OUTPUT_PATH {
        breach(
            lines_with_named_codes(&code),
            "an error code that has a name is written by it: `ErrorCode::NAME`",
        );
    }
    if !may_be_unsafe(file) {
        breach(
            lines_with_word(&code, "unsafe"),
            "`unsafe` lives in the FFI files of crates that call other languages",
        );
    }
    if is_crate_root(file) && !code.contains("#![forbid(unsafe_code)]") {
        breach(vec![0], "a crate says `#![forbid(unsafe_code)]`");
    }
    // Examples and programs over strangers' drivers are clients, and clients may wait as they like.
    let is_client = CLIENTS.iter().any(|place| file.path.starts_with(place));
    let may_be_async = |name| ASYNC_CRATES.contains(&name);
    if !is_client && !file.crate_name().is_some_and(may_be_async) {
        breach(
            lines_with_word(&code, "tokio"),
            "tokio belongs to server and bench",
        );
    }
    if is_pure(file) {
        for name in IMPURE_CRATES {
            breach(
                lines_with_word(&code, name),
                "this folder is pure over BSON",
            );
        }
    }
    for read in bson_reads(file) {
        breach(
            lines_with_word(&code, read),
            "BSON bytes are read by bson, headers by wire",
        );
    }
}

fn may_be_unsafe(file: &File) -> bool {
    let is_ffi = |path: &str| path.ends_with("/ffi.rs") || path.contains("/ffi/");
    file.crate_name()
        .is_some_and(|name| FFI_CRATES.contains(&name))
        && file.path_in_crate().is_some_and(is_ffi)
}

/// Whether the file is where a crate that must be safe says so.
fn is_crate_root(file: &File) -> bool {
    let is_root = matches!(file.path_in_crate(), Some("src/lib.rs" | "src/main.rs"));
    is_root
        && file
            .crate_name()
            .is_some_and(|name| !FFI_CRATES.contains(&name))
}

/// The calls that would read BSON bytes in this file.
fn bson_reads(file: &File) -> &'static [&'static str] {
    let (Some(name), Some(path)) = (file.crate_name(), file.path_in_crate()) else {
        return &[];
    };
    match name {
        name if PARSERS.contains(&name) => &[],
        name if FORMATLESS_CRATES.contains(&name) && path.starts_with("src/") => &ANY_READ,
        _ => &BSON_READS,
    }
}

fn is_pure(file: &File) -> bool {
    let Some(path) = file.path.strip_prefix("crates/query/src/") else {
        return false;
    };
    PURE_FOLDERS.iter().any(|folder| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    })
}
