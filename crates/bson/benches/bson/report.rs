//! The table on the terminal, `bench/bson.json` under the target directory, and docs/benchmarks/bson-cases.md.

use std::{fmt::Write, fs, io, path::PathBuf};

use crate::measure::{CRATE, Measured};

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
    let json = serde_json::Value::from(rows).to_string();
    let cases = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/benchmarks/bson-cases.md"
    );
    for (path, text) in [
        (directory().join("bson.json"), json),
        (PathBuf::from(cases), markdown(results)),
    ] {
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written: io::Result<()> = folder.and_then(|()| fs::write(&path, text));
        match written {
            Ok(()) => println!("written: {}", path.display()),
            Err(error) => {
                eprintln!("cannot write {}: {error}", path.display());
                std::process::exit(1);
            }
        }
    }
}

fn markdown(results: &[Measured]) -> String {
    let mut text = String::from(
        "# BSON, case by case\n\n\
        Written by `make bench-bson`; [bson.md](bson.md) says what the cases are, what was asked of them and what \
        bounds them. Nanoseconds, best of 40 samples a side, the sides in turns; behind a peer's time its ratio to \
        ours; GB/s is the document's size over our time; the limit is the bare copy or reading of the same bytes.\n\n\
        | case | ours | GB/s | bson crate 3.1 | | org.mongodb:bson 4.11.0 | | limit |\n\
        |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for m in results {
        let peer = |name| {
            let ns = m.peers_ns.iter().find(|(peer, _)| *peer == name);
            ns.map_or("- | -".to_owned(), |(_, ns)| {
                format!("{ns:.1} | {:.1}x", ns / m.ours_ns)
            })
        };
        let line = writeln!(
            text,
            "| {} | {:.1} | {:.2} | {} | {} | {} |",
            m.name,
            m.ours_ns,
            m.bytes as f64 / m.ours_ns,
            peer(CRATE),
            peer(crate::java::NAME),
            m.limit_ns.map_or("-".to_owned(), |ns| format!("{ns:.1}"))
        );
        line.expect("a String takes every line");
    }
    text
}

/// Where figures go, and what the peers need.
pub fn directory() -> PathBuf {
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/quarry/target");
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(home, PathBuf::from)
        .join("bench")
}
