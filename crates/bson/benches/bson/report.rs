//! The table and the file.

use std::{fs, path::PathBuf};

use crate::measure::Measured;

pub fn print(m: &Measured) {
    let rate = m.bytes as f64 / m.ours_ns;
    let peers: String = m
        .peers_ns
        .iter()
        .map(|(name, ns)| format!("  {name} {ns:>11.1} ns {:>6.1}x", ns / m.ours_ns))
        .collect();
    let limit = (m.limit_ns)
        .map(|ns| format!("  limit {ns:.1} ns"))
        .unwrap_or_default();
    println!(
        "{:<21} {:>11.1} ns {rate:>9.2} GB/s{peers}{limit}",
        m.name, m.ours_ns
    );
}

pub fn write(results: &[Measured]) {
    let rows: Vec<_> = results
        .iter()
        .map(|m| {
            let peers: serde_json::Map<_, _> = m.peers_ns.iter().map(|(name, ns)| ((*name).to_owned(), (*ns).into())).collect();
            serde_json::json!({"case": m.name, "unit": "ns", "ours": m.ours_ns, "peers": peers, "limit": m.limit_ns})
        })
        .collect();
    let path = directory().join("bson.json");
    let written = fs::create_dir_all(directory())
        .and_then(|()| fs::write(&path, serde_json::Value::from(rows).to_string()));
    match written {
        Ok(()) => println!("written: {}", path.display()),
        Err(error) => {
            eprintln!("cannot write {}: {error}", path.display());
            std::process::exit(1);
        }
    }
}

/// Where figures go, and what the peers need.
pub fn directory() -> PathBuf {
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/quarry/target");
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(home, PathBuf::from)
        .join("bench")
}
