//! Plans that merge ranges, or the branches of an `$or`, which are in the wanted order one by one.

use super::*;

/// Documents that several indexes have in the order of `b`, behind other fields.
fn in_several_orders() -> Fixture {
    let documents: Vec<Document> = (0..300)
        .map(|n| doc! {"_id": n, "a": (n % 7), "b": ((n * 37) % 100), "c": (n % 5), "d": (n % 3)})
        .collect();
    let fixture = with_documents(&documents);
    for index in [
        r#"{"key": {"a": 1, "b": 1}}"#,
        r#"{"key": {"c": 1, "b": -1, "d": 1}}"#,
        r#"{"key": {"d": -1, "a": 1, "b": 1}}"#,
    ] {
        fixture.index(index);
    }
    fixture
}

/// Where ranges, or the branches of an `$or`, are in the wanted order one by one, they are merged: a limit is met with a few keys.
#[test]
fn ranges_in_the_wanted_order_are_merged() {
    let fixture = in_several_orders();
    let (up, down) = (r#"{"b": 1}"#, r#"{"b": -1}"#);
    let one = "FETCH SORT_MERGE [IXSCAN a_1_b_1]";
    for (filter, sort, plan) in [
        (r#"{"a": {"$in": [1, 2, 5]}}"#, up, one),
        (r#"{"a": {"$in": [1, 2, 5]}}"#, down, one),
        (r#"{"a": {"$in": [1, 5]}, "b": {"$gt": 20}}"#, down, one),
        (r#"{"a": {"$in": [1, 5]}, "x": null}"#, up, one),
        (r#"{"a": 3}"#, up, "FETCH IXSCAN a_1_b_1"),
        (
            r#"{"a": {"$in": [1, 5]}}"#,
            r#"{"a": 1, "b": 1}"#,
            "FETCH IXSCAN a_1_b_1",
        ),
        (
            r#"{"a": {"$in": [1, 5]}}"#,
            r#"{"b": 1, "a": 1}"#,
            "SORT FETCH IXSCAN a_1_b_1",
        ),
        (r#"{"a": {"$gt": 3}}"#, up, "SORT FETCH IXSCAN a_1_b_1"),
        (
            r#"{"$or": [{"a": 1}, {"c": {"$in": [2, 3]}}]}"#,
            up,
            "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1]",
        ),
        (
            r#"{"$or": [{"a": 1}, {"c": {"$in": [2, 3]}}, {"d": 0, "a": {"$in": [3, 4]}}]}"#,
            down,
            "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1, IXSCAN d_-1_a_1_b_1]",
        ),
        (
            r#"{"x": null, "$or": [{"a": 1}, {"c": 2, "d": {"$lt": 2}}]}"#,
            up,
            "FETCH SORT_MERGE [IXSCAN a_1_b_1, IXSCAN c_1_b_-1_d_1]",
        ),
        (
            r#"{"$or": [{"a": 1}, {"d": 2}]}"#,
            up,
            "SUBPLAN SORT FETCH OR [IXSCAN a_1_b_1, IXSCAN d_-1_a_1_b_1]",
        ),
    ] {
        assert_eq!(fixture.plan(filter, Some(sort)), plan, "{filter} {sort}");
        let mut wanted = fixture.find_with(filter, |request| {
            let natural: &'static Value = Box::leak(Box::new(doc! {"$natural": 1}.into()));
            request.hint = Some(natural.as_raw());
        });
        let all = fixture.sorted(filter, sort, 0, None);
        let pattern = quarry_query::sort::SortPattern::parse(json(sort).as_raw()).unwrap();
        let is_sorted = all.windows(2).all(|pair| {
            let (a, b) = (json(&pair[0]), json(&pair[1]));
            pattern.compare(a.as_raw(), b.as_raw()).unwrap().is_le()
        });
        assert!(is_sorted, "{filter} {sort}");
        assert_eq!(
            fixture.sorted(filter, sort, 3, Some(9)),
            all[3..12],
            "{filter} {sort}"
        );
        let mut found = all;
        found.sort();
        wanted.as_mut().unwrap().sort();
        assert_eq!(found, wanted.unwrap(), "{filter} {sort}");
    }
    let (filter, sort) = (json(r#"{"a": {"$in": [1, 2, 5]}}"#), json(up));
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
    request.limit = Some(4);
    let explained = fixture.explained(Explained::Find(request));
    assert_eq!(examined(&explained), [4, 4, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever the branches are, however many, and whichever of them share documents.
    #[test]
    fn a_merge_finds_what_a_scan_finds_in_order(
        branches in proptest::collection::vec((0..3usize, proptest::collection::btree_set(0..8i32, 1..4), 0..100i32), 1..5),
        is_or in any::<bool>(),
        is_down in any::<bool>(),
        (skip, limit) in (0..20u64, proptest::option::of(1..50u64)),
    ) {
        let fixture = in_several_orders();
        let branches = branches.iter().map(|(field, list, low)| {
            let (list, other) = (list.iter().map(i32::to_string).collect::<Vec<_>>().join(","), low % 3);
            match field {
                0 => format!(r#"{{"a": {{"$in": [{list}]}}, "b": {{"$gte": {low}}}}}"#),
                1 => format!(r#"{{"c": {{"$in": [{list}]}}, "d": {{"$ne": {other}}}}}"#),
                _ => format!(r#"{{"d": {other}, "a": {{"$in": [{list}]}}}}"#),
            }
        });
        let branches: Vec<String> = branches.collect();
        let filter = if is_or { format!(r#"{{"$or": [{}]}}"#, branches.join(",")) } else { branches[0].clone() };
        let sort = if is_down { r#"{"b": -1}"# } else { r#"{"b": 1}"# };
        let all = fixture.sorted(&filter, sort, 0, None);
        let order = |text: &String| {
            let b = json(text).as_raw().get("b").unwrap().as_i64_exact().unwrap();
            if is_down { -b } else { b }
        };
        prop_assert!(all.is_sorted_by_key(order), "{} {}", filter, sort);
        let part = all.iter().skip(skip as usize).take(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(&fixture.sorted(&filter, sort, skip, limit), &part.cloned().collect::<Vec<_>>());
        let natural: &'static Value = Box::leak(Box::new(doc! {"$natural": 1}.into()));
        let mut wanted = fixture.find_with(&filter, |request| request.hint = Some(natural.as_raw())).unwrap();
        let mut found = all;
        found.sort();
        wanted.sort();
        prop_assert_eq!(found, wanted, "{} {} by {}", filter, sort, fixture.plan(&filter, Some(sort)));
    }
}

/// Documents whose `b` is a number, null or missing, and whose `t` may be an array, with one index of all.
fn with_gaps_and_arrays() -> Fixture {
    let document = |n: i32| {
        let b = match n % 6 {
            0 => String::new(),
            1 => r#""b": null,"#.to_owned(),
            _ => format!(r#""b": {},"#, (n * 37) % 100),
        };
        let t = match n % 5 {
            0 => format!("[{}, {}, 9]", n % 3, n % 4),
            _ => (n % 3).to_string(),
        };
        json(&format!(r#"{{"_id": {n}, "a": {}, {b} "t": {t}}}"#, n % 7))
    };
    let fixture = with_documents(&(0..200).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"a": 1, "b": 1, "t": 1}}"#);
    fixture
}

/// Where an index has all that is read, the documents are made of its keys, each document once, however many keys it has.
#[test]
fn a_covered_merge_gives_what_a_scan_gives() {
    let fixture = with_gaps_and_arrays();
    let natural = Value::from(doc! {"$natural": 1});
    let fields = r#"{"a": 1, "b": 1, "_id": 1}"#;
    for (filter, projection, is_covered) in [
        (r#"{"a": {"$in": [1, 4, 6]}}"#, fields, true),
        (
            r#"{"a": {"$in": [1, 4]}, "b": {"$mod": [3, 0]}}"#,
            fields,
            true,
        ),
        (
            r#"{"a": {"$in": [1, 4]}, "b": {"$ne": null}}"#,
            fields,
            true,
        ),
        (
            r#"{"a": {"$in": [1, 4]}, "b": {"$exists": true}}"#,
            fields,
            true,
        ),
        (r#"{"a": {"$in": [1, 4]}, "t": 9}"#, fields, false),
        (r#"{"a": {"$in": [1, 4]}}"#, r#"{"b": 1, "t": 1}"#, false),
    ] {
        for sort in [r#"{"b": 1}"#, r#"{"b": -1}"#] {
            let [of_filter, of_projection, of_sort] = [filter, projection, sort].map(json);
            let request = |skip, limit, hint| {
                let mut request = FindRequest::new(&fixture.namespace);
                request.filter = of_filter.as_raw();
                request.projection = Some(of_projection.as_raw());
                request.sort = Some(of_sort.as_raw());
                (request.skip, request.limit, request.hint) = (skip, limit, hint);
                request
            };
            let explained = fixture.explained(Explained::Find(request(0, None, None)));
            let of_merge = match is_covered {
                true => "PROJECTION_DEFAULT SORT_MERGE [IXSCAN a_1_b_1_t_1]",
                false => "PROJECTION_SIMPLE FETCH SORT_MERGE [IXSCAN a_1_b_1_t_1]",
            };
            assert_eq!(stages(&explained), of_merge, "{filter} {projection}");
            if filter.contains("$exists") {
                // Read once each, however many keys they have: a key of null does not tell.
                let is_read = |n: &i32| [1, 4].contains(&(n % 7)) && n % 6 < 2;
                let read = (0..200).filter(is_read).count() as i64;
                assert_eq!(examined(&explained)[2], read, "{sort}");
            }
            let find = |skip, limit, hint| -> Vec<Document> {
                let request = request(skip, limit, hint);
                let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
                fixture.documents(executor.unwrap()).unwrap()
            };
            let order = quarry_query::sort::SortPattern::parse(of_sort.as_raw()).unwrap();
            let all = find(0, None, None);
            let in_order = |pair: &[Document]| {
                let order = order.compare(pair[0].as_raw(), pair[1].as_raw());
                order.unwrap().is_le()
            };
            assert!(all.windows(2).all(in_order), "{filter} {sort}");
            assert_eq!(find(3, Some(6), None), all[3..9], "{filter} {sort}");
            let [found, wanted] = [all, find(0, None, Some(natural.as_raw()))].map(|documents| {
                let fields = |one: &Document| {
                    ["_id", "a", "b", "t"].map(|name| format!("{:?}", one.get(name)))
                };
                let mut shown: Vec<[String; 4]> = documents.iter().map(fields).collect();
                shown.sort();
                shown
            });
            assert_eq!(found, wanted, "{filter} {projection} {sort}");
        }
    }
}

/// A merge goes on where a batch has ended, in every range, whatever was read ahead.
#[test]
fn a_merge_goes_on_where_a_batch_has_ended() {
    let fixture = in_several_orders();
    let filter = r#"{"$or": [{"a": {"$in": [1, 4]}}, {"c": {"$in": [2, 3]}}]}"#;
    let wanted = fixture.sorted(filter, r#"{"b": -1}"#, 0, None);
    let (filter, sort) = (json(filter), json(r#"{"b": -1}"#));
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
    let scope = || (&fixture.database).into();
    let mut executor = exec::find(scope(), &fixture.operation, request).unwrap();
    let (mut found, mut document) = (Vec::new(), Vec::new());
    while !executor.is_dead() {
        for _ in 0..7 {
            if executor.next(&fixture.operation, &mut document).unwrap() {
                found.push(extjson::relaxed(RawDocument::new(&document).unwrap()));
            }
            document.clear();
        }
        executor.save(&fixture.operation).unwrap();
        executor.restore(scope(), &fixture.operation).unwrap();
    }
    assert_eq!(found, wanted);
}
