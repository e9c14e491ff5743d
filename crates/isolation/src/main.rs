//! `quarry-judge FILE`: reads a history and tells what snapshot isolation rules out in it.
//!
//! It ends with 0 where there is nothing, with 1 behind a line for each anomaly, and with 2 where the file holds no history.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use quarry_isolation::{Outcome, check, parse};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: quarry-judge FILE");
        return ExitCode::from(2);
    };
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let history = match text.and_then(|text| parse(&text)) {
        Ok(history) => history,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let found = check(&history);
    for anomaly in &found {
        println!("{anomaly}");
    }
    if !found.is_empty() {
        return ExitCode::from(1);
    }
    let count = |wanted: Outcome| {
        let outcomes = history.done.iter().map(|done| done.outcome);
        outcomes.filter(|outcome| *outcome == wanted).count()
    };
    let (committed, given_up) = (count(Outcome::Committed), count(Outcome::GivenUp));
    let unknown = count(Outcome::Unknown);
    println!("isolated: {committed} committed, {given_up} given up, {unknown} unknown");
    ExitCode::SUCCESS
}
