//! A journal on a small file system of its own that really runs full. Needs the right to mount; without it the
//! test says so and passes: `failure.rs` has the same over simulated files.

mod owner;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use owner::{Owner, identity};
use quarry_journal::{Error, Journal, Level, Options, RealFiles};

const FILE_SYSTEM_BYTES: u64 = 8 * 1024 * 1024;
const SEGMENT_BYTES: u64 = 1024 * 1024;
const RECORD_BYTES: usize = 20_000;

/// A mounted tmpfs, gone with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount() -> Result<SmallDisk, String> {
        let name = format!("quarry-small-disk-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        let size = format!("size={FILE_SYSTEM_BYTES}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&path)
            .output();
        match mount {
            Ok(output) if output.status.success() => Ok(SmallDisk(path)),
            refused => {
                let _ = fs::remove_dir(&path);
                Err(match refused {
                    Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
                    Err(error) => error.to_string(),
                })
            }
        }
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
        let _ = fs::remove_dir(&self.0);
    }
}

fn open(disk: &SmallDisk, owner: &Arc<Owner>, applied_lsn: u64) -> Journal {
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        background: true,
        ..Options::default()
    };
    let files = Arc::new(RealFiles::open(disk.path().join("journal")).unwrap());
    Journal::open(files, options, identity(), applied_lsn, owner.clone()).unwrap()
}

/// Writes until the disk is full; returns the last LSN and the error.
fn fill(journal: &Journal) -> (u64, Error) {
    loop {
        let next = journal.last_lsn() + 1;
        if let Err(error) = journal.commit(&vec![next as u8; RECORD_BYTES], Level::Written) {
            assert_eq!(journal.last_lsn() + 1, next, "a refused write has no LSN");
            return (next - 1, error);
        }
        assert!(
            next * RECORD_BYTES as u64 <= FILE_SYSTEM_BYTES,
            "the disk never ran full"
        );
    }
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_goes_on_without_a_hole() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(reason) => {
            println!(
                "skipped, a file system cannot be mounted here: {}",
                reason.trim()
            );
            return;
        }
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 2 * SEGMENT_BYTES as usize]).unwrap();
    let owner = Owner::new();
    let journal = open(&disk, &owner, 0);

    let (full_lsn, error) = fill(&journal);
    assert!(error.is_no_space() && error.is_retryable(), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("no space left for the journal: "),
        "{error}"
    );
    assert!(full_lsn > 100 && !journal.is_latched());
    let mut reader = journal.read(1).unwrap();
    for (lsn, payload) in owner.records() {
        assert_eq!(
            reader.next().unwrap(),
            Some((lsn, &payload[..])),
            "reads are served"
        );
    }
    assert_eq!(
        journal.sync().unwrap(),
        full_lsn,
        "what was accepted becomes durable"
    );
    let still = journal
        .commit(&vec![0; RECORD_BYTES], Level::Durable)
        .unwrap_err();
    assert!(still.is_no_space(), "{still}");

    fs::remove_file(&ballast).unwrap();
    let lsn = journal
        .commit(b"space is back", Level::Durable)
        .unwrap()
        .lsn;
    assert_eq!(lsn, full_lsn + 1, "no hole");
    drop(reader);

    let (full_lsn, _) = fill(&journal);
    assert!(
        journal.checkpointed(full_lsn).unwrap() > 0,
        "a checkpoint needs no space"
    );
    let lsn = journal
        .commit(&vec![9; RECORD_BYTES], Level::Durable)
        .unwrap()
        .lsn;
    assert_eq!(lsn, full_lsn + 1, "and makes some");
    let first_lsn = journal.first_lsn();
    drop(journal);

    let again = Owner::new();
    let journal = open(&disk, &again, first_lsn - 1);
    assert_eq!(journal.last_lsn(), lsn);
    assert!(again.records() == owner.records()[first_lsn as usize - 1..]);
}
