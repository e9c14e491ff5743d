//! Power goes at a random step of a simulated disk; what was not synced survives in part, in any order. Every
//! critical order that was acknowledged must come back.

use std::error::Error;
use std::sync::Arc;

use quarry_journal::files::simulated::{Crash, Fault};
use quarry_journal::{Files, Journal, Level, Options, SimulatedFiles};

use super::book::OrderStream;
use super::order_log::{self, level_of};
use super::random::Random;
use super::restart::{self, CRITICAL};

/// Changes of the disk before the power goes. A segment is full after some 1,400 orders.
const STEPS_MAX: u64 = 3000;
/// Every crash of the simulation that is a power cut.
const CUTS: [Crash; 4] = [Crash::Drop, Crash::Tear, Crash::Scatter, Crash::Reorder];

/// Orders over all rounds.
#[derive(Default)]
pub struct Survived {
    pub durable: u64,
    pub came_back: u64,
}

/// Round by round with a seed of its own, so that a failure repeats alone.
pub fn check(rounds: u64, seed: u64) -> Result<Survived, Box<dyn Error>> {
    let mut all = Survived::default();
    for seed in (0..rounds).map(|round| seed.wrapping_add(round)) {
        let disk = SimulatedFiles::new();
        let files = Arc::new(disk.clone());
        let one = cut(&disk, files, seed).map_err(|error| {
            let command = "cargo run --release -p quarry-journal --example order_matching --";
            format!("{error}; repeat with `{command} power 1 {seed}`")
        })?;
        all.durable += one.durable;
        all.came_back += one.came_back;
    }
    Ok(all)
}

/// One power cut. `files` is how the journal sees the disk.
pub fn cut(
    disk: &SimulatedFiles,
    files: Arc<dyn Files>,
    seed: u64,
) -> Result<Survived, Box<dyn Error>> {
    let options = Options {
        segment_bytes: 64 * 1024,
        background: false,
        ..Options::default()
    };
    let mut random = Random(seed);
    let (journal, _matching) = order_log::open(files, options.clone())?;
    disk.inject(disk.steps() + random.below(STEPS_MAX), Fault::PowerOff);
    let durable = order_until_power_fails(&journal);
    drop(journal);
    let crash = CUTS[random.below(CUTS.len() as u64) as usize];
    let files = Arc::new(disk.crash(crash, seed));
    let came_back = restart::check(files, options, &[durable])?;
    Ok(Survived { durable, came_back })
}

/// Returns the LSN of the last critical order that was acknowledged.
fn order_until_power_fails(journal: &Journal) -> u64 {
    let mut stream = OrderStream::new(0, CRITICAL);
    let mut durable_lsn = 0;
    loop {
        let order = stream.next_order();
        let level = level_of(&order);
        match journal.commit(&order.encode(), level) {
            Ok(committed) if level == Level::Durable => durable_lsn = committed.lsn,
            Ok(_) => {}
            Err(_) => return durable_lsn,
        }
    }
}
