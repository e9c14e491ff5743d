//! Open cursors, as somebody sees them who looks for what holds a server's memory.

use quarry_bson::{Document, Value, doc};

use crate::client::Client;
use crate::server::Server;

fn idle_cursors(client: &mut Client) -> Vec<Document> {
    let listing = doc! {
        "aggregate": 1, "cursor": {},
        "pipeline": [{ "$currentOp": { "idleCursors": true } }, { "$match": { "type": "idleCursor" } }]
    };
    let reply = client.run(&listing);
    let batch = reply
        .get_path("cursor.firstBatch")
        .and_then(|batch| batch.as_array());
    let batch = batch.unwrap_or_else(|| panic!("{reply}"));
    batch
        .iter()
        .map(|entry| entry.as_document().unwrap().to_owned_document())
        .collect()
}

#[test]
fn idle_cursors_are_listed_with_what_made_them() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.port);
    let documents: Vec<Document> = (0..10).map(|n| doc! { "_id": n }).collect();
    let insert = Document::build(|insert| {
        insert.append("insert", "c");
        let mut list = insert.array("documents");
        for document in &documents {
            list.push(document);
        }
        list.finish();
    });
    assert_eq!(client.run(&insert).get_i32("n"), Some(10));
    assert_eq!(idle_cursors(&mut client), Vec::<Document>::new());
    let lsid = doc! { "id": (Value::binary(4, &[5; 16])) };
    let find = doc! {
        "find": "c", "filter": { "_id": { "$gte": 0 } }, "batchSize": 2, "noCursorTimeout": true, "lsid": (lsid.clone())
    };
    let opened = client.run(&find);
    let id = opened.get_path("cursor.id").unwrap().to_value();
    let get_more =
        doc! { "getMore": (id.clone()), "collection": "c", "batchSize": 3, "lsid": lsid };
    assert_eq!(client.run(&get_more).get_f64("ok"), Some(1.0));
    let listed = idle_cursors(&mut client);
    let [entry] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    let expected = [
        ("type", Value::from("idleCursor")),
        ("ns", Value::from("admin.c")),
        ("lsid.id", Value::binary(4, &[5; 16])),
        ("cursor.cursorId", id.clone()),
        ("cursor.nDocsReturned", Value::from(5i64)),
        ("cursor.nBatchesReturned", Value::from(2i64)),
        ("cursor.noCursorTimeout", Value::from(true)),
        ("cursor.tailable", Value::from(false)),
        ("cursor.awaitData", Value::from(false)),
        ("cursor.originatingCommand.find", Value::from("c")),
        ("cursor.planSummary", Value::from("IXSCAN { _id: 1 }")),
    ];
    for (path, value) in expected {
        let found = entry.get_path(path).map(|found| found.to_value());
        assert_eq!(found, Some(value), "{path}: {entry}");
    }
    assert!(entry.get_path("cursor.lastAccessDate").is_some());
    let created = entry.get_path("cursor.createdDate").unwrap();
    assert_eq!(created.element_type().alias(), "date");
    // Without the option they are not listed.
    let plain = doc! { "aggregate": 1, "cursor": {}, "pipeline": [{ "$currentOp": {} }] };
    assert!(!client.run(&plain).to_string().contains("idleCursor"));
    client.run(&doc! { "killCursors": "c", "cursors": [id] });
    assert_eq!(idle_cursors(&mut client), Vec::<Document>::new());
}
