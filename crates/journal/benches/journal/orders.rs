//! The order log: 50,000 and 1,000,000 orders, few, some and all of them critical, from 1 to 64 producers.
//!
//! A producer takes a ticket and goes on; latency runs from submission to acknowledgement. The bare loop
//! beside it waits for each of its syncs, because nothing in it could be gone on with: what it shows for
//! critical orders is the disk, not a peer.

use std::sync::Arc;
use std::time::Instant;

use quarry_journal::{Level, Options, RealFiles};

use crate::book::{Critical, ORDER_BYTES};
use crate::limits;
use crate::order_log::{self, Run};
use crate::place::{Place, Zeros};
use crate::table::{CASE_TIME, REPETITIONS, Table};

/// Repetitions of the long runs, which are steadier.
const LONG_REPETITIONS: usize = 3;

pub fn measure(place: &mut Place, table: &mut Table) {
    for producers in [1, 8, 64] {
        for (orders, size, repetitions) in [
            (50_000, "50k", REPETITIONS),
            (1_000_000, "1M", LONG_REPETITIONS),
        ] {
            for (critical, label) in [
                (Critical::OneIn(orders / 31), "31 critical"),
                (Critical::OneIn(100), "1 % critical"),
                (Critical::All, "all critical"),
            ] {
                let name = format!("orders/{producers} x {size}, {label}");
                if table.wants(&name) {
                    case(
                        place,
                        table,
                        &name,
                        orders,
                        producers,
                        critical,
                        repetitions,
                    );
                }
            }
        }
    }
}

fn case(
    place: &mut Place,
    table: &mut Table,
    name: &str,
    orders: u64,
    producers: u64,
    critical: Critical,
    repetitions: usize,
) {
    place.renew(Zeros::Page);
    let mut best: Option<Run> = None;
    let mut bare = 0f64;
    let begun = Instant::now();
    for repetition in 0..repetitions {
        if repetition > 0 && begun.elapsed() > CASE_TIME {
            break;
        }
        let every = match critical {
            Critical::OneIn(every) => every,
            Critical::All => 1,
        };
        let rate = limits::orders(&place.bare(), producers, orders, every, ORDER_BYTES);
        bare = bare.max(rate);
        let files = RealFiles::open(place.recycled()).expect("the directory is ours");
        let (journal, _book) =
            order_log::open(Arc::new(files), Options::default()).expect("a new journal opens");
        let run = order_log::run(&journal, orders, producers, critical);
        journal.close().expect("the disk works");
        if best.as_ref().is_none_or(|best| run.seconds < best.seconds) {
            best = Some(run);
        }
    }
    let best = best.expect("there is a repetition");
    table.add(name, "ops/s", best.orders as f64 / best.seconds, Some(bare));
    for (quantile, figure) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let us = best.latency_ns.value_at_quantile(figure) as f64 / 1e3;
        table.add(&format!("{name} {quantile}"), "us", us, None);
    }
    for level in [Level::Written, Level::Durable] {
        if let Some(slowest) = best.slowest(level) {
            table.note(format!("{name}: {slowest}"));
        }
    }
}
