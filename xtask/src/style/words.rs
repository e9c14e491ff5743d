//! Rules over the words of doc comments: one opens with what the thing is or does.
//!
//! A comment that opens with *What*, *Of* or *The same* is half a sentence: it is understood by whoever has just read the
//! name below it or the comment above it, and by nobody else.

use super::{Breach, File, Repository};

/// Words that a doc comment does not open with.
const OPENINGS: [&str; 5] = ["The same", "Of", "What", "So many", "Whoever"];

pub(super) fn check(repository: &Repository, found: &mut Vec<Breach>) {
    let files = repository.files.iter().filter(|file| file.is_rust());
    found.extend(files.flat_map(openings));
}

/// Every doc comment of the file that opens with one of the words.
fn openings(file: &File) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (index, line) in file.text.lines().enumerate() {
        let comment = doc_comment(line);
        if let Some(text) = comment
            && !is_inside
            && let Some(opening) = OPENINGS.iter().find(|opening| opens_with(text, opening))
        {
            found.push(Breach {
                path: file.path.clone(),
                line: index + 1,
                what: format!(
                    "a doc comment opens with `{opening}`: say what the thing is or does"
                ),
            });
        }
        is_inside = comment.is_some();
    }
    found
}

fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim_start())
}

fn opens_with(text: &str, opening: &str) -> bool {
    text.strip_prefix(opening)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}
