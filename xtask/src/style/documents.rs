//! Rules over the documents for people: what they point to is there.
//!
//! A document names files in two ways, by a link and by a path between backquotes. Both are held against the
//! repository, so that a file that moves takes its mentions along. The pages of decisions have one form, and stand in
//! one list.

use std::collections::BTreeSet;

use super::{Breach, File, Repository};

/// The folders of the root that a path between backquotes may begin with.
const ROOT_FOLDERS: [&str; 9] = [
    ".ci", ".github", "crates", "docs", "examples", "fuzz", "scripts", "tests", "xtask",
];
const DECISIONS: &str = "docs/decisions/";
const DECISIONS_LIST: &str = "docs/decisions/README.md";
/// The headings that the page of a decision has.
const DECISION_HEADINGS: [&str; 3] = [
    "## What was measured",
    "## What was rejected",
    "## What would make us think again",
];

pub(super) fn check(repository: &Repository, found: &mut Vec<Breach>) {
    let paths = Paths::of(repository);
    for file in &repository.files {
        if file.path.ends_with(".md") {
            check_mentions(file, &paths, found);
            check_decision(file, repository, found);
        }
    }
}

/// Every file of the repository, and every folder that holds one.
struct Paths<'r>(BTreeSet<&'r str>);

impl<'r> Paths<'r> {
    fn of(repository: &'r Repository) -> Self {
        let mut paths = BTreeSet::new();
        for file in &repository.files {
            let mut path = file.path.as_str();
            paths.insert(path);
            while let Some((folder, _)) = path.rsplit_once('/') {
                paths.insert(folder);
                path = folder;
            }
        }
        Self(paths)
    }

    fn contains(&self, path: &str) -> bool {
        self.0.contains(path.trim_end_matches('/'))
    }
}

fn check_mentions(file: &File, paths: &Paths<'_>, found: &mut Vec<Breach>) {
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in links(line) {
            if !paths.contains(&resolved(&file.path, target)) {
                found.push(breach(file, index + 1, format!("`{target}` is not there")));
            }
        }
        for path in between_backquotes(line).filter_map(as_path) {
            let in_a_crate = format!("crates/{path}");
            if !paths.contains(path) && !paths.contains(&in_a_crate) {
                found.push(breach(file, index + 1, format!("`{path}` is not there")));
            }
        }
    }
}

fn check_decision(file: &File, repository: &Repository, found: &mut Vec<Breach>) {
    let Some(name) = file.path.strip_prefix(DECISIONS) else {
        return;
    };
    if file.path == DECISIONS_LIST {
        return;
    }
    for heading in DECISION_HEADINGS {
        if !file.text.lines().any(|line| line == heading) {
            found.push(breach(file, 0, format!("has no `{heading}`")));
        }
    }
    let is_listed = repository
        .files
        .iter()
        .any(|list| list.path == DECISIONS_LIST && list.text.contains(&format!("]({name})")));
    if !is_listed {
        found.push(breach(file, 0, format!("is not in {DECISIONS_LIST}")));
    }
}

fn breach(file: &File, line: usize, what: String) -> Breach {
    Breach {
        path: file.path.clone(),
        line,
        what,
    }
}

/// The targets of a line's links that lead into the repository, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// `target` as seen from the document at `path`, as a path from the root.
fn resolved(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn between_backquotes(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The text as a path of the repository, if it is meant as one. Capitals stand for any name.
fn as_path(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('/')?;
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    let is_named = ROOT_FOLDERS.contains(&first) || rest.starts_with("src/");
    let has_capitals_only_in_a_name = text
        .rsplit('/')
        .next()
        .is_some_and(|name| ["README.md", "ARCHITECTURE.md"].contains(&name));
    (is_named && (text.chars().all(is_path) || has_capitals_only_in_a_name)).then_some(text)
}
