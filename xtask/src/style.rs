//! The rules of the plan that a machine can check.
//!
//! Each rule reads the whole repository and names every breach with its file and line. There is no
//! list of exceptions: a rule that a file must break is a wrong rule, or a wrong file. A rule that came late may
//! have counts of what was there before, which only fall.

mod breach;
mod code;
mod dependencies;
mod documents;
mod repository;
mod sources;
mod texts;
mod words;

use std::path::Path;

pub use breach::Breach;
pub(crate) use code::without_comments_and_strings;
pub use repository::{File, Repository};

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
    documents::check(repository, &mut found);
    words::check(repository, &mut found);
    found
}
