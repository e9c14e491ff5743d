//! The text files of the repository, as they lie on disk.

use std::fs;
use std::path::Path;

/// A file by its path from the root, with `/` between the parts.
#[derive(Clone, Debug)]
pub struct File {
    /// The path from the root.
    pub path: String,
    /// The content.
    pub text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, extension)| extension == "rs")
    }

    /// The folder name of the crate that the file belongs to.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// The path inside its crate.
    pub(crate) fn path_in_crate(&self) -> Option<&str> {
        Some(self.path.strip_prefix("crates/")?.split_once('/')?.1)
    }
}

/// The text files of the repository.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// The files, sorted by path.
    pub files: Vec<File>,
}

/// Folders of the root that hold no sources, whatever `.gitignore` says.
const SKIPPED: [&str; 2] = [".git", "target"];
/// Deeper than any folder of the repository; stops at a link that turns back.
const FOLDER_DEPTH_MAX: usize = 12;

impl Repository {
    /// Reads every UTF-8 file that `.gitignore` does not name; pictures are there by their paths.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub fn read(root: &Path) -> Result<Self, String> {
        let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let ignored: Vec<&str> = ignored
            .lines()
            .map(|line| line.trim().trim_matches('/'))
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .chain(SKIPPED)
            .collect();
        let mut files = Vec::new();
        read_folder(root, "", &ignored, FOLDER_DEPTH_MAX, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    ignored: &[&str],
    depth_left: usize,
    files: &mut Vec<File>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if ignored
            .iter()
            .any(|pattern| is_ignored(pattern, &name, &path))
        {
            continue;
        }
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && depth_left > 0 {
            read_folder(
                &entry.path(),
                &format!("{path}/"),
                ignored,
                depth_left - 1,
                files,
            )?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).map_err(failed)?;
            match String::from_utf8(bytes) {
                Ok(text) => files.push(File { path, text }),
                // Documents show them; there is nothing in them to read.
                Err(_) if path.ends_with(".png") => files.push(File {
                    path,
                    text: String::new(),
                }),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Whether a pattern of `.gitignore` names the file. It knows names, paths, and `*.extension`.
fn is_ignored(pattern: &str, name: &str, path: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(ending) => name.ends_with(ending),
        None => pattern == name || pattern == path,
    }
}
