//! A store whose files are encrypted: it does all that another one does, nothing of what it holds stands in its files, and what was
//! changed in them is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quarry_seal::DataKey;
use quarry_storage::{Engine, Error, FlushImages, Memory, Mirror, WriteBatch, conformance};
use quarry_storage_rocksdb::{Options, RocksDb};

const MARKER: &[u8] = b"Zq8:a marker of no repetition/4fK";

fn options(key: Option<&DataKey>) -> Options {
    Options {
        cache_bytes: 8 << 20,
        free_bytes_min: 1 << 20,
        key: key.cloned(),
        ..Options::default()
    }
}

/// Flushes and compacts all the time.
fn small(key: &DataKey) -> Options {
    Options {
        write_buffer_bytes: 64 << 10,
        file_bytes: 32 << 10,
        background_bytes_per_s: 0,
        ..options(Some(key))
    }
}

fn fresh(root: &Path, options: Options) -> impl Fn() -> Arc<dyn Engine> {
    let lives = AtomicUsize::new(0);
    let root = root.to_owned();
    move || {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        Arc::new(RocksDb::open(root.join(life.to_string()), &options).unwrap())
    }
}

#[test]
fn it_conforms_and_agrees_with_memory() {
    let key = DataKey::random().unwrap();
    let root = tempfile::tempdir().unwrap();
    conformance::run(&fresh(root.path(), options(Some(&key))));
    let root = tempfile::tempdir().unwrap();
    conformance::run(&fresh(root.path(), small(&key)));
    let root = tempfile::tempdir().unwrap();
    let encrypted = fresh(root.path(), options(Some(&key)));
    conformance::run(&|| Arc::new(Mirror::new(encrypted(), Arc::new(Memory::new()))));
}

#[test]
fn it_keeps_what_it_promised_when_reopened() {
    let key = DataKey::random().unwrap();
    let root = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Engine> {
        Arc::new(RocksDb::open(root.path(), &options(Some(&key))).unwrap())
    };
    conformance::run_reopening(&open);
}

#[test]
fn its_images_and_copies_conform() {
    let key = DataKey::random().unwrap();
    let root = tempfile::tempdir().unwrap();
    let lives = AtomicUsize::new(0);
    conformance::run(&|| {
        let life = lives.fetch_add(1, Ordering::Relaxed);
        let key = key.clone();
        let images = FlushImages::directories(root.path().join(life.to_string()), move |path| {
            Ok(Arc::new(RocksDb::open(path, &options(Some(&key)))?))
        });
        images.open().unwrap()
    });
    let root = tempfile::tempdir().unwrap();
    let open = |path: &Path| -> Arc<dyn Engine> {
        Arc::new(RocksDb::open(path, &options(Some(&key))).unwrap())
    };
    conformance::run_copying(&open, root.path());
}

fn key_of(number: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], MARKER].concat()
}

/// A value that LZ4 finds nothing in, so that it stands in a plain file as it is.
fn value_of(number: u32) -> Vec<u8> {
    let noise = (0..200u32).map(|at| {
        let mixed = (number.wrapping_mul(7919) ^ at).wrapping_mul(2_654_435_761);
        (mixed >> 11) as u8
    });
    MARKER.iter().copied().chain(noise).collect()
}

/// Several tables, and a clean close.
fn fill(directory: &Path, options: &Options) {
    let engine = RocksDb::open(directory, options).unwrap();
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for number in round * 200..(round + 1) * 200 {
            batch.put(&key_of(number), &value_of(number));
        }
        engine.write(&batch).unwrap();
        engine.sync().unwrap();
    }
    engine.close().unwrap();
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn holding(directory: &Path, marker: &[u8]) -> usize {
    let holds = |path: &PathBuf| {
        let content = fs::read(path).unwrap();
        content.windows(marker.len()).any(|bytes| bytes == marker)
    };
    files(directory).iter().filter(|path| holds(path)).count()
}

#[test]
fn nothing_stands_in_its_files_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (plain, sealed) = (root.path().join("plain"), root.path().join("sealed"));
    let key = DataKey::random().unwrap();
    fill(&plain, &options(None));
    fill(&sealed, &options(Some(&key)));
    assert!(holding(&plain, MARKER) > 0, "without a key it does");
    assert_eq!(holding(&sealed, MARKER), 0);
    for words in [&b"rocksdb"[..], b"leveldb", b"default"] {
        assert_eq!(holding(&sealed, words), 0, "nor do words of RocksDB's own");
    }
    // Each file is one of ours, but those that have no bytes.
    for path in files(&sealed) {
        let content = fs::read(&path).unwrap();
        assert!(
            content.is_empty() || content.starts_with(b"QUARRYE\0"),
            "{path:?}"
        );
    }
}

fn refusal(directory: &Path, key: Option<&DataKey>) -> Error {
    RocksDb::open(directory, &options(key)).err().unwrap()
}

#[test]
fn it_is_opened_with_its_key_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let (plain, sealed) = (root.path().join("plain"), root.path().join("sealed"));
    let key = DataKey::random().unwrap();
    fill(&plain, &options(None));
    fill(&sealed, &options(Some(&key)));
    let other = DataKey::random().unwrap();
    for (directory, key) in [
        (&plain, Some(&key)),
        (&sealed, None),
        (&sealed, Some(&other)),
    ] {
        let before: Vec<_> = files(directory);
        let error = refusal(directory, key);
        assert!(
            matches!(error, Error::Incompatible(_) | Error::Corruption(_)),
            "{error}"
        );
        let after: Vec<_> = files(directory);
        let tables = |files: &[PathBuf]| {
            let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "sst");
            files.iter().filter(is_table).cloned().collect::<Vec<_>>()
        };
        assert_eq!(tables(&before), tables(&after));
    }
    for (directory, key) in [(&plain, None), (&sealed, Some(&key))] {
        let engine = RocksDb::open(directory, &options(key)).unwrap();
        assert!(
            engine
                .get(&key_of(7), &mut |value| assert_eq!(value, value_of(7)))
                .unwrap()
        );
        engine.close().unwrap();
    }
}

/// Opens the store and reads all of it. The values that come are those that were written; `Err` says what was told instead.
fn read_all(directory: &Path, key: &DataKey) -> Result<u32, Error> {
    let engine = RocksDb::open(directory, &options(Some(key)))?;
    let mut read = 0;
    for number in 0..600 {
        let is_there = engine.get(&key_of(number), &mut |value| {
            assert_eq!(value, value_of(number), "wrong data");
        })?;
        read += u32::from(is_there);
    }
    engine.close()?;
    Ok(read)
}

#[test]
fn a_flipped_bit_in_any_file_is_told() {
    let root = tempfile::tempdir().unwrap();
    let sealed = root.path().join("sealed");
    let key = DataKey::random().unwrap();
    fill(&sealed, &options(Some(&key)));
    let copy = root.path().join("copy");
    let mut told = 0;
    for path in files(&sealed) {
        let content = fs::read(&path).unwrap();
        let name = path.file_name().unwrap();
        let is_needed = {
            let name = name.to_string_lossy();
            name.ends_with(".sst") || name.starts_with("MANIFEST") || name == "CURRENT"
        };
        let steps = (content.len() / 40).max(1);
        for at in (0..content.len()).step_by(steps) {
            fs::create_dir(&copy).unwrap();
            for path in files(&sealed) {
                fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
            }
            let mut damaged = content.clone();
            damaged[at] ^= 0x10;
            fs::write(copy.join(name), damaged).unwrap();
            match read_all(&copy, &key) {
                Err(_) => told += 1,
                // What RocksDB does not read at an open may be damaged, and then all the data is there.
                Ok(read) => assert!(read == 600 && !is_needed, "{name:?}, byte {at}: {read}"),
            }
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    assert!(told > 100, "{told}");
}
