//! Circles among the files of a crate: files that name each other's items, directly or by way of others.
//!
//! An arrow runs from a file to the file that *defines* what it names. A module that only hands a name on (`pub use`)
//! is looked through, so that a crate's face makes no circle with every room behind it. Code that only tests are built
//! with is left out. Sources are read as text: what a macro makes is not seen, and neither is a method call, so that an
//! arrow can be missing; an arrow that is named stands in the source.

mod resolve;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::style::Repository;
use resolve::Modules;

/// The names by which one file reaches into another: `(from, to)` and the names taken.
pub type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// Two files or more of one crate, each of which leads back to itself by way of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The folder of the crate, such as `crates/query`.
    pub crate_path: String,
    /// The files, sorted by path.
    pub files: Vec<String>,
    /// The arrows between these files.
    pub arrows: Arrows,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |path: &str| path.replace(&format!("{}/src/", self.crate_path), "");
        writeln!(
            f,
            "{}: a circle of {} files",
            self.crate_path,
            self.files.len()
        )?;
        for file in &self.files {
            writeln!(f, "  {}", short(file))?;
        }
        for ((from, to), names) in &self.arrows {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            writeln!(
                f,
                "    {} -> {}: {}",
                short(from),
                short(to),
                names.join(", ")
            )?;
        }
        Ok(())
    }
}

/// Every circle of every crate, the longest first.
#[must_use]
pub fn circles(repository: &Repository) -> Vec<Circle> {
    let mut found = Vec::new();
    for crate_path in crate_paths(repository) {
        let arrows = arrows(repository, &crate_path);
        for files in components(&arrows) {
            let is_within =
                |(from, to): &(String, String)| files.contains(from) && files.contains(to);
            let within = arrows.iter().filter(|(ends, _)| is_within(ends));
            found.push(Circle {
                crate_path: crate_path.clone(),
                arrows: within.map(|(k, v)| (k.clone(), v.clone())).collect(),
                files: files.into_iter().collect(),
            });
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    found
}

/// The folders that hold a crate's manifest beside a `src`.
fn crate_paths(repository: &Repository) -> Vec<String> {
    let manifests = repository
        .files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    manifests.map(str::to_owned).collect()
}

/// The arrows between the files of the crate in the folder `crate_path`.
#[must_use]
pub fn arrows(repository: &Repository, crate_path: &str) -> Arrows {
    let mut arrows = Arrows::new();
    for root in ["lib.rs", "main.rs"] {
        if let Some(modules) = Modules::read(repository, &format!("{crate_path}/src/{root}")) {
            modules.add_arrows(&mut arrows);
        }
    }
    arrows
}

/// The strongly connected components of two files or more.
fn components(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        targets.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = targets
        .keys()
        .map(|&from| (from, reached_from(from, &targets)))
        .collect();
    let mut components = BTreeSet::new();
    for (from, ends) in &reached {
        let back = |end: &&&str| reached.get(**end).is_some_and(|ends| ends.contains(from));
        let circle: BTreeSet<String> = ends.iter().filter(back).map(|&s| s.to_owned()).collect();
        if circle.len() > 1 {
            components.insert(circle);
        }
    }
    components.into_iter().collect()
}

/// The files to which a way of one arrow or more leads from `from`.
fn reached_from<'a>(from: &str, targets: &BTreeMap<&str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for &next in targets.get(file).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}
