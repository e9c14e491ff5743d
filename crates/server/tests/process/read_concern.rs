//! Read concern `majority`: a batch is answered once what it saw is durable, the first one and all that follow.

use quarry_bson::{Document, doc};

use crate::client::Client;
use crate::server::Server;

/// The last accepted and the last durable record of the journal.
fn positions(client: &mut Client) -> (i64, i64) {
    let status = client.run(&doc! { "serverStatus": 1 });
    let journal = status.as_raw().get_document("quarry").unwrap();
    let journal = journal.get_document("journal").unwrap();
    let position = |name| journal.get_i64(name).unwrap();
    (position("acceptedLsn"), position("durableLsn"))
}

fn insert(client: &mut Client, id: i32) {
    let inserted = client.run(&doc! { "insert": "c", "documents": [{ "_id": id }] });
    assert_eq!(inserted.get_i32("n"), Some(1), "{inserted}");
}

fn first_batch(client: &mut Client, level: &str) -> Document {
    client.run(&doc! { "find": "c", "batchSize": 1, "readConcern": { "level": level } })
}

fn next_batch(client: &mut Client, first: &Document) {
    let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
    let next = client.run(&doc! { "getMore": id, "collection": "c", "batchSize": 1 });
    assert_eq!(next.get_f64("ok"), Some(1.0), "{next}");
}

#[test]
fn a_get_more_keeps_the_read_concern_of_its_cursor() {
    // Nothing is synced by itself.
    let server = Server::start(&["--durability", "relaxed"]);
    let mut client = Client::connect(server.port);
    for id in 0..4 {
        insert(&mut client, id);
    }
    let local = first_batch(&mut client, "local");
    next_batch(&mut client, &local);
    let (accepted, durable) = positions(&mut client);
    assert!(durable < accepted, "a local read waits for nothing");
    let majority = first_batch(&mut client, "majority");
    let (accepted, durable) = positions(&mut client);
    assert_eq!(accepted, durable);
    insert(&mut client, 4);
    let (accepted, durable) = positions(&mut client);
    assert!(durable < accepted);
    next_batch(&mut client, &majority);
    let (accepted, durable) = positions(&mut client);
    assert_eq!(
        accepted, durable,
        "the second batch saw what is not durable"
    );
}
