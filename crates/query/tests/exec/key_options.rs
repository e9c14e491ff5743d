//! `min`, `max`, `returnKey`, `showRecordId` and `$meta`: what a find asks of keys and of metadata.

use proptest::prelude::*;
use quarry_bson::compare::compare_values;

use super::*;

/// A find with everything that is about keys, as JSON.
#[derive(Default, Clone)]
struct Asked {
    filter: &'static str,
    hint: &'static str,
    min: &'static str,
    max: &'static str,
    sort: &'static str,
    projection: &'static str,
    returns_key: bool,
    shows_record_id: bool,
}

fn with_request<T>(fixture: &Fixture, asked: &Asked, take: impl FnOnce(FindRequest<'_>) -> T) -> T {
    let parsed = |text: &str| (!text.is_empty()).then(|| json(text));
    let (filter, hint) = (parsed(asked.filter), parsed(asked.hint).map(Value::from));
    let (min, max) = (parsed(asked.min), parsed(asked.max));
    let (sort, projection) = (parsed(asked.sort), parsed(asked.projection));
    let mut request = FindRequest::new(&fixture.namespace);
    request.filter = filter.as_ref().map_or(RawDocument::EMPTY, Document::as_raw);
    request.hint = hint.as_ref().map(Value::as_raw);
    request.sort = sort.as_ref().map(Document::as_raw);
    request.projection = projection.as_ref().map(Document::as_raw);
    let options = request.key_options();
    options.min = min.as_ref().map(Document::as_raw);
    options.max = max.as_ref().map(Document::as_raw);
    options.returns_key = asked.returns_key;
    options.shows_record_id = asked.shows_record_id;
    take(request)
}

fn found(fixture: &Fixture, asked: &Asked) -> Result<Vec<String>> {
    with_request(fixture, asked, |request| {
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request)?;
        Ok(fixture.drain(executor))
    })
}

fn code(fixture: &Fixture, asked: &Asked) -> i32 {
    found(fixture, asked).map_or_else(|error| error.code(), |_| 0)
}

fn plan(fixture: &Fixture, asked: &Asked) -> String {
    with_request(fixture, asked, |request| {
        stages(&fixture.explained(Explained::Find(request)))
    })
}

fn numbers() -> Fixture {
    let documents: Vec<Document> = (0..10)
        .map(|id| json(&format!(r#"{{"_id": {id}, "a": {}, "b": {id}}}"#, id % 5)))
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}}"#);
    fixture.index(r#"{"key": {"a": 1, "b": -1}}"#);
    fixture
}

fn ids(found: &[String]) -> Vec<i64> {
    let id = |text: &String| json(text).get("_id").and_then(|id| id.as_i64_exact());
    found.iter().filter_map(id).collect()
}

#[test]
fn min_is_inclusive_and_max_exclusive() {
    let fixture = numbers();
    let of_ids = Asked {
        hint: r#"{"_id": 1}"#,
        ..Asked::default()
    };
    for (min, max, wanted) in [
        (r#"{"_id": 3}"#, r#"{"_id": 6}"#, vec![3, 4, 5]),
        (r#"{"_id": 8}"#, "", vec![8, 9]),
        ("", r#"{"_id": 2}"#, vec![0, 1]),
        (r#"{"_id": {"$minKey": 1}}"#, r#"{"_id": 1}"#, vec![0]),
        (r#"{"_id": 7.5}"#, r#"{"_id": "a"}"#, vec![8, 9]),
    ] {
        let asked = Asked {
            min,
            max,
            ..of_ids.clone()
        };
        assert_eq!(
            ids(&found(&fixture, &asked).unwrap()),
            wanted,
            "{min} {max}"
        );
    }
    let compound = Asked {
        hint: r#"{"a": 1, "b": -1}"#,
        min: r#"{"a": 1, "b": 4}"#,
        max: r#"{"a": 2, "b": 2}"#,
        ..Asked::default()
    };
    // (1, 1), (2, 7): within a value of `a` the keys descend by `b`.
    assert_eq!(ids(&found(&fixture, &compound).unwrap()), [1, 7]);
    assert_eq!(plan(&fixture, &compound), "FETCH IXSCAN a_1_b_-1");
    let filtered = Asked {
        filter: r#"{"b": {"$lt": 5}}"#,
        ..compound.clone()
    };
    assert_eq!(ids(&found(&fixture, &filtered).unwrap()), [1]);
    let backwards = Asked {
        sort: r#"{"a": -1, "b": 1}"#,
        ..compound.clone()
    };
    assert_eq!(ids(&found(&fixture, &backwards).unwrap()), [7, 1]);
    assert_eq!(plan(&fixture, &backwards), "FETCH IXSCAN a_1_b_-1");
    let sorted = Asked {
        sort: r#"{"b": -1}"#,
        ..compound
    };
    assert_eq!(ids(&found(&fixture, &sorted).unwrap()), [7, 1]);
    assert_eq!(plan(&fixture, &sorted), "SORT FETCH IXSCAN a_1_b_-1");
}

#[test]
fn bounds_that_mean_nothing_are_refused_with_mongodbs_codes() {
    let fixture = numbers();
    let (id, a) = (r#"{"_id": 1}"#, r#"{"a": 1}"#);
    for (hint, min, max, sort, wanted) in [
        ("", r#"{"a": 1}"#, "", "", 51_173),
        (id, r#"{"a": 1}"#, "", "", 51_174),
        (a, r#"{"a": 1, "b": 1}"#, "", "", 51_174),
        (r#"{"a": 1, "b": -1}"#, r#"{"a": 1}"#, "", "", 51_174),
        (
            r#"{"a": 1, "b": -1}"#,
            r#"{"b": 1, "a": 1}"#,
            "",
            "",
            51_174,
        ),
        (a, r#"{"a": 2}"#, r#"{"a": 2}"#, "", 51_175),
        (a, r#"{"a": 3}"#, r#"{"a": 2}"#, "", 51_175),
        (a, "", r#"{"a": {"$minKey": 1}}"#, "", 51_175),
        (a, r#"{"a": 3}"#, r#"{"b": 2}"#, "", 51_176),
        (r#"{"c": 1}"#, r#"{"c": 3}"#, "", "", 2),
        (r#"{"$natural": 1}"#, r#"{"a": 3}"#, "", "", 291),
        (a, r#"{"a": 3}"#, "", r#"{"$natural": 1}"#, 291),
    ] {
        let asked = Asked {
            hint,
            min,
            max,
            sort,
            ..Asked::default()
        };
        assert_eq!(code(&fixture, &asked), wanted, "{hint} {min} {max}");
    }
    let by_distance = Asked {
        filter: r#"{"a": {"$near": [0, 0]}}"#,
        hint: a,
        min: a,
        ..Asked::default()
    };
    assert_eq!(code(&fixture, &by_distance), 291);
}

#[test]
fn a_document_with_several_keys_between_the_bounds_is_found_once() {
    let fixture = with(&[
        r#"{"_id": 1, "a": [1, 2, 3, 9]}"#,
        r#"{"_id": 2, "a": 2}"#,
        r#"{"_id": 3, "a": [0, 8]}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1}}"#);
    let asked = Asked {
        hint: r#"{"a": 1}"#,
        min: r#"{"a": 1}"#,
        max: r#"{"a": 4}"#,
        ..Asked::default()
    };
    assert_eq!(ids(&found(&fixture, &asked).unwrap()), [1, 2]);
    let keys = Asked {
        returns_key: true,
        ..asked
    };
    let keys = found(&fixture, &keys).unwrap();
    assert_eq!(keys, [r#"{"a":1}"#, r#"{"a":2}"#]);
}

#[test]
fn keys_that_are_cut_lie_between_the_bounds_by_their_whole_values() {
    let text = |end: &str| format!("{}{end}", "x".repeat(4000));
    let documents: Vec<Document> = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(id, end)| doc! { "_id": (id as i32), "a": (text(end)) })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}}"#);
    let (hint, min, max) = (
        Value::from(doc! { "a": 1 }),
        doc! { "a": (text("b")) },
        doc! { "a": (text("d")) },
    );
    for returns_key in [false, true] {
        let mut request = FindRequest::new(&fixture.namespace);
        request.hint = Some(hint.as_raw());
        let options = request.key_options();
        (options.min, options.max) = (Some(min.as_raw()), Some(max.as_raw()));
        options.returns_key = returns_key;
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let mut ends: Vec<String> = fixture
            .drain(executor.unwrap())
            .iter()
            .map(|found| json(found).get_str("a").unwrap()[4000..].to_owned())
            .collect();
        ends.sort();
        assert_eq!(ends, ["b", "c"]);
    }
}

#[test]
fn keys_are_returned_as_the_index_has_them() {
    let fixture = with(&[
        r#"{"_id": 1, "a": {"b": 1.0}, "c": "x"}"#,
        r#"{"_id": 2, "a": {"b": 2}}"#,
        r#"{"_id": 3, "c": "y"}"#,
    ]);
    fixture.index(r#"{"key": {"a.b": 1, "c": -1}}"#);
    let keys = Asked {
        returns_key: true,
        ..Asked::default()
    };
    let by_index = Asked {
        hint: r#"{"a.b": 1, "c": -1}"#,
        ..keys.clone()
    };
    assert_eq!(
        found(&fixture, &by_index).unwrap(),
        [
            r#"{"a.b":null,"c":"y"}"#,
            r#"{"a.b":1.0,"c":"x"}"#,
            r#"{"a.b":2,"c":null}"#
        ]
    );
    // The bounds answer the filter: nothing is fetched.
    let covered = Asked {
        filter: r#"{"a.b": {"$gt": 1}}"#,
        ..keys.clone()
    };
    assert_eq!(
        found(&fixture, &covered).unwrap(),
        [r#"{"a.b":2,"c":null}"#]
    );
    assert_eq!(plan(&fixture, &covered), "RETURN_KEY IXSCAN a.b_1_c_-1");
    let fetched = Asked {
        filter: r#"{"a.b": {"$gt": 0}, "_id": {"$ne": 2}}"#,
        sort: r#"{"c": 1}"#,
        ..keys.clone()
    };
    assert_eq!(
        found(&fixture, &fetched).unwrap(),
        [r#"{"a.b":1.0,"c":"x"}"#]
    );
    assert_eq!(
        plan(&fixture, &fetched),
        "RETURN_KEY SORT FETCH IXSCAN a.b_1_c_-1"
    );
    for (filter, wanted) in [
        (r#"{"_id": 1}"#, vec![r#"{"_id":1}"#]),
        (
            r#"{"_id": {"$gt": 1}}"#,
            vec![r#"{"_id":2}"#, r#"{"_id":3}"#],
        ),
        (r#"{"c": "x"}"#, vec!["{}"]),
    ] {
        let asked = Asked {
            filter,
            ..keys.clone()
        };
        assert_eq!(found(&fixture, &asked).unwrap(), wanted, "{filter}");
    }
    let with_sort_key = Asked {
        filter: r#"{"a.b": {"$gt": 0}}"#,
        sort: r#"{"c": 1, "_id": 1}"#,
        projection: r#"{"x.y": {"$meta": "sortKey"}, "c": 1}"#,
        ..keys
    };
    assert_eq!(
        found(&fixture, &with_sort_key).unwrap(),
        [
            r#"{"a.b":2,"c":null,"x":{"y":[null,2]}}"#,
            r#"{"a.b":1.0,"c":"x","x":{"y":["x",1]}}"#
        ]
    );
}

#[test]
fn record_ids_are_numbers_of_capped_collections_and_bytes_of_others() {
    let fixture = numbers();
    let asked = Asked {
        filter: r#"{"_id": {"$gte": 8}}"#,
        shows_record_id: true,
        projection: r#"{"a": 1}"#,
        ..Asked::default()
    };
    let shown = found(&fixture, &asked).unwrap();
    let binary = |text: &str| json(text).get("$recordId").map(|id| id.to_string());
    assert_eq!(ids(&shown), [8, 9]);
    assert!(
        shown[0].starts_with(r#"{"_id":8,"a":3,"$recordId":{"$binary""#),
        "{shown:?}"
    );
    assert!(binary(&shown[0]) < binary(&shown[1]));
    for filter in [r#"{"_id": 8}"#, r#"{"a": 3, "b": 8}"#, r#"{"b": 8}"#] {
        let by_other_plans = Asked {
            filter,
            sort: r#"{"b": 1}"#,
            ..asked.clone()
        };
        assert_eq!(
            found(&fixture, &by_other_plans).unwrap(),
            shown[..1],
            "{filter}"
        );
        let unsorted = Asked {
            filter,
            ..asked.clone()
        };
        assert_eq!(found(&fixture, &unsorted).unwrap(), shown[..1], "{filter}");
    }
    let capped = doc! { "capped": true, "size": 4096 };
    let fixture = with(&[]);
    fixture
        .database
        .create_collection(
            &fixture.namespace,
            capped.as_raw(),
            &fixture.operation,
            Level::Written,
        )
        .unwrap();
    fixture.insert(&[json(r#"{"_id": "b"}"#), json(r#"{"_id": "a"}"#)], true);
    for (filter, wanted) in [
        (
            "{}",
            vec![
                r#"{"_id":"b","$recordId":1}"#,
                r#"{"_id":"a","$recordId":2}"#,
            ],
        ),
        (r#"{"_id": "a"}"#, vec![r#"{"_id":"a","$recordId":2}"#]),
    ] {
        let asked = Asked {
            filter,
            shows_record_id: true,
            ..Asked::default()
        };
        assert_eq!(found(&fixture, &asked).unwrap(), wanted);
    }
    // Keys in place of documents have no room for it.
    let both = Asked {
        filter: r#"{"_id": "a"}"#,
        shows_record_id: true,
        returns_key: true,
        ..Asked::default()
    };
    assert_eq!(found(&fixture, &both).unwrap(), [r#"{"_id":"a"}"#]);
}

#[test]
fn metadata_is_read_by_projections() {
    let fixture = with(&[
        r#"{"_id": 1, "a": [3, 7], "b": {"c": 1}}"#,
        r#"{"_id": 2, "a": 5, "b": {"c": 2}}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1}}"#);
    for (projection, sort, wanted) in [
        (
            r#"{"k": {"$meta": "sortKey"}, "_id": 1}"#,
            r#"{"a": -1, "b.c": 1}"#,
            [r#"{"_id":1,"k":[7,1]}"#, r#"{"_id":2,"k":[5,2]}"#],
        ),
        (
            r#"{"a": 0, "b": 0, "k": {"$meta": "sortKey"}}"#,
            r#"{"a": 1}"#,
            [r#"{"_id":1,"k":[3]}"#, r#"{"_id":2,"k":[5]}"#],
        ),
        // Alone it leaves all fields.
        (
            r#"{"b": {"$meta": "indexKey"}}"#,
            "",
            [
                r#"{"_id":1,"a":[3,7],"b":{"a":3}}"#,
                r#"{"_id":2,"a":5,"b":{"a":5}}"#,
            ],
        ),
        (
            r#"{"_id": 0, "k": {"$getField": {"field": "a", "input": {"$meta": "indexKey"}}}, "b.c": 1}"#,
            "",
            [r#"{"b":{"c":1},"k":3}"#, r#"{"b":{"c":2},"k":5}"#],
        ),
        (
            r#"{"_id": 1, "k": {"$type": {"$meta": "searchScore"}}}"#,
            "",
            [r#"{"_id":1,"k":"missing"}"#, r#"{"_id":2,"k":"missing"}"#],
        ),
    ] {
        let asked = Asked {
            filter: r#"{"a": {"$gt": 0}}"#,
            projection,
            sort,
            ..Asked::default()
        };
        assert_eq!(found(&fixture, &asked).unwrap(), wanted, "{projection}");
    }
    for (projection, wanted) in [
        (r#"{"k": {"$meta": "sortKey"}}"#, 2),
        (r#"{"k": {"$meta": "textScore"}}"#, 40_218),
        (r#"{"k": {"$meta": "geoNearDistance"}}"#, 40_218),
        (r#"{"k": {"$meta": "randVal"}}"#, 238),
        (r#"{"k": {"$meta": "nonsense"}}"#, 17_308),
        (r#"{"k": {"$meta": 1}}"#, 17_307),
    ] {
        let asked = Asked {
            projection,
            ..Asked::default()
        };
        assert_eq!(code(&fixture, &asked), wanted, "{projection}");
    }
}

#[test]
fn metadata_is_read_by_the_first_stage_that_a_find_is_not() {
    let fixture = numbers();
    let read = r#"[{"$match": {"a": 3}}, {"$sort": {"b": -1}}, {"$project": {"k": {"$meta": "sortKey"}}}, {"$match": {"_id": {"$gt": 3}}}]"#;
    assert_eq!(
        aggregated(&fixture, read).unwrap(),
        [r#"{"_id":8,"k":[8]}"#]
    );
    let added = r#"[{"$match": {"a": 3}}, {"$set": {"k": {"$meta": "indexKey"}}}, {"$group": {"_id": "$k.a", "n": {"$sum": 1}}}]"#;
    assert_eq!(aggregated(&fixture, added).unwrap(), [r#"{"_id":3,"n":2}"#]);
    let whole = r#"[{"$match": {"_id": 3}}, {"$set": {"k": {"$meta": "indexKey"}}}]"#;
    assert_eq!(
        aggregated(&fixture, whole).unwrap(),
        [r#"{"_id":3,"a":3,"b":3,"k":{"_id":3}}"#]
    );
    for refused in [
        r#"[{"$group": {"_id": {"$meta": "recordId"}}}]"#,
        r#"[{"$unwind": "$a"}, {"$project": {"k": {"$meta": "recordId"}}}]"#,
        r#"[{"$facet": {"x": [{"$project": {"k": {"$meta": "recordId"}}}]}}]"#,
        r#"[{"$set": {"k": {"$meta": "recordId"}}}, {"$set": {"l": {"$meta": "recordId"}}}]"#,
    ] {
        assert_eq!(
            aggregated(&fixture, refused).unwrap_err().code(),
            238,
            "{refused}"
        );
    }
    let text = r#"[{"$project": {"k": {"$meta": "textScore"}}}]"#;
    assert_eq!(aggregated(&fixture, text).unwrap_err().code(), 40_218);
}

#[test]
fn a_view_has_no_keys() {
    let fixture = numbers();
    let view = doc! { "viewOn": "c", "pipeline": [] };
    let namespace = Namespace::parse("db.v").unwrap();
    fixture
        .database
        .create_collection(
            &namespace,
            view.as_raw(),
            &fixture.operation,
            Level::Written,
        )
        .unwrap();
    let mut request = FindRequest::new(&namespace);
    request.key_options().returns_key = true;
    let refused = exec::find((&fixture.database).into(), &fixture.operation, request);
    assert_eq!(refused.err().unwrap().code(), 168);
}

/// Batches end within what was read ahead, and each has a snapshot of its own.
#[test]
fn batches_go_on_with_keys_and_record_ids() {
    let documents: Vec<Document> = (0..500)
        .map(|id| doc! { "_id": id, "a": [id, (id + 1)], "b": (id % 7) })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"a": 1}}"#);
    for sort in ["", r#"{"b": 1, "_id": 1}"#] {
        for (returns_key, shows_record_id) in [(true, false), (false, true)] {
            let asked = Asked {
                filter: r#"{"b": {"$lt": 5}}"#,
                hint: r#"{"a": 1}"#,
                min: r#"{"a": 10}"#,
                max: r#"{"a": 450}"#,
                sort,
                returns_key,
                shows_record_id,
                ..Asked::default()
            };
            let whole = found(&fixture, &asked).unwrap();
            assert!(whole.len() > 250);
            let in_batches = with_request(&fixture, &asked, |request| {
                let scope = (&fixture.database).into();
                let mut executor = exec::find(scope, &fixture.operation, request).unwrap();
                let (mut found, mut document) = (Vec::new(), Vec::new());
                loop {
                    for _ in 0..37 {
                        if executor.next(&fixture.operation, &mut document).unwrap() {
                            found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
                        }
                        document.clear();
                    }
                    if executor.is_dead() {
                        return found;
                    }
                    executor.save(&fixture.operation).unwrap();
                    executor
                        .restore((&fixture.database).into(), &fixture.operation)
                        .unwrap();
                }
            });
            assert_eq!(in_batches, whole);
        }
    }
}

/// Keys between bounds serve in place of documents where they have all that is read of these.
#[test]
fn a_projection_of_keys_between_bounds_is_covered() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1, "b": {"$numberLong": "1"}, "t": [1, 2]}"#,
        r#"{"_id": 2, "a": 1.5, "b": null, "t": 3}"#,
        r#"{"_id": 3, "a": 2, "t": 4}"#,
        r#"{"_id": 4, "a": 2, "b": "x", "t": [0]}"#,
        r#"{"_id": 5, "a": 3, "b": 9, "t": 7}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1, "b": -1}}"#);
    fixture.index(r#"{"key": {"a": 1, "t": 1}}"#);
    let of_two = Asked {
        hint: r#"{"a": 1, "b": -1}"#,
        min: r#"{"a": 1, "b": 5}"#,
        max: r#"{"a": 3, "b": 9}"#,
        projection: r#"{"_id": 0, "a": 1, "b": 1}"#,
        ..Asked::default()
    };
    let all = [
        r#"{"a":1,"b":1}"#,
        r#"{"a":1.5,"b":null}"#,
        r#"{"a":2,"b":"x"}"#,
        r#"{"a":2}"#,
    ];
    // The keys of null are looked up.
    let explained = with_request(&fixture, &of_two, |request| {
        fixture.explained(Explained::Find(request))
    });
    assert_eq!(stages(&explained), "PROJECTION_COVERED IXSCAN a_1_b_-1");
    assert_eq!(examined(&explained), [4, 4, 2]);
    assert_eq!(found(&fixture, &of_two).unwrap(), all);
    for (changed, wanted_plan, wanted) in [
        (
            Asked {
                filter: r#"{"b": {"$gt": 0}}"#,
                ..of_two.clone()
            },
            "PROJECTION_COVERED IXSCAN a_1_b_-1",
            &all[..1],
        ),
        (
            Asked {
                filter: r#"{"t": 3}"#,
                ..of_two.clone()
            },
            "PROJECTION_SIMPLE FETCH IXSCAN a_1_b_-1",
            &all[1..2],
        ),
        (
            Asked {
                sort: r#"{"a": -1, "b": 1}"#,
                projection: r#"{"_id": 1, "a": 1}"#,
                ..of_two.clone()
            },
            "PROJECTION_COVERED IXSCAN a_1_b_-1",
            &[
                r#"{"_id":3,"a":2}"#,
                r#"{"_id":4,"a":2}"#,
                r#"{"_id":2,"a":1.5}"#,
                r#"{"_id":1,"a":1}"#,
            ],
        ),
        (
            Asked {
                sort: r#"{"b": 1, "a": 1}"#,
                projection: r#"{"_id": 0, "a": 1}"#,
                ..of_two.clone()
            },
            "PROJECTION_COVERED SORT IXSCAN a_1_b_-1",
            &[r#"{"a":1.5}"#, r#"{"a":2}"#, r#"{"a":1}"#, r#"{"a":2}"#],
        ),
        // An index that has met arrays gives the fields that have none, each document once.
        (
            Asked {
                hint: r#"{"a": 1, "t": 1}"#,
                min: r#"{"a": 1, "t": 0}"#,
                max: r#"{"a": 2, "t": 9}"#,
                projection: r#"{"_id": 1, "a": 1}"#,
                ..Asked::default()
            },
            "PROJECTION_COVERED IXSCAN a_1_t_1",
            &[
                r#"{"_id":1,"a":1}"#,
                r#"{"_id":2,"a":1.5}"#,
                r#"{"_id":4,"a":2}"#,
                r#"{"_id":3,"a":2}"#,
            ],
        ),
        (
            Asked {
                hint: r#"{"a": 1, "t": 1}"#,
                min: r#"{"a": 2, "t": 0}"#,
                projection: r#"{"_id": 0, "t": 1}"#,
                ..Asked::default()
            },
            "PROJECTION_SIMPLE FETCH IXSCAN a_1_t_1",
            &[r#"{"t":[0]}"#, r#"{"t":4}"#, r#"{"t":7}"#],
        ),
    ] {
        let shown = format!("{wanted_plan} {}", changed.projection);
        assert_eq!(plan(&fixture, &changed), wanted_plan, "{shown}");
        assert_eq!(found(&fixture, &changed).unwrap(), wanted, "{shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bounds_find_the_documents_whose_keys_lie_between_them(
        documents in proptest::collection::vec((agreement::scalar(), agreement::scalar()), 1..30),
        (low_a, low_b, high_a, high_b) in (agreement::scalar(), agreement::scalar(), agreement::scalar(), agreement::scalar()),
        has_max in any::<bool>(),
    ) {
        let documents: Vec<Document> = documents.iter().enumerate()
            .map(|(id, (a, b))| json(&format!(r#"{{"_id": {id}, "a": {a}, "b": {b}}}"#)))
            .collect();
        let fixture = with_documents(&documents);
        fixture.index(r#"{"key": {"a": 1, "b": -1}}"#);
        let bound = |a: &str, b: &str| json(&format!(r#"{{"a": {a}, "b": {b}}}"#));
        let (low, high) = (bound(&low_a, &low_b), bound(&high_a, &high_b));
        let order = |x: &Document, y: &Document| {
            let by = |name| compare_values(x.get(name).unwrap(), y.get(name).unwrap());
            by("a").then(by("b").reverse())
        };
        let hint = Value::from(json(r#"{"a": 1, "b": -1}"#));
        let mut request = FindRequest::new(&fixture.namespace);
        request.hint = Some(hint.as_raw());
        let options = request.key_options();
        (options.min, options.max) = (Some(low.as_raw()), has_max.then_some(high.as_raw()));
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        if has_max && order(&low, &high).is_ge() {
            prop_assert_eq!(executor.err().map(|error| error.code()), Some(51_175));
            return Ok(());
        }
        let mut found = ids(&fixture.drain(executor.unwrap()));
        found.sort_unstable();
        let mut request = FindRequest::new(&fixture.namespace);
        let projection = json(r#"{"a": 1, "b": 1}"#);
        (request.hint, request.projection) = (Some(hint.as_raw()), Some(projection.as_raw()));
        let options = request.key_options();
        (options.min, options.max) = (Some(low.as_raw()), has_max.then_some(high.as_raw()));
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
        let covered = fixture.documents(executor.unwrap()).unwrap();
        for document in &covered {
            let id = document.get("_id").unwrap().as_i64_exact().unwrap();
            prop_assert_eq!(document, &documents[id as usize]);
        }
        prop_assert_eq!(covered.len(), found.len());
        let lies_between = |document: &&Document| {
            order(document, &low).is_ge() && (!has_max || order(document, &high).is_lt())
        };
        let wanted = documents.iter().filter(lies_between);
        let wanted: Vec<i64> = wanted.filter_map(|document| document.get("_id")?.as_i64_exact()).collect();
        prop_assert_eq!(found, wanted);
    }
}
