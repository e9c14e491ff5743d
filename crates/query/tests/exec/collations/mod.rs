//! Collations of operations, of collections and of views: what is found, changed and told apart by them.

mod agreement;
mod indexes;

use quarry_database::parse_collation;
use quarry_query::expression::ExpressionContext;

use super::*;

fn collation(specification: &str) -> quarry_query::Collation {
    parse_collation(json(specification).as_raw())
        .unwrap()
        .unwrap()
}

/// The context of a command with that collation.
fn by(specification: &str) -> ExpressionContext {
    ExpressionContext::default().with_collation(collation(specification))
}

/// Case and accents do not count.
const WEAK: &str = r#"{"locale": "en", "strength": 1}"#;
const SIMPLE: &str = r#"{"locale": "simple"}"#;

impl Fixture {
    fn create(&self, name: &str, options: &str) {
        let namespace = Namespace::parse(name).unwrap();
        let options = json(options);
        let created = self.database.create_collection(
            &namespace,
            options.as_raw(),
            &self.operation,
            Level::Written,
        );
        created.unwrap();
    }

    fn found_by(&self, filter: &str, context: Option<&ExpressionContext>) -> Vec<String> {
        let context = context.map(|context| context.with_collation(context.collation().clone()));
        let filter = json(filter);
        let mut request = FindRequest::new(&self.namespace);
        (request.filter, request.context) = (filter.as_raw(), context.as_ref());
        self.drain(exec::find((&self.database).into(), &self.operation, request).unwrap())
    }

    fn counted_by(&self, filter: &str, context: Option<&ExpressionContext>) -> u64 {
        let filter = json(filter);
        let mut request = CountRequest::new(&self.namespace);
        (request.filter, request.context) = (filter.as_raw(), context);
        exec::count((&self.database).into(), &self.operation, request).unwrap()
    }

    fn distinct_by(&self, key: &str, context: Option<&ExpressionContext>) -> usize {
        let mut request = DistinctRequest::new(&self.namespace, key);
        request.context = context;
        exec::distinct((&self.database).into(), &self.operation, request)
            .unwrap()
            .len()
    }

    fn aggregated(
        &self,
        name: &str,
        pipeline: &str,
        context: Option<&ExpressionContext>,
    ) -> Result<Vec<String>> {
        let namespace = Namespace::parse(name).unwrap();
        let stages = json(&format!(r#"{{"p": {pipeline}}}"#));
        let mut request =
            AggregateRequest::new(Over::Collection(&namespace), stages.get_array("p").unwrap());
        request.context = context;
        let executor = exec::aggregate((&self.database).into(), &self.operation, request)?;
        Ok(self.drain(executor))
    }
}

fn names() -> Fixture {
    let fixture = with(&[]);
    fixture.create("db.c", &format!(r#"{{"collation": {WEAK}}}"#));
    let documents = [
        r#"{"_id": "a", "n": "Café"}"#,
        r#"{"_id": "A", "n": "cafe"}"#,
        r#"{"_id": "b", "n": "tea"}"#,
        r#"{"_id": 1, "n": ["CAFE", "x"]}"#,
    ];
    let documents: Vec<Document> = documents.iter().map(|text| json(text)).collect();
    assert!(fixture.insert(&documents, true).errors.is_empty());
    fixture
}

#[test]
fn an_operation_compares_as_it_says_and_else_as_its_collection() {
    let fixture = names();
    let (simple, weak) = (by(SIMPLE), by(WEAK));
    for context in [None, Some(&weak)] {
        assert_eq!(fixture.found_by(r#"{"n": "cafe"}"#, context).len(), 3);
        assert_eq!(fixture.counted_by(r#"{"n": "cafe"}"#, context), 3);
        assert_eq!(fixture.distinct_by("n", context), 3);
        // Records stand under their `_id`s byte by byte, and are found by the collation all the same.
        assert_eq!(fixture.found_by(r#"{"_id": "a"}"#, context).len(), 2);
        assert_eq!(
            fixture.counted_by(r#"{"_id": {"$in": ["A", 1]}}"#, context),
            3
        );
        assert_eq!(fixture.found_by(r#"{"_id": 1}"#, context).len(), 1);
    }
    assert_eq!(fixture.found_by(r#"{"n": "cafe"}"#, Some(&simple)).len(), 1);
    assert_eq!(fixture.counted_by(r#"{"_id": "a"}"#, Some(&simple)), 1);
    assert_eq!(fixture.distinct_by("n", Some(&simple)), 5);
    let grouped = |context| {
        let pipeline = r#"[{"$unwind": "$n"}, {"$group": {"_id": "$n", "c": {"$sum": 1}}}]"#;
        fixture.aggregated("db.c", pipeline, context).unwrap().len()
    };
    assert_eq!((grouped(None), grouped(Some(&simple))), (3, 5));
}

#[test]
fn writes_compare_as_their_collection_or_their_own_collation() {
    let fixture = names();
    // By `_id`: the first that is equal, or all.
    assert_eq!(
        fixture
            .update(r#"{"_id": "a"}"#, r#"{"$set": {"m": 1}}"#, true, false)
            .matched,
        2
    );
    assert_eq!(
        fixture
            .update(r#"{"_id": "a"}"#, r#"{"$set": {"m": 2}}"#, false, false)
            .matched,
        1
    );
    assert_eq!(
        fixture
            .update(
                r#"{"n": "CAFÉ"}"#,
                r#"{"$addToSet": {"s": {"$each": ["x", "X"]}}}"#,
                true,
                false
            )
            .matched,
        3
    );
    assert_eq!(fixture.find(r#"{"s": {"$size": 1}}"#).len(), 3);
    // An upsert that finds one by the collation inserts none.
    assert_eq!(
        fixture
            .update(r#"{"n": "TEA"}"#, r#"{"$set": {"m": 3}}"#, false, true)
            .matched,
        1
    );
    let delete = |filter: &str, collation: Option<&str>| {
        let (filter, collation) = (json(filter), collation.map(json));
        let request = DeleteRequest {
            namespace: &fixture.namespace,
            context: None,
            collation: collation.as_ref().map(Document::as_raw),
            filter: filter.as_raw(),
            is_multi: true,
            hint: None,
        };
        exec::delete(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert_eq!(delete(r#"{"n": "CAFE", "_id": "A"}"#, Some(SIMPLE)), 0);
    assert_eq!(delete(r#"{"n": "CAFE"}"#, None), 3);
    assert_eq!(delete(r#"{"_id": "B"}"#, None), 1);
    let mut request = FindAndModifyRequest::new(&fixture.namespace);
    let (filter, update) = (json(r#"{"_id": "z"}"#), json(r#"{"$set": {"n": "Q"}}"#));
    (request.filter, request.update, request.is_upsert) = (
        filter.as_raw(),
        Some(RawValue::Document(update.as_raw())),
        true,
    );
    let run = || {
        exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert!(!run().matched);
    let again = json(r#"{"_id": "Z"}"#);
    request.filter = again.as_raw();
    let run = || {
        exec::find_and_modify(
            (&fixture.database).into(),
            &fixture.operation,
            request,
            Level::Written,
        )
        .unwrap()
    };
    assert!(run().matched);
}

#[test]
fn a_view_compares_as_it_says_and_takes_no_other_collation() {
    let fixture = names();
    fixture.create("db.plain", r#"{"viewOn": "c", "pipeline": []}"#);
    fixture.create(
        "db.weak",
        &format!(
            r#"{{"viewOn": "c", "pipeline": [{{"$match": {{"n": "tea"}}}}], "collation": {WEAK}}}"#
        ),
    );
    let count = |view: &str, filter: &str, context: Option<&ExpressionContext>| {
        fixture
            .aggregated(view, &format!(r#"[{{"$match": {filter}}}]"#), context)
            .map(|found| found.len())
    };
    // The collation of what it is on is nothing to a view.
    assert_eq!(count("db.plain", r#"{"n": "TEA"}"#, None).unwrap(), 0);
    assert_eq!(count("db.weak", r#"{"n": "TEA"}"#, None).unwrap(), 1);
    assert_eq!(
        count("db.weak", r#"{"n": "TEA"}"#, Some(&by(WEAK))).unwrap(),
        1
    );
    for (view, context) in [("db.plain", by(WEAK)), ("db.weak", by(SIMPLE))] {
        assert_eq!(
            count(view, "{}", Some(&context)).unwrap_err().code.0,
            167,
            "{view}"
        );
    }
    let lookup = |from: &str| {
        let pipeline = format!(
            r#"[{{"$lookup": {{"from": "{from}", "localField": "n", "foreignField": "n", "as": "f"}}}}]"#
        );
        fixture.aggregated("db.c", &pipeline, None)
    };
    assert!(lookup("weak").is_ok());
    assert_eq!(lookup("plain").unwrap_err().code.0, 167);
    let check = |on: &str, specification: &str| {
        let name = Namespace::parse("db.upon").unwrap();
        let stages = json(r#"{"p": []}"#);
        let stages = stages.get_array("p").unwrap();
        let scope = (&fixture.database).into();
        exec::check_view(
            scope,
            &fixture.operation,
            &name,
            on,
            stages,
            &collation(specification),
        )
    };
    assert!(check("weak", WEAK).is_ok());
    assert_eq!(check("weak", SIMPLE).unwrap_err().code.0, 167);
    assert!(check("c", SIMPLE).is_ok());
}

#[test]
fn a_validator_compares_as_its_collection() {
    let fixture = with(&[]);
    fixture.create(
        "db.c",
        &format!(r#"{{"collation": {WEAK}, "validator": {{"kind": "Tea"}}}}"#),
    );
    assert!(
        fixture
            .insert(&[json(r#"{"kind": "TÉA"}"#)], true)
            .errors
            .is_empty()
    );
    assert_eq!(
        fixture
            .insert(&[json(r#"{"kind": "coffee"}"#)], true)
            .errors
            .len(),
        1
    );
}
