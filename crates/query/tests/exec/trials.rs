//! Where the shapes of bounds do not tell which index is the best, the data do.

use super::*;

/// A thousand documents: `half` has two values, `tenth` ten, `rare` a hundred, and `at` is another one in each.
fn thousand() -> Fixture {
    let document = |i: i32| {
        doc! { "_id": i, "half": (i % 2), "tenth": (i % 10), "rare": (i % 100), "at": (999 - i) }
    };
    with_documents(&(0..1000).map(document).collect::<Vec<_>>())
}

/// The shapes that have a choice.
fn remembered(fixture: &Fixture) -> usize {
    let snapshot = fixture.database.snapshot(&fixture.namespace);
    let snapshot = snapshot.unwrap().unwrap();
    snapshot.index_catalog().unwrap().plan_choices.len()
}

/// The keys that a find examines.
fn keys_examined(fixture: &Fixture, filter: &str) -> u64 {
    let before = fixture.operation.keys_examined.load(Relaxed);
    fixture.find(filter);
    fixture.operation.keys_examined.load(Relaxed) - before
}

#[test]
fn of_two_equalities_the_one_that_finds_less_is_read() {
    for order in [["half", "rare"], ["rare", "half"]] {
        let fixture = thousand();
        for field in order {
            fixture.index(&format!(
                r#"{{"key": {{"{field}": 1}}, "name": "{field}"}}"#
            ));
        }
        let filter = r#"{"half": 1, "rare": 7}"#;
        assert_eq!(fixture.plan(filter, None), "FETCH IXSCAN rare", "{order:?}");
        let filter = r#"{"rare": 7, "half": {"$gte": 1}}"#;
        assert_eq!(fixture.plan(filter, None), "FETCH IXSCAN rare", "{order:?}");
    }
}

#[test]
fn a_narrow_range_wins_over_a_wide_equality() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"at": 1}, "name": "at"}"#);
    let narrow = r#"{"half": 1, "at": {"$gt": 990}}"#;
    assert_eq!(fixture.plan(narrow, None), "FETCH IXSCAN at");
    let wide = r#"{"half": 1, "at": {"$gt": 10}}"#;
    assert_eq!(fixture.plan(wide, None), "FETCH IXSCAN half");
}

#[test]
fn the_order_is_read_where_few_are_wanted_and_the_filter_where_few_match() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"at": 1}, "name": "at"}"#);
    fixture.index(r#"{"key": {"rare": 1}, "name": "rare"}"#);
    let plan = |filter: &str| {
        let (filter, sort) = (json(filter), json(r#"{"at": 1}"#));
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        (request.sort, request.limit) = (Some(sort.as_raw()), Some(5));
        stages(&fixture.explained(Explained::Find(request)))
    };
    assert_eq!(plan(r#"{"half": 1}"#), "LIMIT FETCH IXSCAN at");
    assert_eq!(plan(r#"{"rare": 7}"#), "LIMIT SORT FETCH IXSCAN rare");
}

#[test]
fn a_trial_is_remembered_and_not_counted() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"rare": 1}, "name": "rare"}"#);
    for value in 0..5 {
        let filter = format!(r#"{{"half": 1, "rare": {}}}"#, 2 * value + 1);
        assert_eq!(keys_examined(&fixture, &filter), 10, "trial or not");
        assert_eq!(remembered(&fixture), 1, "values make no shape");
    }
    fixture.find(r#"{"half": 1, "rare": {"$gt": 97}}"#);
    assert_eq!(remembered(&fixture), 2);
    fixture.explain(r#"{"half": {"$gt": 0}, "rare": {"$gt": 97}}"#, None);
    assert_eq!(remembered(&fixture), 2, "explain changes nothing");
    fixture.index(r#"{"key": {"tenth": 1}, "name": "tenth"}"#);
    assert_eq!(remembered(&fixture), 0, "another index, other choices");
}

#[test]
fn a_remembered_choice_that_turns_out_dear_is_tried_anew() {
    // The values of `owner` are rare but for one, those of `day` are of ten each.
    let document = |i: i32| {
        let owner = if i % 2 == 0 { -1 } else { i / 20 };
        doc! { "_id": i, "owner": owner, "day": (i / 10), "pad": "x" }
    };
    let fixture = with_documents(&(0..4000).map(document).collect::<Vec<_>>());
    fixture.index(r#"{"key": {"owner": 1}, "name": "owner"}"#);
    fixture.index(r#"{"key": {"day": 1}, "name": "day"}"#);
    let filter = |owner: i32| format!(r#"{{"owner": {owner}, "day": {{"$gte": 300}}}}"#);
    // Of a rare owner there are ten keys, and of the days a thousand: trials choose the owner, and it is relied on.
    for owner in [170, 171, 172] {
        assert_eq!(keys_examined(&fixture, &filter(owner)), 10);
    }
    // For the owner of half of the documents the choice is relied on once, and that tells.
    assert_eq!(keys_examined(&fixture, &filter(-1)), 2000);
    assert_eq!(keys_examined(&fixture, &filter(-1)), 1000, "days are fewer");
    // A batch that costs what it did leaves the choice as it is.
    for owner in [170, 171, 172, 173] {
        assert_eq!(keys_examined(&fixture, &filter(owner)), 10);
    }
}

/// With the verbosity `allPlansExecution` explain says of each plan that was tried how far its trial went.
#[test]
fn explain_shows_what_each_plan_did_in_its_trial() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"rare": 1}, "name": "rare"}"#);
    let tried = |filter: &str| -> Vec<(String, [i64; 3])> {
        let filter = json(filter);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        let request = Explained::Find(request);
        let shown = fixture.explained_with(request, Verbosity::AllPlansExecution);
        let plans = shown
            .as_raw()
            .get_path("executionStats.allPlansExecution")
            .and_then(|plans| plans.as_array())
            .unwrap();
        let plan = |plan: RawValue<'_>| {
            let plan = plan.as_document().unwrap();
            let index = plan.get_path("executionStages.inputStage.indexName");
            let fields = ["nReturned", "totalKeysExamined", "totalDocsExamined"];
            let stages = plan.get_path("executionStages.stage").unwrap();
            assert_eq!(stages.as_str(), Some("FETCH"));
            let counts = fields.map(|field| plan.get_path(field).unwrap().as_i64_exact().unwrap());
            (index.unwrap().as_str().unwrap().to_owned(), counts)
        };
        plans.iter().map(plan).collect()
    };
    // A first round has 16 keys: `rare` is through with its ten, and the first 16 of `half` lead to none that matches.
    let expected = [
        ("half".to_owned(), [0, 16, 16]),
        ("rare".to_owned(), [10, 10, 10]),
    ];
    let mut shown = tried(r#"{"half": 1, "rare": 97}"#);
    shown.sort();
    assert_eq!(shown, expected);
    assert_eq!(tried(r#"{"half": 1}"#), [], "one index needs no trial");
}

#[test]
fn where_the_shapes_tell_nothing_is_tried() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"half": 1, "rare": 1}, "name": "both"}"#);
    fixture.index(r#"{"key": {"at": 1}, "name": "at", "unique": true}"#);
    for filter in [
        r#"{"half": 1}"#,
        r#"{"half": 1, "rare": 7}"#,
        r#"{"half": 1, "rare": {"$gt": 7}}"#,
        r#"{"half": 1, "at": 7}"#,
        r#"{"_id": 7, "half": 1}"#,
        r#"{"tenth": 1}"#,
    ] {
        fixture.find(filter);
        assert_eq!(remembered(&fixture), 0, "{filter}");
    }
}

#[test]
fn a_filter_that_fails_on_some_documents_fails_no_trial() {
    let fixture = thousand();
    fixture.index(r#"{"key": {"half": 1}, "name": "half"}"#);
    fixture.index(r#"{"key": {"rare": 1}, "name": "rare"}"#);
    // Documents with a `tenth` of 3 end in a division by zero; the index on `rare` leads to none of them.
    let filter = r#"{"half": 1, "rare": 7,
        "$expr": {"$gt": [{"$divide": [1, {"$subtract": ["$tenth", 3]}]}, 0]}}"#;
    assert_eq!(fixture.find(filter).len(), 10);
}
