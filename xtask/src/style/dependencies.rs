//! The floors: who may depend on whom, read from every `Cargo.toml`.

use super::breach::Breach;
use super::repository::File;

/// The crates of the plan, and for each the crates of the workspace that it may use.
const ROOMS: [(&str, &[&str]); 21] = [
    ("allocator", &[]),
    ("bson", &[]),
    ("timing", &[]),
    ("journal", &[]),
    ("storage", &[]),
    ("seal", &[]),
    ("regex", &[]),
    ("text", &[]),
    ("isolation", &[]),
    ("keystring", &["bson"]),
    ("wire", &["bson"]),
    ("geometry", &["bson"]),
    ("collation", &["bson"]),
    ("storage-rocksdb", &["storage", "seal"]),
    ("storage-mdbx", &["storage"]),
    (
        "database",
        &[
            "bson",
            "timing",
            "journal",
            "storage",
            "keystring",
            "collation",
        ],
    ),
    (
        "query",
        &[
            "bson",
            "timing",
            "regex",
            "geometry",
            "text",
            "keystring",
            "database",
        ],
    ),
    ("client", &["bson", "wire"]),
    ("tools", &["bson", "client"]),
    ("server", &SERVER_USES),
    ("bench", &BENCH_USES),
];
const SERVER_USES: [&str; 14] = [
    "allocator",
    "bson",
    "timing",
    "journal",
    "storage",
    "seal",
    "keystring",
    "wire",
    "storage-rocksdb",
    "storage-mdbx",
    "database",
    "query",
    "client",
    "tools",
];
const BENCH_USES: [&str; 14] = [
    "bson",
    "timing",
    "journal",
    "storage",
    "seal",
    "keystring",
    "wire",
    "storage-rocksdb",
    "storage-mdbx",
    "database",
    "query",
    "client",
    "tools",
    "server",
];

/// Crates that the tests of a crate may use besides: the engines that fail, stall or reclaim on command, and the judge of
/// histories.
const TESTS_USE: [(&str, &str); 2] = [("query", "storage"), ("database", "isolation")];

/// Libraries that must stay in the crates that exist for them.
const CONFINED: [(&str, &[&str]); 11] = [
    ("tikv-jemalloc-sys", &["allocator"]),
    ("bson", &["bson", "bench"]),
    ("tokio", &["server", "bench"]),
    ("rust-rocksdb", &["storage-rocksdb"]),
    ("mdbx-sys", &["storage-mdbx"]),
    ("pcre2-sys", &["regex"]),
    ("s2", &["geometry"]),
    ("icu_collator", &["collation"]),
    ("rust-stemmers", &["text"]),
    ("stop-words", &["text"]),
    ("ring", &["seal"]),
];

/// A library of the same purpose as ours: what ours is tested and measured against, and never part of what we
/// ship.
const PEERS: [(&str, &str); 1] = [("bson", "bson")];

pub(super) fn check(file: &File, found: &mut Vec<Breach>) {
    let (Some(name), Some("Cargo.toml")) = (file.crate_name(), file.path_in_crate()) else {
        return;
    };
    let mut breach = |line: usize, what: String| {
        found.push(Breach {
            path: file.path.clone(),
            line,
            what,
        });
    };
    let Some((_, uses)) = ROOMS.iter().find(|(room, _)| *room == name) else {
        return breach(0, format!("crate `{name}` is not in the plan"));
    };
    for Dependency {
        line,
        name: dependency,
        is_for_tests,
    } in dependencies(&file.text)
    {
        if let Some(room) = dependency.strip_prefix("quarry-")
            && !uses.contains(&room)
            && !(is_for_tests && TESTS_USE.contains(&(name, room)))
        {
            breach(line, format!("`{name}` must not know `{room}`"));
        }
        let confined = CONFINED.iter().find(|(library, _)| *library == dependency);
        if let Some((library, rooms)) = confined
            && !rooms.contains(&name)
        {
            breach(
                line,
                format!("`{library}` belongs to {}", rooms.join(" and ")),
            );
        }
        if PEERS.contains(&(name, dependency)) && !is_for_tests {
            breach(
                line,
                format!("`{dependency}` is what `{name}` is tested against"),
            );
        }
    }
}

struct Dependency<'m> {
    line: usize,
    name: &'m str,
    is_for_tests: bool,
}

/// Reads the entries under every `[dependencies]`, `[dev-dependencies]` and the like.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut is_inside = false;
    let mut is_for_tests = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let name = if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_inside = section.ends_with("dependencies");
            is_for_tests = section.contains("dev-dependencies");
            // `[dependencies.name]` is a dependency by itself.
            section.split_once("dependencies.").map(|(_, name)| name)
        } else if is_inside {
            line.split_once(['=', '.'])
                .map(|(name, _)| name.trim().trim_matches('"'))
        } else {
            None
        };
        found.extend(name.map(|name| Dependency {
            line: index + 1,
            name,
            is_for_tests,
        }));
    }
    found
}
