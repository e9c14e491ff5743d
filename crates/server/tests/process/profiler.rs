//! The profiler: levels, filter, and the documents in `system.profile`.

use quarry_bson::{Document, doc};

use crate::client::Client;
use crate::server::Server;

fn start() -> (Server, Client) {
    let server = Server::start(&["--adminPort", "off", "--logFormat", "json"]);
    let client = Client::connect(server.port);
    (server, client)
}

fn run(client: &mut Client, command: &Document) -> Document {
    let reply = client.run(command);
    assert_eq!(reply.get_f64("ok"), Some(1.0), "{command}: {reply}");
    reply
}

/// The documents of `system.profile` that match.
fn profiled(client: &mut Client, filter: Document) -> Vec<Document> {
    let reply = run(
        client,
        &doc! { "find": "system.profile", "filter": filter, "batchSize": 1000 },
    );
    let batch = reply.get_path("cursor.firstBatch").unwrap();
    let documents = batch.as_array().unwrap().iter();
    documents
        .map(|document| document.as_document().unwrap().to_owned_document())
        .collect()
}

#[test]
fn level_2_profiles_every_operation_in_mongodbs_shape() {
    let (_server, mut client) = start();
    let was = run(&mut client, &doc! { "profile": 2 });
    assert_eq!(
        (
            was.get_i32("was"),
            was.get_i32("slowms"),
            was.get_f64("sampleRate")
        ),
        (Some(0), Some(100), Some(1.0))
    );
    run(
        &mut client,
        &doc! { "createIndexes": "things", "indexes": [doc! { "key": doc! { "a": 1 }, "name": "a_1" }] },
    );
    run(
        &mut client,
        &doc! { "insert": "things", "documents": [doc! { "_id": 1, "a": 5 }, doc! { "_id": 2, "a": 6 }] },
    );
    run(
        &mut client,
        &doc! { "find": "things", "filter": doc! { "a": 5 } },
    );
    run(
        &mut client,
        &doc! { "find": "things", "filter": doc! { "_id": 1 } },
    );
    run(
        &mut client,
        &doc! { "update": "things", "updates": [doc! { "q": doc! { "b": 1 }, "u": doc! { "$set": doc! { "c": 1 } }, "multi": true }] },
    );
    run(
        &mut client,
        &doc! { "delete": "things", "deletes": [doc! { "q": doc! { "a": 6 }, "limit": 0 }] },
    );
    let all = profiled(&mut client, doc! { "ns": "admin.things" });
    let ops: Vec<&str> = all.iter().map(|one| one.get_str("op").unwrap()).collect();
    assert_eq!(
        ops,
        ["command", "insert", "query", "query", "update", "remove"]
    );
    let plans: Vec<Option<&str>> = all[2..]
        .iter()
        .map(|one| one.get_str("planSummary"))
        .collect();
    assert_eq!(
        plans,
        [
            Some("IXSCAN { a: 1 }"),
            Some("IDHACK"),
            Some("COLLSCAN"),
            Some("IXSCAN { a: 1 }")
        ]
    );
    assert_eq!(all[1].get_i64("ninserted"), Some(2));
    assert_eq!(all[2].get_i64("docsExamined"), Some(1));
    assert_eq!(all[2].get_i64("nreturned"), Some(1));
    assert_eq!(all[4].get_i64("nMatched"), Some(0));
    assert_eq!(all[5].get_i64("ndeleted"), Some(1));
    for one in &all {
        assert!(one.get_i64("responseLength").unwrap() > 0, "{one}");
        assert!(one.get_i64("millis").is_some() && one.get("ts").is_some());
        let number = |path: &str| one.get_path(path).and_then(|value| value.as_f64_lossy());
        let phases = one.get_document("phases").unwrap();
        let sum: f64 = phases
            .iter()
            .map(|phase| phase.value().as_f64_lossy().unwrap())
            .sum();
        let wall = number("micros").unwrap();
        let parts = sum + number("unattributedMicros").unwrap();
        assert!((parts - wall).abs() < 0.01, "{one}");
    }
    assert_eq!(
        run(&mut client, &doc! { "profile": 0 }).get_i32("was"),
        Some(2)
    );
    run(&mut client, &doc! { "find": "things" });
    assert_eq!(
        profiled(&mut client, doc! { "ns": "admin.things" }).len(),
        6
    );
    let options = run(
        &mut client,
        &doc! { "listCollections": 1, "filter": doc! { "name": "system.profile" } },
    );
    let capped = options.get_path("cursor.firstBatch.0.options.capped");
    assert_eq!(capped.and_then(|capped| capped.as_bool()), Some(true));
}

#[test]
fn who_reads_the_profile_is_profiled_and_who_begins_it_is_not() {
    let (_server, mut client) = start();
    run(&mut client, &doc! { "profile": 2 });
    for reads_before in 0..3 {
        assert_eq!(profiled(&mut client, doc! {}).len(), reads_before);
    }
    let reads = doc! { "op": "query", "ns": "admin.system.profile" };
    run(&mut client, &doc! { "profile": 0 });
    for _ in 0..2 {
        assert_eq!(profiled(&mut client, reads.clone()).len(), 3);
    }
}

#[test]
fn a_command_without_a_collection_has_a_namespace_of_its_own() {
    let (_server, mut client) = start();
    run(&mut client, &doc! { "profile": 2 });
    run(&mut client, &doc! { "ping": 1 });
    let found = profiled(&mut client, doc! { "command.ping": 1 });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].get_str("ns"), Some("admin.$cmd"));
}

#[test]
fn level_1_profiles_what_is_slow_and_a_filter_what_it_matches() {
    let (server, mut client) = start();
    run(&mut client, &doc! { "profile": 1, "slowms": 10_000 });
    run(&mut client, &doc! { "find": "things" });
    assert!(profiled(&mut client, doc! {}).is_empty());
    run(&mut client, &doc! { "profile": 1, "slowms": 0 });
    run(&mut client, &doc! { "find": "things" });
    assert_eq!(
        profiled(&mut client, doc! { "op": "query", "ns": "admin.things" }).len(),
        1
    );
    server.line(r#""find":"things""#);
    run(
        &mut client,
        &doc! { "profile": 1, "slowms": 0, "sampleRate": 0.0 },
    );
    run(&mut client, &doc! { "count": "things" });
    assert!(profiled(&mut client, doc! { "command.count": "things" }).is_empty());

    let filter = doc! { "command.comment": "watch me" };
    run(
        &mut client,
        &doc! { "profile": 1, "slowms": 10_000, "sampleRate": 1.0, "filter": filter.clone() },
    );
    run(
        &mut client,
        &doc! { "count": "things", "comment": "not me" },
    );
    run(
        &mut client,
        &doc! { "count": "things", "comment": "watch me" },
    );
    let found = profiled(&mut client, doc! { "command.count": "things" });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].get_path("command.comment").unwrap().as_str(),
        Some("watch me")
    );
    let was = run(&mut client, &doc! { "profile": -1 });
    assert_eq!(
        was.get_document("filter")
            .map(|filter| filter.to_owned_document()),
        Some(filter)
    );
    assert_eq!(was.get_i32("was"), Some(1));
    run(&mut client, &doc! { "profile": 0, "filter": "unset" });
    assert!(!run(&mut client, &doc! { "profile": -1 }).contains("filter"));

    for (bad, code) in [
        (doc! { "profile": 3 }, 2),
        (doc! { "profile": "on" }, 14),
        (doc! { "profile": 1, "sampleRate": 2 }, 2),
        (doc! { "profile": 1, "filter": 7 }, 2),
    ] {
        assert_eq!(client.run(&bad).get_i32("code"), Some(code), "{bad}");
    }
}

#[test]
fn a_get_more_tells_of_the_command_that_made_its_cursor() {
    let (server, mut client) = start();
    let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "a": n }).collect();
    run(
        &mut client,
        &doc! { "insert": "things", "documents": documents },
    );
    let index = doc! { "key": { "a": 1 }, "name": "a_1" };
    run(
        &mut client,
        &doc! { "createIndexes": "things", "indexes": [index] },
    );
    run(&mut client, &doc! { "profile": 2, "slowms": 0 });
    let filter = doc! { "a": { "$gte": 0 } };
    let find = doc! { "find": "things", "filter": (filter.clone()), "batchSize": 2 };
    let opened = run(&mut client, &find);
    let id = opened.get_path("cursor.id").unwrap().as_i64_exact();
    for _ in 0..2 {
        let get_more = doc! { "getMore": (id.unwrap()), "collection": "things", "batchSize": 2 };
        run(&mut client, &get_more);
    }
    // The cursor has ended with the last batch.
    let again = doc! { "getMore": (id.unwrap()), "collection": "things" };
    assert_eq!(client.run(&again).get_i32("code"), Some(43));
    run(&mut client, &doc! { "find": "things" });
    run(&mut client, &doc! { "profile": 0, "slowms": 100 });

    let reads = doc! { "ns": "admin.things", "op": { "$in": ["query", "getmore"] } };
    let all = profiled(&mut client, reads);
    let told = |one: &Document| {
        (
            one.get_i64("cursorid"),
            one.get_bool("cursorExhausted"),
            one.get_i64("nreturned"),
        )
    };
    let told: Vec<_> = all.iter().map(told).collect();
    let expected = [
        (id, None, Some(2)),
        (id, None, Some(2)),
        (id, Some(true), Some(1)),
        (id, None, Some(0)),
        (None, Some(true), Some(5)),
    ];
    assert_eq!(told, expected, "{all:?}");
    let explain = doc! { "explain": find, "verbosity": "queryPlanner" };
    let explained = run(&mut client, &explain);
    let planner = explained.get_document("queryPlanner").unwrap();
    for one in &all[..3] {
        for hash in ["queryHash", "planCacheShapeHash", "planCacheKey"] {
            assert!(planner.get_str(hash).is_some(), "{explained}");
            assert_eq!(one.get_str(hash), planner.get_str(hash), "{hash}: {one}");
        }
        assert_eq!(one.get_str("planSummary"), Some("IXSCAN { a: 1 }"));
    }
    let origin = |one: &Document| {
        let asked = one.get_path("originatingCommand.filter")?;
        Some(asked.as_document()?.to_owned_document())
    };
    let origins: Vec<_> = all.iter().map(origin).collect();
    assert_eq!(
        origins,
        [None, Some(filter.clone()), Some(filter), None, None]
    );
    let line = server.line(r#""getMore""#);
    let cursor = format!(r#""cursorid":{}"#, id.unwrap());
    for part in [
        r#""originatingCommand":{"find":"things""#,
        &cursor,
        r#""planCacheKey":""#,
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    server.line(r#""cursorExhausted":true"#);
}
