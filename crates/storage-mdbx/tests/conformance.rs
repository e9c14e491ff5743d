//! libmdbx under the suite that every engine passes: bare in each sync mode, mirrored with the
//! engine in memory, with images, and reopened.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use quarry_storage::{Engine, FlushImages, Memory, Mirror, conformance};
use quarry_storage_mdbx::{Mdbx, Options, SyncMode};

fn options(sync_mode: SyncMode) -> Options {
    Options {
        sync_mode,
        growth_bytes: 1 << 20,
        free_bytes_min: 1 << 20,
        ..Options::default()
    }
}

/// Opens a new directory below `root` each time.
fn fresh(root: &Path, sync_mode: SyncMode) -> impl Fn() -> Arc<dyn Engine> {
    let lives = AtomicUsize::new(0);
    let root = root.to_owned();
    move || {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        Arc::new(Mdbx::open(root.join(life.to_string()), &options(sync_mode)).unwrap())
    }
}

#[test]
fn safe_no_sync_conforms() {
    let root = tempfile::tempdir().unwrap();
    conformance::run(&fresh(root.path(), SyncMode::SafeNoSync));
}

#[test]
fn durable_conforms() {
    let root = tempfile::tempdir().unwrap();
    let open = fresh(root.path(), SyncMode::Durable);
    conformance::run_syncing_commits(&open);
}

#[test]
fn no_meta_sync_conforms() {
    let root = tempfile::tempdir().unwrap();
    let open = fresh(root.path(), SyncMode::NoMetaSync);
    conformance::run_syncing_commits(&open);
}

#[test]
fn utterly_no_sync_conforms() {
    let root = tempfile::tempdir().unwrap();
    conformance::run(&fresh(root.path(), SyncMode::UtterlyNoSync));
}

#[test]
fn mdbx_and_memory_agree() {
    let root = tempfile::tempdir().unwrap();
    let mdbx = fresh(root.path(), SyncMode::SafeNoSync);
    conformance::run(&|| Arc::new(Mirror::new(mdbx(), Arc::new(Memory::new()))));
}

#[test]
fn mdbx_keeps_what_it_promised_when_reopened() {
    for sync_mode in [SyncMode::SafeNoSync, SyncMode::Durable] {
        let root = tempfile::tempdir().unwrap();
        conformance::run_reopening(&|| {
            Arc::new(Mdbx::open(root.path(), &options(sync_mode)).unwrap())
        });
    }
}

#[test]
fn mdbx_conforms_with_images() {
    let root = tempfile::tempdir().unwrap();
    let lives = AtomicUsize::new(0);
    conformance::run(&|| {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        let images = FlushImages::directories(root.path().join(life.to_string()), |directory| {
            Ok(Arc::new(Mdbx::open(
                directory,
                &options(SyncMode::SafeNoSync),
            )?))
        });
        images.open().unwrap()
    });
}

#[test]
fn copies_conform() {
    for sync_mode in [SyncMode::SafeNoSync, SyncMode::Durable] {
        let root = tempfile::tempdir().unwrap();
        let open = |path: &Path| -> Arc<dyn Engine> {
            Arc::new(Mdbx::open(path, &options(sync_mode)).unwrap())
        };
        conformance::run_copying(&open, root.path());
    }
}
