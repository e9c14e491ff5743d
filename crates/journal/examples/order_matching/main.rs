//! A limit order book whose every order goes through the journal before it is acknowledged.
//!
//! `cargo run --release -p quarry-journal --example order_matching -- [ORDERS [PRODUCERS [CRITICAL]]]` with CRITICAL
//! about how many, `1%` or `all`.
//!
//! `-- kill [ROUNDS [SEED]]`: a child at work is killed at random moments, and every order that it had acknowledged
//! must come back. `-- power [ROUNDS [SEED]]`: the same over a simulated disk that loses power and scatters what was
//! not synced; every critical order must come back.

mod book;
mod child;
mod kill;
mod order_log;
mod power_cut;
mod random;
mod restart;
mod scratch;
mod timed_run;

use std::error::Error;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::Command;

use book::Critical;
use quarry_journal::Options;
use random::Random;
use scratch::fresh_directory;
use timed_run::Work;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default| arguments.get(index).map_or(default, String::as_str);
    let seed = || {
        arguments
            .get(2)
            .map_or_else(new_seed, |seed| Ok(seed.parse()?))
    };
    match argument(0, "50000") {
        "child" => child::run(Path::new(argument(1, ""))),
        "kill" => kill(argument(1, "20").parse()?, seed()?),
        "power" => power(argument(1, "100").parse()?, seed()?),
        orders => {
            let orders = orders.parse()?;
            timed(Work {
                orders,
                producers: argument(1, "1").parse::<NonZeroU64>()?.get(),
                critical: Critical::parse(argument(2, "31"), orders)?,
            })
        }
    }
}

fn new_seed() -> Result<u64, Box<dyn Error>> {
    let since = std::time::UNIX_EPOCH.elapsed()?;
    // Short, because somebody may have to type it.
    Ok(Random(since.as_nanos() as u64).below(1_000_000))
}

fn timed(work: Work) -> Outcome {
    let directory = fresh_directory("run")?;
    timed_run::show(&directory, &Options::default(), work)?;
    Ok(std::fs::remove_dir_all(directory)?)
}

fn kill(rounds: u64, seed: u64) -> Outcome {
    println!("seed {seed}");
    let directory = fresh_directory("kill")?;
    let killed = kill::check(&directory, rounds, seed, &|log| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(log);
        Ok(command)
    })?;
    std::fs::remove_dir_all(directory)?;
    println!(
        "verified: {} orders were reported as acknowledged over {rounds} kills, none is missing, {} came back",
        killed.reported, killed.came_back
    );
    Ok(())
}

fn power(rounds: u64, seed: u64) -> Outcome {
    println!("seed {seed}");
    let survived = power_cut::check(rounds, seed)?;
    println!(
        "verified: {} orders were durable over {rounds} power cuts, none is missing, {} came back",
        survived.durable, survived.came_back
    );
    Ok(())
}
