//! RocksDB under the suite that every engine passes: bare, mirrored with the engine in memory, and
//! reopened.

use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quarry_storage::{Engine, FlushImages, Memory, Mirror, conformance};
use quarry_storage_rocksdb::{Options, RocksDb};

fn options() -> Options {
    Options {
        cache_bytes: 8 << 20,
        free_bytes_min: 1 << 20,
        ..Options::default()
    }
}

/// Opens a new directory below `root` each time.
fn fresh(root: &std::path::Path) -> impl Fn() -> Arc<dyn Engine> {
    let lives = AtomicUsize::new(0);
    let root = root.to_owned();
    move || {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        Arc::new(RocksDb::open(root.join(life.to_string()), &options()).unwrap())
    }
}

#[test]
fn rocksdb_conforms() {
    let root = tempfile::tempdir().unwrap();
    conformance::run(&fresh(root.path()));
}

#[test]
fn rocksdb_conforms_when_it_flushes_all_the_time() {
    let root = tempfile::tempdir().unwrap();
    let lives = AtomicUsize::new(0);
    conformance::run(&|| {
        let small = Options {
            write_buffer_bytes: 64 << 10,
            file_bytes: 32 << 10,
            background_bytes_per_s: 0,
            ..options()
        };
        let life = lives.fetch_add(1, Ordering::Relaxed);
        Arc::new(RocksDb::open(root.path().join(life.to_string()), &small).unwrap())
    });
}

#[test]
fn rocksdb_and_memory_agree() {
    let root = tempfile::tempdir().unwrap();
    let rocksdb = fresh(root.path());
    conformance::run(&|| Arc::new(Mirror::new(rocksdb(), Arc::new(Memory::new()))));
}

#[test]
fn rocksdb_keeps_what_it_promised_when_reopened() {
    let root = tempfile::tempdir().unwrap();
    conformance::run_reopening(&|| Arc::new(RocksDb::open(root.path(), &options()).unwrap()));
}

#[test]
fn rocksdb_conforms_with_images() {
    let root = tempfile::tempdir().unwrap();
    let lives = AtomicUsize::new(0);
    conformance::run(&|| {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        let images = FlushImages::directories(root.path().join(life.to_string()), |directory| {
            Ok(Arc::new(RocksDb::open(directory, &options())?))
        });
        images.open().unwrap()
    });
}

#[test]
fn copies_conform() {
    let root = tempfile::tempdir().unwrap();
    let open =
        |path: &Path| -> Arc<dyn Engine> { Arc::new(RocksDb::open(path, &options()).unwrap()) };
    conformance::run_copying(&open, root.path());
}
