//! The order log: a book behind a journal. Producers submit orders, go on, and count an order as
//! acknowledged when the journal says so at the order's level.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;
use quarry_journal::{
    CommitReport, Committed, Files, GroupBuilder, HookError, HookErrorKind, Hooks, Identity,
    Journal, Level, Options, Payloads, Pending,
};

use super::book::{Book, Critical, Order, OrderStream};

/// Orders that a producer has under way before it waits for the oldest.
const IN_FLIGHT_MAX: usize = 1024;
type Queue = VecDeque<Pending>;

const LATENCY_NS_MAX: u64 = 60_000_000_000;

#[derive(Default)]
pub struct Matching {
    pub book: Mutex<Book>,
}

impl Hooks for Matching {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, _first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        let mut book = self.book.lock().expect("no holder of the book panics");
        for (lsn, payload) in payloads {
            let unknown = || {
                HookError::new(
                    HookErrorKind::Failed,
                    format!("record {lsn} is not an order"),
                )
            };
            book.apply(Order::decode(payload).ok_or_else(unknown)?);
        }
        Ok(())
    }
}

pub fn open(
    files: Arc<dyn Files>,
    options: Options,
) -> quarry_journal::Result<(Journal, Arc<Matching>)> {
    let matching = Arc::new(Matching::default());
    let identity = Identity {
        database: *b"order-matching\0\0",
        engine: "book".to_owned(),
    };
    // The book is in memory only: every start replays from the first order.
    let journal = Journal::open(files, options, identity, 0, matching.clone())?;
    Ok((journal, matching))
}

/// The measurements of one run.
pub struct Run {
    /// Acknowledged, the critical ones included.
    pub orders: u64,
    pub critical: u64,
    pub seconds: f64,
    pub latency_ns: Histogram<u64>,
    pub last_acknowledged_lsn: u64,
    /// Where the time of the slowest order of each level went.
    slowest: [CommitReport; 2],
}

impl Run {
    fn note(&mut self, committed: &Committed, level: Level) {
        let report = committed.report;
        self.last_acknowledged_lsn = self.last_acknowledged_lsn.max(committed.lsn);
        self.latency_ns.saturating_record(report.total_ns());
        self.orders += 1;
        self.critical += u64::from(level == Level::Durable);
        let slowest = &mut self.slowest[level as usize];
        if report.total_ns() > slowest.total_ns() {
            *slowest = report;
        }
    }

    fn add(&mut self, part: Run) {
        self.orders += part.orders;
        self.critical += part.critical;
        self.last_acknowledged_lsn = self.last_acknowledged_lsn.max(part.last_acknowledged_lsn);
        self.latency_ns
            .add(part.latency_ns)
            .expect("both have the same bounds");
        for (slowest, other) in self.slowest.iter_mut().zip(part.slowest) {
            if other.total_ns() > slowest.total_ns() {
                *slowest = other;
            }
        }
    }

    /// Explains the longest latency of a level, if there were orders of it.
    pub fn slowest(&self, level: Level) -> Option<String> {
        let us = |ns: u64| ns as f64 / 1e3;
        let report = self.slowest[level as usize];
        if report.total_ns() == 0 {
            return None;
        }
        let text = format!(
            "slowest {level:?} order {:.1} us = queue, turn and wake-up {:.1} + append {:.1} + apply {:.1} + sync {:.1}",
            us(report.total_ns()),
            us(report.wait_ns),
            us(report.append_ns),
            us(report.apply_ns),
            us(report.sync_wait_ns),
        );
        Some(text)
    }
}

/// `orders` orders from `producers` threads, timed from the first submission to the last acknowledgement.
pub fn run(journal: &Journal, orders: u64, producers: u64, critical: Critical) -> Run {
    let begun = Instant::now();
    let share = orders / producers;
    let part = |producer, orders| {
        let stream = OrderStream::after(producer * share, producer, critical);
        measure(journal, stream, orders)
    };
    let parts: Vec<Run> = std::thread::scope(|scope| {
        let spawn = |producer| scope.spawn(move || part(producer, share));
        let others: Vec<_> = (1..producers).map(spawn).collect();
        let mut parts = vec![part(0, orders - (producers - 1) * share)];
        let finished =
            |other: ScopedJoinHandle<'_, Run>| other.join().expect("a producer finishes");
        parts.extend(others.into_iter().map(finished));
        parts
    });
    let mut all = Run {
        seconds: begun.elapsed().as_secs_f64(),
        ..empty_run()
    };
    for part in parts {
        all.add(part);
    }
    all
}

fn empty_run() -> Run {
    let latency_ns = Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("the bounds are valid");
    Run {
        orders: 0,
        critical: 0,
        seconds: 0.0,
        latency_ns,
        last_acknowledged_lsn: 0,
        slowest: [CommitReport::default(); 2],
    }
}

fn measure(journal: &Journal, stream: OrderStream, orders: u64) -> Run {
    let mut run = empty_run();
    produce(journal, stream, orders, &mut |committed, level| {
        run.note(committed, level);
    });
    run
}

/// Submits orders of the stream and goes on; says of each when it is acknowledged. Ordinary orders never wait
/// behind critical ones: each level has its own queue. Generic because it is timed.
pub fn produce(
    journal: &Journal,
    mut stream: OrderStream,
    orders: u64,
    note: &mut impl FnMut(&Committed, Level),
) {
    let mut queues = [(); 2].map(|()| Queue::with_capacity(IN_FLIGHT_MAX));
    for _ in 0..orders {
        let order = stream.next_order();
        let level = level_of(&order);
        let pending = journal
            .submit_async(&order.encode(), level)
            .expect("the journal accepts orders");
        queues[level as usize].push_back(pending);
        for under_way in &mut queues {
            while is_acknowledged(journal, under_way) || under_way.len() == IN_FLIGHT_MAX {
                acknowledge(journal, under_way, note);
            }
        }
    }
    for under_way in &mut queues {
        while !under_way.is_empty() {
            acknowledge(journal, under_way, note);
        }
    }
}

pub fn level_of(order: &Order) -> Level {
    match order.is_critical() {
        true => Level::Durable,
        false => Level::Written,
    }
}

/// Whether the oldest is.
fn is_acknowledged(journal: &Journal, under_way: &Queue) -> bool {
    (under_way.front()).is_some_and(|first| journal.is_acknowledged(first))
}

fn acknowledge(journal: &Journal, under_way: &mut Queue, note: &mut impl FnMut(&Committed, Level)) {
    let Some(pending) = under_way.pop_front() else {
        return;
    };
    let committed = journal
        .wait(&pending)
        .expect("an accepted order is acknowledged");
    note(&committed, pending.level());
}
