//! Validators: what an expression that fails means, and how much a refusal tells.

use super::*;

fn validated(validator: &str, level: &str) -> Fixture {
    let fixture = with(&[]);
    let options = json(&format!(
        r#"{{"validator": {validator}, "validationLevel": "{level}"}}"#
    ));
    fixture
        .database
        .create_collection(
            &fixture.namespace,
            options.as_raw(),
            &fixture.operation,
            Level::Written,
        )
        .unwrap();
    fixture
}

const DIVIDES: &str = r#"{"$expr": {"$gt": [{"$divide": [1, "$n"]}, 0]}}"#;

/// The `errInfo` of a refusal.
fn info(error: &quarry_query::Error) -> Document {
    match error.cause() {
        Some(quarry_database::Error::InvalidDocument(info)) => (**info).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_on_which_the_validator_fails_does_not_suit_it() {
    let fixture = validated(DIVIDES, "strict");
    let outcome = fixture.insert(&[json(r#"{"_id": 1, "n": 0}"#)], true);
    let (_, error) = &outcome.errors[0];
    assert_eq!(error.code(), 121, "{error}");
    let info = info(error);
    let details = info.get_document("details").unwrap();
    assert_eq!(
        details.get_str("reason"),
        Some("failed to evaluate aggregation expression")
    );
    let why = details.get_document("details").unwrap();
    assert_eq!(why.get("code").unwrap().as_i64_exact(), Some(2));
    assert_eq!(why.get_str("codeName"), Some("BadValue"));
    assert!(why.get_str("errmsg").unwrap().contains("divide by zero"));
    assert!(
        fixture
            .insert(&[json(r#"{"_id": 1, "n": 4}"#)], true)
            .errors
            .is_empty()
    );
    // An update to such a document is refused as well.
    let refused = fixture.try_update("{}", r#"{"$set": {"n": 0}}"#);
    assert_eq!(refused.unwrap_err().code(), 121);
    // A document that is there already, and fails, does not comply.
    let report = fixture
        .database
        .validate(&fixture.namespace, true, &fixture.operation);
    assert_eq!(report.unwrap().noncompliant_documents, 0);
    fixture.operation.bypass_validation();
    fixture.insert(&[json(r#"{"_id": 2, "n": 0}"#)], true);
    let report = fixture
        .database
        .validate(&fixture.namespace, true, &fixture.operation);
    assert_eq!(report.unwrap().noncompliant_documents, 1);
}

#[test]
fn a_document_that_failed_before_may_fail_on_at_a_moderate_level() {
    let fixture = validated(DIVIDES, "moderate");
    let before = Operation::new(None);
    before.bypass_validation();
    let document = json(r#"{"_id": 1, "n": 0}"#);
    let documents = [document.as_raw()];
    let request = InsertRequest {
        is_ordered: true,
        ..InsertRequest::new(&fixture.namespace, &documents)
    };
    exec::insert((&fixture.database).into(), &before, request, Level::Written).unwrap();
    let outcome = fixture
        .try_update("{}", r#"{"$set": {"other": 1}}"#)
        .unwrap();
    assert_eq!(outcome.modified, 1);
}

#[test]
fn the_details_of_a_refusal_are_bounded_whatever_the_schema_repeats() {
    let names: Vec<String> = (0..2000).map(|n| format!(r#""{n:0>50}""#)).collect();
    let names = names.join(", ");
    let title = "t".repeat(10_000);
    let fixture = validated(
        &format!(
            r#"{{"$jsonSchema": {{"patternProperties": {{"^f": {{"title": "{title}", "required": [{names}]}}}}}}}}"#
        ),
        "strict",
    );
    let fields: Vec<String> = (0..500).map(|n| format!(r#""f{n}": {{}}"#)).collect();
    let document = json(&format!(r#"{{"_id": 1, {}}}"#, fields.join(", ")));
    let outcome = fixture.insert(&[document], true);
    let told = info(&outcome.errors[0].1);
    // Each field alone has 200 KB to tell: what is asked, and what it lacks.
    assert!(
        told.as_bytes().len() < 2 << 20,
        "{} bytes",
        told.as_bytes().len()
    );
    assert!(extjson::relaxed(told.as_raw()).contains("missingProperties"));
}
