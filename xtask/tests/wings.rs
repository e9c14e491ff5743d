//! The wings of `database` stand from the ground up: a file uses its own wing and those below it.

use xtask::circles::arrows;
use xtask::style::Repository;

/// From the ground up. What stands under all of them has no folder of its own.
const WINGS: [&str; 13] = [
    "keyspace",
    "index",
    "locks",
    "record_cache",
    "catalog",
    "snapshot",
    "commit",
    "sessions",
    "events",
    "definitions",
    "upkeep",
    "write",
    "build",
];

#[test]
fn a_wing_uses_those_below_it() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let place = |path: &str| {
        let path = path.strip_prefix("crates/database/src/")?;
        let (wing, _) = path.split_once('/')?;
        WINGS.iter().position(|known| *known == wing)
    };
    let mut up = Vec::new();
    let mut seen = 0;
    for ((from, to), names) in arrows(&repository, "crates/database") {
        let (Some(user), Some(used)) = (place(&from), place(&to)) else {
            continue;
        };
        seen += usize::from(used < user);
        if used > user {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            up.push(format!("{from} -> {to}: {}", names.join(" ")));
        }
    }
    assert!(seen > 100, "the arrows were not seen: {seen}");
    assert!(up.is_empty(), "\n{}\n", up.join("\n"));
}
