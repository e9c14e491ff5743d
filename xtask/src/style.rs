//! The rules of the plan that a machine can check.
//!
//! Each rule reads the whole repository and names every breach with its file and line. There is no
//! list of exceptions: a rule that a file must break is a wrong rule, or a wrong file.

mod code;
mod dependencies;
mod repository;
mod sources;
mod texts;

use std::fmt;
use std::path::Path;

pub(crate) use code::without_comments_and_strings;
pub use repository::{File, Repository};

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub path: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Every breach in the repository at `root`.
///
/// # Errors
/// A file that cannot be read.
pub fn check(root: &Path) -> Result<Vec<Breach>, String> {
    Ok(breaches(&Repository::read(root)?))
}

/// Every breach in `repository`.
#[must_use]
pub fn breaches(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for file in &repository.files {
        dependencies::check(file, &mut found);
        sources::check(file, &mut found);
        texts::check(file, &mut found);
    }
    found
}
