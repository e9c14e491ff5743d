//! Geospatial indexes: a plan through cells finds what a scan finds, and an order by distance is that of the distances.

use proptest::prelude::*;

use super::*;

fn places() -> Fixture {
    let fixture = with(&[
        r#"{"_id": 1, "name": "Central Park", "at": {"type": "Point", "coordinates": [-73.97, 40.77]}, "kind": "Parks"}"#,
        r#"{"_id": 2, "name": "Sara D. Roosevelt Park", "at": {"type": "Point", "coordinates": [-73.9928, 40.7193]}, "kind": "Parks"}"#,
        r#"{"_id": 3, "name": "Polo Grounds", "at": {"type": "Point", "coordinates": [-73.9375, 40.8303]}, "kind": "Stadiums"}"#,
        r#"{"_id": 4, "name": "nowhere"}"#,
    ]);
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    fixture
}

fn ids(found: &[String]) -> Vec<i64> {
    let ids = found
        .iter()
        .map(|document| json(document).get("_id").unwrap().as_i64_exact());
    ids.map(Option::unwrap).collect()
}

const NEAR: &str = r#"{"$geometry": {"type": "Point", "coordinates": [-73.99279, 40.719296]}"#;

#[test]
fn near_gives_documents_by_distance() {
    let fixture = places();
    assert_eq!(
        ids(&fixture.find(&format!(r#"{{"at": {{"$near": {NEAR}}}}}}}"#))),
        [2, 1, 3]
    );
    let bounded = format!(
        r#"{{"at": {{"$nearSphere": {NEAR}, "$minDistance": 2, "$maxDistance": 6000}}}}}}"#
    );
    assert_eq!(ids(&fixture.find(&bounded)), [1]);
    let of_kind = format!(r#"{{"at": {{"$near": {NEAR}}}}}, "kind": "Stadiums"}}"#);
    assert_eq!(ids(&fixture.find(&of_kind)), [3]);
    assert_eq!(
        fixture.plan(&of_kind, None),
        "GEO_NEAR_2DSPHERE at_2dsphere"
    );
    let limited = fixture
        .find_with(&of_kind, |find| find.limit = Some(1))
        .unwrap();
    assert_eq!(ids(&limited), [3]);
    let sorted = fixture.sorted(
        &format!(r#"{{"at": {{"$near": {NEAR}}}}}}}"#),
        r#"{"_id": -1}"#,
        0,
        None,
    );
    assert_eq!(ids(&sorted), [3, 2, 1]);
    assert_eq!(fixture.count(&of_kind, None), 1);
}

#[test]
fn a_filter_behind_the_stage_is_a_part_of_its_query() {
    let fixture = places();
    let near = r#"{"$geoNear": {"near": {"type": "Point", "coordinates": [-73.99279, 40.719296]}, "distanceField": "far.d"}}"#;
    for (stages, found) in [
        (
            r#"{"$match": {"kind": "Stadiums"}}, {"$limit": 1}"#,
            vec![3],
        ),
        (
            r#"{"$match": {"kind": {"$ne": "Parks"}, "far.d": {"$gt": 1}}}, {"$limit": 2}"#,
            vec![3],
        ),
        (
            r#"{"$match": {"far.d": {"$gt": 10}}}, {"$match": {"name": {"$gt": "A"}}}"#,
            vec![1, 3],
        ),
        (r#"{"$limit": 1}, {"$match": {"kind": "Stadiums"}}"#, vec![]),
    ] {
        let results = aggregated(&fixture, &format!("[{near}, {stages}]")).unwrap();
        assert_eq!(ids(&results), found, "{stages}");
    }
    // The search alone gives what is asked for: no stage stands behind it.
    let pipeline = json(&format!(
        r#"{{"p": [{near}, {{"$match": {{"kind": "Stadiums"}}}}]}}"#
    ));
    let stages = pipeline.as_raw().get_array("p").unwrap();
    let request = AggregateRequest::new(Over::Collection(&fixture.namespace), stages);
    let shown = fixture.explained_with(Explained::Aggregate(request), Verbosity::ExecutionStats);
    assert!(shown.get("stages").is_none(), "{shown}");
    let returned = shown.as_raw().get_path("executionStats.nReturned");
    assert_eq!(returned.and_then(|count| count.as_i64_exact()), Some(1));
}

#[test]
fn what_an_update_moves_away_is_not_moved_again() {
    let documents: Vec<Document> = (0..300)
        .map(|id| {
            json(&format!(
                r#"{{"_id": {id}, "at": [{:?}, 0], "moved": 0}}"#,
                f64::from(id) / 100.0
            ))
        })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    let filter = r#"{"at": {"$nearSphere": [0, 0]}}"#;
    let outcome = fixture.update(filter, r#"{"$inc": {"at.0": 5, "moved": 1}}"#, true, false);
    assert_eq!((outcome.matched, outcome.modified), (300, 300));
    assert_eq!(fixture.count(r#"{"moved": 1}"#, None), 300);
}

#[test]
fn the_stage_adds_the_distance() {
    let fixture = places();
    let stage = r#"[{"$geoNear": {
        "near": {"type": "Point", "coordinates": [-73.99279, 40.719296]}, "distanceField": "dist.calculated", "maxDistance": 2,
        "query": {"kind": "Parks"}, "includeLocs": "dist.location", "spherical": true
    }}, {"$project": {"dist": 1}}]"#;
    let found = aggregated(&fixture, stage).unwrap();
    assert_eq!(found.len(), 1);
    let found = json(&found[0]);
    let distance = found
        .get_path("dist.calculated")
        .unwrap()
        .as_f64_lossy()
        .unwrap();
    // The figure of MongoDB's manual.
    assert!(
        (distance - 0.953_993_167_636_599_2).abs() < 1e-6,
        "{distance}"
    );
    assert!(found.get_path("dist.location.coordinates").is_some());
    for (stages, code) in [
        (
            r#"[{"$match": {}}, {"$geoNear": {"near": [1, 2], "distanceField": "d"}}]"#,
            40_602,
        ),
        (r#"[{"$geoNear": {"near": [1, 2]}}]"#, 16_605),
        (r#"[{"$geoNear": {"distanceField": "d"}}]"#, 5_860_400),
        (
            r#"[{"$geoNear": {"near": [1, 2], "distanceField": "d", "key": "at"}}]"#,
            291,
        ),
        (r#"[{"$match": {"at": {"$near": [1, 2]}}}]"#, 5_626_500),
    ] {
        let Err(error) = aggregated(&fixture, stages) else {
            panic!("{stages} is not refused");
        };
        assert_eq!(error.code(), code, "{stages}: {error}");
    }
    // Only one index can be meant without a key.
    fixture.index(r#"{"key": {"other": "2dsphere"}}"#);
    let stage = r#"[{"$geoNear": {"near": {"type": "Point", "coordinates": [1, 2]}, "distanceField": "d"}}]"#;
    assert_eq!(aggregated(&fixture, stage).err().unwrap().code(), 27);
}

#[test]
fn stages_behind_the_stage_see_what_it_made() {
    let fixture = places();
    let near = r#"{"$geoNear": {"near": {"type": "Point", "coordinates": [-73.99279, 40.719296]}, "distanceField": "d"}}"#;
    let of = |stages: &str| aggregated(&fixture, &format!("[{near}, {stages}]")).unwrap();
    assert_eq!(ids(&of(r#"{"$match": {"kind": "Parks"}}"#)), [2, 1]);
    assert_eq!(ids(&of(r#"{"$match": {"d": {"$gt": 2}}}"#)), [1, 3]);
    // Neither the conditions of several filters, nor those behind a limit, move into the search.
    let several = r#"{"$match": {"d": {"$gt": 2}}}, {"$match": {"kind": "Parks"}}"#;
    assert_eq!(ids(&of(several)), [1]);
    assert_eq!(
        ids(&of(r#"{"$limit": 1}, {"$match": {"kind": "Stadiums"}}"#)),
        [0; 0]
    );
    assert_eq!(
        ids(&of(r#"{"$match": {"kind": "Parks"}}, {"$limit": 1}"#)),
        [2]
    );
    let renamed = r#"{"$addFields": {"far": {"$gt": ["$d", 6000]}}}, {"$match": {"far": true}}, {"$project": {"_id": 1}}"#;
    assert_eq!(ids(&of(renamed)), [3]);
    let joined = format!(
        r#"[{{"$match": {{"_id": 4}}}}, {{"$lookup": {{"from": "c", "pipeline": [{near}, {{"$match": {{"kind": "Parks"}}}}], "as": "near"}}}}]"#
    );
    let joined = aggregated(&fixture, &joined).unwrap();
    let near = json(&joined[0]);
    assert_eq!(near.get_array("near").unwrap().iter().count(), 2);
}

#[test]
fn one_filter_wishes_one_order_by_distance() {
    let fixture = places();
    for filter in [
        r#"{"at": {"$nearSphere": [1, 2]}, "b": {"$nearSphere": [1, 2]}}"#,
        r#"{"at": {"$nearSphere": [1, 2]}, "$and": [{"at": {"$nearSphere": [3, 2]}}]}"#,
    ] {
        let error = fixture.find_with(filter, |_| {}).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (2, "Too many geoNear expressions")
        );
    }
}

#[test]
fn a_legacy_point_may_have_fields_behind_its_numbers() {
    let fixture = with(&[
        r#"{"_id": 1, "at": {"lng": 1, "lat": 2, "type": "home"}}"#,
        r#"{"_id": 2, "at": {"lng": 1, "lat": 2, "type": "Point"}}"#,
        r#"{"_id": 3, "at": [1, 3]}"#,
    ]);
    let filters = [
        r#"{"at": {"$geoIntersects": {"$geometry": [1, 2]}}}"#,
        r#"{"at": {"$geoIntersects": {"$geometry": {"x": 1, "y": 2}}}}"#,
        r#"{"at": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [1, 2]}}}}"#,
    ];
    for filter in filters {
        assert_eq!(ids(&fixture.find(filter)), [1, 2], "{filter}");
    }
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    for filter in filters {
        assert_eq!(sorted_ids(&fixture.find(filter)), [1, 2], "{filter}");
    }
    let refused = fixture.insert(
        &[json(
            r#"{"_id": 4, "at": {"type": "home", "lng": 1, "lat": 2}}"#,
        )],
        true,
    );
    assert_eq!(refused.errors[0].1.code(), 16_755);
    let beyond = fixture.find_with(
        r#"{"at": {"$geoIntersects": {"$geometry": [500, 2]}}}"#,
        |_| {},
    );
    assert_eq!(beyond.unwrap_err().code(), 2);
}

#[test]
fn very_many_values_of_the_fields_before_the_place_miss_nothing() {
    let documents: Vec<Document> = (0..130)
        .map(|id| {
            json(&format!(
                r#"{{"_id": {id}, "a": {}, "b": {}, "at": [{}, 1]}}"#,
                id % 65,
                id % 64,
                id / 65
            ))
        })
        .collect();
    let fixture = with_documents(&documents);
    let list = (0..65)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let filter = format!(
        r#"{{"a": {{"$in": [{list}]}}, "b": {{"$in": [{list}]}}, "at": {{"$geoWithin": {{"$centerSphere": [[0, 1], 0.001]}}}}}}"#
    );
    let scanned = sorted_ids(&fixture.find(&filter));
    assert_eq!(scanned.len(), 65);
    fixture.index(r#"{"key": {"a": 1, "b": 1, "at": "2dsphere"}}"#);
    assert_eq!(sorted_ids(&fixture.find(&filter)), scanned);
    // The values of one field are not combined with anything, however many they are.
    fixture.index(r#"{"key": {"a": 1, "at": "2dsphere"}}"#);
    let list = (0..5000)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let filter = format!(r#"{{"a": {{"$in": [{list}]}}, "at": {{"$nearSphere": [0, 1]}}}}"#);
    assert_eq!(fixture.find(&filter).len(), 130);
}

#[test]
fn one_value_behind_an_array_is_one_of_several() {
    let fixture = with(&[
        r#"{"_id": 1, "a": [{"b": 1}], "at": [1, 1]}"#,
        r#"{"_id": 2, "a": [{"b": 1}, {"c": 1}], "at": [1, 1]}"#,
        r#"{"_id": 3, "a": {"b": 1}, "at": [1, 1]}"#,
        r#"{"_id": 4, "a": [{"c": 1}], "at": [1, 1]}"#,
    ]);
    let place = r#""at": {"$geoWithin": {"$centerSphere": [[1, 1], 0.01]}}"#;
    let filters = [
        format!(r#"{{"a.b": null, {place}}}"#),
        format!(r#"{{"a.b": 1, {place}}}"#),
        format!(r#"{{"a.b": {{"$in": [null, 1]}}, {place}}}"#),
        format!(r#"{{"a.b": 1, "a": {{"$elemMatch": {{"b": null}}}}, {place}}}"#),
        format!(r#"{{"$and": [{{"a.b": 1}}, {{"a.b": null}}], {place}}}"#),
    ];
    let scanned: Vec<Vec<i64>> = filters
        .iter()
        .map(|filter| sorted_ids(&fixture.find(filter)))
        .collect();
    fixture.index(r#"{"key": {"a.b": 1, "at": "2dsphere"}}"#);
    for (filter, scanned) in filters.iter().zip(&scanned) {
        assert_eq!(&sorted_ids(&fixture.find(filter)), scanned, "{filter}");
    }
    // One document with one element is enough.
    let fixture = with(&[r#"{"_id": 1, "a": [{"b": 1}], "at": [1, 1]}"#]);
    fixture.index(r#"{"key": {"a.b": 1, "at": "2dsphere"}}"#);
    let explained = fixture.explain(&filters[1], None);
    let scan = explained.get_path("queryPlanner.winningPlan.inputStage");
    let scan = scan.unwrap().as_document().unwrap();
    assert_eq!(scan.get("isMultiKey"), Some(RawValue::Boolean(true)));
}

#[test]
fn a_disc_of_the_whole_sphere_has_everything() {
    let fixture = with(&[
        r#"{"_id": 1, "at": [180, 0]}"#,
        r#"{"_id": 2, "at": {"type": "Polygon", "coordinates": [[[179, -1], [-179, -1], [-179, 1], [179, 1], [179, -1]]]}}"#,
        r#"{"_id": 3, "at": [0, 0]}"#,
    ]);
    let filter = r#"{"at": {"$geoWithin": {"$centerSphere": [[0, 0], 3.2]}}}"#;
    assert_eq!(fixture.find(filter).len(), 3);
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    assert_eq!(fixture.find(filter).len(), 3);
}

#[test]
fn an_order_by_distance_reads_each_document_once() {
    // A grid around the point, some kilometres wide: each of many rings has cells that go beyond it.
    let documents: Vec<Document> = (0..3000)
        .map(|id| {
            json(&format!(
                r#"{{"_id": {id}, "at": [{:?}, {:?}]}}"#,
                f64::from(id % 60 - 30) / 2000.0,
                f64::from(id / 60 - 25) / 2000.0
            ))
        })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    let filter = r#"{"at": {"$nearSphere": [0, 0]}}"#;
    let explained = fixture.explain(filter, None);
    let examined = explained
        .get_path("executionStats.totalDocsExamined")
        .unwrap();
    assert_eq!(examined.as_i64_exact(), Some(3000));
    let keys = explained
        .get_path("executionStats.totalKeysExamined")
        .unwrap();
    assert_eq!(keys.as_i64_exact(), Some(3000));
    assert_eq!(fixture.find(filter).len(), 3000);
}

#[test]
fn an_order_by_distance_needs_an_index() {
    let fixture = with(&[r#"{"_id": 1, "at": [1, 2]}"#]);
    let refused = fixture.find_with(r#"{"at": {"$near": [1, 2]}}"#, |_| {});
    let error = refused.unwrap_err();
    assert_eq!(error.code(), 291);
    assert!(
        error
            .to_string()
            .contains("unable to find index for $geoNear query"),
        "{error}"
    );
    // A distance in the plane is not that of a sphere.
    fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
    assert_eq!(
        fixture
            .find_with(r#"{"at": {"$near": [1, 2]}}"#, |_| {})
            .unwrap_err()
            .code(),
        291
    );
    assert_eq!(
        ids(&fixture.find(r#"{"at": {"$nearSphere": [1, 2]}}"#)),
        [1]
    );
}

#[test]
fn definitions_and_documents_are_checked() {
    let fixture = places();
    let create = |spec: &str| {
        let specs = [json(spec)];
        let created = fixture.database.create_indexes(
            &fixture.namespace,
            &specs,
            &fixture.operation,
            Level::Written,
        );
        created.err().map(|error| error.code())
    };
    assert_eq!(
        create(r#"{"key": {"x": "2dsphere"}, "2dsphereIndexVersion": 9}"#),
        Some(67)
    );
    assert_eq!(create(r#"{"key": {"x": "2dsphere"}, "bits": 9}"#), Some(67));
    assert_eq!(create(r#"{"key": {"a": 1, "x": "2d"}}"#), Some(67));
    assert_eq!(create(r#"{"key": {"x": "2d"}, "bits": 33}"#), Some(72));
    assert_eq!(
        create(r#"{"key": {"x": "2d"}, "min": -1.7e308, "max": 1.7e308}"#),
        Some(72)
    );
    assert_eq!(create(r#"{"key": {"x": "plugin"}}"#), Some(67));
    assert_eq!(
        create(r#"{"key": {"x": "2d", "kind": 1}, "min": -500, "max": 500, "name": "plane"}"#),
        None
    );
    let listed = fixture.database.list_indexes(&fixture.namespace).unwrap();
    let shown = |name: &str, option: &str| {
        let index = listed
            .iter()
            .find(|index| index.as_raw().get_str("name") == Some(name));
        index
            .unwrap()
            .get(option)
            .and_then(|value| value.as_f64_lossy())
    };
    assert_eq!(shown("at_2dsphere", "2dsphereIndexVersion"), Some(3.0));
    assert_eq!(
        [
            shown("plane", "bits"),
            shown("plane", "min"),
            shown("plane", "max")
        ],
        [Some(26.0), Some(-500.0), Some(500.0)]
    );
    let refused = fixture.insert(
        &[json(
            r#"{"_id": 9, "at": {"type": "Point", "coordinates": [200, 100]}}"#,
        )],
        true,
    );
    let (_, error) = &refused.errors[0];
    assert_eq!(error.code(), 16_755);
    let text = error.to_string();
    assert!(
        text.starts_with("Can't extract geo keys: ")
            && text.contains("out of bounds, lng: 200 lat: 100"),
        "{text}"
    );
    let long = format!(
        r#"{{"_id": 9, "at": {{"type": "LineString", "coordinates": [{}[500, 1]]}}}}"#,
        "[1, 2], [2, 3], ".repeat(5000)
    );
    let refused = fixture.insert(&[json(&long)], true);
    let text = refused.errors[0].1.to_string();
    assert!(
        text.len() < 3000 && text.contains("out of bounds, lng: 500 lat: 1"),
        "{text}"
    );
    for options in ["", r#", "bits": 20"#, r#", "min": -400"#] {
        let same = create(&format!(r#"{{"key": {{"x": "2d", "kind": 1}}, "min": -500, "max": 500, "name": "plane"{options}}}"#).replace(r#""min": -500, "max": 500, "name": "plane", "min": -400"#, r#""min": -400, "max": 500, "name": "plane""#));
        assert_eq!(same, (!options.is_empty()).then_some(85), "{options}");
    }
    let refused = fixture.insert(&[json(r#"{"_id": 9, "x": [501, 2]}"#)], true);
    assert_eq!(refused.errors[0].1.code(), 13_027);
}

#[test]
fn a_field_before_the_place_bounds_the_search() {
    let documents: Vec<Document> = (0..400)
        .map(|id| {
            json(&format!(
                r#"{{"_id": {id}, "kind": {}, "at": [{}, {}]}}"#,
                id % 20,
                id / 20,
                id % 7
            ))
        })
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"kind": 1, "at": "2dsphere"}}"#);
    let area = r#"{"$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[[-1, -1], [5, -1], [5, 9], [-1, 9], [-1, -1]]]}}}"#;
    let filter = format!(r#"{{"kind": 3, "at": {area}}}"#);
    let explained = fixture.explain(&filter, None);
    assert_eq!(stages(&explained), "FETCH IXSCAN kind_1_at_2dsphere");
    let examined = explained
        .get_path("executionStats.totalDocsExamined")
        .unwrap()
        .as_i64_exact()
        .unwrap();
    assert!(
        examined < 20,
        "{examined} of the 20 documents of a kind are within 6 degrees of 20"
    );
    assert_eq!(fixture.find(&filter).len(), 6);
    // Without the field in front the index does not serve.
    assert_eq!(
        fixture.plan(&format!(r#"{{"at": {area}}}"#), None),
        "COLLSCAN"
    );
    assert_eq!(
        ids(&fixture.find(r#"{"kind": 3, "at": {"$nearSphere": [0, 3], "$maxDistance": 0.03}}"#)),
        [3, 23]
    );
}

/// A coordinate pair; many lie near each other, some on the poles and the date line.
fn place() -> BoxedStrategy<(f64, f64)> {
    prop_oneof![
        4 => (-60..60_i32, -60..60_i32).prop_map(|(x, y)| (f64::from(x) / 10.0, f64::from(y) / 10.0)),
        2 => (-1800..=1800_i32, -900..=900_i32).prop_map(|(x, y)| (f64::from(x) / 10.0, f64::from(y) / 10.0)),
        1 => prop_oneof![Just((180.0, 0.0)), Just((-180.0, 0.5)), Just((0.0, 90.0)), Just((10.0, -90.0)), Just((179.9, 3.0))],
    ]
    .boxed()
}

fn shown((x, y): (f64, f64)) -> String {
    format!("[{x:?}, {y:?}]")
}

/// A polygon of three to six corners around a place, from a hundredth of a degree to 30 degrees wide.
fn polygon() -> BoxedStrategy<String> {
    let around = (
        -140..140_i32,
        -50..50_i32,
        prop_oneof![Just(0.01), Just(1.0), Just(8.0), Just(30.0)],
        3..7_usize,
    );
    let around = prop_oneof![2 => around.clone(), 3 => (-6..6_i32, -6..6_i32, around.clone().prop_map(|(_, _, size, _)| size), 3..7_usize)];
    around
        .prop_map(|(x, y, size, corners)| {
            let corner = |at: usize| {
                let turn = std::f64::consts::TAU * (at % corners) as f64 / corners as f64;
                shown((
                    f64::from(x) + size * turn.cos(),
                    f64::from(y) + size * turn.sin(),
                ))
            };
            let corners: Vec<String> = (0..=corners).map(corner).collect();
            format!(
                r#"{{"type": "Polygon", "coordinates": [[{}]]}}"#,
                corners.join(", ")
            )
        })
        .boxed()
}

fn geometry() -> BoxedStrategy<String> {
    let line = proptest::collection::vec((-170..170_i32, -80..80_i32), 2..4).prop_map(|corners| {
        let corners = corners.into_iter().enumerate();
        let corners =
            corners.map(|(at, (x, y))| shown((f64::from(x) + at as f64 / 7.0, f64::from(y))));
        let corners: Vec<String> = corners.collect();
        format!(
            r#"{{"type": "LineString", "coordinates": [{}]}}"#,
            corners.join(", ")
        )
    });
    prop_oneof![
        4 => place().prop_map(shown),
        3 => place().prop_map(|at| format!(r#"{{"type": "Point", "coordinates": {}}}"#, shown(at))),
        2 => polygon(),
        1 => line,
        1 => (place(), place()).prop_map(|(a, b)| format!(r#"{{"type": "MultiPoint", "coordinates": [{}, {}]}}"#, shown(a), shown(b))),
    ]
    .boxed()
}

fn question() -> BoxedStrategy<String> {
    prop_oneof![
        3 => polygon().prop_map(|area| format!(r#"{{"$geoWithin": {{"$geometry": {area}}}}}"#)),
        3 => geometry_of_query().prop_map(|shape| format!(r#"{{"$geoIntersects": {{"$geometry": {shape}}}}}"#)),
        2 => (place(), 0..400_i32).prop_map(|(at, radius)| {
            format!(r#"{{"$geoWithin": {{"$centerSphere": [{}, {:?}]}}}}"#, shown(at), f64::from(radius) / 200.0)
        }),
    ]
    .boxed()
}

fn geometry_of_query() -> BoxedStrategy<String> {
    geometry()
        .prop_filter("GeoJSON", |shape| shape.starts_with('{'))
        .boxed()
}

fn sorted_ids(found: &[String]) -> Vec<i64> {
    let mut found = ids(found);
    found.sort_unstable();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_scan_finds(
        shapes in proptest::collection::vec(geometry(), 1..30),
        questions in proptest::collection::vec(question(), 1..8),
    ) {
        let documents: Vec<Document> = shapes
            .iter()
            .enumerate()
            .map(|(id, shape)| json(&format!(r#"{{"_id": {id}, "at": {shape}}}"#)))
            .collect();
        let fixture = with_documents(&documents);
        let filters: Vec<String> = questions.iter().map(|asked| format!(r#"{{"at": {asked}}}"#)).collect();
        let scanned: Vec<Vec<i64>> = filters.iter().map(|filter| sorted_ids(&fixture.find(filter))).collect();
        fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
        for (filter, scanned) in filters.iter().zip(&scanned) {
            prop_assert_eq!(fixture.plan(filter, None), "FETCH IXSCAN at_2dsphere");
            prop_assert_eq!(&sorted_ids(&fixture.find(filter)), scanned, "{}", filter);
        }
    }

    #[test]
    fn a_plane_index_finds_what_a_scan_finds(
        places in proptest::collection::vec(place(), 1..40),
        corners in proptest::collection::vec(place(), 3..6),
        (center, radius) in (place(), 0..100_i32),
    ) {
        let documents: Vec<Document> = places
            .iter()
            .enumerate()
            .map(|(id, at)| json(&format!(r#"{{"_id": {id}, "at": {}}}"#, shown(*at))))
            .collect();
        let fixture = with_documents(&documents);
        let corners: Vec<String> = corners.into_iter().map(shown).collect();
        let radius = f64::from(radius) / 5.0;
        let filters = [
            format!(r#"{{"at": {{"$geoWithin": {{"$box": [{}, {}]}}}}}}"#, corners[0], corners[1]),
            format!(r#"{{"at": {{"$geoWithin": {{"$polygon": [{}]}}}}}}"#, corners.join(", ")),
            format!(r#"{{"at": {{"$geoWithin": {{"$center": [{}, {radius:?}]}}}}}}"#, shown(center)),
            format!(r#"{{"at": {{"$geoWithin": {{"$centerSphere": [{}, {:?}]}}}}}}"#, shown(center), radius / 20.0),
        ];
        let scanned: Vec<Vec<i64>> = filters.iter().map(|filter| sorted_ids(&fixture.find(filter))).collect();
        fixture.index(r#"{"key": {"at": "2d"}}"#);
        for (filter, scanned) in filters.iter().zip(&scanned) {
            prop_assert_eq!(fixture.plan(filter, None), "FETCH IXSCAN at_2d");
            prop_assert_eq!(&sorted_ids(&fixture.find(filter)), scanned, "{}", filter);
        }
        // By distance in the plane.
        let mut wanted: Vec<(f64, i64)> = places
            .iter()
            .zip(0..)
            .map(|((x, y), id)| ((x - center.0).hypot(y - center.1), id))
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = ids(&fixture.find(&format!(r#"{{"at": {{"$near": {}}}}}"#, shown(center))));
        let distance = |id: i64| wanted.iter().find(|(_, known)| *known == id).unwrap().0;
        prop_assert_eq!(found.len(), places.len());
        prop_assert!(found.windows(2).all(|pair| distance(pair[0]) <= distance(pair[1])), "{:?}", found);
    }

    #[test]
    fn distances_on_the_sphere_ascend_and_nothing_is_missing(
        shapes in proptest::collection::vec(geometry(), 1..40),
        from in place(),
    ) {
        let documents: Vec<Document> = shapes
            .iter()
            .enumerate()
            .map(|(id, shape)| json(&format!(r#"{{"_id": {id}, "at": {shape}}}"#)))
            .collect();
        let fixture = with_documents(&documents);
        fixture.index(r#"{"key": {"at": "2dsphere"}}"#);
        let stage = format!(
            r#"[{{"$geoNear": {{"near": {{"type": "Point", "coordinates": {}}}, "distanceField": "d"}}}}]"#,
            shown(from)
        );
        let found = aggregated(&fixture, &stage).unwrap();
        prop_assert_eq!(sorted_ids(&found), (0..shapes.len() as i64).collect::<Vec<_>>());
        let distances: Vec<f64> = found
            .iter()
            .map(|document| json(document).get("d").unwrap().as_f64_lossy().unwrap())
            .collect();
        prop_assert!(distances.is_sorted(), "{:?}", distances);
    }
}
