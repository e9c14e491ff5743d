//! `cargo xtask generate` writes the generated sources; `cargo xtask style` prints breaches of the
//! plan's rules and fails when there is one; `cargo xtask circles [crates/NAME]` prints the files that
//! lead back to themselves, and by which names; `cargo xtask functions` prints the longest functions.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("generate") => report(generate()),
        Some("style") => report(style()),
        Some("functions") => report(functions()),
        Some("circles") => report(circles(env::args().nth(2).as_deref())),
        _ => {
            eprintln!("usage: cargo xtask generate | style | functions | circles [crates/NAME]");
            ExitCode::from(2)
        }
    }
}

fn generate() -> Result<(), String> {
    let root = xtask::repository_root();
    let table = fs::read_to_string(root.join(xtask::error_codes::TABLE_PATH))
        .map_err(|error| format!("{}: {error}", xtask::error_codes::TABLE_PATH))?;
    let entries = xtask::error_codes::parse(&table)?;
    fs::write(
        root.join(xtask::error_codes::OUTPUT_PATH),
        xtask::error_codes::render(&entries),
    )
    .map_err(|error| format!("{}: {error}", xtask::error_codes::OUTPUT_PATH))?;
    println!(
        "{}: {} codes",
        xtask::error_codes::OUTPUT_PATH,
        entries.len()
    );
    Ok(())
}

fn style() -> Result<(), String> {
    let breaches = xtask::style::check(&xtask::repository_root())?;
    for breach in &breaches {
        println!("{breach}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => Err(format!("{count} breaches of the plan's rules")),
    }
}

fn circles(crate_path: Option<&str>) -> Result<(), String> {
    let repository = xtask::style::Repository::read(&xtask::repository_root())?;
    for circle in xtask::circles::circles(&repository) {
        if crate_path.is_none_or(|path| path == circle.crate_path) {
            println!("{circle}");
        }
    }
    Ok(())
}

fn functions() -> Result<(), String> {
    let repository = xtask::style::Repository::read(&xtask::repository_root())?;
    let found = xtask::functions::functions(&repository);
    for function in found.iter().take(found.len() / 100) {
        println!("{function}");
    }
    for percent in [50, 90, 99] {
        let lines = xtask::functions::percentile(&found, percent);
        println!(
            "{percent} % of {} functions: at most {lines} lines",
            found.len()
        );
    }
    Ok(())
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
