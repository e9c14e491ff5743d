//! What the machine itself allows: bare writes into a zero-written file, and syncs shared by everyone
//! who waits, without queue, checksum or order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use quarry_journal::Level;

const PAGE_BYTES: usize = 4096;
const SYNCS: u64 = 500;
const WRITES: u64 = 20_000;

fn zeroed(directory: &Path, bytes: u64) -> File {
    let path = directory.join("bare");
    let file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path);
    let file = file.expect("the directory is ours");
    let zeros = vec![0; 1024 * 1024];
    for step in 0..bytes.div_ceil(zeros.len() as u64) {
        file.write_all_at(&zeros, step * zeros.len() as u64)
            .expect("there is space");
    }
    file.sync_all().expect("the disk works");
    file
}

/// Mean time of one fdatasync after a write of 4 KiB.
pub fn sync_us(directory: &Path) -> f64 {
    let file = zeroed(directory, SYNCS * PAGE_BYTES as u64);
    let mut spent_ns = 0;
    for at in 0..SYNCS {
        file.write_all_at(&[1; PAGE_BYTES], at * PAGE_BYTES as u64)
            .expect("the disk works");
        let begun = Instant::now();
        file.sync_data().expect("the disk works");
        spent_ns += begun.elapsed().as_nanos();
    }
    spent_ns as f64 / 1e3 / SYNCS as f64
}

/// Mean time of one write of 4 KiB.
pub fn write_us(directory: &Path) -> f64 {
    let file = zeroed(directory, WRITES * PAGE_BYTES as u64);
    let begun = Instant::now();
    for at in 0..WRITES {
        file.write_all_at(&[1; PAGE_BYTES], at * PAGE_BYTES as u64)
            .expect("the disk works");
    }
    begun.elapsed().as_nanos() as f64 / 1e3 / WRITES as f64
}

/// Appends a second: every producer writes its own bytes, then waits for a sync that began afterwards.
pub fn append(directory: &Path, level: Level, producers: u64, bytes: u64, count: u64) -> f64 {
    let file = zeroed(directory, (count + producers) * bytes);
    let payload = vec![0x5a; bytes as usize];
    let end = AtomicU64::new(0);
    let syncs = SharedSync::default();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..producers {
            scope.spawn(|| {
                for _ in 0..count / producers {
                    let offset = end.fetch_add(bytes, Ordering::Relaxed);
                    file.write_all_at(&payload, offset).expect("the disk works");
                    if level == Level::Durable {
                        syncs.wait(&file);
                    }
                }
            });
        }
    });
    (count / producers * producers) as f64 / begun.elapsed().as_secs_f64()
}

/// Rounds of syncs: whoever finds none running makes the next.
#[derive(Default)]
struct SharedSync {
    state: Mutex<Rounds>,
    ended: Condvar,
}

#[derive(Default)]
struct Rounds {
    begun: u64,
    ended: u64,
}

impl SharedSync {
    fn wait(&self, file: &File) {
        let mut rounds = self.state.lock().expect("no holder panics");
        // A round that runs already may have missed the write.
        let wanted = rounds.begun + 1;
        while rounds.ended < wanted {
            if rounds.begun == rounds.ended {
                rounds.begun += 1;
                drop(rounds);
                file.sync_data().expect("the disk works");
                rounds = self.state.lock().expect("no holder panics");
                rounds.ended = rounds.begun;
                self.ended.notify_all();
            } else {
                rounds = self.ended.wait(rounds).expect("no holder panics");
            }
        }
    }
}
