//! Scripts of requests and inputs, each with what comes of it. `UPDATE=1` writes the results anew.
//!
//! A line that begins with `{` or `[` is an input for the request above it, and its result stands behind `=>`. A line
//! `=> ..` is what the request itself has said, a refusal for example. Empty lines and those with `#` are for people; any
//! other line is a request.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// A script's requests, and how they are answered.
pub trait Language {
    /// Reads a request. The text is what it has to say for itself, if anything.
    fn request(&mut self, line: &str) -> Option<String>;

    /// Answers an input by the request that was read last.
    fn answer(&mut self, input: &str) -> String;
}

/// Runs all scripts in a folder below `tests`, each with a language of its own, and holds them to a number of cases. A
/// case is an input or a request that is answered; the numbers are printed (`-- --nocapture` shows them).
pub fn run_all<L: Language>(folder: &str, cases_min: usize, language: impl Fn() -> L) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut cases = 0;
    let mut differing = String::new();
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy();
        let (of_file, differences) = run_file(file, &mut language());
        println!("{of_file:6} {folder}/{name}");
        cases += of_file;
        if !differences.is_empty() {
            writeln!(differing, "{folder}/{name}\n{differences}").unwrap();
        }
    }
    println!("{cases:6} cases in {} scripts of {folder}", files.len());
    assert!(differing.is_empty(), "{differing}");
    assert!(cases >= cases_min, "{cases} cases, fewer than {cases_min}");
}

/// How many cases a script has, and those whose answer is another one than stands there.
fn run_file(path: &Path, language: &mut dyn Language) -> (usize, String) {
    let before = fs::read_to_string(path).unwrap();
    let after = replay(&before, language);
    let cases = after.lines().filter(|line| is_case(line)).count();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, after).unwrap();
        return (cases, String::new());
    }
    let pairs = before.lines().zip(after.lines()).enumerate();
    let mut differing: Vec<String> = pairs
        .filter(|(_, (before, after))| before != after)
        .map(|(number, (before, after))| {
            format!("line {}\n  wanted {before}\n  got    {after}", number + 1)
        })
        .collect();
    if before.lines().count() != after.lines().count() {
        differing.push("errors came or went".to_owned());
    }
    (cases, differing.join("\n"))
}

fn is_case(line: &str) -> bool {
    !line.starts_with('#') && (line.starts_with("=> ") || line.contains(" => "))
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
