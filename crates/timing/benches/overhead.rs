//! Measures what timing costs an operation: the scopes of a point read, and its way into the histograms, collecting included.
//!
//! Prints the median of rounds, each timed as a whole. `cargo bench -p quarry-timing`

use std::hint::black_box;
use std::time::Instant;

use quarry_timing::{LabelTexts, Labels, OperationKind, Phase, Work};

const ROUNDS: usize = 101;
const OPERATIONS: u32 = 5_000;

fn main() {
    let labels = Labels {
        namespace: 77,
        shape: 78,
    };
    row("one look at the clock", || {
        black_box(Instant::now());
    });
    row("a point read's phases, off", || {
        quarry_timing::set_enabled(false);
        point_read(Labels::NONE);
    });
    quarry_timing::set_enabled(true);
    row("a point read's phases, on", || {
        point_read(Labels::NONE);
    });
    row("the same with its namespace and shape", || {
        point_read(labels);
    });
    row("the same, counted in the histograms", || {
        point_read(labels);
        COLLECT.with(|left| {
            left.set(left.get() + 1);
            if left.get() % 500 == 0 {
                quarry_timing::collect();
            }
        });
    });
}

thread_local! {
    static COLLECT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

struct Texts;

impl LabelTexts for Texts {
    fn namespace(&self) -> String {
        "db.things".to_owned()
    }

    fn shape(&self) -> String {
        "find db.things {\"_id\":?}".to_owned()
    }
}

/// The scopes that a find by `_id` opens.
fn point_read(labels: Labels) {
    quarry_timing::begin_operation_after([Phase::Read, Phase::Auth], Phase::Decode);
    quarry_timing::turn(Phase::Execute);
    drop(quarry_timing::phase(Phase::Plan));
    drop(quarry_timing::phase(Phase::EngineRead));
    quarry_timing::turn(Phase::Encode);
    quarry_timing::turn(Phase::Send);
    let finished = quarry_timing::finish_operation();
    let amounts = [(Work::EngineGets, 1), (Work::KeysExamined, 1)];
    quarry_timing::record_operation(
        OperationKind::Find,
        black_box(finished),
        amounts,
        labels,
        || Texts,
    );
}

fn row(name: &str, mut run: impl FnMut()) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..OPERATIONS {
                run();
            }
            started.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    println!("{name:<42} {:>8.1} ns", times[ROUNDS / 2]);
}
