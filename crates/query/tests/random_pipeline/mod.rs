//! Random pipelines over random documents, for tests that compare what a pipeline gives with what its stages give one by one: a
//! stage alone is never moved, merged, or told what later stages read.

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, Value, doc};
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::Matcher;
use quarry_query::pipeline::{Collections, Pipeline, ReadId, Run, Source, SubFind};
use quarry_query::sort::SortPattern;
use quarry_query::{Error, Result};

pub struct Documents<'d>(pub std::slice::Iter<'d, Document>);

impl Source for Documents<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.0.next() else {
            return Ok(false);
        };
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}

/// The collection `other`; every other one is empty.
pub struct Other<'o> {
    documents: &'o [Document],
    reads: Vec<std::vec::IntoIter<Document>>,
}

impl<'o> Other<'o> {
    pub fn new(documents: &'o [Document]) -> Other<'o> {
        Other {
            documents,
            reads: Vec::new(),
        }
    }
}

impl Collections for Other<'_> {
    fn open(&mut self, collection: &str, find: SubFind<'_>) -> Result<ReadId> {
        let matcher = Matcher::parse_in(find.filter, find.context)?;
        let all = self.documents.iter().filter(|_| collection == "other");
        let mut found: Vec<Document> = all
            .filter(|one| matcher.matches(one.as_raw()))
            .cloned()
            .collect();
        if let Some(sort) = find.sort {
            let pattern = SortPattern::parse(sort)?;
            found.sort_by(|a, b| pattern.compare(a.as_raw(), b.as_raw()).unwrap());
        }
        let limit = find.limit.unwrap_or(u64::MAX) as usize;
        let wanted = found.into_iter().skip(find.skip as usize).take(limit);
        self.reads.push(wanted.collect::<Vec<_>>().into_iter());
        Ok(ReadId(self.reads.len() - 1))
    }

    fn next(&mut self, read: ReadId, out: &mut Vec<u8>) -> Result<bool> {
        let next = self.reads[read.0].next();
        out.extend(next.iter().flat_map(Document::as_bytes));
        Ok(next.is_some())
    }

    fn close(&mut self, _: ReadId) {}
}

pub fn parse(stages: &[String]) -> Pipeline {
    let text = format!("{{\"v\": [{}]}}", stages.join(", "));
    let wrapped = quarry_bson::extjson::parse(&text).unwrap();
    let context = ExpressionContext::default();
    Pipeline::parse(wrapped.get_array("v").unwrap(), &context).unwrap()
}

/// The documents that a pipeline makes of these, with a collection `other`. Each document is asked for in a run of its own, as in a batch of
/// one.
pub fn results(stages: &[String], input: &[Document], other: &[Document]) -> Result<Vec<Document>> {
    let pipeline = parse(stages);
    let (mut input, mut execution) = (Documents(input.iter()), pipeline.start());
    let (mut collections, mut found) = (Other::new(other), Vec::new());
    loop {
        let mut run = Run::new(&mut input, &mut collections);
        let mut out = Vec::new();
        if !execution.next(&mut run, &mut out)? {
            return Ok(found);
        }
        let document = RawDocument::validated(&out).map_err(Error::from)?;
        found.push(document.to_owned_document());
    }
}

/// The documents that the stages make one by one.
pub fn results_of_each(
    stages: &[String],
    input: &[Document],
    other: &[Document],
) -> Result<Vec<Document>> {
    let mut found = input.to_vec();
    for stage in stages {
        found = results(std::slice::from_ref(stage), &found, other)?;
    }
    Ok(found)
}

/// Few values, many of them equal across types.
pub fn key() -> impl Strategy<Value = Option<Value>> {
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

/// Documents with `v`, some of them with `k`.
pub fn documents() -> impl Strategy<Value = Vec<Document>> {
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

/// Documents with a list `l`, too, some of them with documents `d`.
pub fn listed_documents() -> impl Strategy<Value = Vec<Document>> {
    let list = prop::collection::vec(0..3_i32, 0..3);
    let rest = prop::collection::vec((list, within()), 40);
    (documents(), rest).prop_map(|(mut documents, rest)| {
        for (document, (list, within)) in documents.iter_mut().zip(rest) {
            document.append("l", list.into_iter().map(Value::from).collect::<Value>());
            if let Some(within) = within {
                document.append("d", within);
            }
        }
        documents
    })
}

/// Documents with `e`, alone and in arrays, and what is none.
fn within() -> impl Strategy<Value = Option<Value>> {
    let one = |e: i32| Value::from(doc! { "e": e, "f": [e] });
    prop_oneof![
        4 => Just(None),
        2 => (0..3_i32).prop_map(move |e| Some(one(e))),
        1 => Just(Some(Value::from(5))),
        1 => Just(Some(Value::from(doc! {}))),
        1 => prop::collection::vec(0..3_i32, 0..3).prop_map(move |all| Some(all.into_iter().map(one).collect())),
        1 => prop::collection::vec(0..3_i32, 0..3).prop_map(|all| {
            let all = all.into_iter().map(Value::from).collect::<Value>();
            Some(Value::from(doc! { "e": all }))
        }),
    ]
}

/// Up to seven stages over the fields `k`, `v`, `l` and `d`, and those that they give other names.
pub fn stages() -> impl Strategy<Value = Vec<String>> {
    let one = prop_oneof![
        filter().prop_map(|one| vec![one]),
        other_stage().prop_map(|one| vec![one]),
        joined(),
        gathered(),
        ordered(),
    ];
    prop::collection::vec(one, 1..7).prop_map(|stages| stages.concat())
}

fn filter() -> impl Strategy<Value = String> {
    let filter = prop_oneof![
        Just(r#"{"v": {"$gt": 0}}"#),
        Just(r#"{"k": {"$in": [1, "a", null]}}"#),
        Just(r#"{"v": {"$lt": 3}, "k": {"$ne": 2}}"#),
        Just(r#"{"$and": [{"l": 1}, {"$or": [{"v": 1}, {"k": 0}]}]}"#),
        Just(r#"{"l": {"$size": 2}}"#),
        Just(r#"{"d.e": {"$exists": true}}"#),
        Just(r#"{"n": {"$gte": 1}}"#),
        Just(r#"{"n": {"$exists": false}}"#),
        Just(r#"{"$or": [{"n": null}, {"v": {"$lt": 0}}]}"#),
        Just(r#"{"$nor": [{"n": 1}, {"m": {"$elemMatch": {"$gte": 1}}}]}"#),
        Just(r#"{"m.0": {"$lte": 1}}"#),
        Just(r#"{"n.e": {"$exists": false}, "d.e": {"$ne": 1}}"#),
        Just(r#"{"$expr": {"$gte": ["$v", "$k"]}}"#),
        Just(r#"{"$expr": {"$eq": ["$l", 1]}, "v": {"$gte": -2}}"#),
        Just(r#"{"$expr": {"$eq": ["$$ROOT.v", 1]}}"#),
        Just(r#"{}"#),
    ];
    filter.prop_map(|filter| format!(r#"{{"$match": {filter}}}"#))
}

fn other_stage() -> impl Strategy<Value = String> {
    let stage = prop_oneof![
        Just(r#"{"$sort": {"v": 1}}"#),
        Just(r#"{"$sort": {"k": -1}}"#),
        Just(r#"{"$sort": {"l": 1, "v": -1}}"#),
        Just(r#"{"$unwind": "$l"}"#),
        Just(
            r#"{"$unwind": {"path": "$l", "includeArrayIndex": "d.i", "preserveNullAndEmptyArrays": true}}"#
        ),
        Just(r#"{"$addFields": {"v": {"$ifNull": ["$k", 5]}}}"#),
        Just(r#"{"$addFields": {"n": "$k", "m": "$l"}}"#),
        Just(r#"{"$addFields": {"n": "$d", "d": "$v", "v": "$n"}}"#),
        Just(r#"{"$set": {"d.e": "$v", "n": 1}}"#),
        Just(r#"{"$project": {"v": 1, "l": 1, "d": {"e": "$k"}}}"#),
        Just(r#"{"$project": {"k": 1, "l": "$v"}}"#),
        Just(r#"{"$project": {"n": "$v", "m": "$l", "k": "$k", "v": 1}}"#),
        Just(r#"{"$unset": ["k", "d.e"]}"#),
        Just(r#"{"$skip": 2}"#),
        Just(r#"{"$skip": 1}"#),
        Just(r#"{"$limit": 7}"#),
        Just(r#"{"$limit": 11}"#),
        Just(r#"{"$unionWith": "none"}"#),
        Just(r#"{"$count": "v"}"#),
        Just(r#"{"$group": {"_id": "$v", "k": {"$first": "$k"}, "v": {"$max": "$v"}}}"#),
        Just(r#"{"$group": {"_id": "$l", "v": {"$sum": "$v"}, "l": {"$push": "$k"}}}"#),
        Just(r#"{"$group": {"_id": {"$type": "$k"}, "v": {"$avg": {"$multiply": ["$v", 0.1]}}}}"#),
        Just(
            r#"{"$group": {"_id": {"n": "$n", "m": "$m"}, "d": {"$first": "$d"}, "o": {"$max": "$o"}}}"#
        ),
        Just(r#"{"$project": {"n": 1, "d": 1, "v": 1}}"#),
        Just(r#"{"$unwind": {"path": "$l", "includeArrayIndex": "n"}}"#),
        Just(r#"{"$replaceRoot": {"newRoot": {"v": "$v", "l": ["$k", 1]}}}"#),
        Just(
            r#"{"$facet": {"l": [{"$match": {"v": {"$gt": 0}}}, {"$unwind": "$l"}, {"$project": {"l": 1}}], "k": [{"$sort": {"v": 1}}, {"$limit": 2}]}}"#
        ),
        Just(
            r#"{"$setWindowFields": {"partitionBy": "$v", "output": {"n": {"$documentNumber": {}}}, "sortBy": {"k": 1}}}"#
        ),
        Just(
            r#"{"$setWindowFields": {"sortBy": {"v": 1}, "output": {
                "n": {"$sum": {"$multiply": ["$v", 0.1]}, "window": {"documents": [-2, 1]}},
                "d.a": {"$avg": "$v", "window": {"documents": [-1, 0]}},
                "m": {"$push": "$k", "window": {"documents": [0, 1]}}}}}"#
        ),
    ];
    stage.prop_map(str::to_owned)
}

/// A `$lookup`, some with what can become one stage with it.
fn joined() -> impl Strategy<Value = Vec<String>> {
    let lookup = prop_oneof![
        Just(r#""from": "other", "localField": "k", "foreignField": "k""#),
        Just(r#""from": "other", "localField": "l", "foreignField": "v""#),
        Just(r#""from": "none", "localField": "k", "foreignField": "k""#),
        Just(
            r#""from": "other", "localField": "v", "foreignField": "v", "pipeline": [{"$match": {"k": {"$ne": 1}}}, {"$limit": 3}]"#
        ),
        Just(r#""from": "other", "pipeline": [{"$limit": 2}]"#),
    ];
    let output = prop_oneof![Just("l"), Just("d.o"), Just("o")];
    let unwind = prop_oneof![
        Just(""),
        Just(r#""preserveNullAndEmptyArrays": true"#),
        Just(r#""includeArrayIndex": "n""#),
        Just(r#""includeArrayIndex": "d.i", "preserveNullAndEmptyArrays": true"#),
    ];
    let condition = prop_oneof![
        Just(r#"{"OUT.v": {"$gte": 0}}"#),
        Just(r#"{"OUT.k": null, "v": {"$gt": -3}}"#),
        Just(r#"{"$or": [{"OUT.v": 1}, {"OUT.k": "a"}]}"#),
        Just(r#"{"$or": [{"OUT.v": 1}, {"v": 1}]}"#),
        Just(r#"{"OUT": {"$exists": true}, "OUT.v": {"$ne": 2}}"#),
    ];
    (lookup, output, unwind, condition, 0..3_usize).prop_map(
        |(lookup, output, unwind, condition, more)| {
            let comma = if unwind.is_empty() { "" } else { "," };
            let all = [
                format!(r#"{{"$lookup": {{{lookup}, "as": "{output}"}}}}"#),
                format!(r#"{{"$unwind": {{"path": "${output}"{comma} {unwind}}}}}"#),
                format!(r#"{{"$match": {}}}"#, condition.replace("OUT", output)),
            ];
            all[..=more].to_vec()
        },
    )
}

/// Stages that make one document of each, with a sort and bounds behind.
fn ordered() -> impl Strategy<Value = Vec<String>> {
    let mapping = prop_oneof![
        Just(r#"{"$addFields": {"n": {"$add": ["$v", 1]}}}"#),
        Just(r#"{"$set": {"v": "$n", "d.e": 1}}"#),
        Just(r#"{"$project": {"v": 1, "k": 1, "n": "$l"}}"#),
        Just(r#"{"$project": {"l": 0}}"#),
        Just(r#"{"$unset": "k"}"#),
        Just(r#"{"$replaceRoot": {"newRoot": {"v": "$k", "k": "$v"}}}"#),
        Just(
            r#"{"$lookup": {"from": "other", "localField": "k", "foreignField": "k", "as": "o"}}"#
        ),
        Just(
            r#"{"$lookup": {"from": "other", "localField": "v", "foreignField": "v", "as": "l"}}"#
        ),
        Just(
            r#"{"$lookup": {"from": "other", "pipeline": [{"$sort": {"v": 1}}, {"$limit": 1}], "as": "d.o"}}"#
        ),
        Just(
            r#"{"$graphLookup": {"from": "other", "startWith": "$k", "connectFromField": "v", "connectToField": "k", "as": "g", "maxDepth": 1}}"#
        ),
    ];
    let sort = prop_oneof![
        Just(r#"{"$sort": {"v": 1}}"#),
        Just(r#"{"$sort": {"k": -1}}"#),
        Just(r#"{"$sort": {"k": 1, "v": -1}}"#),
        Just(r#"{"$sort": {"d.e": 1}}"#),
        Just(r#"{"$sort": {"n": 1}}"#),
        Just(r#"{"$sort": {"l": -1, "k": 1}}"#),
    ];
    let bound = prop_oneof![
        Just(r#"{"$skip": 1}"#),
        Just(r#"{"$limit": 3}"#),
        Just(r#"{"$limit": 8}"#),
    ];
    let mappings = prop::collection::vec(mapping, 1..4);
    (mappings, sort, prop::collection::vec(bound, 0..3)).prop_map(|(mappings, sort, bounds)| {
        let stages = mappings.into_iter().chain([sort]).chain(bounds);
        stages.map(str::to_owned).collect()
    })
}

/// A stage that gathers documents by a key, with filters that ask of it behind.
fn gathered() -> impl Strategy<Value = Vec<String>> {
    let stage = prop_oneof![
        (key_expression(), grouped()).prop_map(|((key, path), fields)| {
            let stage = format!(r#"{{"$group": {{"_id": {key}, {fields}}}}}"#);
            (stage, path.replace("KEY", "_id"))
        }),
        (key_expression(), windowed()).prop_map(|((key, path), rest)| {
            let asked = path.replace("KEY.x", "k").replace("KEY.y.z", "v");
            let only = match key.starts_with('{') {
                true => "k".to_owned(),
                false => key.trim_matches(['"', '$']).to_owned(),
            };
            let stage = format!(r#"{{"$setWindowFields": {{"partitionBy": {key}, {rest}}}}}"#);
            (stage, asked.replace("KEY", &only))
        }),
        redaction().prop_map(|stage| (stage, "d".to_owned())),
        united().prop_map(|stage| (stage, "k".to_owned())),
    ];
    let asked = prop::collection::vec(
        (condition(), prop_oneof![Just(""), Just(".e"), Just(".0")]),
        1..3,
    );
    (stage, asked).prop_map(|((stage, path), asked)| {
        let filters = asked.into_iter().map(|(condition, within)| {
            let filter = condition.replace("PATH", &format!("{path}{within}"));
            format!(r#"{{"$match": {filter}}}"#)
        });
        std::iter::once(stage).chain(filters).collect()
    })
}

/// An expression that documents are gathered by, and the path of a part of it.
fn key_expression() -> impl Strategy<Value = (&'static str, String)> {
    let keys = prop_oneof![
        Just((r#""$k""#, "KEY")),
        Just((r#""$l""#, "KEY")),
        Just((r#""$v""#, "KEY")),
        Just((r#""$d.e""#, "KEY")),
        Just((r#"{"x": "$k"}"#, "KEY.x")),
        Just((r#"{"x": "$k", "y": {"z": "$v"}}"#, "KEY.x")),
        Just((r#"{"x": "$k", "y": {"z": "$v"}}"#, "KEY.y.z")),
        Just((r#"{"x": "$k", "y": {"z": "$v"}}"#, "KEY")),
    ];
    keys.prop_map(|(key, path)| (key, path.to_owned()))
}

fn grouped() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#""v": {"$sum": "$v"}, "k": {"$first": "$k"}"#),
        Just(r#""l": {"$push": "$v"}, "v": {"$max": "$v"}"#),
        Just(r#""n": {"$count": {}}"#),
    ]
}

fn windowed() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#""sortBy": {"v": 1}, "output": {"n": {"$documentNumber": {}}}"#),
        Just(r#""output": {"n": {"$sum": "$v"}, "d.a": {"$first": "$k"}}"#),
        Just(r#""sortBy": {"l": -1}, "output": {"k": {"$shift": {"output": "$v", "by": -1}}}"#),
        Just(r#""output": {}"#),
    ]
}

fn redaction() -> impl Strategy<Value = String> {
    let decisions = prop_oneof![
        Just(r#"{"$cond": [{"$gt": ["$e", 0]}, "$$PRUNE", "$$DESCEND"]}"#),
        Just(r#"{"$cond": [{"$eq": ["$v", 1]}, "$$PRUNE", "$$DESCEND"]}"#),
        Just(r#"{"$cond": [{"$gte": ["$k", 1]}, "$$KEEP", "$$DESCEND"]}"#),
    ];
    decisions.prop_map(|decision| format!(r#"{{"$redact": {decision}}}"#))
}

fn united() -> impl Strategy<Value = String> {
    let unions = prop_oneof![
        Just(r#""other""#),
        Just(r#"{"coll": "other", "pipeline": [{"$sort": {"v": 1}}, {"$limit": 5}]}"#),
        Just(
            r#"{"coll": "other", "pipeline": [{"$match": {"v": {"$gt": -3}}}, {"$unionWith": "other"}]}"#
        ),
        Just(r#"{"coll": "other", "pipeline": [{"$group": {"_id": "$k", "k": {"$sum": "$v"}}}]}"#),
        Just(r#"{"pipeline": [{"$documents": [{"k": 1, "v": 1}, {"k": null}, {"v": 2}]}]}"#),
    ];
    unions.prop_map(|union| format!(r#"{{"$unionWith": {union}}}"#))
}

/// A condition on the path `PATH`, alone or beside others.
fn condition() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#"{"PATH": 1}"#),
        Just(r#"{"PATH": null}"#),
        Just(r#"{"PATH": {"$ne": null}}"#),
        Just(r#"{"PATH": {"$gte": 1}}"#),
        Just(r#"{"PATH": {"$lt": 1, "$gt": -3}}"#),
        Just(r#"{"PATH": {"$in": [0, "a", null]}}"#),
        Just(r#"{"PATH": {"$nin": [1, 2]}}"#),
        Just(r#"{"PATH": {"$exists": true}}"#),
        Just(r#"{"PATH": {"$exists": false}}"#),
        Just(r#"{"PATH": {"$type": "int"}}"#),
        Just(r#"{"PATH": {"$not": {"$gt": 0}}}"#),
        Just(r#"{"PATH": {"$regex": "^a"}}"#),
        Just(r#"{"PATH": [1, 1]}"#),
        Just(r#"{"PATH": {"$elemMatch": {"$gte": 1}}}"#),
        Just(r#"{"PATH": {"$gt": {"$minKey": 1}}}"#),
        Just(r#"{"$or": [{"PATH": 1}, {"PATH": {"$exists": false}}]}"#),
        Just(r#"{"$nor": [{"PATH": 1}, {"PATH": null}]}"#),
        Just(r#"{"$or": [{"PATH": {"$gt": 1}}, {"v": {"$lt": 2}}]}"#),
        Just(r#"{"PATH": {"$gt": 0}, "v": {"$gt": -4}}"#),
        Just(r#"{"$expr": {"$gt": ["$PATH", 0]}}"#),
    ]
}
