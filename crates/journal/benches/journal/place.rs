//! The directory of a bench run: a journal's segments, kept and used again as a server does after its
//! checkpoints. The bare loops write into the segment that the journal takes next, so that both meet the same pages.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// As many as a journal keeps by default.
/// The header of a group.
const GROUP_HEADER_BYTES: usize = 96;
const SPARES: u32 = 2;
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// How much one write of zeros covers when a segment is made. The kernel caches a file in pieces as large as it was written
/// in, and a small write into a large piece costs it more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// As a copy or a preallocation leaves a file.
    Large = 1024 * 1024,
    /// As the journal makes its segments.
    Page = 4096,
}

/// Removed with everything in it when it is dropped.
pub struct Place {
    root: PathBuf,
    names_given: u64,
}

impl Place {
    pub fn new(parent: &Path) -> Self {
        let root = parent.join(format!("journal-{}", std::process::id()));
        let mut place = Place {
            root,
            names_given: 0,
        };
        place.renew(Zeros::Large);
        place
    }

    /// Makes all segments anew: a case meets the same pages wherever it stands in a run.
    pub fn renew(&mut self, zeros: Zeros) {
        let path = self.root.join("journal");
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target directory is writable");
        for _ in 0..SPARES {
            zeroed(&path.join(self.free_name()), zeros);
        }
    }

    /// The segment that a journal opened in `recycled` begins with, written before and synced.
    pub fn bare(&mut self) -> File {
        let next = files(&self.recycled()).pop();
        let next = next.expect("there are spares");
        let file = File::options().read(true).write(true).open(next);
        let file = file.expect("the directory is ours");
        file.sync_all().expect("the disk works");
        file
    }

    /// A journal's directory that holds only segments freed by an earlier run, in the same order.
    pub fn recycled(&mut self) -> PathBuf {
        let path = self.root.join("journal");
        let mut kept = 0;
        for file in files(&path) {
            let bytes = fs::metadata(&file).expect("nobody removes it").len();
            if bytes == SEGMENT_BYTES && kept < SPARES {
                let free = path.join(self.free_name());
                fs::rename(file, free).expect("the directory is ours");
                kept += 1;
            } else {
                fs::remove_file(file).expect("the directory is ours");
            }
        }
        path
    }

    pub fn empty(&mut self) -> PathBuf {
        let path = self.root.join("new");
        let _ = fs::remove_dir_all(&path);
        path
    }

    /// A directory with one freed segment, which is full of headers as a group's, each of which claims a long body.
    pub fn crafted(&mut self) -> PathBuf {
        let path = self.empty();
        fs::create_dir_all(&path).expect("the target directory is writable");
        let mut header = [0; GROUP_HEADER_BYTES];
        header[..4].copy_from_slice(b"QJG2");
        header[8..12].copy_from_slice(&200_000u32.to_le_bytes());
        let headers = header.repeat(SEGMENT_BYTES as usize / header.len());
        fs::write(path.join(self.free_name()), headers).expect("there is space");
        path
    }

    /// Names grow, so that no file replaces another, and the order of the files stays.
    fn free_name(&mut self) -> String {
        self.names_given += 1;
        format!("{:010}.free", self.names_given)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Takes the mark of closing, which ends at `end`, out of a segment: the journal was killed.
pub fn unmark(segment: &Path, end: u64) {
    let file = File::options().write(true).open(segment);
    let file = file.expect("the directory is ours");
    file.write_all_at(&[0; GROUP_HEADER_BYTES], end - GROUP_HEADER_BYTES as u64)
        .expect("the disk works");
    file.sync_all().expect("the disk works");
}

/// By name.
fn files(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("the directory is ours");
    let entries = entries.map(|entry| entry.expect("the directory is ours").path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files
}

fn zeroed(path: &Path, zeros: Zeros) {
    let mut file = File::create_new(path).expect("the directory is ours");
    let zeros = vec![0; zeros as usize];
    for _ in 0..SEGMENT_BYTES / zeros.len() as u64 {
        file.write_all(&zeros).expect("there is space");
    }
    file.sync_all().expect("the disk works");
}
