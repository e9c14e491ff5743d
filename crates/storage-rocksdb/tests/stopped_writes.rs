//! RocksDB that takes no write until a flush has ended says so while a writer waits inside it.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quarry_storage::{Engine, Readiness, WriteBatch};
use quarry_storage_rocksdb::{Options, RocksDb};

const WAIT_MAX: Duration = Duration::from_secs(10);

/// Holds flushes before they begin.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(
            self.opened
                .wait_while(is_open, |is_open| !*is_open)
                .unwrap(),
        );
    }
}

fn batch(lsn: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&lsn.to_be_bytes(), &[lsn as u8; 4_000]);
    batch.put_applied_lsn(lsn);
    batch
}

#[test]
fn it_says_that_it_is_stalled_while_a_writer_waits_inside_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 64 << 10,
        write_buffers_max: 2,
        free_bytes_min: 1 << 20,
        background_bytes_per_s: 0,
        ..Options::default()
    };
    let engine = RocksDb::open(directory.path(), &options).unwrap();
    let gate = Arc::<Gate>::default();
    let at_flush = Arc::clone(&gate);
    engine.set_before_durable(Box::new(move |_| {
        at_flush.pass();
        Ok(())
    }));
    let wait_until = |wanted: &dyn Fn(&Readiness) -> bool| {
        let begun = Instant::now();
        while !wanted(&engine.ready()) && begun.elapsed() < WAIT_MAX {
            thread::yield_now();
        }
        wanted(&engine.ready())
    };
    let is_seen = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut lsn = 0;
            while !is_seen.load(Ordering::SeqCst) {
                lsn += 1;
                engine.write(&batch(lsn)).unwrap();
            }
        });
        let said_so = wait_until(&|readiness| matches!(readiness, Readiness::Stalled { .. }));
        is_seen.store(true, Ordering::SeqCst);
        gate.open();
        writer.join().unwrap();
        assert!(said_so, "nobody says that writes have stopped");
    });
    assert!(
        wait_until(&|readiness| *readiness == Readiness::Ready),
        "it goes on"
    );
    engine.close().unwrap();
}
