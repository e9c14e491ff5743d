//! RocksDB on a device that fills up, and gets room again.
//!
//! The device is a small tmpfs, which only root may mount; for anybody else the test says so and
//! checks nothing.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use quarry_storage::{Engine, Readiness, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};

const DEVICE_BYTES: usize = 48 << 20;
const BALLAST_BYTES: usize = 32 << 20;
/// More than can be free beside the ballast, less than is free without it: RocksDB gives back what
/// a failed compaction wrote, and that must not look like room.
const FREE_BYTES_MIN: u64 = 20 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

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

fn batch(lsn: u64) -> WriteBatch {
    let mut noise = lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let value = std::iter::repeat_with(|| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise as u8
    });
    let value: Vec<u8> = value.take(2_000).collect();
    let mut batch = WriteBatch::new();
    batch.put(&lsn.to_be_bytes(), &value);
    batch.put_applied_lsn(lsn);
    batch
}

/// The free space is not watched here, so that RocksDB runs into the wall itself: the write that
/// was refused is refused, the ones before it are kept, and nothing resumes before there is room.
#[test]
fn a_full_disk_refuses_and_goes_on_without_a_hole() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::tmpfs(directory.path()) else {
        eprintln!("a tmpfs may not be mounted here: nothing was checked");
        return;
    };
    let ballast = directory.path().join("ballast");
    std::fs::write(&ballast, vec![7; BALLAST_BYTES]).unwrap();
    let options = Options {
        cache_bytes: 4 << 20,
        write_buffer_bytes: 1 << 20,
        background_bytes_per_s: 0,
        free_bytes_min: FREE_BYTES_MIN,
        ..Options::default()
    };
    let mut lsn = 0;
    let store = directory.path().join("store");
    let engine = RocksDb::open(&store, &options).unwrap();
    let error = loop {
        // Past the engine's own warning, as a group is that was let in just before it.
        match engine.write(&batch(lsn + 1)) {
            Ok(()) => lsn += 1,
            Err(error) => break error,
        }
        assert!(lsn < 40_000, "a full disk went unnoticed");
    };
    assert!(error.is_no_space(), "{error:?}");
    assert!(matches!(engine.ready(), Readiness::Failed(error) if error.is_no_space()));
    assert!(engine.write(&batch(lsn + 1)).is_err());
    assert!(
        (1..=lsn).all(|lsn| engine.get(&lsn.to_be_bytes(), &mut |_| ()).unwrap()),
        "reads go on"
    );
    let durable_lsn = engine.durable_lsn().unwrap();
    assert!(durable_lsn < lsn);

    std::fs::remove_file(&ballast).unwrap();
    let start = Instant::now();
    while engine.ready() != Readiness::Ready {
        assert!(
            start.elapsed() < PATIENCE,
            "space came back and the engine did not: {:?}",
            engine.ready()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    engine.write(&batch(lsn + 1)).unwrap();
    engine.sync().unwrap();
    assert_eq!(engine.durable_lsn(), Ok(lsn + 1));
    engine.close().unwrap();
    drop(engine);
    let engine = RocksDb::open(&store, &options).unwrap();
    assert!(
        (1..=lsn + 1).all(|lsn| engine.get(&lsn.to_be_bytes(), &mut |_| ()).unwrap()),
        "a hole was left"
    );
}
