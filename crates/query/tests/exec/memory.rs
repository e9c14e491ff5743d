//! Tests of what an open cursor costs between two batches.

use allocation_counter::measure;
use quarry_bson::doc;
use quarry_query::exec::{self, Executor};

use crate::{json, with_documents};

/// With what the server keeps of a cursor beside its executor that makes 4 KiB.
const CURSOR_BYTES_MAX: i64 = 3 << 10;
const CURSORS: i64 = 200;

#[test]
fn an_idle_cursor_holds_little_beside_its_query() {
    let documents: Vec<_> = (0..1000)
        .map(|n| doc! { "_id": n, "a": n % 7, "text": ("x".repeat(200)) })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}, "name": "a_1"}"#);
    for filter in [
        "{}",
        r#"{"a": 3}"#,
        r#"{"a": {"$gt": 1}, "text": {"$ne": "y"}}"#,
    ] {
        let filter = json(filter);
        let open = || -> Executor {
            let mut request = exec::FindRequest::new(&fixture.namespace);
            request.filter = filter.as_raw();
            let mut executor =
                exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
            let mut batch = Vec::new();
            for _ in 0..2 {
                assert!(executor.next(&fixture.operation, &mut batch).unwrap());
            }
            executor.save(&fixture.operation).unwrap();
            executor
        };
        // What is made once is there already.
        drop(open());
        let mut cursors = Vec::with_capacity(CURSORS as usize);
        let held = measure(|| cursors.extend((0..CURSORS).map(|_| open())));
        let each = held.bytes_current / CURSORS;
        println!("{filter}: {each} bytes");
        assert!(each <= CURSOR_BYTES_MAX, "{filter}: {each} bytes");
        // They go on where they stood.
        let mut batch = Vec::new();
        let first = cursors.first_mut().unwrap();
        first
            .restore((&fixture.database).into(), &fixture.operation)
            .unwrap();
        assert!(first.next(&fixture.operation, &mut batch).unwrap());
    }
}
