//! A process at work on the order log is killed with SIGKILL again and again; every order that it reported as
//! acknowledged must come back.
//!
//! The parent reads reports all the time, so that the child never waits for it, and kills after a random number of
//! acknowledged orders and a random time more; some children die at a random time of their start. What the child had
//! reported by then is read to its end. An order that was acknowledged and not yet reported is not asked for.

use std::error::Error;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use quarry_journal::RealFiles;

use super::child::{self, Reported};
use super::random::Random;
use super::restart;

/// Children that die over the same log, one after the other.
const LIVES: usize = 16;
/// Orders that a child acknowledges before it is to die.
const ORDERS_MAX: u64 = 50_000;
/// How long it works on after that.
const MORE_US_MAX: u64 = 2_000;
/// One in so many children dies within `START_US_MAX`, many of them before their first order.
const START_DEATHS: u64 = 5;
const START_US_MAX: u64 = 20_000;
/// A child that has not done its orders by then is stuck.
const LIFE_MAX: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;

/// Over all rounds.
#[derive(Default)]
pub struct Killed {
    pub reported: u64,
    pub came_back: u64,
}

/// Makes logs in `directory`. `command` is to start a process that calls `child::run` with the log it is given.
pub fn check(
    directory: &Path,
    rounds: u64,
    seed: u64,
    command: &dyn Fn(&Path) -> io::Result<Command>,
) -> Result<Killed, Box<dyn Error>> {
    let mut random = Random(seed);
    let mut all = Killed::default();
    for first in (0..rounds).step_by(LIVES) {
        let mut log = DyingLog::new(directory.join(format!("log-{}", first + 1)));
        for round in first..rounds.min(first + LIVES as u64) {
            let death = Death::random(&mut random);
            let outcome = log.round(&death, command(&log.directory)?);
            let outcome = outcome.map_err(|error| log.explain(&*error, rounds, seed))?;
            println!("round {}: {outcome}", round + 1);
        }
        all.reported += log.reported.orders;
        all.came_back += log.came_back;
        std::fs::remove_dir_all(log.directory)?;
    }
    Ok(all)
}

/// When a child dies.
enum Death {
    AtStart { us: u64 },
    AtWork { orders: u64, more_us: u64 },
}

impl Death {
    fn random(random: &mut Random) -> Death {
        if random.below(START_DEATHS) == 0 {
            let us = random.below(START_US_MAX);
            return Death::AtStart { us };
        }
        Death::AtWork {
            orders: 1 + random.below(ORDERS_MAX),
            more_us: random.below(MORE_US_MAX),
        }
    }
}

struct DyingLog {
    directory: PathBuf,
    reported: Reported,
    came_back: u64,
}

impl DyingLog {
    fn new(directory: PathBuf) -> DyingLog {
        DyingLog {
            directory,
            reported: Reported::default(),
            came_back: 0,
        }
    }

    /// One life, one death, one restart.
    fn round(&mut self, death: &Death, command: Command) -> Result<String, Box<dyn Error>> {
        let (reported, came_back) = (self.reported.orders, self.came_back);
        self.live(death, command)?;
        self.restart()?;
        let when = match death {
            Death::AtStart { us } => format!("{us} us after its start"),
            Death::AtWork { orders, more_us } => format!("{more_us} us after order {orders}"),
        };
        Ok(format!(
            "killed {when}: {} were reported as acknowledged, {} came back",
            self.reported.orders - reported,
            self.came_back - came_back
        ))
    }

    fn live(&mut self, death: &Death, command: Command) -> Result<(), Box<dyn Error>> {
        let before = self.reported;
        let wanted = match death {
            Death::AtStart { .. } => u64::MAX,
            Death::AtWork { orders, .. } => before.orders + orders,
        };
        let (child, reports) = child::spawn(command)?;
        let (reached, is_reached) = channel();
        let reader = std::thread::spawn(move || before.read(reports, wanted, &reached));
        let died = die(child, death, &is_reached);
        self.reported = reader
            .join()
            .map_err(|_| "the reader of reports panicked")?;
        died
    }

    /// Starts again over the log, and checks that everything is there which an earlier restart had found.
    fn restart(&mut self) -> Result<(), Box<dyn Error>> {
        let before = self.came_back;
        let files = Arc::new(RealFiles::open(&self.directory)?);
        self.came_back = restart::check(files, child::options(), &self.reported.lsns)?;
        if self.came_back < before {
            return Err(format!("{before} orders had come back, now {}", self.came_back).into());
        }
        Ok(())
    }

    fn explain(&self, error: &dyn Error, rounds: u64, seed: u64) -> String {
        let directory = self.directory.display();
        let command = "cargo run --release -p quarry-journal --example order_matching -- kill";
        format!("{error}; the log is in `{directory}`; repeat with `{command} {rounds} {seed}`")
    }
}

/// Kills the child when its time has come. One that ended by itself is an error: it was to work until then.
fn die(mut child: Child, death: &Death, is_reached: &Receiver<()>) -> Result<(), Box<dyn Error>> {
    let (us, is_stuck) = match *death {
        Death::AtStart { us } => (us, false),
        Death::AtWork { more_us, .. } => {
            let waited = is_reached.recv_timeout(LIFE_MAX);
            (more_us, waited == Err(RecvTimeoutError::Timeout))
        }
    };
    std::thread::sleep(Duration::from_micros(us));
    child.kill()?;
    let status = child.wait()?;
    if status.signal() != Some(SIGKILL) {
        return Err(format!("the child ended by itself: {status}").into());
    }
    if is_stuck {
        return Err(format!("the child was stuck for {} s", LIFE_MAX.as_secs()).into());
    }
    Ok(())
}
