//! Scripts of requests and inputs, each with what comes of it. `UPDATE=1` writes the results anew.
//!
//! A line that begins with `{` or `[` is an input for the request above it, and its result stands behind `=>`. A line
//! `=> ..` is what the request itself has said, a refusal for example. Empty lines and those with `#` are for people; any
//! other line is a request.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A script's requests, and how they are answered.
pub trait Language {
    /// Reads a request. The text is what it has to say for itself, if anything.
    fn request(&mut self, line: &str) -> Option<String>;

    /// Answers an input by the request that was read last.
    fn answer(&mut self, input: &str) -> String;
}

/// Runs the script in a file below `tests`.
pub fn run(file: &str, language: &mut dyn Language) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(file);
    let before = fs::read_to_string(&path).unwrap();
    let after = replay(&before, language);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, after).unwrap();
        return;
    }
    let pairs = before.lines().zip(after.lines()).enumerate();
    let differing: Vec<String> = pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(number, (before, after))| {
            format!("line {}\n  wanted {before}\n  got    {after}", number + 1)
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert_eq!(
        before.lines().count(),
        after.lines().count(),
        "errors came or went"
    );
}

/// The script with its results made anew.
fn replay(script: &str, language: &mut dyn Language) -> String {
    let mut out = String::new();
    for line in script.lines() {
        let input = line.split(" => ").next().unwrap_or_default();
        if line.is_empty() || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        } else if line.starts_with("=> ") {
            // Written anew behind its request.
        } else if line.starts_with('{') || line.starts_with('[') {
            writeln!(out, "{input} => {}", language.answer(input)).unwrap();
        } else {
            writeln!(out, "{input}").unwrap();
            if let Some(said) = language.request(input) {
                writeln!(out, "=> {said}").unwrap();
            }
        }
    }
    out
}
