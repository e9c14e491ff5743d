//! The plan's rules hold in this repository, and each rule catches what it is for.

use xtask::style::{File, Repository, breaches, check};

#[test]
fn the_repository_keeps_the_rules() {
    let found = check(&xtask::repository_root()).unwrap();
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn the_rules_see_the_repository() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    for path in [
        "Cargo.toml",
        "crates/bson/src/lib.rs",
        "crates/query/Cargo.toml",
        "xtask/src/style.rs",
    ] {
        assert!(
            repository.files.iter().any(|file| file.path == path),
            "{path} was not read"
        );
    }
    assert!(
        !repository
            .files
            .iter()
            .any(|file| file.path.starts_with(".git/"))
    );
}

fn found(path: &str, text: &str) -> Vec<String> {
    let file = File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    breaches(&Repository { files: vec![file] })
        .iter()
        .map(|breach| breach.what.clone())
        .collect()
}

const ROOT: &str = "//! A crate.\n#![forbid(unsafe_code)]\n";

#[test]
fn floors() {
    let manifest = "[dependencies]\nquarry-bson = { path = \"../bson\" }\nserde = \"1\"\n";
    assert!(found("crates/wire/Cargo.toml", manifest).is_empty());
    assert_eq!(
        found("crates/journal/Cargo.toml", manifest),
        ["`journal` must not know `bson`"]
    );
    let for_tests = "[dev-dependencies]\nquarry-storage = \"1\"\n";
    assert!(found("crates/query/Cargo.toml", for_tests).is_empty());
    assert_eq!(
        found("crates/query/Cargo.toml", &for_tests.replace("dev-", "")),
        ["`query` must not know `storage`"]
    );
    for (section, breach) in [
        (
            "[dev-dependencies]\nquarry-wire.workspace = true",
            "`database` must not know `wire`",
        ),
        (
            "[dependencies.quarry-query]\nversion = \"1\"",
            "`database` must not know `query`",
        ),
        (
            "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"",
            "`tokio` belongs to server and bench",
        ),
        (
            "[dependencies]\nrust-rocksdb = \"1\"",
            "`rust-rocksdb` belongs to storage-rocksdb",
        ),
    ] {
        assert_eq!(found("crates/database/Cargo.toml", section), [breach]);
    }
    assert!(
        found(
            "crates/server/Cargo.toml",
            "[dependencies]\ntokio = \"1\"\nquarry-query = \"1\""
        )
        .is_empty()
    );
    assert_eq!(
        found("crates/extra/Cargo.toml", ""),
        ["crate `extra` is not in the plan"]
    );
}

#[test]
fn modules_say_what_they_are() {
    assert_eq!(
        found("crates/bson/src/x.rs", "use a;\n//! Late.\n").len(),
        1
    );
    assert!(found("crates/bson/src/x.rs", "//! X.\n").is_empty());
}

#[test]
fn unsafe_code_stays_where_other_languages_are_called() {
    let code = "//! X.\nfn f() { unsafe { g() } }\n";
    for path in [
        "crates/bson/src/x.rs",
        "crates/storage-mdbx/src/engine.rs",
        "crates/regex/src/lib.rs",
        "xtask/src/x.rs",
        "crates/server/tests/x.rs",
    ] {
        assert_eq!(
            found(path, code),
            ["`unsafe` lives in the FFI files of crates that call other languages"],
            "{path}"
        );
    }
    assert!(found("crates/storage-mdbx/src/ffi.rs", code).is_empty());
    assert!(found("crates/storage-rocksdb/src/ffi/iterator.rs", code).is_empty());
    assert!(found("crates/regex/src/ffi.rs", code).is_empty());
    assert!(
        found(
            "crates/bson/src/x.rs",
            "//! X.\n// unsafe\nconst A: &str = \"unsafe\";\n"
        )
        .is_empty()
    );
    assert_eq!(
        found("crates/bson/src/lib.rs", "//! X.\n"),
        ["a crate says `#![forbid(unsafe_code)]`"]
    );
    assert!(found("crates/bson/src/lib.rs", ROOT).is_empty());
    assert!(found("crates/storage-mdbx/src/lib.rs", "//! X.\n").is_empty());
}

#[test]
fn tokio_stays_on_top() {
    let code = "//! X.\nuse tokio::net;\n";
    assert_eq!(
        found("crates/query/src/x.rs", code),
        ["tokio belongs to server and bench"]
    );
    assert!(found("crates/server/src/x.rs", code).is_empty());
    assert!(found("examples/rust/x.rs", code).is_empty());
    assert!(found("tests/drivers/tools/rust/x.rs", code).is_empty());
}

#[test]
fn pure_folders_know_no_database() {
    let code = "//! X.\nuse quarry_database::Collection;\n";
    for path in [
        "matcher/x.rs",
        "update/x.rs",
        "projection/mod.rs",
        "expression.rs",
        "pipeline/a/b.rs",
        "sort.rs",
    ] {
        assert_eq!(
            found(&format!("crates/query/src/{path}"), code),
            ["this folder is pure over BSON"],
            "{path}"
        );
    }
    assert!(found("crates/query/src/exec/x.rs", code).is_empty());
    assert!(found("crates/query/src/update_one.rs", code).is_empty());
}

#[test]
fn bson_is_read_in_one_place() {
    let code = "//! X.\nlet n = i32::from_le_bytes(bytes);\n";
    assert_eq!(
        found("crates/database/src/x.rs", code),
        ["BSON bytes are read by bson, headers by wire"]
    );
    assert!(found("crates/bson/src/x.rs", code).is_empty());
    assert!(found("crates/wire/src/x.rs", code).is_empty());
    let length = code.replace("i32", "u32");
    assert!(found("crates/journal/src/x.rs", &length).is_empty());
    for name in ["query", "server"] {
        assert_eq!(
            found(&format!("crates/{name}/src/x.rs"), &length),
            ["BSON bytes are read by bson, headers by wire"]
        );
        assert!(found(&format!("crates/{name}/tests/x.rs"), &length).is_empty());
    }
}

#[test]
fn the_other_bson_library_is_what_ours_is_tested_against() {
    let (shipped, tested) = (
        "[dependencies]\nbson = \"3\"\n",
        "[dev-dependencies]\nbson = { version = \"3\" }\n",
    );
    assert_eq!(
        found("crates/bson/Cargo.toml", shipped),
        ["`bson` is what `bson` is tested against"]
    );
    assert!(found("crates/bson/Cargo.toml", tested).is_empty());
    for text in [shipped, tested, "[dependencies.bson]\nversion = \"3\"\n"] {
        assert_eq!(
            found("crates/server/Cargo.toml", text),
            ["`bson` belongs to bson and bench"]
        );
    }
    assert!(found("crates/bench/Cargo.toml", shipped).is_empty());
}

#[test]
fn promises_have_reasons() {
    let (promise, other) = (["TO", "DO"].concat(), ["FIX", "ME"].concat());
    for text in [
        format!("# {promise} later"),
        format!("{other}: x"),
        format!("{promise}() x"),
    ] {
        assert_eq!(found("docs/x.md", &text).len(), 1, "{text}");
    }
    assert!(found("docs/x.md", &format!("{promise}(waits for the kernel): x")).is_empty());
    assert!(found("docs/x.md", &format!("{promise}S")).is_empty());
}

#[test]
fn names_say_what_is_inside() {
    for path in [
        "crates/bson/src/util.rs",
        "crates/bson/src/common/a.rs",
        "tests/helpers.py",
        "crates/misc/src/a.rs",
    ] {
        assert_eq!(found(path, "//! X.\n").len(), 1, "{path}");
    }
    assert_eq!(
        found("crates/bson/src/a.rs", "//! X.\nmod helpers {}\n").len(),
        1
    );
    assert!(found("crates/bson/src/utility_belt.rs", "//! X.\n").is_empty());
}

#[test]
fn paths_of_one_machine_stay_out() {
    let (root, work) = (["/ro", "ot/"].concat(), ["/wo", "rk/"].concat());
    assert_eq!(found("Makefile", &format!("cd {root}x")).len(), 1);
    assert_eq!(found("docs/x.md", &format!("`{work}x`")).len(), 1);
    assert!(found("docs/x.md", &format!("docs{work}x and $HOME{root}x")).is_empty());
}

fn found_in(files: &[(&str, &str)]) -> Vec<String> {
    let files = files
        .iter()
        .map(|(path, text)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    breaches(&Repository { files })
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn documents_name_what_is_there() {
    let code = ("crates/bson/src/path.rs", "//! Paths.\n");
    let document = "[path](../crates/bson/src/path.rs#L1), [far](https://example.com/x), [below](#below)\n\
        `crates/bson/src`, `bson/src/path.rs`, `crates/NAME/src`, `find/x`, `docs/x.md`\n";
    assert!(found_in(&[code, ("docs/x.md", document)]).is_empty());
    let moved = ("crates/bson/src/paths/mod.rs", "//! Paths.\n");
    assert_eq!(
        found_in(&[moved, ("docs/x.md", document)]),
        [
            "docs/x.md:1: `../crates/bson/src/path.rs` is not there",
            "docs/x.md:2: `bson/src/path.rs` is not there",
        ]
    );
    assert!(found_in(&[("docs/x.md", "```\n`docs/y.md`\n```\n")]).is_empty());
}

#[test]
fn decisions_have_one_form_and_one_list() {
    let page = "# 0001 X\n\n## What was measured\n\n## What was rejected\n\n## What would make us think again\n";
    let list = ("docs/decisions/README.md", "[0001](0001-x.md)\n");
    assert!(found_in(&[("docs/decisions/0001-x.md", page), list]).is_empty());
    assert_eq!(
        found_in(&[("docs/decisions/0001-x.md", page)]),
        ["docs/decisions/0001-x.md: is not in docs/decisions/README.md"]
    );
    let pressed = page.replace("## What was rejected\n", "");
    assert_eq!(
        found_in(&[("docs/decisions/0001-x.md", &pressed), list]),
        ["docs/decisions/0001-x.md: has no `## What was rejected`"]
    );
}

#[test]
fn doc_comments_open_with_what_a_thing_is() {
    for opening in ["The same", "Of", "What", "So many", "Whoever"] {
        let text =
            format!("//! X.\n\n/// {opening} groups wait.\n/// {opening} twice.\nfn f() {{}}\n");
        assert_eq!(
            found("crates/bson/src/x.rs", &text),
            [format!(
                "a doc comment opens with `{opening}`: say what the thing is or does"
            )]
        );
    }
    let full = "//! X.\n\n/// Office hours.\n/// What follows is a sentence's rest.\nfn f() {}\n// What is no doc comment.\n";
    assert!(found("crates/bson/src/x.rs", full).is_empty());
}
