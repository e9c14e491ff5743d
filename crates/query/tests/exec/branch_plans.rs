//! Plans of an `$or` by its branches, which contend with those by one index: what stands beside the `$or` bounds the branches.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;

use proptest::test_runner::TestRunner;
use quarry_query::sort::SortPattern;

use super::*;

/// A thousand documents: `a` has two values, `b` ten, `c` fifty, and `at` is another one in each.
fn thousand() -> Fixture {
    let document =
        |i: i32| doc! { "_id": i, "a": (i % 2), "b": (i % 10), "c": (i % 50), "at": (999 - i) };
    with_documents(&(0..1000).map(document).collect::<Vec<_>>())
}

/// The bounds that explain shows of the inputs of an OR or SORT_MERGE, and of the plan's leaf otherwise.
fn bounds(explained: &Document) -> String {
    let mut stage = explained.as_raw().get_path("queryPlanner.winningPlan");
    let mut shown = Vec::new();
    while let Some(RawValue::Document(document)) = stage {
        let inputs = document.get_array("inputStages");
        let inputs = inputs.iter().flatten();
        let inputs = inputs.filter_map(|input| input.as_document());
        for scan in std::iter::once(document).chain(inputs) {
            shown.extend(scan.get("indexBounds").map(|bounds| bounds.to_string()));
        }
        stage = document.get("inputStage");
    }
    shown.join(" ")
}

/// The plans that were not chosen.
fn rejected(explained: &Document) -> Vec<String> {
    let plans = explained.as_raw().get_path("queryPlanner.rejectedPlans");
    let plans = plans.and_then(|plans| plans.as_array()).unwrap();
    let shown = plans.iter().map(|plan| {
        let plan = doc! { "queryPlanner": { "winningPlan": plan } };
        stages(&plan)
    });
    shown.collect()
}

#[test]
fn what_stands_beside_an_or_bounds_its_branches() {
    for (indexes, first, second) in [
        (["a, b", "a, c"], ["a", "b"], ["a", "c"]),
        (["b, a", "c, a"], ["b", "a"], ["c", "a"]),
    ] {
        let fixture = thousand();
        for (name, fields) in indexes.iter().zip([first, second]) {
            let [one, two] = fields;
            fixture.index(&format!(
                r#"{{"key": {{"{one}": 1, "{two}": 1}}, "name": "{name}"}}"#
            ));
        }
        let filter = r#"{"a": 1, "$or": [{"b": 3}, {"c": 7}]}"#;
        let explained = fixture.explain(filter, None);
        let plan = format!("FETCH OR [IXSCAN {}, IXSCAN {}]", indexes[0], indexes[1]);
        assert_eq!(stages(&explained), plan);
        let of = |field: &str| match field {
            "a" => "a: [ '[1, 1]' ]",
            "b" => "b: [ '[3, 3]' ]",
            _ => "c: [ '[7, 7]' ]",
        };
        let shown = |fields: [&str; 2]| format!("{{ {}, {} }}", of(fields[0]), of(fields[1]));
        assert_eq!(
            bounds(&explained),
            format!("{} {}", shown(first), shown(second))
        );
        // A hundred with a `b` of 3, twenty with a `c` of 7, none with both.
        assert_eq!(examined(&explained), [120, 120, 120]);
    }
}

#[test]
fn a_plan_by_branches_contends_with_one_by_an_index() {
    let fixture = thousand();
    for fields in [r#""a": 1"#, r#""c": 1"#, r#""at": 1"#] {
        fixture.index(&format!(r#"{{"key": {{{fields}}}}}"#));
    }
    // Half of the documents have the `a`, and a few each of the branches.
    let few = r#"{"a": 1, "$or": [{"c": 7}, {"at": {"$gt": 990}}]}"#;
    let explained = fixture.explain(few, None);
    assert_eq!(stages(&explained), "FETCH OR [IXSCAN c_1, IXSCAN at_1]");
    assert_eq!(rejected(&explained), ["FETCH IXSCAN a_1"]);
    // One document has the `at`, and all of them one of the branches.
    let many = r#"{"at": 3, "$or": [{"a": 0}, {"a": 1}]}"#;
    let explained = fixture.explain(many, None);
    assert_eq!(stages(&explained), "FETCH IXSCAN at_1");
    assert_eq!(rejected(&explained), ["FETCH OR [IXSCAN a_1, IXSCAN a_1]"]);
    // Nothing that a branch itself asks is indexed: there is nothing to push into it.
    let other = r#"{"a": 1, "$or": [{"c": 7}, {"x": 3}]}"#;
    let explained = fixture.explain(other, None);
    assert_eq!(stages(&explained), "FETCH IXSCAN a_1");
    assert!(rejected(&explained).is_empty());
    // A client that names an index has decided.
    let hint = Value::from("a_1");
    let filter = json(few);
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.hint) = (filter.as_raw(), Some(hint.as_raw()));
    let explained = fixture.explained(Explained::Find(request));
    assert_eq!(stages(&explained), "FETCH IXSCAN a_1");
}

#[test]
fn a_trial_of_branches_is_remembered_and_watched() {
    // The values of `owner` are rare but for one; those of `day` are of ten each.
    let document = |i: i32| {
        let owner = if i % 2 == 0 { -1 } else { i / 20 };
        doc! { "_id": i, "owner": owner, "day": (i / 10), "all": 1 }
    };
    let fixture = with_documents(&(0..4000).map(document).collect::<Vec<_>>());
    for field in ["owner", "day", "all"] {
        fixture.index(&format!(
            r#"{{"key": {{"{field}": 1}}, "name": "{field}"}}"#
        ));
    }
    let keys_examined = |owner: i32| {
        let filter = format!(
            r#"{{"day": {{"$gte": 300}}, "$or": [{{"owner": {owner}}}, {{"owner": -7}}]}}"#
        );
        let before = fixture.operation.keys_examined.load(Relaxed);
        fixture.find(&filter);
        fixture.operation.keys_examined.load(Relaxed) - before
    };
    for owner in [170, 171, 172] {
        assert_eq!(keys_examined(owner), 10);
    }
    // For the owner of half of the documents the choice is relied on once, and that tells.
    assert_eq!(keys_examined(-1), 2000);
    assert_eq!(keys_examined(-1), 1000, "days are fewer");
}

#[test]
fn explain_shows_the_trial_of_branches() {
    let fixture = thousand();
    for fields in [r#""a": 1"#, r#""c": 1, "b": 1"#, r#""at": 1, "b": 1"#] {
        fixture.index(&format!(r#"{{"key": {{{fields}}}}}"#));
    }
    let tried = |sort: Option<&str>| -> Vec<(String, [i64; 2])> {
        let filter = json(r#"{"a": 1, "$or": [{"c": 7}, {"at": 990}]}"#);
        let sort = sort.map(json);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.sort = sort.as_ref().map(Document::as_raw);
        let request = Explained::Find(request);
        let shown = fixture.explained_with(request, Verbosity::AllPlansExecution);
        let plans = shown
            .as_raw()
            .get_path("executionStats.allPlansExecution")
            .and_then(|plans| plans.as_array())
            .unwrap();
        let plan = |plan: RawValue<'_>| {
            let plan = plan.as_document().unwrap();
            let root = plan.get("executionStages").unwrap();
            let figure = |name| plan.get(name).unwrap().as_i64_exact().unwrap();
            let shown = doc! { "queryPlanner": { "winningPlan": root } };
            (
                stages(&shown),
                ["nReturned", "totalKeysExamined"].map(figure),
            )
        };
        plans.iter().map(plan).collect()
    };
    // A round goes to 128 keys: twenty with the `c`, and one with the `at`.
    let of_a = ("FETCH IXSCAN a_1".to_owned(), [6, 128]);
    let by = |name: &str| {
        (
            format!("FETCH {name} [IXSCAN c_1_b_1, IXSCAN at_1_b_1]"),
            [21, 21],
        )
    };
    assert_eq!(tried(None), [of_a.clone(), by("OR")]);
    assert_eq!(tried(Some(r#"{"b": 1}"#)), [of_a, by("SORT_MERGE")]);
}

/// Where every branch comes in the wanted order, a limit is met with a few keys; the index that bounds what stands beside the `$or` has
/// to sort, and one that has the order alone to pass over what does not match.
#[test]
fn a_merge_of_branches_contends_with_other_plans() {
    let fixture = thousand();
    for fields in [
        r#""a": 1"#,
        r#""at": 1"#,
        r#""a": 1, "b": 1, "at": 1"#,
        r#""c": 1, "at": 1"#,
    ] {
        fixture.index(&format!(r#"{{"key": {{{fields}}}}}"#));
    }
    let filter = json(r#"{"a": 1, "$or": [{"b": 3}, {"c": {"$in": [7, 9]}}]}"#);
    let sort = json(r#"{"at": -1}"#);
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
    request.limit = Some(5);
    let explained = fixture.explained(Explained::Find(request));
    assert_eq!(
        stages(&explained),
        "LIMIT FETCH SORT_MERGE [IXSCAN a_1_b_1_at_1, IXSCAN c_1_at_1]"
    );
    let [returned, keys, documents] = examined(&explained);
    assert_eq!((returned, keys, documents), (5, 5, 5));
    let merge = explained
        .as_raw()
        .get_path("executionStats.executionStages.inputStage.inputStage");
    let merge = merge.and_then(|stage| stage.as_document()).unwrap();
    assert_eq!(merge.get_str("stage"), Some("SORT_MERGE"));
    assert_eq!(
        merge.get("sortPattern").unwrap().as_document(),
        Some(sort.as_raw())
    );
}

/// The documents that several branches match are given once, by the first of them; the documents that were read to tell are counted.
#[test]
fn a_merge_counts_what_it_drops() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"a": 1, "at": 1}}"#);
    fixture.index(r#"{"key": {"c": 1, "at": 1}}"#);
    let explained = fixture.explain(
        r#"{"$or": [{"c": 7}, {"c": 9}, {"a": 1}]}"#,
        Some(r#"{"at": 1}"#),
    );
    assert_eq!(
        stages(&explained),
        "SUBPLAN FETCH SORT_MERGE [IXSCAN c_1_at_1, IXSCAN c_1_at_1, IXSCAN a_1_at_1]"
    );
    assert_eq!(examined(&explained), [500, 540, 540]);
    let merge = explained
        .as_raw()
        .get_path("executionStats.executionStages.inputStage.inputStage");
    let merge = merge.and_then(|stage| stage.as_document()).unwrap();
    let figure = |name: &str| merge.get(name).and_then(|it| it.as_i64_exact()).unwrap();
    assert_eq!(figure("nReturned"), 500);
    assert_eq!(figure("dupsTested"), 540);
    assert_eq!(figure("dupsDropped"), 40);
}

/// Fields that are bounded to one value in each branch may be sorted by, and so may those behind them.
#[test]
fn branches_are_merged_by_their_equalities_too() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"a": 1, "b": 1, "at": 1}}"#);
    fixture.index(r#"{"key": {"c": 1, "b": 1, "at": 1}}"#);
    let merge = "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_b_1_at_1, IXSCAN c_1_b_1_at_1]";
    for (filter, sort, plan) in [
        (
            r#"{"$or": [{"a": 1, "b": {"$in": [3, 1]}}, {"c": {"$in": [2, 8]}, "b": 2}]}"#,
            r#"{"b": 1, "at": 1}"#,
            merge,
        ),
        (
            r#"{"$or": [{"a": 1, "b": {"$in": [3, 1]}}, {"c": {"$in": [2, 8]}, "b": 2}]}"#,
            r#"{"b": -1, "at": -1}"#,
            merge,
        ),
        (
            r#"{"$or": [{"a": 1, "b": 5}, {"c": 2}]}"#,
            r#"{"at": 1}"#,
            "SUBPLAN SORT FETCH OR [IXSCAN a_1_b_1_at_1, IXSCAN c_1_b_1_at_1]",
        ),
        (
            r#"{"$or": [{"a": 1, "b": 5}, {"c": 2}]}"#,
            r#"{"at": 1, "b": 1}"#,
            "SUBPLAN SORT FETCH OR [IXSCAN a_1_b_1_at_1, IXSCAN c_1_b_1_at_1]",
        ),
    ] {
        assert_eq!(fixture.plan(filter, Some(sort)), plan, "{filter} by {sort}");
        check_order(&fixture, filter, sort, &[]);
    }
}

/// Partial indexes serve the branches that imply their filters, hidden ones none, sparse ones those that ask for what they have.
#[test]
fn branches_are_served_by_the_indexes_that_have_their_documents() {
    let fixture = thousand();
    fixture.index(
        r#"{"key": {"a": 1, "at": 1}, "name": "low", "partialFilterExpression": {"c": {"$lt": 10}}}"#,
    );
    fixture.index(r#"{"key": {"b": 1, "at": 1}, "name": "b", "sparse": true}"#);
    fixture.index(r#"{"key": {"at": 1}, "name": "at"}"#);
    let plan = |filter: &str| fixture.plan(filter, Some(r#"{"at": 1}"#));
    let merged = "FETCH SORT_MERGE [IXSCAN low, IXSCAN b]";
    let limited = r#"{"a": 1, "$or": [{"c": 3}, {"b": 7}], "at": {"$gte": 0}}"#;
    assert_eq!(plan(limited), merged);
    let without = r#"{"a": 1, "$or": [{"c": 30}, {"b": 7}]}"#;
    assert_eq!(plan(without), "FETCH IXSCAN at");
    for filter in [limited, without] {
        check_order(&fixture, filter, r#"{"at": 1}"#, &[]);
    }
}

/// Finds the documents by the plan that is chosen and by each of the hints, in the wanted order, and holds them against a scan of the collection.
fn check_order(fixture: &Fixture, filter: &str, sort: &str, hints: &[String]) {
    let natural = Value::from(doc! {"$natural": 1});
    let hint: &'static Value = Box::leak(Box::new(natural));
    let wanted = fixture.find_with(filter, |request| request.hint = Some(hint.as_raw()));
    let mut wanted = wanted.unwrap();
    wanted.sort();
    let (filter, sort) = (json(filter), json(sort));
    let pattern = SortPattern::parse(sort.as_raw()).unwrap();
    let hints = hints.iter().map(|hint| Some(Value::from(hint.as_str())));
    for hint in hints.chain([None]) {
        for limit in [None, Some(3)] {
            let mut request = FindRequest::new(&fixture.namespace);
            (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
            (request.hint, request.limit) = (hint.as_ref().map(Value::as_raw), limit);
            let executor = exec::find((&fixture.database).into(), &fixture.operation, request);
            // Two arrays side by side have no order.
            let Ok(found) = executor.and_then(|executor| fixture.documents(executor)) else {
                continue;
            };
            let is_sorted = found.windows(2).all(|pair| {
                let order = pattern.compare(pair[0].as_raw(), pair[1].as_raw());
                order.unwrap().is_le()
            });
            assert!(is_sorted, "{filter} by {sort} and {hint:?}");
            let shown = found.iter().map(|one| extjson::relaxed(one.as_raw()));
            let mut shown: Vec<String> = shown.collect();
            shown.sort();
            match limit {
                None => assert_eq!(shown, wanted, "{filter} by {sort} and {hint:?}"),
                Some(limit) => {
                    let len = wanted.len().min(limit as usize);
                    assert_eq!(shown.len(), len, "{filter} by {sort} and {hint:?}");
                    shown.dedup();
                    assert_eq!(shown.len(), len, "{filter} by {sort} and {hint:?}");
                }
            }
        }
    }
}

/// The first documents of an order, by their sort keys: what a limit gives has to have the same ones, whichever documents those are.
fn first_keys(fixture: &Fixture, filter: &str, sort: &str, limit: Option<u64>) -> Vec<Vec<u8>> {
    let pattern = SortPattern::parse(json(sort).as_raw()).unwrap();
    let found = fixture.sorted(filter, sort, 0, limit);
    let key = |text: &String| {
        let mut key = Vec::new();
        pattern.key(json(text).as_raw(), &mut key).unwrap();
        key
    };
    found.iter().map(key).collect()
}

fn branch() -> BoxedStrategy<String> {
    let value = || {
        prop_oneof![
            4 => (0..4i32).prop_map(|n| n.to_string()),
            1 => Just("null".to_owned()),
            1 => Just(r#""x""#.to_owned()),
        ]
    };
    let part = move |field: &'static str| {
        prop_oneof![
            4 => value().prop_map(move |value| format!(r#""{field}": {value}"#)),
            2 => proptest::collection::vec(value(), 1..4)
                .prop_map(move |list| format!(r#""{field}": {{"$in": [{}]}}"#, list.join(","))),
            1 => value().prop_map(move |value| format!(r#""{field}": {{"$gte": {value}}}"#)),
            1 => value().prop_map(move |value| format!(r#""{field}": {{"$ne": {value}}}"#)),
            1 => Just(format!(r#""{field}": {{"$exists": true}}"#)),
        ]
    };
    prop_oneof![
        2 => part("b"),
        2 => part("c"),
        2 => part("t"),
        1 => part("e.x"),
        2 => (part("b"), part("t")).prop_map(|(b, t)| format!("{b}, {t}")),
        1 => (part("c"), part("b")).prop_map(|(c, b)| format!("{c}, {b}")),
    ]
    .boxed()
}

fn document() -> BoxedStrategy<String> {
    let plain = || {
        prop_oneof![
            6 => (0..4i32).prop_map(|n| n.to_string()),
            1 => Just("null".to_owned()),
            1 => Just(r#""x""#.to_owned()),
        ]
    };
    let list = move || {
        proptest::collection::vec(plain(), 0..4).prop_map(|list| format!("[{}]", list.join(",")))
    };
    let elements = proptest::collection::vec((plain(), plain()), 0..4).prop_map(|list| {
        let list: Vec<String> = list
            .iter()
            .map(|(x, y)| format!(r#"{{"x": {x}, "y": {y}}}"#))
            .collect();
        format!("[{}]", list.join(","))
    });
    (
        plain(),
        proptest::option::of(plain()),
        plain(),
        prop_oneof![2 => plain(), 2 => list()],
        prop_oneof![
            2 => elements,
            1 => (plain(), plain()).prop_map(|(x, y)| format!(r#"{{"x": {x}, "y": {y}}}"#)),
            1 => plain(),
            1 => Just("[[1], 2]".to_owned()),
        ],
    )
        .prop_map(|(a, b, c, t, e)| {
            let b = b.map_or(String::new(), |b| format!(r#""b": {b}, "#));
            format!(r#""a": {a}, {b}"c": {c}, "t": {t}, "e": {e}"#)
        })
        .boxed()
}

/// Patterns of indexes, with their options. Which of them a collection has decides which plans there are.
const INDEXES: [&str; 15] = [
    r#"{"key": {"a": 1}, "name": "a"}"#,
    r#"{"key": {"b": 1, "a": 1, "c": -1}, "name": "b_a_c"}"#,
    r#"{"key": {"a": 1, "b": 1, "c": 1}, "name": "a_b_c"}"#,
    r#"{"key": {"c": 1, "a": 1}, "name": "c_a"}"#,
    r#"{"key": {"c": -1, "b": 1}, "name": "c_b"}"#,
    r#"{"key": {"t": 1, "a": 1}, "name": "t_a"}"#,
    r#"{"key": {"a": 1, "t": -1}, "name": "a_t"}"#,
    r#"{"key": {"b": 1, "t": 1}, "name": "b_t"}"#,
    r#"{"key": {"t": 1}, "name": "t"}"#,
    r#"{"key": {"e.x": 1, "a": 1}, "name": "ex_a"}"#,
    r#"{"key": {"e.x": 1, "e.y": 1}, "name": "ex_ey"}"#,
    r#"{"key": {"b": 1, "a": 1}, "name": "sparse", "sparse": true}"#,
    r#"{"key": {"c": 1, "t": 1}, "name": "partial", "partialFilterExpression": {"b": {"$gte": 1}}}"#,
    r#"{"key": {"c": 1, "a": 1, "b": 1}, "name": "collated", "collation": {"locale": "en", "strength": 1}}"#,
    r#"{"key": {"a": 1, "e.y": 1}, "name": "a_ey"}"#,
];

const SORTS: [&str; 12] = [
    r#"{"a": 1}"#,
    r#"{"a": -1, "c": 1}"#,
    r#"{"c": -1}"#,
    r#"{"a": 1, "b": 1}"#,
    r#"{"b": -1, "c": -1}"#,
    r#"{"t": 1}"#,
    r#"{"t": -1}"#,
    r#"{"a": 1, "t": -1}"#,
    r#"{"t": 1, "a": 1}"#,
    r#"{"e.x": 1, "e.y": 1}"#,
    r#"{"e.x": -1}"#,
    r#"{"e.y": 1}"#,
];

/// Whatever the collection, its indexes, the branches and the order are: each plan finds what a scan finds, in the order that is asked for.
/// The plans that this is about are reached many times.
#[test]
fn plans_of_branches_find_what_a_scan_finds_in_order() {
    let reached = [
        "OR [",
        "SORT_MERGE [",
        "FETCH IXSCAN t",
        "FETCH IXSCAN ex_ey",
    ];
    let reached = reached.map(|name| (name, Cell::new(0)));
    let beside_both = Cell::new(0);
    let cases = ProptestConfig {
        cases: 120,
        ..ProptestConfig::default()
    };
    let filters = proptest::collection::vec(
        (
            proptest::option::of(prop_oneof![
                Just(r#""a": 1"#),
                Just(r#""a": {"$gte": 1}"#),
                Just(r#""t": 2"#),
                Just(r#""b": {"$in": [0, 1]}"#)
            ]),
            proptest::collection::vec(branch(), 0..4),
            0..SORTS.len(),
        ),
        8..14,
    );
    let strategy = (
        proptest::collection::vec(document(), 1..60),
        proptest::sample::subsequence(INDEXES.to_vec(), 2..9),
        filters,
    );
    TestRunner::new(cases)
        .run(&strategy, |(documents, indexes, filters)| {
            let documents = documents.iter().enumerate();
            let documents: Vec<Document> = documents
                .map(|(id, fields)| json(&format!(r#"{{"_id": {id}, {fields}}}"#)))
                .collect();
            let fixture = with_documents(&documents);
            for index in &indexes {
                fixture.index(index);
            }
            let names = indexes.iter().map(|index| json(index));
            let whole = |index: &Document| index.get("partialFilterExpression").is_none();
            let whole = |index: &Document| whole(index) && index.get("sparse").is_none();
            let names = names.filter(whole);
            let hints: Vec<String> = names
                .map(|index| index.get_str("name").unwrap().to_owned())
                .collect();
            for (beside, branches, sort) in filters {
                let branches: Vec<String> =
                    branches.iter().map(|one| format!("{{{one}}}")).collect();
                let of_or = match branches.is_empty() {
                    true => None,
                    false => Some(format!(r#""$or": [{}]"#, branches.join(", "))),
                };
                let parts = beside.map(str::to_owned).into_iter().chain(of_or);
                let filter = format!("{{{}}}", parts.collect::<Vec<_>>().join(", "));
                let sort = SORTS[sort];
                check_order(&fixture, &filter, sort, &hints);
                let all = first_keys(&fixture, &filter, sort, None);
                let limited = first_keys(&fixture, &filter, sort, Some(4));
                assert_eq!(limited[..], all[..all.len().min(4)], "{filter} by {sort}");
                for plan in [
                    fixture.plan(&filter, Some(sort)),
                    fixture.plan(&filter, None),
                ] {
                    for (name, times) in &reached {
                        times.set(times.get() + u32::from(plan.contains(name)));
                    }
                    let is_both = beside.is_some() && plan.contains(" [");
                    beside_both.set(beside_both.get() + u32::from(is_both));
                }
                let mut found = fixture.find(&filter);
                let mut sorted = fixture.sorted(&filter, sort, 0, None);
                found.sort();
                sorted.sort();
                assert_eq!(found, sorted, "{filter}");
            }
            Ok(())
        })
        .unwrap();
    for (name, times) in &reached {
        assert!(times.get() >= 10, "{name} {} times", times.get());
    }
    assert!(beside_both.get() >= 10, "{} times", beside_both.get());
}

/// A merge asks whether it is to end while it reads keys, also where it gives nothing.
#[test]
fn a_merge_hears_that_it_is_to_end() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"a": 1, "at": 1}}"#);
    fixture.index(r#"{"key": {"b": 1, "at": 1}}"#);
    let filter =
        r#"{"$or": [{"a": {"$in": [0, 1]}, "x": 1}, {"b": {"$in": [1, 2, 3, 4, 5]}, "x": 1}]}"#;
    let by = r#"{"at": 1}"#;
    let plan = "SUBPLAN FETCH SORT_MERGE [IXSCAN a_1_at_1, IXSCAN b_1_at_1]";
    assert_eq!(fixture.plan(filter, Some(by)), plan);
    let (filter, sort) = (json(filter), json(by));
    let run = |asked_max: u32| {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let gone = move || counter.fetch_add(1, Relaxed) >= asked_max;
        let operation = Operation::new(None).with_disconnect(Box::new(gone));
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.sort) = (filter.as_raw(), Some(sort.as_raw()));
        let executor = exec::find((&fixture.database).into(), &operation, request);
        let outcome = executor.and_then(|mut found| found.next(&operation, &mut Vec::new()));
        (outcome.map_err(|error| error.code()), asked.load(Relaxed))
    };
    let (outcome, asked) = run(u32::MAX);
    assert_eq!(outcome, Ok(false));
    // 1,500 keys.
    assert!(asked >= 5, "asked {asked} times");
    assert_eq!(run(asked - 1).0, Err(11_601));
}
