//! libmdbx on a device that fills up in the middle of a commit, and gets room again.
//!
//! The device is a small tmpfs, which only root may mount; for anybody else the test says so and
//! checks nothing.

use std::{fs, path::Path, process::Command};

use quarry_storage::{Engine, Readiness, WriteBatch};
use quarry_storage_mdbx::{Mdbx, Options};

const DEVICE_BYTES: usize = 32 << 20;
const FREE_BYTES_MIN: u64 = 8 << 20;
/// How much room a round leaves, in pages of which each commit writes about a hundred.
const PAGES_LEFT: std::ops::Range<usize> = 1..240;
const PAGES_STEP: usize = 17;
const PAGE_BYTES: usize = 4096;

/// Unmounts whatever happens.
struct Mounted<'d>(&'d Path);

impl<'d> Mounted<'d> {
    fn tmpfs(directory: &'d Path) -> Option<Self> {
        let size = format!("size={DEVICE_BYTES}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory)
            .status();
        status
            .is_ok_and(|status| status.success())
            .then_some(Self(directory))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn key(lsn: u64, number: u64) -> Vec<u8> {
    [lsn.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Neighbouring keys: their pages are neighbours as well, and go to the file with one call.
fn batch(lsn: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for number in 0..200 {
        batch.put(&key(lsn, number), &[lsn as u8; 1_900]);
    }
    batch.put_applied_lsn(lsn);
    batch
}

fn has(engine: &Mdbx, lsn: u64) -> bool {
    (0..200).all(|number| engine.get(&key(lsn, number), &mut |_| ()).unwrap())
}

#[test]
fn a_device_that_is_full_amid_a_commit_is_no_failed_one() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::tmpfs(directory.path()) else {
        eprintln!("a tmpfs may not be mounted here: nothing was checked");
        return;
    };
    let options = Options {
        growth_bytes: 16 << 20,
        free_bytes_min: FREE_BYTES_MIN,
        ..Options::default()
    };
    for pages_left in PAGES_LEFT.step_by(PAGES_STEP) {
        let store = directory.path().join("store");
        let ballast = directory.path().join("ballast");
        let engine = Mdbx::open(&store, &options).unwrap();
        engine.write(&batch(1)).unwrap();
        fill_up(directory.path(), &ballast, pages_left * PAGE_BYTES);

        let mut lsn = 1;
        let error = loop {
            // Past the engine's own warning, as a group is that was let in just before it.
            match engine.write(&batch(lsn + 1)) {
                Ok(()) => lsn += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_no_space(), "{pages_left} pages left: {error:?}");
        assert!((1..=lsn).all(|lsn| has(&engine, lsn)), "reads go on");

        fs::remove_file(&ballast).unwrap();
        engine.write(&batch(lsn + 1)).unwrap();
        engine.sync().unwrap();
        assert!(!matches!(engine.ready(), Readiness::Failed(error) if !error.is_no_space()));
        engine.close().unwrap();
        drop(engine);
        let engine = Mdbx::open(&store, &options).unwrap();
        assert!(
            (1..=lsn + 1).all(|lsn| has(&engine, lsn)),
            "a hole was left"
        );
        engine.close().unwrap();
        drop(engine);
        fs::remove_dir_all(&store).unwrap();
    }
}

fn fill_up(directory: &Path, ballast: &Path, left_bytes: usize) {
    let stat = rustix::fs::statvfs(directory).unwrap();
    let free_bytes = (stat.f_bavail * stat.f_frsize) as usize;
    fs::write(ballast, vec![7; free_bytes - left_bytes]).unwrap();
}
