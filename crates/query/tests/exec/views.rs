//! Views: everything that reads, reads them; nothing writes to them; and no definition makes a read endless.

use quarry_database::{CollectionKind, Scope};
use quarry_query::ErrorCode;

use quarry_query::Collation;

use super::*;

fn stages(text: &str) -> Value {
    let wrapped = json(&format!(r#"{{"stages": {text}}}"#));
    Value::from(wrapped.get("stages").unwrap())
}

fn array(stages: &Value) -> quarry_bson::RawArray<'_> {
    stages.as_raw().as_array().unwrap()
}

fn name(text: &str) -> Namespace {
    Namespace::new("db", text).unwrap()
}

/// Makes a view as the command does: checked, then created.
fn make(fixture: &Fixture, view: &str, on: &str, pipeline: &str) -> Result<()> {
    let pipeline = stages(pipeline);
    let scope = Scope::from(&fixture.database);
    let (namespace, operation) = (name(view), &fixture.operation);
    exec::check_view(
        scope,
        operation,
        &namespace,
        on,
        array(&pipeline),
        &Collation::SIMPLE,
    )?;
    force(fixture, view, on, &pipeline)
}

/// Makes a view without a check, as two makers could at one time.
fn force(fixture: &Fixture, view: &str, on: &str, pipeline: &Value) -> Result<()> {
    let options = doc! { "viewOn": on, "pipeline": (pipeline.clone()) };
    let (namespace, operation) = (name(view), &fixture.operation);
    let raw = options.as_raw();
    Ok((fixture.database).create_collection(&namespace, raw, operation, Level::Written)?)
}

fn found(fixture: &Fixture, mut executor: Executor, batch: usize) -> Result<Vec<String>> {
    let (mut found, mut document) = (Vec::new(), Vec::new());
    while executor.next(&fixture.operation, &mut document)? {
        found.push(extjson::relaxed(RawDocument::new(&document)?));
        document.clear();
        if found.len() % batch == 0 {
            executor.save(&fixture.operation)?;
            executor.restore((&fixture.database).into(), &fixture.operation)?;
        }
    }
    Ok(found)
}

fn find_in(fixture: &Fixture, view: &str, filter: &str) -> Result<Vec<String>> {
    let (namespace, filter) = (name(view), json(filter));
    let mut request = FindRequest::new(&namespace);
    request.filter = filter.as_raw();
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request)?;
    found(fixture, executor, 2)
}

fn aggregate(fixture: &Fixture, over: &str, pipeline: &str, batch: usize) -> Result<Vec<String>> {
    let (namespace, pipeline) = (name(over), stages(pipeline));
    let request = AggregateRequest::new(Over::Collection(&namespace), array(&pipeline));
    let executor = exec::aggregate((&fixture.database).into(), &fixture.operation, request)?;
    found(fixture, executor, batch)
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code
}

fn people() -> Fixture {
    with(&[
        r#"{"_id": 1, "name": "Ada", "age": 36, "team": "x"}"#,
        r#"{"_id": 2, "name": "Bob", "age": 17, "team": "y"}"#,
        r#"{"_id": 3, "name": "Cyd", "age": 50, "team": "x"}"#,
        r#"{"_id": 4, "name": "Dee", "age": 20, "team": "y"}"#,
    ])
}

#[test]
fn everything_that_reads_reads_a_view() {
    let fixture = people();
    make(
        &fixture,
        "adults",
        "c",
        r#"[{"$match": {"age": {"$gte": 18}}}]"#,
    )
    .unwrap();
    make(
        &fixture,
        "names",
        "adults",
        r#"[{"$project": {"name": 1, "team": 1}}]"#,
    )
    .unwrap();
    let all = find_in(&fixture, "names", "{}").unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], r#"{"_id":1,"name":"Ada","team":"x"}"#);
    // By `_id`, which goes another way for a collection.
    let by_id = find_in(&fixture, "adults", r#"{"_id": 2}"#).unwrap();
    assert!(by_id.is_empty());
    let (filter, sort, only) = (
        json(r#"{"team": "x"}"#),
        json(r#"{"name": -1}"#),
        json(r#"{"name": 1, "_id": 0}"#),
    );
    let namespace = name("names");
    let mut request = FindRequest::new(&namespace);
    request.filter = filter.as_raw();
    request.sort = Some(sort.as_raw());
    request.projection = Some(only.as_raw());
    request.limit = Some(1);
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    assert_eq!(found(&fixture, executor, 1).unwrap(), [r#"{"name":"Cyd"}"#]);

    let grouped = r#"[{"$group": {"_id": "$team", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]"#;
    let teams = aggregate(&fixture, "names", grouped, 1).unwrap();
    assert_eq!(teams, [r#"{"_id":"x","n":2}"#, r#"{"_id":"y","n":1}"#]);
    let unwound =
        r#"[{"$match": {"team": "x"}}, {"$addFields": {"l": [1, 2, 3]}}, {"$unwind": "$l"}]"#;
    assert_eq!(aggregate(&fixture, "adults", unwound, 2).unwrap().len(), 6);

    let scope = || Scope::from(&fixture.database);
    let mut count = CountRequest::new(&namespace);
    assert_eq!(exec::count(scope(), &fixture.operation, count).unwrap(), 3);
    (count.filter, count.limit) = (filter.as_raw(), Some(1));
    assert_eq!(exec::count(scope(), &fixture.operation, count).unwrap(), 1);
    let nobody = json(r#"{"team": "z"}"#);
    count.filter = nobody.as_raw();
    assert_eq!(exec::count(scope(), &fixture.operation, count).unwrap(), 0);
    let distinct = DistinctRequest::new(&namespace, "team");
    assert_eq!(
        exec::distinct(scope(), &fixture.operation, distinct)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn stages_read_views_beside_their_input() {
    let fixture = people();
    make(
        &fixture,
        "adults",
        "c",
        r#"[{"$match": {"age": {"$gte": 18}}}]"#,
    )
    .unwrap();
    make(
        &fixture,
        "mates",
        "adults",
        r#"[{"$lookup": {"from": "adults", "localField": "team", "foreignField": "team", "as": "all"}},
            {"$project": {"n": {"$size": "$all"}}}]"#,
    )
    .unwrap();
    // A view whose stages read another view, read by a stage of its own.
    let joined = r#"[{"$match": {"_id": {"$lte": 2}}},
        {"$lookup": {"from": "mates", "localField": "_id", "foreignField": "_id", "as": "m"}},
        {"$project": {"m": 1}}]"#;
    for batch in [1, 100] {
        assert_eq!(
            aggregate(&fixture, "c", joined, batch).unwrap(),
            [r#"{"_id":1,"m":[{"_id":1,"n":2}]}"#, r#"{"_id":2,"m":[]}"#]
        );
        let united = r#"[{"$unionWith": {"coll": "mates", "pipeline": [{"$match": {"n": 1}}]}}]"#;
        assert_eq!(
            aggregate(&fixture, "adults", united, batch).unwrap().len(),
            4
        );
    }
    let with_let = r#"[{"$lookup": {"from": "adults", "let": {"t": "$team"}, "as": "m", "pipeline":
        [{"$match": {"$expr": {"$eq": ["$team", "$$t"]}}}, {"$count": "n"}]}}, {"$unwind": "$m"}]"#;
    assert_eq!(aggregate(&fixture, "c", with_let, 3).unwrap().len(), 4);
    let graph = r#"[{"$match": {"_id": 2}}, {"$graphLookup": {"from": "adults", "startWith": "$team",
        "connectFromField": "team", "connectToField": "team", "as": "g"}}]"#;
    let found = aggregate(&fixture, "c", graph, 1).unwrap();
    assert!(
        found[0].contains("Dee") && !found[0].contains(r#""g":[]"#),
        "{found:?}"
    );
}

#[test]
fn nothing_writes_to_a_view() {
    let fixture = people();
    make(&fixture, "v", "c", "[]").unwrap();
    let view = name("v");
    let (database, operation) = (&fixture.database, &fixture.operation);
    let scope = || Scope::from(database);
    let on_view = ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW;
    let document = json(r#"{"_id": 9}"#);
    let documents = [document.as_raw()];
    let insert = InsertRequest::new(&view, &documents);
    assert_eq!(
        code(exec::insert(scope(), operation, insert, Level::Written)),
        on_view
    );
    for filter in ["{}", r#"{"_id": 1}"#, r#"{"age": 17}"#] {
        let filter = json(filter);
        for is_multi in [false, true] {
            let delete = DeleteRequest {
                namespace: &view,
                context: None,
                collation: None,
                filter: filter.as_raw(),
                is_multi,
                hint: None,
            };
            assert_eq!(
                code(exec::delete(scope(), operation, delete, Level::Written)),
                on_view
            );
        }
        let mut remove = FindAndModifyRequest::new(&view);
        remove.filter = filter.as_raw();
        assert_eq!(
            code(exec::find_and_modify(
                scope(),
                operation,
                remove,
                Level::Written
            )),
            on_view
        );
    }
    let level = Level::Written;
    let spec = [json(r#"{"key": {"a": 1}}"#)];
    let refused = [
        database
            .create_indexes(&view, &spec, operation, level)
            .map(drop),
        database.drop_all_indexes(&view, operation, level).map(drop),
        database.list_indexes(&view).map(drop),
        database.rename_collection(&view, &name("w"), false, operation, level),
        database.validate(&view, false, operation).map(drop),
        database
            .set_pre_images(&view, true, operation, level)
            .map(drop),
        database.coll_stats(&view).map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert_eq!(ErrorCode(refused.unwrap_err().code()), on_view, "{number}");
    }
    assert_eq!(fixture.count("{}", None), 4);
    assert!(
        database
            .drop_collection(&view, operation, level)
            .unwrap()
            .is_some()
    );
    assert_eq!(fixture.count("{}", None), 4);
}

#[test]
fn a_definition_that_cannot_be_read_is_refused() {
    let fixture = people();
    make(&fixture, "a", "c", "[]").unwrap();
    make(&fixture, "b", "a", "[]").unwrap();
    let cycle = ErrorCode::GRAPH_CONTAINS_CYCLE;
    assert_eq!(code(make(&fixture, "z", "z", "[]")), cycle);
    let through_lookup =
        r#"[{"$lookup": {"from": "z", "localField": "a", "foreignField": "a", "as": "l"}}]"#;
    assert_eq!(code(make(&fixture, "z", "c", through_lookup)), cycle);
    let (scope, nothing) = (Scope::from(&fixture.database), stages("[]"));
    let checked = exec::check_view(
        scope,
        &fixture.operation,
        &name("a"),
        "b",
        array(&nothing),
        &Collation::SIMPLE,
    );
    assert_eq!(code(checked), cycle);
    assert_eq!(
        code(make(&fixture, "z", "c", r#"[{"$nothing": 1}]"#)),
        ErrorCode(40_324)
    );
    let option = ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW;
    assert_eq!(code(make(&fixture, "z", "c", r#"[{"$out": "x"}]"#)), option);
    assert_eq!(
        code(make(&fixture, "z", "c", r#"[{"$documents": []}]"#)),
        option
    );
    // Twenty views on each other, and not one more.
    let mut below = "c".to_owned();
    for depth in 1..=20 {
        let view = format!("deep{depth}");
        make(&fixture, &view, &below, "[]").unwrap();
        below = view;
    }
    assert_eq!(find_in(&fixture, "deep20", "{}").unwrap().len(), 4);
    let too_deep = ErrorCode::VIEW_DEPTH_LIMIT_EXCEEDED;
    assert_eq!(code(make(&fixture, "deep21", &below, "[]")), too_deep);
}

#[test]
fn views_that_read_each_other_all_the_same_end_in_an_error() {
    let fixture = people();
    let nothing = stages("[]");
    force(&fixture, "p", "q", &nothing).unwrap();
    force(&fixture, "q", "p", &nothing).unwrap();
    let too_deep = ErrorCode::VIEW_DEPTH_LIMIT_EXCEEDED;
    assert_eq!(code(find_in(&fixture, "p", "{}")), too_deep);
    let union = r#"[{"$unionWith": "p"}]"#;
    assert_eq!(code(aggregate(&fixture, "c", union, 9)), too_deep);
    let of_itself = stages(r#"[{"$lookup": {"from": "r", "pipeline": [], "as": "l"}}]"#);
    force(&fixture, "r", "c", &of_itself).unwrap();
    // Stages within stages have a bound of their own, which the views between them do not lift.
    let too_deep = ErrorCode::MAX_SUB_PIPELINE_DEPTH_EXCEEDED;
    assert_eq!(code(find_in(&fixture, "r", "{}")), too_deep);
}

#[test]
fn explain_shows_a_view_as_the_pipeline_that_it_is() {
    let fixture = people();
    fixture.index(r#"{"key": {"age": 1}}"#);
    make(
        &fixture,
        "adults",
        "c",
        r#"[{"$match": {"age": {"$gte": 18}}}]"#,
    )
    .unwrap();
    let namespace = name("adults");
    let explained = fixture.explained(Explained::Find(FindRequest::new(&namespace)));
    assert_eq!(stages_of(&explained), "FETCH IXSCAN age_1");
    let counted = fixture.explained(Explained::Count(CountRequest::new(&namespace)));
    assert!(
        counted.to_string().contains("$group") || counted.to_string().contains("$count"),
        "{counted}"
    );
}

fn stages_of(explained: &Document) -> String {
    super::stages(explained)
}

#[test]
fn a_view_is_listed_and_changed() {
    let fixture = with(&[r#"{"_id": 1, "age": 3}"#, r#"{"_id": 2, "age": 30}"#]);
    make(&fixture, "v", "c", r#"[{"$match": {"age": 3}}]"#).unwrap();
    let changed = stages(r#"[{"$match": {"age": {"$gt": 3}}}]"#);
    let (database, operation, level) = (&fixture.database, &fixture.operation, Level::Written);
    let change =
        |name: Namespace| database.modify_view(&name, "c", array(&changed), operation, level);
    change(name("v")).unwrap();
    let refused = ErrorCode(change(name("c")).unwrap_err().code());
    assert_eq!(refused, ErrorCode::INVALID_OPTIONS);
    assert_eq!(
        find_in(&fixture, "v", "{}").unwrap(),
        [r#"{"_id":2,"age":30}"#]
    );
    let mut names = Vec::new();
    let mut take = |name: &str, kind: CollectionKind| names.push((name.to_owned(), kind.name()));
    database.list_names_behind("db", None, &mut take).unwrap();
    assert_eq!(
        names,
        [("c".to_owned(), "collection"), ("v".to_owned(), "view")]
    );
}

/// The metadata of what a view is on is read by the view itself, and not where a stage reads the view.
#[test]
fn metadata_of_a_view_within_a_stage_is_refused_rather_than_missing() {
    let fixture = with(&[r#"{"_id": 1}"#]);
    make(
        &fixture,
        "v",
        "c",
        r#"[{"$project": {"id": {"$meta": "recordId"}}}]"#,
    )
    .unwrap();
    let shown = aggregate(&fixture, "v", "[]", 2).unwrap();
    assert!(json(&shown[0]).contains("id"), "{shown:?}");
    let within = r#"[{"$lookup": {"from": "v", "as": "v", "pipeline": []}}]"#;
    let refused = aggregate(&fixture, "c", within, 2);
    assert_eq!(code(refused), ErrorCode::NOT_IMPLEMENTED);
}
