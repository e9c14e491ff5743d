//! Functions are short, and the measure of them counts what it says.

use xtask::functions::{Function, functions, percentile};
use xtask::style::{File, Repository};

/// One function of a hundred may be longer: a table of operators, a loop whose branches belong together.
const LINES_MAX: usize = 55;

#[test]
fn hardly_any_function_is_long() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let found = functions(&repository);
    assert!(found.len() > 1000, "{} functions", found.len());
    let lines = percentile(&found, 99);
    let longest: Vec<String> = found
        .iter()
        .take(found.len() / 100)
        .map(Function::to_string)
        .collect();
    assert!(
        lines <= LINES_MAX,
        "99 of 100 functions have at most {lines} lines\n{}",
        longest.join("\n")
    );
}

#[test]
fn a_function_is_measured_from_its_name_to_its_end() {
    let text = "//! fn no() {}\n\
                fn one() { \"}\".len(); }\n\
                type F = fn(u8) -> u8;\n\
                trait T {\n    fn none(&self, a: [u8; 2]);\n    fn some(&self) {\n        fn within() {\n        }\n    }\n}\n\
                #[cfg(test)]\n\
                mod tests {\n    fn test() {\n    }\n}\n\
                fn last(\n) {\n}\n";
    let file = |path: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let repository = Repository {
        files: vec![file("crates/x/src/a.rs"), file("crates/x/tests/a.rs")],
    };
    let mut found: Vec<(String, usize, usize)> = functions(&repository)
        .into_iter()
        .map(|function| (function.name, function.line, function.lines))
        .collect();
    found.sort();
    let wanted = [
        ("last", 16, 3),
        ("one", 2, 1),
        ("some", 6, 4),
        ("within", 7, 2),
    ];
    let wanted = wanted.map(|(name, line, lines)| (name.to_owned(), line, lines));
    assert_eq!(found, wanted);
}
