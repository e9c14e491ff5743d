//! `$group` and `$sort` with `$limit` against models that compare every document with every other.

use proptest::prelude::*;
use quarry_bson::compare::{compare_values, values_equal};
use quarry_bson::{Document, RawDocument, RawValue, Value};
use quarry_query::Result;
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::{NoCollections, Pipeline, Run, Source};

struct Documents<'d>(std::slice::Iter<'d, Document>);

impl Source for Documents<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.0.next() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}

fn results(stages: &str, input: &[Document]) -> Vec<Document> {
    let wrapped = quarry_bson::extjson::parse(&format!("{{\"v\": {stages}}}")).unwrap();
    let pipeline = Pipeline::parse(
        wrapped.get_array("v").unwrap(),
        &ExpressionContext::default(),
    )
    .unwrap();
    let (mut input, mut execution, mut found) =
        (Documents(input.iter()), pipeline.start(), Vec::new());
    loop {
        let mut collections = NoCollections;
        let mut run = Run::new(&mut input, &mut collections);
        let mut out = Vec::new();
        if !execution.next(&mut run, &mut out).unwrap() {
            return found;
        }
        found.push(RawDocument::validated(&out).unwrap().to_owned_document());
    }
}

/// Few values, many of them equal across types.
fn key() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(Value::null())),
        (0..3_i32).prop_map(|n| Some(Value::from(n))),
        (0..3_i64).prop_map(|n| Some(Value::from(n))),
        (0..3_i32).prop_map(|n| Some(Value::from(f64::from(n)))),
        Just(Some(Value::from(f64::NAN))),
        Just(Some(Value::from(-0.0))),
        "[ab]{0,2}".prop_map(|text| Some(Value::from(text))),
    ]
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    let document = (key(), -5..5_i32).prop_map(|(key, number)| {
        let mut document = Document::new();
        if let Some(key) = key {
            document.append("k", key);
        }
        document.append("v", number);
        document
    });
    prop::collection::vec(document, 0..40)
}

fn key_of(document: &Document) -> RawValue<'_> {
    document.get("k").unwrap_or(RawValue::Null)
}

/// One stage of those among which filters move, over the fields `k`, `v`, `l` and `d`.
fn stage() -> impl Strategy<Value = String> {
    let filter = prop_oneof![
        Just(r#"{"v": {"$gt": 0}}"#),
        Just(r#"{"k": {"$in": [1, "a", null]}}"#),
        Just(r#"{"v": {"$lt": 3}, "k": {"$ne": 2}}"#),
        Just(r#"{"$and": [{"l": 1}, {"$or": [{"v": 1}, {"k": 0}]}]}"#),
        Just(r#"{"l": {"$size": 2}}"#),
        Just(r#"{"d.e": {"$exists": true}}"#),
        Just(r#"{"$expr": {"$gte": ["$v", "$k"]}}"#),
        Just(r#"{"$expr": {"$eq": ["$l", 1]}, "v": {"$gte": -2}}"#),
        Just(r#"{"$expr": {"$eq": ["$$ROOT.v", 1]}}"#),
        Just(r#"{}"#),
    ];
    let filter = filter.prop_map(|filter| format!(r#"{{"$match": {filter}}}"#));
    let other = prop_oneof![
        Just(r#"{"$sort": {"v": 1}}"#),
        Just(r#"{"$sort": {"k": -1}}"#),
        Just(r#"{"$unwind": "$l"}"#),
        Just(
            r#"{"$unwind": {"path": "$l", "includeArrayIndex": "d.i", "preserveNullAndEmptyArrays": true}}"#
        ),
        Just(r#"{"$addFields": {"v": {"$ifNull": ["$k", 5]}}}"#),
        Just(r#"{"$set": {"d.e": "$v", "n": 1}}"#),
        Just(r#"{"$project": {"v": 1, "l": 1, "d": {"e": "$k"}}}"#),
        Just(r#"{"$project": {"k": 1, "l": "$v"}}"#),
        Just(r#"{"$unset": ["k", "d.e"]}"#),
        Just(r#"{"$skip": 2}"#),
        Just(r#"{"$limit": 7}"#),
        Just(r#"{"$lookup": {"from": "none", "localField": "k", "foreignField": "k", "as": "l"}}"#),
        Just(r#"{"$unionWith": "none"}"#),
        Just(r#"{"$group": {"_id": "$v", "k": {"$first": "$k"}, "v": {"$max": "$v"}}}"#),
        Just(r#"{"$replaceRoot": {"newRoot": {"v": "$v", "l": ["$k", 1]}}}"#),
    ];
    prop_oneof![filter, other.prop_map(str::to_owned)]
}

fn listed_documents() -> impl Strategy<Value = Vec<Document>> {
    let lists = prop::collection::vec(prop::collection::vec(0..3_i32, 0..3), 40);
    (documents(), lists).prop_map(|(mut documents, lists)| {
        for (document, list) in documents.iter_mut().zip(lists) {
            document.append("l", list.into_iter().map(Value::from).collect::<Value>());
        }
        documents
    })
}

proptest! {
    /// Whatever moves within a pipeline, it gives what its stages give one by one.
    #[test]
    fn a_pipeline_is_its_stages_one_after_the_other(input in listed_documents(), stages in prop::collection::vec(stage(), 1..7)) {
        let mut expected = input.clone();
        for stage in &stages {
            expected = results(&format!("[{stage}]"), &expected);
        }
        let found = results(&format!("[{}]", stages.join(", ")), &input);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn groups_are_the_classes_of_equal_keys(input in documents()) {
        let stages = r#"[{"$group": {"_id": "$k", "n": {"$sum": 1}, "t": {"$sum": "$v"}, "least": {"$min": "$v"}, "all": {"$push": "$v"}}}]"#;
        let found = results(stages, &input);
        let firsts: Vec<&Document> = input
            .iter()
            .enumerate()
            .filter(|(at, one)| !input[..*at].iter().any(|other| values_equal(key_of(one), key_of(other))))
            .map(|(_, one)| one)
            .collect();
        prop_assert_eq!(found.len(), firsts.len());
        for (group, first) in found.iter().zip(firsts) {
            prop_assert!(values_equal(group.get("_id").unwrap(), key_of(first)));
            let members: Vec<i32> = input
                .iter()
                .filter(|one| values_equal(key_of(one), key_of(first)))
                .map(|one| one.get_i32("v").unwrap())
                .collect();
            prop_assert_eq!(group.get_i32("n"), Some(members.len() as i32));
            prop_assert_eq!(group.get_i32("t"), Some(members.iter().sum()));
            prop_assert_eq!(group.get_i32("least"), members.iter().min().copied());
            let all: Vec<i32> = group.get_array("all").unwrap().iter().map(|one| one.as_i32().unwrap()).collect();
            prop_assert_eq!(all, members);
        }
    }

    #[test]
    fn the_first_of_a_sort_are_the_first_of_the_whole_sort(input in documents(), skip in 0..5_usize, limit in 1..9_usize) {
        let stages = format!(r#"[{{"$sort": {{"k": -1, "v": 1}}}}, {{"$skip": {skip}}}, {{"$limit": {limit}}}]"#);
        let mut expected: Vec<&Document> = input.iter().collect();
        expected.sort_by(|a, b| {
            let by_key = compare_values(key_of(b), key_of(a));
            by_key.then(a.get_i32("v").cmp(&b.get_i32("v")))
        });
        let expected: Vec<&[u8]> = expected.into_iter().skip(skip).take(limit).map(Document::as_bytes).collect();
        let found = results(&stages, &input);
        let found: Vec<&[u8]> = found.iter().map(Document::as_bytes).collect();
        prop_assert_eq!(found, expected);
    }
}
