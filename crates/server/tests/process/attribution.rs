//! The parts of every operation make up the whole: what no phase covers is small, for every kind of operation.

use std::collections::BTreeMap;

use quarry_bson::{Document, doc};

use crate::client::Client;
use crate::server::Server;

const ROUNDS: i32 = 300;
/// The share of an operation's wall that may be unattributed, at the median and at the 99th percentile.
const MEDIAN_SHARE_MAX: f64 = 0.05;
const P99_SHARE_MAX: f64 = 0.10;

fn run(client: &mut Client, command: &Document) -> Document {
    let reply = client.run(command);
    assert_eq!(reply.get_f64("ok"), Some(1.0), "{command}: {reply}");
    reply
}

/// One of each: what a client does with a collection that has an index.
fn round(client: &mut Client, round: i32) {
    let (from, batch) = (round * 10, 10);
    let documents: Vec<Document> = (from..from + batch)
        .map(|id| doc! { "_id": id, "a": id % 7, "b": [id, id + 1], "text": "some text to carry" })
        .collect();
    run(client, &doc! { "insert": "things", "documents": documents });
    run(
        client,
        &doc! { "insert": "things", "documents": [doc! { "_id": format!("one{round}") }] },
    );
    run(
        client,
        &doc! { "find": "things", "filter": doc! { "_id": from } },
    );
    run(
        client,
        &doc! { "find": "things", "filter": doc! { "a": 3 }, "sort": doc! { "_id": -1 }, "limit": 20 },
    );
    run(
        client,
        &doc! { "find": "things", "filter": doc! { "b": from }, "projection": doc! { "a": 1 } },
    );
    let found = run(
        client,
        &doc! { "find": "things", "filter": doc! { "a": doc! { "$gte": 2 } }, "batchSize": 2 },
    );
    let cursor = found.get_path("cursor.id").unwrap().as_i64_exact().unwrap();
    if cursor != 0 {
        run(
            client,
            &doc! { "getMore": cursor, "collection": "things", "batchSize": 50 },
        );
    }
    let update = doc! { "q": doc! { "_id": from }, "u": doc! { "$inc": doc! { "a": 1 } } };
    run(client, &doc! { "update": "things", "updates": [update] });
    run(
        client,
        &doc! { "findAndModify": "things", "query": doc! { "_id": from + 1 }, "update": doc! { "$set": doc! { "c": 1 } } },
    );
    run(
        client,
        &doc! { "count": "things", "query": doc! { "a": 3 } },
    );
    run(client, &doc! { "distinct": "things", "key": "a" });
    let group = doc! { "$group": doc! { "_id": "$a", "n": doc! { "$sum": 1 } } };
    run(
        client,
        &doc! { "aggregate": "things", "pipeline": [group], "cursor": doc! {} },
    );
    run(
        client,
        &doc! { "delete": "things", "deletes": [doc! { "q": doc! { "_id": from + 2 }, "limit": 1 }] },
    );
    run(client, &doc! { "ping": 1 });
    let name = format!("made{round}");
    run(client, &doc! { "create": name.as_str() });
    run(client, &doc! { "drop": name.as_str() });
}

#[test]
fn what_no_phase_covers_is_small_for_every_kind_of_operation() {
    let server = Server::start(&["--adminPort", "off", "--logFormat", "json"]);
    let mut client = Client::connect(server.port);
    let index = doc! { "key": doc! { "b": 1 }, "name": "b_1" };
    run(
        &mut client,
        &doc! { "createIndexes": "things", "indexes": [index] },
    );
    round(&mut client, 0);
    // From here on every operation leaves a line with its phases.
    run(
        &mut client,
        &doc! { "setParameter": 1, "slowOpThresholdMs": 0 },
    );
    for number in 1..ROUNDS {
        round(&mut client, number);
    }
    run(
        &mut client,
        &doc! { "setParameter": 1, "slowOpThresholdMs": 1_000_000 },
    );
    run(&mut client, &doc! { "ping": 1, "comment": "the last one" });

    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in server.lines_with("\"Slow query\"") {
        let line = quarry_bson::extjson::parse(&line).unwrap();
        let phases = line.get_path("attr.phasesMicros").unwrap();
        let phases = phases.as_document().unwrap();
        let micros = |phase: &str| {
            phases
                .get(phase)
                .map_or(0.0, |us| us.as_f64_lossy().unwrap())
        };
        let wall: f64 = phases
            .iter()
            .map(|phase| phase.value().as_f64_lossy().unwrap())
            .sum();
        let command = line
            .get_path("attr.command")
            .unwrap()
            .as_document()
            .unwrap();
        let name = command
            .first()
            .unwrap()
            .name()
            .to_string_lossy()
            .into_owned();
        shares
            .entry(name)
            .or_default()
            .push(micros("unattributed") / wall);
    }
    let operations: usize = shares.values().map(Vec::len).sum();
    assert!(operations > 4_000, "{operations}");
    let mut too_much = Vec::new();
    for (name, shares) in &mut shares {
        shares.sort_unstable_by(f64::total_cmp);
        let at = |quantile: f64| shares[((shares.len() - 1) as f64 * quantile) as usize];
        println!(
            "{name:<16} {:>5}  p50 {:.3}  p99 {:.3}",
            shares.len(),
            at(0.5),
            at(0.99)
        );
        if shares.len() >= 100 && (at(0.5) >= MEDIAN_SHARE_MAX || at(0.99) >= P99_SHARE_MAX) {
            too_much.push(format!(
                "{name}: {:.3} at the median, {:.3} at p99",
                at(0.5),
                at(0.99)
            ));
        }
    }
    assert!(too_much.is_empty(), "{too_much:#?}");
}
