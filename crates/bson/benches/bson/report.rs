//! The table and the file.

use std::{fs, path::PathBuf};

use crate::measure::Measured;

const PEER: &str = "bson crate";

pub fn print(m: &Measured) {
    let rate = m.bytes as f64 / m.ours_ns;
    match m.peer_ns {
        Some(peer) => {
            println!(
                "{:<22} {:>12.1} ns  {PEER} {:>12.1} ns  {:>7.1}x  {rate:>7.2} GB/s",
                m.name,
                m.ours_ns,
                peer,
                peer / m.ours_ns
            );
        }
        None => println!(
            "{:<22} {:>12.1} ns  {:>44} GB/s",
            m.name,
            m.ours_ns,
            format!("{rate:.2}")
        ),
    }
}

pub fn write(results: &[Measured]) {
    let rows: Vec<_> = results
        .iter()
        .map(|m| {
            let peers: serde_json::Map<_, _> = m.peer_ns.iter().map(|ns| (PEER.to_owned(), (*ns).into())).collect();
            serde_json::json!({"case": m.name, "unit": "ns", "ours": m.ours_ns, "peers": peers, "limit": null})
        })
        .collect();
    let path = target_directory().join("bench").join("bson.json");
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, serde_json::Value::from(rows).to_string()));
    match written {
        Ok(()) => println!("written: {}", path.display()),
        Err(error) => {
            eprintln!("cannot write {}: {error}", path.display());
            std::process::exit(1);
        }
    }
}

fn target_directory() -> PathBuf {
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/quarry/target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(home, PathBuf::from)
}
