//! Rules over every text file: names, promises without a reason, and paths of somebody's machine.

use super::breach::Breach;
use super::code::lines_with_word;
use super::repository::File;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = [
    "util", "utils", "helper", "helpers", "common", "misc", "shared",
];

/// Promises; spelled apart so that this file does not make one.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Folders that exist on one machine only; spelled apart for the same reason.
const MACHINE_PATHS: [&str; 3] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Use", "rs/"),
];

pub(super) fn check(file: &File, found: &mut Vec<Breach>) {
    let mut breach = |line: usize, what: String| {
        found.push(Breach {
            path: file.path.clone(),
            line,
            what,
        });
    };
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            breach(0, format!("`{stem}` says nothing about what is inside"));
        }
    }
    // What package managers write is nobody's prose.
    if file.path.ends_with(".lock") || file.path.ends_with("package-lock.json") {
        return;
    }
    if file.is_rust() {
        for name in EMPTY_NAMES {
            for line in lines_with_word(&file.text, &format!("mod {name}")) {
                breach(line, format!("`{name}` says nothing about what is inside"));
            }
        }
    }
    let lines: Vec<&str> = file.text.lines().collect();
    for promise in PROMISES {
        for line in lines_with_word(&file.text, promise) {
            if !has_reason(lines[line - 1], promise) {
                breach(line, format!("{promise} without a reason in parentheses"));
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        for path in MACHINE_PATHS {
            if line
                .match_indices(path)
                .any(|(at, _)| begins_a_path(&line[..at]))
            {
                breach(index + 1, format!("`{path}` is a path of one machine"));
            }
        }
    }
}

/// `docs/home/x` holds no path of a machine; `"/home/x"` does.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-~}$)".contains(c))
}

fn has_reason(line: &str, promise: &str) -> bool {
    line.match_indices(promise).all(|(at, _)| {
        let after = line[at + promise.len()..].strip_prefix('(');
        after
            .and_then(|after| after.split_once(')'))
            .is_some_and(|(reason, _)| !reason.is_empty())
    })
}
