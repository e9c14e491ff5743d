//! No file of a crate leads back to itself by way of many others, and the search for such circles finds them.

use std::sync::LazyLock;

use xtask::circles::{arrows, circles};
use xtask::style::{File, Repository};

/// Two or three files that know each other may be one idea; more are a knot.
const FILES_MAX: usize = 3;

fn repository() -> &'static Repository {
    static REPOSITORY: LazyLock<Repository> =
        LazyLock::new(|| Repository::read(&xtask::repository_root()).unwrap());
    &REPOSITORY
}

#[test]
fn no_import_circle_is_longer_than_three_files() {
    let found: Vec<String> = circles(repository())
        .iter()
        .filter(|circle| circle.files.len() > FILES_MAX)
        .map(ToString::to_string)
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A crate `crates/x` of these files, as paths inside its `src` and their code.
fn crate_of(files: &[(&str, &str)]) -> Repository {
    let file = |path: String, text: &str| File {
        path,
        text: text.to_owned(),
    };
    let mut files: Vec<File> = files
        .iter()
        .map(|(path, text)| file(format!("crates/x/src/{path}"), text))
        .collect();
    files.push(file("crates/x/Cargo.toml".to_owned(), ""));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Repository { files }
}

fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let short = |path: &str| path.trim_start_matches("crates/x/src/").to_owned();
    arrows(&crate_of(files), "crates/x")
        .iter()
        .map(|((from, to), names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{} -> {}: {}", short(from), short(to), names.join(" "))
        })
        .collect()
}

#[test]
fn the_search_sees_the_repository() {
    let found = arrows(repository(), "crates/server");
    let to = |from: &str, to: &str| {
        let path = |name: &str| format!("crates/server/src/{name}.rs");
        found.get(&(path(from), path(to)))
    };
    assert!(to("commands/insert", "dispatch/command").is_some_and(|n| n.contains("Invocation")));
    assert!(to("dispatch/command", "commands/insert").is_none());
}

#[test]
fn a_circle_is_found_with_what_ties_it() {
    let found = circles(&crate_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "pub struct B; fn f() { super::c::g() }"),
        ("c.rs", "pub fn g() { d::D } use crate::{a::A, d};"),
        ("d.rs", "pub struct D;"),
    ]));
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "crates/x: a circle of 3 files\n  a.rs\n  b.rs\n  c.rs\n    a.rs -> b.rs: B\n    b.rs -> c.rs: g\n    \
         c.rs -> a.rs: A\n"
    );
}

#[test]
fn what_only_hands_a_name_on_is_looked_through() {
    let found = arrows_of(&[
        ("lib.rs", "mod wing; mod user; pub use wing::Thing;"),
        (
            "user.rs",
            "use crate::Thing; use crate::wing::{self, other}; fn f() { wing::Glob; other::g() }",
        ),
        (
            "wing/mod.rs",
            "mod thing; pub mod other; mod glob; pub use thing::Thing; pub use glob::*;",
        ),
        ("wing/thing.rs", "pub struct Thing;"),
        ("wing/other.rs", "use super::Thing; pub fn g() {}"),
        ("wing/glob.rs", "pub struct Glob;"),
    ]);
    assert_eq!(
        found,
        [
            "user.rs -> wing/glob.rs: Glob",
            "user.rs -> wing/other.rs: g",
            "user.rs -> wing/thing.rs: Thing",
            "wing/other.rs -> wing/thing.rs: Thing",
        ]
    );
}

#[test]
fn what_is_handed_on_and_used_is_an_arrow() {
    let found = arrows_of(&[
        ("lib.rs", "mod a; pub use a::{A, B}; fn f(_: A) {}"),
        ("a.rs", "pub struct A; pub struct B;"),
    ]);
    assert_eq!(found, ["lib.rs -> a.rs: A"]);
}

#[test]
fn tests_and_other_crates_tie_nothing() {
    let found = arrows_of(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "#[cfg(test)] mod tests { use crate::b::B; } use std::fmt; use b::B; fn f() { fmt::g() }",
        ),
        ("b.rs", "pub enum B { #[cfg(test)] C(crate::a::A), D }"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

/// A name that the source does not show may be made by a macro: it is taken for the module's own.
#[test]
fn names_that_lead_to_themselves_end() {
    let found = arrows_of(&[
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::*;"),
        (
            "a.rs",
            "pub use crate::*; pub use super::b::X; fn f() { X::g() }",
        ),
        ("b.rs", "pub use crate::a::X; use crate::Y; fn f() { Y }"),
    ]);
    assert_eq!(found, ["a.rs -> b.rs: X", "b.rs -> lib.rs: Y"]);
}
