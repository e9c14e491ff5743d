//! Tests of what no request may do, whatever it says: panic, make a document that is no BSON, or outgrow the limits.

use proptest::prelude::*;
use quarry_bson::{DOCUMENT_BYTES_MAX, Document, RawDocument, RawValue, Value, doc};
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::{MatchDetails, Matcher};
use quarry_query::pipeline::{NoCollections, Pipeline, Run, Source};
use quarry_query::projection::Projection;
use quarry_query::sort::SortPattern;
use quarry_query::update::Update;

const NAMES: [&str; 58] = [
    "",
    "a",
    "b",
    "a.b",
    "a.0",
    "a.1.b",
    "a.$",
    "a.$.b",
    "a.$[]",
    "a.$[x]",
    "a..b",
    "a.",
    "$",
    "$[]",
    "_id",
    "$a",
    "$eq",
    "$gt",
    "$lte",
    "$ne",
    "$in",
    "$nin",
    "$and",
    "$or",
    "$nor",
    "$not",
    "$exists",
    "$type",
    "$all",
    "$elemMatch",
    "$size",
    "$mod",
    "$regex",
    "$options",
    "$expr",
    "$bitsAllSet",
    "$comment",
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$bit",
    "$push",
    "$each",
    "$slice",
    "$sort",
    "$position",
    "$addToSet",
    "$pop",
    "$pull",
    "$pullAll",
    "$natural",
    "$meta",
];

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::null()),
        any::<i32>().prop_map(Value::from),
        (-2..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(&NAMES[..]).prop_map(Value::from),
        Just(Value::from("$a")),
        Just(Value::from("[x")),
        Just(Value::undefined()),
        Just(Value::min_key()),
        Just(Value::binary(0, &[5, 255])),
    ];
    scalar.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            document(inner).prop_map(Value::from),
        ]
    })
}

fn document(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Document> {
    prop::collection::vec((prop::sample::select(&NAMES[..]), value), 0..4).prop_map(|fields| {
        let mut document = Document::new();
        for (name, value) in fields {
            document.append(name, value);
        }
        document
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_request_is_refused_or_does_its_work(
        request in document(value()), operand in document(value()), stored in document(value()), index in 0u32..3,
        verb in 0..20usize,
    ) {
        let stored = stored.as_raw();
        let details = MatchDetails { array_index: Some(index) };
        if let Ok(matcher) = Matcher::parse(request.as_raw()) {
            let _ = matcher.try_match_details(stored);
        }
        if let Ok(projection) = Projection::parse(request.as_raw(), None) {
            let mut out = Vec::new();
            if projection.project(stored, &details, &mut out).is_ok() {
                prop_assert!(RawDocument::validated(&out).is_ok());
            }
        }
        if let Ok(pattern) = SortPattern::parse(request.as_raw()) {
            let _ = pattern.key(stored, &mut Vec::new());
        }
        // Few random documents are updates: give the operand to one of the operators.
        let operators = ["$set", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$setOnInsert", "$currentDate",
            "$bit", "$push", "$addToSet", "$pop", "$pull", "$pullAll"];
        let mut written = Document::new();
        written.append(operators[verb % operators.len()], operand);
        for update in [&request, &written] {
            let Ok(update) = Update::parse(RawValue::Document(update.as_raw())) else { continue };
            let mut out = Vec::new();
            if update.apply(stored, &details, verb % 2 == 0, 0, &mut out).is_ok() {
                prop_assert!(RawDocument::validated(&out).is_ok());
            }
            if let Ok(filter) = Matcher::parse(request.as_raw()) {
                let _ = update.upsert_document(&filter, 0);
            }
        }
    }
}

#[test]
fn an_update_that_multiplies_ends_at_the_size_of_a_document() {
    let members: Vec<i32> = vec![0; 100_000];
    let stored = doc! { "_id": 1, "a": members };
    let update = doc! { "$set": { "a.$[]": ("x".repeat(1_000_000)) } };
    let update = Update::parse(RawValue::Document(update.as_raw())).unwrap();
    let mut out = Vec::new();
    let refused = update
        .apply(
            stored.as_raw(),
            &MatchDetails::default(),
            false,
            0,
            &mut out,
        )
        .unwrap_err();
    assert_eq!(refused.code(), 17419);
    assert!(out.len() < 2 * DOCUMENT_BYTES_MAX);
}

#[test]
fn a_document_cannot_be_made_to_nest_too_deep() {
    let mut deep = Value::from(1);
    for _ in 0..170 {
        deep = Value::from(vec![deep]);
    }
    let path = "a.b.c.d.e.f.g.h.i.j.k";
    let update = doc! { "$set": { (path): deep.clone() } };
    let refused = Update::parse(RawValue::Document(update.as_raw())).unwrap_err();
    assert_eq!(refused.code(), 15);
    let update = doc! { "$rename": { "x": (path) } };
    let update = Update::parse(RawValue::Document(update.as_raw())).unwrap();
    let stored = doc! { "x": deep };
    let refused = update
        .apply(
            stored.as_raw(),
            &MatchDetails::default(),
            false,
            0,
            &mut Vec::new(),
        )
        .unwrap_err();
    assert_eq!(refused.code(), 15);
}

#[test]
fn a_filter_cannot_nest_too_deep() {
    let mut filter = doc! { "a": 1 };
    for _ in 0..101 {
        filter = doc! { "$or": [(filter)] };
    }
    assert_eq!(Matcher::parse(filter.as_raw()).unwrap_err().code(), 2);
}

#[test]
fn a_regular_expression_that_backtracks_for_ever_is_an_error() {
    let filter = doc! { "a": { "$regex": "^(([a-z])+.)+[A-Z]([a-z])+$" } };
    let matcher = Matcher::parse(filter.as_raw()).unwrap();
    let stored = doc! { "a": ("a".repeat(60)) };
    assert_eq!(
        matcher.try_matches(stored.as_raw()).unwrap_err().code(),
        51156
    );
}

#[test]
fn requests_with_very_many_fields_take_linear_time() {
    let mut many = Document::build(|fields| {
        for number in 0..50_000 {
            fields.append(format!("field{}", number * 7919 % 50_000), 1);
        }
    });
    let update = doc! { "$set": (many.clone()) };
    let update = Update::parse(RawValue::Document(update.as_raw())).unwrap();
    let mut out = Vec::new();
    update
        .apply(many.as_raw(), &MatchDetails::default(), false, 0, &mut out)
        .unwrap();
    assert_eq!(out, many.as_bytes());
    out.clear();
    update
        .apply(
            RawDocument::EMPTY,
            &MatchDetails::default(),
            false,
            0,
            &mut out,
        )
        .unwrap();
    assert_eq!(out.len(), many.len_bytes());
    let projection = Projection::parse(many.as_raw(), None).unwrap();
    out.clear();
    projection
        .project(many.as_raw(), &MatchDetails::default(), &mut out)
        .unwrap();
    assert_eq!(out, many.as_bytes());
    let members: Value = (0..50_000).map(Value::from).collect();
    let update = doc! { "$addToSet": { "a": { "$each": (members.clone()) } } };
    let update = Update::parse(RawValue::Document(update.as_raw())).unwrap();
    many = doc! { "a": members };
    out.clear();
    let outcome = update
        .apply(many.as_raw(), &MatchDetails::default(), false, 0, &mut out)
        .unwrap();
    assert!(!outcome.modified);
}

/// As the server's connections have it. It is enough for unoptimised code, too.
const STACK_BYTES: usize = 2 << 20;

/// Documents and arrays in turn, to the last level that a document may have.
fn deepest() -> Document {
    let mut deep = Value::from(1);
    for level in 0..quarry_bson::DEPTH_MAX - 2 {
        deep = if level % 2 == 0 {
            Value::from(vec![deep])
        } else {
            Value::from(doc! { "a": deep })
        };
    }
    doc! { "_id": 1, "a": deep }
}

#[test]
fn documents_of_all_levels_have_room_on_the_stack() {
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let outcome = worker.spawn(|| {
        let deep = deepest();
        assert!(RawDocument::validated(deep.as_bytes()).is_ok());
        let (stored, value) = (deep.as_raw(), deep.get("a").unwrap());
        let details = MatchDetails::default();
        let path = ["a"; 150].join(".");
        for filter in [
            doc! { "a": value },
            doc! { "a": { "$gt": value } },
            doc! { "a": { "$in": [value, 1] } },
            doc! { "a": { "$not": { "$elemMatch": { "$eq": value } } } },
            doc! { (path.as_str()): 1 },
            doc! { "$expr": { "$eq": ["$a", { "$literal": value }] } },
            doc! { "$expr": { "$gt": [(format!("${path}")), 1] } },
        ] {
            let matcher = Matcher::parse(filter.as_raw()).unwrap();
            matcher.try_matches(stored).unwrap();
        }
        let mut key = Vec::new();
        SortPattern::parse(doc! { "a": 1 }.as_raw())
            .unwrap()
            .key(stored, &mut key)
            .unwrap();
        for projection in [
            doc! { "a": 1 },
            doc! { (path.as_str()): 1 },
            doc! { (path.as_str()): 0 },
            doc! { "x": { "$objectToArray": "$$ROOT" } },
            doc! { "x": { "$mergeObjects": ["$$ROOT", "$$ROOT"] } },
            doc! { "x": { "$concatArrays": [["$a"], ["$a"]] } },
        ] {
            let projection = Projection::parse(projection.as_raw(), None).unwrap();
            // Some would nest too deep, and say so.
            let _ = projection.project(stored, &details, &mut Vec::new());
        }
        for update in [
            doc! { "$set": { "b": 1 } },
            doc! { "$push": { "l": { "$each": [1, value], "$sort": 1 } } },
            doc! { "$addToSet": { "l": { "$each": [value, 1] } } },
            doc! { "$pull": { "l": value } },
            doc! { "$min": { "a": value } },
            doc! { "$rename": { "a": "b" } },
            doc! { "$unset": { (path.as_str()): 1 } },
        ] {
            let Ok(update) = Update::parse(RawValue::Document(update.as_raw())) else {
                continue;
            };
            let _ = update.apply(stored, &details, false, 0, &mut Vec::new());
        }
    });
    outcome.unwrap().join().unwrap();
}

/// A filter nests as deep as MongoDB lets it, each level a document and an array, and has an answer.
#[test]
fn filters_of_all_levels_have_room_on_the_stack() {
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let outcome = worker.spawn(|| {
        for operator in ["$and", "$or", "$nor"] {
            let nested = |levels: usize| {
                (0..levels).fold(
                    doc! { "a": 1 },
                    |inner, _| doc! { operator: [inner, { "b": 1 }] },
                )
            };
            let matcher = Matcher::parse(nested(90).as_raw()).unwrap();
            matcher
                .try_matches(doc! { "a": 1, "b": 1 }.as_raw())
                .unwrap();
            assert_eq!(Matcher::parse(nested(101).as_raw()).unwrap_err().code(), 2);
        }
        let nested = (0..99).fold(Value::from("$a"), |inner, _| {
            Value::from(doc! { "$abs": inner })
        });
        let filter = doc! { "$expr": nested };
        let matcher = Matcher::parse(filter.as_raw()).unwrap();
        matcher.try_matches(doc! { "a": 1 }.as_raw()).unwrap();
    });
    outcome.unwrap().join().unwrap();
}

/// A pipeline of all its stages, at one level or at as many as there may be, has room on the stack; one stage or level more
/// is refused.
#[test]
fn pipelines_within_pipelines_have_room_on_the_stack() {
    let nested = |levels: usize, stages: usize| {
        let pipeline = |inner: Option<Document>| -> Value {
            let first = doc! { "$documents": [{ "a": 1 }] };
            let adding = (0..stages).map(|n| doc! { "$addFields": { (format!("f{n}")): "$a" } });
            let all = std::iter::once(first).chain(adding).chain(inner);
            all.map(Value::from).collect()
        };
        let innermost = pipeline(None);
        (0..levels).fold(innermost, |inner, _| {
            pipeline(Some(
                doc! { "$lookup": { "pipeline": inner, "let": { "v": "$a" }, "as": "x" } },
            ))
        })
    };
    let parse = |pipeline: &Value| {
        let stages = pipeline.as_raw().as_array().unwrap();
        Pipeline::parse(stages, &ExpressionContext::default()).map_err(|error| error.code())
    };
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let outcome = worker.spawn(move || {
        for pipeline in [nested(1, 497), nested(9, 97), nested(0, 999)] {
            let mut execution = parse(&pipeline).unwrap().start();
            let (mut none, mut collections) = (Nothing, NoCollections);
            let mut run = Run::new(&mut none, &mut collections);
            assert!(execution.next(&mut run, &mut Vec::new()).unwrap());
        }
        assert!(parse(&nested(20, 1)).is_ok());
        assert_eq!(parse(&nested(21, 1)).unwrap_err(), 232);
        for long in [nested(1, 499), nested(9, 99), nested(0, 1000)] {
            assert_eq!(parse(&long).unwrap_err(), 7_749_501);
        }
    });
    outcome.unwrap().join().unwrap();
}

struct Nothing;

impl Source for Nothing {
    fn next(&mut self, _: &mut Vec<u8>) -> quarry_query::Result<bool> {
        Ok(false)
    }
}

/// Parsed requests are kept with plans and cursors, which move between threads.
#[test]
fn parsed_requests_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Matcher>();
    shared::<Projection>();
    shared::<SortPattern>();
    shared::<Update>();
}
