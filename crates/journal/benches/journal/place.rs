//! The directory of a bench run: a journal's segments, kept and used again as a server does after its
//! checkpoints, and one zero-written file for the bare loops.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// As many as a journal keeps by default.
const SPARES: u32 = 2;
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Removed with everything in it when it is dropped.
pub struct Place {
    root: PathBuf,
    bare: File,
}

impl Place {
    pub fn new(parent: &Path) -> Self {
        let root = parent.join(format!("journal-{}", std::process::id()));
        fs::create_dir_all(root.join("journal")).expect("the target directory is writable");
        let bare = zeroed(&root.join("bare"));
        for number in 0..SPARES {
            zeroed(&root.join(format!("journal/{number}.free")));
        }
        Place { root, bare }
    }

    /// A file of `SEGMENT_BYTES`, written before and synced.
    pub fn bare(&mut self) -> &File {
        self.bare.sync_all().expect("the disk works");
        &self.bare
    }

    /// A journal's directory that holds only segments freed by an earlier run.
    pub fn recycled(&mut self) -> PathBuf {
        let path = self.root.join("journal");
        let mut kept = 0;
        let entries = fs::read_dir(&path).expect("the directory is ours");
        for entry in entries.map(|entry| entry.expect("the directory is ours")) {
            let bytes = entry.metadata().expect("nobody removes it").len();
            if bytes == SEGMENT_BYTES && kept < SPARES {
                let name = path.join(format!("{}-{kept}.free", std::process::id()));
                fs::rename(entry.path(), name).expect("the directory is ours");
                kept += 1;
            } else {
                fs::remove_file(entry.path()).expect("the directory is ours");
            }
        }
        path
    }

    pub fn empty(&mut self) -> PathBuf {
        let path = self.root.join("new");
        let _ = fs::remove_dir_all(&path);
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn zeroed(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path);
    let mut file = file.expect("the directory is ours");
    let zeros = vec![0; 1024 * 1024];
    for _ in 0..SEGMENT_BYTES / zeros.len() as u64 {
        file.write_all(&zeros).expect("there is space");
    }
    file.sync_all().expect("the disk works");
    // The first pages are in memory and clean from here on, as those of a segment in use.
    file.read_exact_at(&mut zeros.clone(), 0)
        .expect("the disk works");
    file
}
