//! Text indexes: a search finds by its terms what a scan finds that divides each document into words, with the scores of MongoDB.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quarry_text::{Folding, Language, Tokens};

use super::*;

fn articles() -> Fixture {
    let fixture = with(&[
        r#"{"_id": 1, "subject": "coffee", "author": "xyz", "views": 50}"#,
        r#"{"_id": 2, "subject": "Coffee Shopping", "author": "efg", "views": 5}"#,
        r#"{"_id": 3, "subject": "Baking a cake", "author": "abc", "views": 90}"#,
        r#"{"_id": 4, "subject": "baking", "author": "xyz", "views": 100}"#,
        r#"{"_id": 5, "subject": "Café Con Leche", "author": "abc", "views": 200}"#,
        r#"{"_id": 6, "subject": "Сырники", "author": "jkl", "views": 80}"#,
        r#"{"_id": 7, "subject": "coffee and cream", "author": "efg", "views": 10}"#,
        r#"{"_id": 8, "subject": "Cafe con Leche", "author": "xyz", "views": 10}"#,
    ]);
    fixture.index(r#"{"key": {"subject": "text"}}"#);
    fixture
}

fn ids(found: &[String]) -> Vec<i64> {
    let ids = found
        .iter()
        .map(|document| json(document).get("_id").unwrap().as_i64_exact());
    let mut ids: Vec<i64> = ids.map(Option::unwrap).collect();
    ids.sort_unstable();
    ids
}

fn search(fixture: &Fixture, text: &str) -> Vec<i64> {
    ids(&fixture.find(&format!(r#"{{"$text": {{"$search": {text}}}}}"#)))
}

fn code_of(fixture: &Fixture, filter: &str) -> i32 {
    fixture.find_with(filter, |_| {}).unwrap_err().code()
}

fn create(fixture: &Fixture, spec: &str) -> Option<(i32, String)> {
    let created = fixture.database.create_indexes(
        &fixture.namespace,
        &[json(spec)],
        &fixture.operation,
        Level::Written,
    );
    created.err().map(|error| (error.code(), error.to_string()))
}

fn listed(fixture: &Fixture, name: &str) -> String {
    let listed = fixture.database.list_indexes(&fixture.namespace).unwrap();
    let index = listed
        .iter()
        .find(|index| index.as_raw().get_str("name") == Some(name));
    extjson::relaxed(index.unwrap().as_raw())
}

/// The documents that the search finds with their scores, the best first.
fn scored(fixture: &Fixture, filter: &str) -> Vec<(i64, f64)> {
    let projection = json(r#"{"_id": 1, "score": {"$meta": "textScore"}}"#);
    let sort = json(r#"{"score": {"$meta": "textScore"}, "_id": 1}"#);
    let filter = json(filter);
    let mut request = FindRequest::new(&fixture.namespace);
    request.filter = filter.as_raw();
    request.projection = Some(projection.as_raw());
    request.sort = Some(sort.as_raw());
    let executor = exec::find((&fixture.database).into(), &fixture.operation, request).unwrap();
    let found = fixture.drain(executor).into_iter().map(|found| {
        let found = json(&found);
        let score = found.get("score").unwrap().as_f64_lossy();
        (
            found.get("_id").unwrap().as_i64_exact().unwrap(),
            score.unwrap(),
        )
    });
    found.collect()
}

#[test]
fn the_examples_of_the_manual() {
    let fixture = articles();
    assert_eq!(search(&fixture, r#""coffee""#), [1, 2, 7]);
    assert_eq!(search(&fixture, r#""bake coffee cake""#), [1, 2, 3, 4, 7]);
    assert_eq!(search(&fixture, r#""\"coffee shop\"""#), [2]);
    assert_eq!(
        search(&fixture, r#""\"coffee shop\" \"cafe con leche\"""#),
        [0; 0]
    );
    assert_eq!(search(&fixture, r#""coffee -shop""#), [1, 7]);
    assert_eq!(search(&fixture, r#""leche", "$language": "es""#), [5, 8]);
    assert_eq!(search(&fixture, r#""сы́рники CAFÉS""#), [5, 6, 8]);
    assert_eq!(search(&fixture, r#""Coffee", "$caseSensitive": true"#), [2]);
    assert_eq!(
        search(&fixture, r#""\"Café Con Leche\"", "$caseSensitive": true"#),
        [5]
    );
    assert_eq!(
        search(&fixture, r#""Coffee -shop", "$caseSensitive": true"#),
        [2]
    );
    assert_eq!(
        search(&fixture, r#""CAFÉ", "$diacriticSensitive": true"#),
        [5]
    );
    assert_eq!(
        search(&fixture, r#""leches -cafés", "$diacriticSensitive": true"#),
        [8]
    );
    // Words without meaning, or that shall not be there alone, find nothing.
    for nothing in [r#""and the""#, r#""-coffee""#, r#""""#, r#""tea""#] {
        assert_eq!(search(&fixture, nothing), [0; 0], "{nothing}");
    }
    assert_eq!(
        ids(&fixture.find(r#"{"$text": {"$search": "coffee"}, "author": "efg"}"#)),
        [2, 7]
    );
    assert_eq!(
        fixture.count(r#"{"$text": {"$search": "coffee"}}"#, None),
        3
    );
}

#[test]
fn scores_are_those_of_mongodb() {
    let fixture = articles();
    // 0.5 and half of the part that the term is of all terms, and a tenth more where it is all of the text.
    assert_eq!(
        scored(&fixture, r#"{"$text": {"$search": "coffee shop"}}"#),
        [(2, 1.5), (1, 1.0), (7, 0.75)]
    );
    let fixture = with(&[
        r#"{"_id": 1, "t": "run"}"#,
        r#"{"_id": 2, "t": "run run run", "u": "run"}"#,
        r#"{"_id": 3, "u": ["cat dog", "dog dog", {"x": "dog"}, ["dog"]]}"#,
    ]);
    fixture.index(r#"{"key": {"t": "text", "u": "text"}, "weights": {"t": 10}}"#);
    // Each time counts half as much as the time before.
    assert_eq!(
        scored(&fixture, r#"{"$text": {"$search": "running"}}"#),
        [(2, 10.0 * 1.75 + 1.1), (1, 11.0)]
    );
    assert_eq!(
        scored(&fixture, r#"{"$text": {"$search": "DOG"}}"#),
        [(3, 0.75 + 1.5)]
    );
}

#[test]
fn definitions_are_completed_and_checked() {
    let fixture = articles();
    assert_eq!(
        listed(&fixture, "subject_text"),
        r#"{"v":2,"key":{"_fts":"text","_ftsx":1},"name":"subject_text","weights":{"subject":1},"default_language":"english","language_override":"language","textIndexVersion":3}"#
    );
    // Again, in either form, it is there already.
    assert_eq!(create(&fixture, r#"{"key": {"subject": "text"}}"#), None);
    let kept = r#"{"key": {"_fts": "text", "_ftsx": 1}, "name": "subject_text", "weights": {"subject": 1}, "textIndexVersion": 3}"#;
    assert_eq!(create(&fixture, kept), None);
    for (second, code) in [
        (r#"{"key": {"author": "text"}}"#, 85),
        (
            r#"{"key": {"subject": "text"}, "weights": {"subject": 2}}"#,
            85,
        ),
        (r#"{"key": {"subject": "text"}, "name": "other"}"#, 85),
        (r#"{"key": {"views": 1, "author": "text"}}"#, 67),
    ] {
        assert_eq!(create(&fixture, second).unwrap().0, code, "{second}");
    }
    let fixture = with(&[r#"{"_id": 1}"#]);
    let made = r#"{"key": {"a": -1, "b": "text", "c.d": "text", "e": 1}, "weights": {"c.d": 3, "x": 2.5}, "default_language": "fr", "language_override": "idioma"}"#;
    assert_eq!(create(&fixture, made), None);
    assert_eq!(
        listed(&fixture, "a_-1_b_text_c.d_text_e_1"),
        r#"{"v":2,"key":{"a":-1,"_fts":"text","_ftsx":1,"e":1},"name":"a_-1_b_text_c.d_text_e_1","weights":{"b":1,"c.d":3,"x":2.5},"default_language":"fr","language_override":"idioma","textIndexVersion":3}"#
    );
    let fixture = with(&[r#"{"_id": 1}"#]);
    for refused in [
        r#"{"key": {"a": "text"}, "unique": true}"#,
        r#"{"key": {"a": "text", "b": 1, "c": "text"}}"#,
        r#"{"key": {"a": "text", "b": "hashed"}}"#,
        r#"{"key": {"a": "text"}, "textIndexVersion": 2}"#,
        r#"{"key": {"a": "text"}, "textIndexVersion": 4}"#,
        r#"{"key": {"a": "text"}, "default_language": "klingon"}"#,
        r#"{"key": {"a": "text"}, "default_language": 5}"#,
        r#"{"key": {"a": "text"}, "language_override": ""}"#,
        r#"{"key": {"a": "text"}, "language_override": "a.b"}"#,
        r#"{"key": {"a": "text"}, "weights": {"a": 0}}"#,
        r#"{"key": {"a": "text"}, "weights": {"a": 100000}}"#,
        r#"{"key": {"a": "text"}, "weights": {"a": "x"}}"#,
        r#"{"key": {"a": "text"}, "weights": {"$b": 1}}"#,
        r#"{"key": {"a": "text"}, "weights": 7}"#,
        r#"{"key": {"a": "text"}, "bits": 7}"#,
        r#"{"key": {"_fts": "text", "_ftsx": 1}}"#,
        r#"{"key": {"a": "text"}, "collation": {"locale": "de"}}"#,
        r#"{"key": {"a": "text"}, "expireAfterSeconds": 5}"#,
    ] {
        assert_eq!(
            create(&fixture, refused).map(|(code, _)| code),
            Some(67),
            "{refused}"
        );
    }
    for document in [
        r#"{"_id": 2, "a": "x", "language": "klingon"}"#,
        r#"{"_id": 2, "a": "x", "language": 5}"#,
    ] {
        create(&fixture, r#"{"key": {"a": "text"}}"#);
        let code = if document.contains("klingon") {
            17_262
        } else {
            17_261
        };
        let refused = fixture.insert(&[json(document)], true);
        assert_eq!(refused.errors[0].1.code(), code, "{document}");
    }
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let fixture = with(&[r#"{"_id": 1, "a": "x"}"#]);
    let text = r#""$text": {"$search": "x"}"#;
    assert_eq!(code_of(&fixture, &format!("{{{text}}}")), 27);
    fixture.index(r#"{"key": {"a": "text"}}"#);
    let near = r#""p": {"$nearSphere": [1, 2]}"#;
    for (filter, code) in [
        (format!(r#"{{"$nor": [{{{text}}}]}}"#), 2),
        (format!(r#"{{"a": {{"$elemMatch": {{{text}}}}}}}"#), 2),
        (
            format!(r#"{{"a": {{"$elemMatch": {{"$or": [{{{text}}}]}}}}}}"#),
            2,
        ),
        (format!(r#"{{"a": {{"$not": {{{text}}}}}}}"#), 2),
        (format!(r#"{{{text}, "$and": [{{{text}}}]}}"#), 2),
        (format!(r#"{{{text}, {near}}}"#), 2),
        (format!(r#"{{"$or": [{{{text}}}, {{"b": 1}}]}}"#), 291),
        (r#"{"$text": "x"}"#.to_owned(), 2),
        (r#"{"$text": {}}"#.to_owned(), 4),
        (r#"{"$text": {"$search": 5}}"#.to_owned(), 14),
        (
            r#"{"$text": {"$search": "x", "$caseSensitive": 1}}"#.to_owned(),
            14,
        ),
        (r#"{"$text": {"$search": "x", "$more": 1}}"#.to_owned(), 2),
        (
            r#"{"$text": {"$search": "x", "$language": "klingon"}}"#.to_owned(),
            2,
        ),
    ] {
        assert_eq!(code_of(&fixture, &filter), code, "{filter}");
    }
    let filter = format!("{{{text}}}");
    let hint = Value::from("a_text");
    let natural = json(r#"{"$natural": 1}"#);
    for (hint, sort) in [(Some(hint.as_raw()), None), (None, Some(natural.as_raw()))] {
        let filter = json(&filter);
        let mut request = FindRequest::new(&fixture.namespace);
        (request.filter, request.hint, request.sort) = (filter.as_raw(), hint, sort);
        let found = exec::find((&fixture.database).into(), &fixture.operation, request);
        assert_eq!(found.err().unwrap().code(), 2);
    }
    let (lowest, pattern) = (json(r#"{"_id": 1}"#), Value::from("_id_"));
    let asked = json(&filter);
    let mut request = FindRequest::new(&fixture.namespace);
    (request.filter, request.hint) = (asked.as_raw(), Some(pattern.as_raw()));
    request.key_options().min = Some(lowest.as_raw());
    let found = exec::find((&fixture.database).into(), &fixture.operation, request);
    assert_eq!(found.err().unwrap().code(), 2);
    for (pipeline, code) in [
        (
            format!(r#"[{{"$skip": 1}}, {{"$match": {{{text}}}}}]"#),
            17_313,
        ),
        (
            format!(r#"[{{"$sort": {{"a": 1}}}}, {{"$match": {{{text}}}}}]"#),
            17_313,
        ),
        (
            format!(r#"[{{"$facet": {{"x": [{{"$match": {{{text}}}}}]}}}}]"#),
            17_313,
        ),
        (
            r#"[{"$sort": {"s": {"$meta": "textScore"}}}]"#.to_owned(),
            40_218,
        ),
        (
            r#"[{"$project": {"s": {"$meta": "textScore"}}}]"#.to_owned(),
            40_218,
        ),
    ] {
        let error = aggregated(&fixture, &pipeline).err();
        assert_eq!(error.unwrap().code(), code, "{pipeline}");
    }
}

#[test]
fn plans_are_shown_as_mongodb_shows_them() {
    let fixture = articles();
    let one = r#"{"$text": {"$search": "coffee"}}"#;
    assert_eq!(
        fixture.plan(one, None),
        "TEXT_MATCH subject_text FETCH IXSCAN subject_text"
    );
    let several = r#"{"$text": {"$search": "coffee cake -shop \"a cup\""}}"#;
    assert_eq!(
        fixture.plan(several, None),
        "TEXT_MATCH subject_text FETCH OR [IXSCAN subject_text, IXSCAN subject_text, IXSCAN subject_text]"
    );
    let explained = fixture.explain(several, None);
    let shown = explained
        .get_path("queryPlanner.winningPlan")
        .unwrap()
        .as_document()
        .unwrap();
    let query = extjson::relaxed(shown.get("parsedTextQuery").unwrap().as_document().unwrap());
    assert_eq!(
        query,
        r#"{"terms":["cake","coffe","cup"],"negatedTerms":["shop"],"phrases":["a cup"],"negatedPhrases":[]}"#
    );
    assert_eq!(
        shown
            .get("indexPrefix")
            .unwrap()
            .as_document()
            .map(|prefix| prefix.is_empty()),
        Some(true)
    );
    assert_eq!(
        shown.get("textIndexVersion").unwrap().as_i64_exact(),
        Some(3)
    );
    assert_eq!(
        fixture.plan(several, Some(r#"{"x": {"$meta": "textScore"}}"#)),
        "SORT TEXT_MATCH subject_text TEXT_OR [IXSCAN subject_text, IXSCAN subject_text, IXSCAN subject_text]"
    );
    let more = r#"{"$text": {"$search": "coffee"}, "author": "efg"}"#;
    assert_eq!(
        fixture.plan(more, None),
        "FETCH TEXT_MATCH subject_text FETCH IXSCAN subject_text"
    );
    assert_eq!(
        fixture.plan(r#"{"$text": {"$search": "the"}}"#, None),
        "TEXT_MATCH subject_text EOF"
    );
}

#[test]
fn a_branch_may_search() {
    let fixture = articles();
    fixture.index(r#"{"key": {"views": 1}}"#);
    let filter = r#"{"$or": [{"$text": {"$search": "coffee -shop"}}, {"views": 100}, {"views": {"$lt": 6}}]}"#;
    assert_eq!(ids(&fixture.find(filter)), [1, 2, 4, 7]);
    assert_eq!(fixture.delete(filter, true), 4);
    assert_eq!(fixture.count("{}", None), 4);
}

#[test]
fn a_search_within_an_or_gives_scores_to_what_it_finds() {
    let fixture = articles();
    fixture.index(r#"{"key": {"views": 1}}"#);
    let found = |filter: &str| -> Result<Vec<String>> {
        let filter = json(filter);
        let projection = json(r#"{"_id": 1, "score": {"$meta": "textScore"}}"#);
        let sort = json(r#"{"score": {"$meta": "textScore"}, "_id": 1}"#);
        let mut request = FindRequest::new(&fixture.namespace);
        request.filter = filter.as_raw();
        request.projection = Some(projection.as_raw());
        request.sort = Some(sort.as_raw());
        let executor = exec::find((&fixture.database).into(), &fixture.operation, request)?;
        Ok(fixture.drain(executor))
    };
    let either = r#"{"$or": [{"views": {"$gte": 50}}, {"$text": {"$search": "coffee shop"}}]}"#;
    // The first document is found by both branches.
    assert_eq!(
        found(either).unwrap(),
        [
            r#"{"_id":2,"score":1.5}"#,
            r#"{"_id":1,"score":1.0}"#,
            r#"{"_id":7,"score":0.75}"#,
            r#"{"_id":3}"#,
            r#"{"_id":4}"#,
            r#"{"_id":5}"#,
            r#"{"_id":6}"#,
        ]
    );
    assert_eq!(
        fixture.plan(either, Some(r#"{"x": {"$meta": "textScore"}}"#)),
        "SORT FETCH OR [TEXT_MATCH subject_text, IXSCAN views_1]"
    );
    let nothing = r#"{"$or": [{"views": 100}, {"$text": {"$search": "the"}}]}"#;
    assert_eq!(found(nothing).unwrap(), [r#"{"_id":4}"#]);
    let beside = r#"{"$or": [{"views": 100}, {"$text": {"$search": "coffee"}, "author": "xyz"}]}"#;
    assert_eq!(found(beside).err().unwrap().code(), 238);
    let pipeline = format!(
        r#"[{{"$match": {either}}}, {{"$project": {{"score": {{"$meta": "textScore"}}}}}}, {{"$match": {{"score": {{"$gt": 1}}}}}}]"#
    );
    assert_eq!(
        aggregated(&fixture, &pipeline).unwrap(),
        [r#"{"_id":2,"score":1.5}"#]
    );
}

#[test]
fn scores_go_through_pipelines_and_projections() {
    let fixture = articles();
    let pipeline = r#"[{"$match": {"$text": {"$search": "cake coffee"}, "views": {"$gt": 5}}}, {"$sort": {"s": {"$meta": "textScore"}, "views": -1}},
        {"$limit": 2}, {"$project": {"subject": 1, "_id": 0, "score": {"$meta": "textScore"}}}, {"$match": {"score": {"$gt": 0.9}}}]"#;
    assert_eq!(
        aggregated(&fixture, pipeline).unwrap(),
        [r#"{"subject":"coffee","score":1.0}"#]
    );
    let grouped = r#"[{"$match": {"$text": {"$search": "cake coffee"}}}, {"$group": {"_id": null, "views": {"$sum": "$views"}}}]"#;
    assert_eq!(
        aggregated(&fixture, grouped).unwrap(),
        [r#"{"_id":null,"views":155}"#]
    );
    let behind = r#"[{"$match": {"$text": {"$search": "cake coffee"}}}, {"$limit": 9}, {"$sort": {"s": {"$meta": "textScore"}}}, {"$project": {"views": 0, "author": 0}}]"#;
    let found = aggregated(&fixture, behind).unwrap();
    assert_eq!(found[0], r#"{"_id":1,"subject":"coffee"}"#);
    assert_eq!(found.len(), 4);
    // A sort that nobody projects leaves nothing behind.
    let sorted = fixture.sorted(
        r#"{"$text": {"$search": "coffee"}}"#,
        r#"{"s": {"$meta": "textScore"}}"#,
        0,
        Some(1),
    );
    assert_eq!(
        sorted,
        [r#"{"_id":1,"subject":"coffee","author":"xyz","views":50}"#]
    );
}

#[test]
fn a_redaction_reads_scores_within_documents_too() {
    let fixture = with(&[
        r#"{"_id": 1, "t": "coffee", "d": {"e": 1, "list": [{"f": 2}, 3]}}"#,
        r#"{"_id": 2, "t": "coffee with milk and sugar", "d": {"e": 1}}"#,
        r#"{"_id": 3, "t": "tea", "d": {"e": 1}}"#,
    ]);
    fixture.index(r#"{"key": {"t": "text"}}"#);
    let redacted = |decision: &str| {
        let search = r#"{"$match": {"$text": {"$search": "coffee"}}}, {"$sort": {"_id": 1}}"#;
        aggregated(
            &fixture,
            &format!("[{search}, {{\"$redact\": {decision}}}]"),
        )
    };
    let best = r#"{"$cond": [{"$gte": [{"$meta": "textScore"}, 1]}, "$$KEEP", "$$PRUNE"]}"#;
    let whole = r#"{"_id":1,"t":"coffee","d":{"e":1,"list":[{"f":2},3]}}"#;
    assert_eq!(redacted(best).unwrap(), [whole]);
    // Documents within the document share its score, and none of them is the metadata.
    let within = r#"{"$cond": [{"$and": [{"$gte": ["$f", 2]}, {"$gte": [{"$meta": "textScore"}, 1]}]}, "$$PRUNE", "$$DESCEND"]}"#;
    let first = r#"{"_id":1,"t":"coffee","d":{"e":1,"list":[3]}}"#;
    let second = r#"{"_id":2,"t":"coffee with milk and sugar","d":{"e":1}}"#;
    assert_eq!(redacted(within).unwrap(), [first, second]);
    let descending = r#"{"$cond": [{"$lt": [{"$meta": "textScore"}, 9]}, "$$DESCEND", "$$PRUNE"]}"#;
    assert_eq!(redacted(descending).unwrap(), [whole, second]);
    // Without a search there is no score, and a pipeline within a stage has none to read.
    let refused = |pipeline: String| {
        aggregated(&fixture, &pipeline)
            .err()
            .map(|error| error.code())
    };
    assert_eq!(refused(format!(r#"[{{"$redact": {best}}}]"#)), Some(40_218));
    let facet = format!(r#"[{{"$facet": {{"x": [{{"$redact": {best}}}]}}}}]"#);
    assert_eq!(refused(facet), Some(238));
}

/// The stages that may stand between a search and the stage that reads its scores.
fn passing_stages() -> impl Strategy<Value = Vec<String>> {
    let stage = prop_oneof![
        Just(r#"{"$match": {"v": {"$gt": -2}}}"#),
        Just(r#"{"$match": {"k": {"$ne": 1}, "$expr": {"$lte": ["$v", 4]}}}"#),
        Just(r#"{"$skip": 1}"#),
        Just(r#"{"$limit": 9}"#),
        Just(r#"{"$limit": 4}"#),
        Just(r#"{"$sort": {"v": 1}}"#),
    ];
    prop::collection::vec(stage.prop_map(str::to_owned), 0..4)
}

/// A stage that reads the score, which is `SCORE`.
fn reading_stage() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#"{"$addFields": {"n": SCORE}}"#),
        Just(r#"{"$set": {"d.e": SCORE, "v": {"$add": ["$v", SCORE]}}}"#),
        Just(r#"{"$project": {"v": 1, "l": 1, "m": SCORE}}"#),
        Just(r#"{"$project": {"k": "$v", "v": "$k", "n": SCORE}}"#),
        Just(
            r#"{"$redact": {"$cond": [{"$and": [{"$gte": ["$v", 0]}, {"$gt": [SCORE, 0.7]}]}, "$$PRUNE", "$$DESCEND"]}}"#
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever stages move to, the one that asks for scores has those that it has where nothing moves: there the scores are a field.
    #[test]
    fn scores_come_to_the_stage_that_asks_however_stages_move(
        documents in random_pipeline::listed_documents(),
        texts in prop::collection::vec(prop::sample::select(vec!["tea", "coffee", "coffee with milk", "milk coffee coffee"]), 40),
        before in passing_stages(),
        reading in reading_stage(),
        behind in random_pipeline::stages(),
    ) {
        let fixture = with(&[]);
        fixture.index(r#"{"key": {"t": "text"}}"#);
        let documents: Vec<Document> = documents.iter().zip(texts).enumerate().map(|(id, (document, text))| {
            Document::build(|stored| {
                stored.append("_id", id as i32);
                for field in document.as_raw() {
                    stored.append_element(field);
                }
                stored.append("t", text);
            })
        }).collect();
        fixture.insert(&documents, true);
        let search = r#"{"$match": {"$text": {"$search": "coffee"}}}, {"$sort": {"_id": 1}}"#;
        let scored = format!(r#"[{search}, {{"$addFields": {{"score": {{"$meta": "textScore"}}}}}}]"#);
        let scored = fixture.documents(aggregate(&fixture, &scored).unwrap()).unwrap();
        let with = |score: &str| reading.replace("SCORE", score);
        let by_field = [with(r#""$score""#), r#"{"$unset": "score"}"#.to_owned()];
        let one_by_one: Vec<String> = [&before[..], &by_field, &behind].concat();
        let expected = random_pipeline::results_of_each(&one_by_one, &scored, &[]);
        let stages = [&before[..], &[with(r#"{"$meta": "textScore"}"#)], &behind].concat();
        let found = aggregate(&fixture, &format!("[{search}, {}]", stages.join(", ")));
        let found = found.and_then(|executor| fixture.documents(executor));
        // A stage may not have come to the document that it would have failed for.
        if let Ok(expected) = expected {
            prop_assert_eq!(found.unwrap(), expected, "{:?}", stages);
        }
    }
}

#[test]
fn fields_beside_the_terms_bound_a_search() {
    let fixture = with(&[
        r#"{"_id": 1, "a": 1, "t": "red apple", "z": 5}"#,
        r#"{"_id": 2, "a": 2, "t": "red apple"}"#,
        r#"{"_id": 3, "t": "green apples"}"#,
        r#"{"_id": 4, "a": 1, "t": "pears"}"#,
    ]);
    fixture.index(r#"{"key": {"a": 1, "t": "text", "z": -1}}"#);
    let find = |filter: &str| ids(&fixture.find(filter));
    assert_eq!(find(r#"{"a": 1, "$text": {"$search": "apple"}}"#), [1]);
    assert_eq!(find(r#"{"a": null, "$text": {"$search": "apple"}}"#), [3]);
    assert_eq!(
        find(r#"{"a": 1, "$text": {"$search": "apple pear"}, "z": {"$gt": 4}}"#),
        [1]
    );
    assert_eq!(
        find(r#"{"a": {"$in": [1, 2]}, "$text": {"$search": "apple"}}"#),
        [1, 2]
    );
    for refused in [
        r#"{"$text": {"$search": "apple"}}"#,
        r#"{"a": {"$gt": 1}, "$text": {"$search": "apple"}}"#,
    ] {
        assert_eq!(code_of(&fixture, refused), 291, "{refused}");
    }
    let refused = fixture.insert(&[json(r#"{"_id": 9, "a": [1], "t": "x"}"#)], true);
    assert_eq!(refused.errors[0].1.code(), 201);
    let explained = fixture.explain(r#"{"a": 1, "$text": {"$search": "apple"}}"#, None);
    let prefix = explained.get_path("queryPlanner.winningPlan.inputStage.indexPrefix");
    assert_eq!(
        prefix
            .unwrap()
            .as_document()
            .unwrap()
            .get("a")
            .unwrap()
            .as_i64_exact(),
        Some(1)
    );
}

#[test]
fn every_field_and_every_language_may_have_texts() {
    let fixture = with(&[
        r#"{"_id": 1, "a": "horses", "b": {"c": ["cats", ["dogs", {"d": "mice"}]]}, "n": 5}"#,
        r#"{"_id": 2, "language": "none", "a": "horses", "quotes": [{"language": "german", "text": "die Häuser"}, {"text": "running"}]}"#,
        r#"{"_id": 3, "language": "es", "a": "los perros corriendo"}"#,
    ]);
    fixture.index(r#"{"key": {"$**": "text"}, "weights": {"a": 5}}"#);
    assert_eq!(
        listed(&fixture, "$**_text"),
        r#"{"v":2,"key":{"_fts":"text","_ftsx":1},"name":"$**_text","weights":{"$**":1,"a":5},"default_language":"english","language_override":"language","textIndexVersion":3}"#
    );
    assert_eq!(search(&fixture, r#""horse""#), [1]);
    assert_eq!(search(&fixture, r#""horses", "$language": "none""#), [2]);
    assert_eq!(search(&fixture, r#""dog""#), [1]);
    assert_eq!(search(&fixture, r#""mouse mice""#), [1]);
    assert_eq!(search(&fixture, r#""haus", "$language": "de""#), [2]);
    assert_eq!(search(&fixture, r#""running", "$language": "none""#), [2]);
    assert_eq!(
        search(&fixture, r#""corriendo perro", "$language": "spanish""#),
        [3]
    );
    assert_eq!(search(&fixture, r#""los", "$language": "none""#), [0; 0]);
    // The names of languages are no texts.
    assert_eq!(
        search(&fixture, r#""german none", "$language": "none""#),
        [0; 0]
    );
    // A new field is met by an update.
    fixture.update(
        r#"{"_id": 1}"#,
        r#"{"$set": {"x.y": "whales"}}"#,
        false,
        false,
    );
    assert_eq!(search(&fixture, r#""whale""#), [1]);
    check(&fixture);
}

#[test]
fn a_change_of_what_is_searched_for_changes_each_document_once() {
    let documents: Vec<Document> = (0..700)
        .map(|id| json(&format!(r#"{{"_id": {id}, "t": "apple", "n": 0}}"#)))
        .collect();
    let fixture = with_documents(&documents);
    fixture.index(r#"{"key": {"t": "text"}}"#);
    let filter = r#"{"$text": {"$search": "apple pear"}}"#;
    let outcome = fixture.update(
        filter,
        r#"{"$set": {"t": "pear pear apple"}, "$inc": {"n": 1}}"#,
        true,
        false,
    );
    assert_eq!((outcome.matched, outcome.modified), (700, 700));
    let one = r#"{"$text": {"$search": "pear"}}"#;
    let outcome = fixture.update(
        one,
        r#"{"$set": {"t": "pear"}, "$inc": {"n": 1}}"#,
        true,
        false,
    );
    assert_eq!(outcome.modified, 700);
    assert_eq!(fixture.count(r#"{"n": 2}"#, None), 700);
    check(&fixture);
    assert_eq!(fixture.delete(filter, true), 700);
    check(&fixture);
}

#[test]
fn partial_long_and_many_terms() {
    let fixture = with(&[
        r#"{"_id": 1, "t": "apple", "n": 1}"#,
        r#"{"_id": 2, "t": "apple", "n": 7}"#,
    ]);
    fixture.index(r#"{"key": {"t": "text"}, "partialFilterExpression": {"n": {"$gt": 5}}}"#);
    assert_eq!(code_of(&fixture, r#"{"$text": {"$search": "apple"}}"#), 291);
    assert_eq!(
        ids(&fixture.find(r#"{"$text": {"$search": "apple"}, "n": {"$gt": 6}}"#)),
        [2]
    );
    check(&fixture);

    let (long, other) = ("ä".repeat(5000), format!("{}ö", "ä".repeat(4999)));
    let fixture = with(&[]);
    fixture.index(r#"{"key": {"p": 1, "t": "text"}}"#);
    let prefix = "p".repeat(3000);
    for (id, text) in [(1, &long), (2, &other)] {
        let document = json(&format!(
            r#"{{"_id": {id}, "p": "{prefix}", "t": "short {text}"}}"#
        ));
        assert!(fixture.insert(&[document], true).errors.is_empty());
    }
    let find = |text: &str| {
        let filter = format!(r#"{{"p": "{prefix}", "$text": {{"$search": "{text}"}}}}"#);
        (ids(&fixture.find(&filter)), scored(&fixture, &filter).len())
    };
    assert_eq!(find(&long), (vec![1], 1));
    assert_eq!(find(&other), (vec![2], 1));
    assert_eq!(find("short"), (vec![1, 2], 2));
    check(&fixture);

    let many: String = (0..400_001).map(|n| format!("{n} ")).collect();
    let mut document = Document::new();
    document.append("_id", 9);
    document.append("t", many.as_str());
    let refused = fixture.insert(&[document], true);
    assert_eq!(refused.errors[0].1.code(), 16_732);
    let large: String = (0..150_000).map(|n| format!("word{n:x} ")).collect();
    let mut document = Document::new();
    document.append("_id", 9);
    document.append("t", large.as_str());
    let refused = fixture.insert(&[document], true);
    assert_eq!(refused.errors[0].1.code(), 16_733);
}

/// Asks `validate` whether the indexes have what the documents say.
fn check(fixture: &Fixture) {
    let (namespace, operation) = (&fixture.namespace, &fixture.operation);
    let report = fixture.database.validate(namespace, true, operation);
    assert_eq!(report.unwrap().errors, [""; 0]);
}

/// A document of the property test as its own text.
#[derive(Debug, Clone)]
struct Written {
    id: u8,
    title: Vec<u8>,
    body: Vec<Vec<u8>>,
    group: u8,
    is_german: bool,
}

const WORDS: [&str; 12] = [
    "apple",
    "Apples",
    "the",
    "pear",
    "running",
    "runs",
    "Häuser",
    "Haus",
    "café",
    "red-green",
    "and",
    "cafes",
];

fn text_of(words: &[u8]) -> String {
    let words = words
        .iter()
        .map(|word| WORDS[usize::from(*word) % WORDS.len()]);
    words.collect::<Vec<_>>().join(" ")
}

impl Written {
    fn document(&self) -> Document {
        let mut document = Document::new();
        document.append("_id", i32::from(self.id));
        document.append("title", text_of(&self.title).as_str());
        let body = self.body.iter().map(|words| text_of(words));
        document.append("body", body.collect::<Vec<_>>());
        document.append("group", i32::from(self.group));
        if self.is_german {
            document.append("language", "german");
        }
        document
    }

    fn texts(&self) -> Vec<(f64, String)> {
        let body = self.body.iter().map(|words| (1.0, text_of(words)));
        [(3.0, text_of(&self.title))]
            .into_iter()
            .chain(body)
            .collect()
    }

    fn terms(&self, text: &str) -> Vec<String> {
        let language = if self.is_german { "german" } else { "english" };
        terms(text, language)
    }

    /// The sum of what each text says of the terms.
    fn score(&self, wanted: &BTreeSet<String>) -> f64 {
        let mut score = 0.0;
        for (weight, text) in self.texts() {
            let terms = self.terms(&text);
            let mut counts: BTreeMap<&String, i32> = BTreeMap::new();
            for term in &terms {
                *counts.entry(term).or_default() += 1;
            }
            for (term, count) in counts
                .into_iter()
                .filter(|(term, _)| wanted.contains(*term))
            {
                let frequency: f64 = (0..count).map(|n| 0.5_f64.powi(n)).sum();
                let share = 0.5 * f64::from(count) / terms.len() as f64 + 0.5;
                let whole = if text.eq_ignore_ascii_case(term) {
                    1.1
                } else {
                    1.0
                };
                score += weight * frequency * share * whole;
            }
        }
        score
    }

    fn has(&self, wanted: &BTreeSet<String>) -> bool {
        let texts = self.texts();
        texts
            .iter()
            .any(|(_, text)| self.terms(text).iter().any(|term| wanted.contains(term)))
    }
}

fn terms(text: &str, language: &str) -> Vec<String> {
    let language = Language::find(language).unwrap();
    let mut tokens = Tokens::new(text, language, Folding::default(), |_| false);
    let mut terms = Vec::new();
    while let Some(term) = tokens.next_term() {
        terms.push(term.to_owned());
    }
    terms
}

fn written() -> impl Strategy<Value = Written> {
    let words = || prop::collection::vec(0..12u8, 0..5);
    let body = prop::collection::vec(words(), 0..3);
    (0..12u8, words(), body, 0..2u8, prop::bool::weighted(0.3)).prop_map(
        |(id, title, body, group, is_german)| Written {
            id,
            title,
            body,
            group,
            is_german,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_search_finds_what_a_scan_finds(
        steps in prop::collection::vec((written(), 0..4u8), 1..25),
        wanted in prop::collection::vec(0..12u8, 1..4),
        unwanted in prop::collection::vec(0..12u8, 0..2),
        phrase in prop::collection::vec(0..12u8, 0..3),
        is_german in any::<bool>(),
        is_compound in any::<bool>(),
    ) {
        let fixture = with(&[]);
        let before = if is_compound { r#""group": 1, "# } else { "" };
        fixture.index(&format!(r#"{{"key": {{{before}"title": "text", "body": "text"}}, "weights": {{"title": 3}}}}"#));
        let mut stored: BTreeMap<u8, Written> = BTreeMap::new();
        for (document, step) in steps {
            let by_id = format!(r#"{{"_id": {}}}"#, document.id);
            match step {
                0 => {
                    fixture.delete(&by_id, false);
                    stored.remove(&document.id);
                }
                1 if stored.contains_key(&document.id) => {
                    let title = text_of(&document.title);
                    fixture.update(&by_id, &format!(r#"{{"$set": {{"title": "{title}"}}}}"#), false, false);
                    stored.get_mut(&document.id).unwrap().title = document.title;
                }
                _ => {
                    let replacement = extjson::relaxed(document.document().as_raw());
                    fixture.update(&by_id, &replacement, false, true);
                    stored.insert(document.id, document);
                }
            }
        }
        check(&fixture);
        let language = if is_german { "german" } else { "english" };
        let (phrase, negated) = (text_of(&phrase), text_of(&unwanted));
        let mut search = text_of(&wanted);
        for word in negated.split(' ').filter(|word| !word.is_empty()) {
            search += &format!(" -{word}");
        }
        if !phrase.is_empty() {
            search += &format!(r#" \"{phrase}\""#);
        }
        let wanted: BTreeSet<String> = terms(&format!("{} {phrase}", text_of(&wanted)), language).into_iter().collect();
        let unwanted: BTreeSet<String> = terms(&negated, language).into_iter().collect();
        let group = if is_compound { r#""group": 1, "# } else { "" };
        let filter = format!(r#"{{{group}"$text": {{"$search": "{search}", "$language": "{language}"}}}}"#);
        let fold = |text: &str| text.to_lowercase().replace('é', "e").replace('ä', "a");
        let expected: Vec<&Written> = stored
            .values()
            .filter(|document| !is_compound || document.group == 1)
            .filter(|document| document.has(&wanted) && !document.has(&unwanted))
            .filter(|document| phrase.is_empty() || document.texts().iter().any(|(_, text)| fold(text).contains(&fold(&phrase))))
            .collect();
        let expected_ids: Vec<i64> = expected.iter().map(|document| i64::from(document.id)).collect();
        prop_assert_eq!(&ids(&fixture.find(&filter)), &expected_ids, "{}", filter);
        let scores: BTreeMap<i64, f64> = scored(&fixture, &filter).into_iter().collect();
        for document in expected {
            let (found, expected) = (scores[&i64::from(document.id)], document.score(&wanted));
            prop_assert!((found - expected).abs() < 1e-9, "{found} is not {expected}: {document:?}");
        }
        prop_assert_eq!(scores.len(), expected_ids.len());
    }
}
