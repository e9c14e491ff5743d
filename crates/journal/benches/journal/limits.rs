//! The limits of the machine: bare writes into a zero-written file, and syncs shared by everyone
//! who waits, without queue, checksum or order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use quarry_journal::Level;

use crate::appends::{Bounds, repeat};

const PAGE_BYTES: usize = 4096;
const SYNCS: u64 = 200;
const WRITES: u64 = 10_000;
/// Bare loops of the order log end after this time at the latest.
const ORDERS_TIME: Duration = Duration::from_millis(150);

/// Mean time of one fdatasync after a write of 4 KiB.
pub fn sync_us(file: &File) -> f64 {
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
pub fn write_us(file: &File) -> f64 {
    let begun = Instant::now();
    for at in 0..WRITES {
        file.write_all_at(&[1; PAGE_BYTES], at * PAGE_BYTES as u64)
            .expect("the disk works");
    }
    begun.elapsed().as_nanos() as f64 / 1e3 / WRITES as f64
}

/// Appends a second: every producer writes its own bytes, then waits for a sync that began afterwards.
pub fn append(file: &File, level: Level, producers: u64, bytes: u64, bounds: Bounds) -> f64 {
    let payload = vec![0x5a; bytes as usize];
    let end = AtomicU64::new(0);
    let syncs = SharedSync::default();
    repeat(producers, bounds, &|_| {
        let offset = end.fetch_add(bytes, Ordering::Relaxed);
        file.write_all_at(&payload, offset).expect("the disk works");
        if level == Level::Durable {
            syncs.wait(file);
        }
    })
}

/// Orders a second: a write call each, and a wait for a shared sync for one in `every`.
pub fn orders(file: &File, producers: u64, orders: u64, every: u64, bytes: usize) -> f64 {
    let payload = vec![0x5a; bytes];
    let end = AtomicU64::new(0);
    let syncs = SharedSync::default();
    let bounds = Bounds {
        time: ORDERS_TIME,
        records: orders,
    };
    repeat(producers, bounds, &|number| {
        let offset = end.fetch_add(bytes as u64, Ordering::Relaxed);
        file.write_all_at(&payload, offset).expect("the disk works");
        if number % every == every / 2 {
            syncs.wait(file);
        }
    })
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
