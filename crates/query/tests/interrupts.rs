//! An operation ends soon after it was killed or has run out of time, whatever it is at.
//!
//! Each row of the table is a kind of work that would take far longer than it is given. What is measured is the work
//! between two looks at the operation, in processor time of the thread, so that a busy machine does not matter: the
//! operation's own hook, which is asked whether the client is still there, notes it at every look. A new kind of work is
//! a new row.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, *};
use quarry_query::expression::ExpressionContext;
use quarry_query::interrupts::run_as;
use quarry_query::matcher::MatchDetails;
use quarry_query::update::Update;

/// The time that an operation is given, in milliseconds; `GIVEN_MS` gives it longer, to meet what comes late.
fn given_ms() -> u64 {
    let asked = std::env::var("GIVEN_MS").ok();
    asked.map_or(20, |asked| asked.parse().unwrap())
}

/// The time that may pass between two looks. Unoptimised code takes ten times as long: it is given half as long again.
const GAP_MS_MAX: u64 = if cfg!(debug_assertions) { 75 } else { 50 };

/// Work that took too long between two looks is tried so often in all: a look that is missing is missing each time, and a page fault
/// that the machine was slow to answer is not.
const TRIES: u32 = 4;

/// Elements of the array in each document of the collection `arrays`.
const ELEMENTS: i32 = 200_000;

/// Processor time of this thread.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

thread_local! {
    /// When the last look was, and the longest time between two.
    static LAST_LOOK: Cell<u64> = const { Cell::new(0) };
    static LONGEST: Cell<u64> = const { Cell::new(0) };
}

fn look() {
    let now = cpu_ns();
    LONGEST.set(LONGEST.get().max(now - LAST_LOOK.replace(now)));
}

struct Fixture {
    database: Database,
}

fn namespace(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

impl Fixture {
    /// `arrays` holds a few documents with large arrays, `texts` a long text, `wide` a large document
    /// in an array, `one` a small document, `places` geometries of very many parts.
    fn new() -> Fixture {
        let options = Options {
            index_kinds: quarry_query::index_kinds(),
            ..Options::default()
        };
        let engine = Arc::new(quarry_storage::Memory::new());
        let fixture = Fixture {
            database: Database::open(engine, options).unwrap(),
        };
        let members: Value = (0..ELEMENTS).map(Value::from).collect();
        let pairs: Value = (0..ELEMENTS / 4)
            .map(|n| Value::from(doc! { "k": (n % 1000), "v": n }))
            .collect();
        for id in 0..8 {
            let members = members.clone();
            fixture.insert(
                "arrays",
                doc! { "_id": id, "a": members, "p": (pairs.clone()) },
            );
        }
        let text = "a".repeat(1_000_000);
        for id in 0..8 {
            fixture.insert("texts", doc! { "_id": id, "t": (text.as_str()) });
        }
        // A string is one step for the library, however long it is.
        let words = "a word ".repeat(2_000);
        for id in 0..100 {
            fixture.insert("words", doc! { "_id": id, "t": (words.as_str()) });
        }
        fixture.insert("one", doc! { "_id": 1, "x": 1 });
        let places = doc! { "_id": 1, "points": (many_points(0.0)), "areas": (many_polygons()) };
        fixture.insert("places", places);
        let everything = doc! { "key": { "$**": 1 } };
        let created = fixture.database.create_indexes(
            &namespace("indexed"),
            &[everything],
            &Operation::new(None),
            Level::Written,
        );
        created.unwrap();
        let texts = doc! { "key": { "t": "text" } };
        let created = fixture.database.create_indexes(
            &namespace("searched"),
            &[texts],
            &Operation::new(None),
            Level::Written,
        );
        created.unwrap();
        for id in 0..4 {
            let text = many_words(1_000_000);
            fixture.insert("searched", doc! { "_id": id, "t": text });
        }
        let wide = Value::from_iter([Value::from(many_fields(ELEMENTS))]);
        fixture.insert("wide", doc! { "_id": 1, "d": wide });
        fixture
    }

    fn insert(&self, collection: &str, document: Document) {
        let (namespace, documents) = (namespace(collection), [document.as_raw()]);
        let request = InsertRequest {
            is_ordered: true,
            ..InsertRequest::new(&namespace, &documents)
        };
        let operation = Operation::new(None);
        let outcome =
            exec::insert((&self.database).into(), &operation, request, Level::Written).unwrap();
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    }
}

/// Words that are few, and again and again other ones.
fn many_words(bytes: usize) -> String {
    let words = [
        "Running ",
        "häuser, ",
        "CAFÉS ",
        "the ",
        "ｆｕｌｌ ",
        "x-ray\t",
    ];
    let text: String = words.iter().cycle().take(bytes / 8).copied().collect();
    text + "last"
}

/// A search for words.
fn searching(search: &str) -> Document {
    doc! { "$text": { "$search": search } }
}

/// An insert into a collection with an index.
fn inserting(collection: &'static str, document: Document) -> Work {
    Box::new(move |fixture, operation| {
        let (namespace, documents) = (namespace(collection), [document.as_raw()]);
        let request = InsertRequest::new(&namespace, &documents);
        let scope = (&fixture.database).into();
        let outcome = exec::insert(scope, operation, request, Level::Written)?;
        // An ending is the operation's error and not that of a document, behind which an unordered insert would go on.
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        Ok(())
    })
}

type Outcome = Result<()>;

/// Runs work of one kind to its end.
type Work = Box<dyn Fn(&Fixture, &Operation) -> Outcome>;

fn drain(mut executor: Executor, operation: &Operation) -> Outcome {
    let mut document = Vec::new();
    while executor.next(operation, &mut document)? {
        document.clear();
    }
    Ok(())
}

/// Text in the shell's notation.
fn value_of(text: &str) -> Value {
    let read = extjson::parse_legacy(&format!("{{v: {text}}}"));
    let read = read.unwrap_or_else(|error| panic!("{text}: {error}"));
    Value::from(read.get("v").unwrap())
}

fn aggregate(collection: &'static str, pipeline: Value) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        let pipeline: RawArray<'_> = pipeline.as_array().unwrap();
        let request = AggregateRequest::new(Over::Collection(&namespace), pipeline);
        drain(
            exec::aggregate((&fixture.database).into(), operation, request)?,
            operation,
        )
    })
}

/// A pipeline that computes one field over and over.
fn computing(collection: &'static str, expression: &str) -> Work {
    let stages = format!(
        "[{{$project: {{x: {{$map: {{input: {{$range: [0, 100000]}}, in: {{$size: [{expression}]}}}}}}}}}}]"
    );
    aggregate(
        collection,
        value_of(&stages.replace("$size: [", "$isArray: [")),
    )
}

fn stages(collection: &'static str, text: &str) -> Work {
    aggregate(collection, value_of(text))
}

fn find(collection: &'static str, filter: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        loop {
            let mut request = FindRequest::new(&namespace);
            request.filter = filter.as_raw();
            drain(
                exec::find((&fixture.database).into(), operation, request)?,
                operation,
            )?;
        }
    })
}

fn find_shown(collection: &'static str, projection: Document, sort: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        let mut request = FindRequest::new(&namespace);
        request.projection = Some(projection.as_raw());
        request.sort = Some(sort.as_raw());
        drain(
            exec::find((&fixture.database).into(), operation, request)?,
            operation,
        )
    })
}

fn update(collection: &'static str, update: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        // The documents stay as they are: what fails or ends writes nothing, and nothing here succeeds.
        loop {
            let request = UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace: &namespace,
                context: None,
                collation: None,
                filter: RawDocument::EMPTY,
                update: RawValue::Document(update.as_raw()),
                is_upsert: false,
                is_multi: true,
                hint: None,
                keeps_empty_timestamps: false,
            };
            exec::update(
                (&fixture.database).into(),
                operation,
                request,
                Level::Written,
            )?;
        }
    })
}

/// The paths of what an update that sets these fields has changed in the document. Applying it is another work.
fn describe(fields: Document, old: Document) -> Work {
    let mut set = Document::new();
    set.append("$set", fields);
    let update = Update::parse(RawValue::Document(set.as_raw())).unwrap();
    let mut new = Vec::new();
    let applied = update.apply(old.as_raw(), &MatchDetails::default(), false, 0, &mut new);
    assert!(applied.unwrap().modified);
    Box::new(move |_, _| {
        loop {
            let new = RawDocument::new(&new).unwrap();
            update.describe(old.as_raw(), new, &mut |_| ())?;
        }
    })
}

/// The variables of a command, bound before anything is read.
fn bind(variables: Document) -> Work {
    Box::new(move |_, _| {
        let mut context = quarry_query::expression::ExpressionContext::default();
        context.bind_let(variables.as_raw())
    })
}

/// Variables that multiply one another, and then the largest of them named by each of many.
fn multiplying() -> Document {
    let hundred = |name: &str| Value::from(vec![Value::from(name); 100]);
    let mut variables = doc! {
        "a": ("x".repeat(1000)), "b": (hundred("$$a")), "c": (hundred("$$b")),
    };
    for n in 0..900 {
        let size = doc! { "$size": { "$concatArrays": ["$$c", "$$c"] } };
        variables.append(format!("v{n}").as_str(), size);
    }
    variables
}

fn distinct(collection: &'static str, key: &'static str) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        loop {
            let request = DistinctRequest::new(&namespace, key);
            exec::distinct((&fixture.database).into(), operation, request)?;
        }
    })
}

fn count(collection: &'static str, filter: Document) -> Work {
    Box::new(move |fixture, operation| {
        loop {
            let namespace = namespace(collection);
            let mut request = CountRequest::new(&namespace);
            request.filter = filter.as_raw();
            exec::count((&fixture.database).into(), operation, request)?;
        }
    })
}

/// Counts, and sorts, texts that are compared by the rules of a language.
fn collated(filter: Document, sort: Document) -> Work {
    let specification = doc! { "locale": "de", "strength": 2 };
    let collation = quarry_query::Collation::parse(specification.as_raw()).unwrap();
    let context = ExpressionContext::default().with_collation(collation);
    Box::new(move |fixture, operation| {
        loop {
            let namespace = namespace("words");
            let mut request = FindRequest::new(&namespace);
            (request.filter, request.context) = (filter.as_raw(), Some(&context));
            request.sort = Some(sort.as_raw()).filter(|sort| !sort.is_empty());
            drain(
                exec::find((&fixture.database).into(), operation, request)?,
                operation,
            )?;
        }
    })
}

/// A filter with a polygon of so many corners.
fn area(corners: i32) -> Document {
    let corner = |at: i32| {
        let turn = std::f64::consts::TAU * f64::from(at % corners) / f64::from(corners);
        Value::from(vec![20.0 * turn.cos(), 20.0 * turn.sin()])
    };
    let border = Value::from_iter((0..=corners).map(corner));
    let area = doc! { "type": "Polygon", "coordinates": [border] };
    doc! { "x": { "$geoWithin": { "$geometry": area } } }
}

fn many_points(from: f64) -> Document {
    let points = (0..30_000).map(|n| Value::from(vec![from + f64::from(n) / 1000.0, 1.0]));
    doc! { "type": "MultiPoint", "coordinates": (Value::from_iter(points)) }
}

fn many_polygons() -> Document {
    let polygon = |n: i32| {
        let x = 60.0 + f64::from(n) / 100.0;
        let corners = [[x, 1.0], [x + 0.001, 1.0], [x, 1.001], [x, 1.0]];
        let border = Value::from_iter(corners.map(|corner| Value::from(corner.to_vec())));
        Value::from_iter([border])
    };
    doc! { "type": "MultiPolygon", "coordinates": (Value::from_iter((0..5000).map(polygon))) }
}

fn meeting(field: &str, geometry: Document) -> Document {
    doc! { (field): { "$geoIntersects": { "$geometry": geometry } } }
}

fn repeated(name: &str, element: impl Fn(i32) -> Value, count: i32) -> Document {
    let members: Value = (0..count).map(element).collect();
    let mut document = Document::new();
    document.append(name, members);
    document
}

fn many_fields(count: i32) -> Document {
    Document::build(|fields| {
        for number in 0..count {
            fields.append(format!("field{number}"), number);
        }
    })
}

/// Every kind of work, with what it would do if it were left alone.
fn table() -> Vec<(&'static str, Work)> {
    let sorts = ["{$sort: {a: -1}}, {$sort: {a: 1}}"; 10].join(", ");
    let copies = ["{$addFields: {y: 1}}"; 100].join(", ");
    vec![
        // Expressions.
        (
            "$in over an array",
            computing("arrays", "{$in: [-1, '$a']}"),
        ),
        (
            "$indexOfArray",
            computing("arrays", "{$indexOfArray: ['$a', -1]}"),
        ),
        (
            "$reverseArray",
            computing("arrays", "{$reverseArray: '$a'}"),
        ),
        ("$slice", computing("arrays", "{$slice: ['$a', 100000]}")),
        (
            "$concatArrays",
            computing("arrays", "{$concatArrays: ['$a', '$a']}"),
        ),
        (
            "keys of a wildcard index",
            inserting("indexed", doc! { "d": (many_fields(ELEMENTS)) }),
        ),
        (
            "the terms of a text index",
            inserting("searched", doc! { "t": (many_words(12_000_000)) }),
        ),
        (
            "one word of many megabytes",
            inserting("searched", doc! { "t": ("yä".repeat(5_000_000)) }),
        ),
        (
            "a search string of many megabytes",
            find("searched", searching(&many_words(12_000_000))),
        ),
        (
            "a phrase of many megabytes",
            find(
                "searched",
                searching(&format!("last \"{}\"", "yä".repeat(4_000_000))),
            ),
        ),
        (
            "a phrase that long texts do not have",
            find("searched", searching("last \"cafés häuser x\"")),
        ),
        (
            "terms that shall not be there",
            count("searched", searching("last -nowhere")),
        ),
        (
            "the sort keys of arrays",
            aggregate(
                "arrays",
                value_of("[{$sort: {a: 1}}, {$project: {k: {$meta: 'sortKey'}}}]"),
            ),
        ),
        ("a path through an array", computing("arrays", "'$p.v'")),
        ("$sum of an array", computing("arrays", "{$sum: '$a'}")),
        ("$max of an array", computing("arrays", "{$max: '$a'}")),
        (
            "$stdDevPop of an array",
            computing("arrays", "{$stdDevPop: '$a'}"),
        ),
        (
            "$eq of two arrays",
            computing("arrays", "{$eq: ['$p', '$p']}"),
        ),
        (
            "$arrayToObject",
            computing("arrays", "{$arrayToObject: [[['a', '$p'], ['b', '$p']]]}"),
        ),
        (
            "$mergeObjects",
            computing("arrays", "{$mergeObjects: '$p'}"),
        ),
        (
            "$sortArray",
            computing("arrays", "{$sortArray: {input: '$a', sortBy: -1}}"),
        ),
        ("$maxN", computing("arrays", "{$maxN: {input: '$a', n: 3}}")),
        (
            "$percentile of an array",
            computing(
                "arrays",
                "{$percentile: {input: '$a', p: [0.5], method: 'approximate'}}",
            ),
        ),
        (
            "$setUnion",
            computing("arrays", "{$setUnion: ['$a', '$a']}"),
        ),
        (
            "$setIsSubset",
            computing("arrays", "{$setIsSubset: ['$a', '$a']}"),
        ),
        (
            "$zip",
            computing("arrays", "{$zip: {inputs: ['$a', '$a']}}"),
        ),
        (
            "$setField",
            computing(
                "arrays",
                "{$setField: {field: 'x', input: {$mergeObjects: ['$$ROOT']}, value: 1}}",
            ),
        ),
        (
            "$replaceAll",
            computing(
                "texts",
                "{$replaceAll: {input: '$t', find: 'a', replacement: 'b'}}",
            ),
        ),
        (
            "$trim",
            computing("texts", "{$trim: {input: '$t', chars: 'ab'}}"),
        ),
        (
            "$trim of many characters",
            computing("one", &trim_of_many()),
        ),
        (
            "$indexOfCP",
            computing("texts", "{$indexOfCP: ['$t', 'never']}"),
        ),
        (
            "$dateToString",
            computing(
                "one",
                "{$dateToString: {date: {$date: 1e12}, format: '%Y-%m-%d', timezone: 'Europe/Paris'}}",
            ),
        ),
        ("$split", computing("texts", "{$split: ['$t', 'aa']}")),
        ("$toUpper", computing("texts", "{$toUpper: '$t'}")),
        ("$strLenCP", computing("texts", "{$strLenCP: '$t'}")),
        ("$concat", computing("texts", "{$concat: ['$t', '$t']}")),
        (
            "$filter",
            computing("arrays", "{$filter: {input: '$a', cond: false}}"),
        ),
        (
            "$reduce",
            computing(
                "arrays",
                "{$reduce: {input: '$a', initialValue: 0, in: {$add: ['$$value', 1]}}}",
            ),
        ),
        ("$range", computing("one", "{$range: [0, 200000]}")),
        (
            "$objectToArray",
            computing("arrays", "{$objectToArray: {a: '$a', b: '$p'}}"),
        ),
        (
            "powers of Decimal128",
            stages(
                "one",
                "[{$project: {x: {$map: {input: {$range: [1, 1000000]}, in: {$pow: [{$toDecimal: '$$this'}, {$toDecimal: '0.123456789'}]}}}}}]",
            ),
        ),
        // Stages.
        (
            "a large document through many stages",
            stages(
                "one",
                &format!("[{{$project: {{r: {{$range: [0, 1000000]}}}}}}, {copies}, {copies}]"),
            ),
        ),
        (
            "many sorts",
            stages(
                "arrays",
                &format!("[{{$unwind: '$a'}}, {{$project: {{a: 1}}}}, {sorts}]"),
            ),
        ),
        (
            "$densify",
            stages(
                "one",
                "[{$densify: {field: 'x', range: {step: 1, bounds: [0, 500000]}}}, {$match: {x: -1}}]",
            ),
        ),
        (
            "$percentile of many percentiles",
            stages(
                "arrays",
                &format!(
                    "[{{$unwind: '$a'}}, {{$group: {{_id: null, p: {{$percentile: {{input: '$a', p: [{}], method: 'approximate'}}}}}}}}]",
                    vec!["0.5"; 100_000].join(", ")
                ),
            ),
        ),
        (
            "$group by many keys",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$group: {_id: {a: '$a', b: '$_id'}, n: {$sum: 1}}}, {$skip: 10000000}]",
            ),
        ),
        (
            "$group with lists",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$group: {_id: 1, all: {$push: '$a'}, set: {$addToSet: '$a'}}}]",
            ),
        ),
        (
            "$unwind and $count",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$count: 'n'}]",
            ),
        ),
        (
            "$unwind and $sample",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$sample: {size: 3}}]",
            ),
        ),
        (
            "$unwind and $match",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$match: {a: -1}}]",
            ),
        ),
        (
            "$unwind and $skip",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$skip: 1000000000}]",
            ),
        ),
        (
            "$lookup of an array's values",
            stages(
                "arrays",
                "[{$lookup: {from: 'one', localField: 'a', foreignField: 'x', as: 'found'}}]",
            ),
        ),
        (
            "$lookup in a large array",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'arrays', localField: 'y', foreignField: 'a', as: 'found'}}]",
            ),
        ),
        (
            "$lookup with a pipeline",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'one', let: {a: '$a'}, pipeline: [{$match: {$expr: {$eq: ['$y', '$$a']}}}], as: 'found'}}, {$match: {a: -1}}]",
            ),
        ),
        (
            "$lookup within $lookup",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'arrays', pipeline: [{$unwind: '$a'}, {$lookup: {from: 'one', let: {a: '$a'}, pipeline: [], as: 'y'}}, {$match: {a: -1}}], as: 'found'}}]",
            ),
        ),
        (
            "$unionWith",
            stages(
                "one",
                "[{$unionWith: {coll: 'arrays', pipeline: [{$unwind: '$a'}, {$unwind: '$p'}, {$match: {a: -1}}]}}]",
            ),
        ),
        (
            "$facet",
            stages(
                "arrays",
                "[{$project: {a: 1}}, {$facet: {x: [{$unwind: '$a'}, {$match: {a: -1}}], y: [{$unwind: '$a'}, {$unwind: '$a'}, {$addFields: {b: '$a'}}, {$group: {_id: '$b'}}]}}]",
            ),
        ),
        (
            "$graphLookup",
            stages(
                "arrays",
                "[{$graphLookup: {from: 'arrays', startWith: '$a', connectFromField: 'p.v', connectToField: 'a', as: 'found'}}]",
            ),
        ),
        ("let", bind(multiplying())),
        // Filters.
        (
            "a filter over an array",
            count("arrays", doc! { "a": (-1) }),
        ),
        (
            "a path through an array in a filter",
            count("arrays", doc! { "p.v": (-1) }),
        ),
        (
            "$elemMatch",
            count(
                "arrays",
                doc! { "p": { "$elemMatch": { "k": 1, "v": (-1) } } },
            ),
        ),
        (
            "large documents in an array",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("d.y{n}")): 1 }),
                    1_000,
                ),
            ),
        ),
        (
            "$elemMatch of large documents",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| {
                        let inner = doc! { (format!("y{n}")): 1 };
                        Value::from(doc! { "d": { "$elemMatch": inner } })
                    },
                    1_000,
                ),
            ),
        ),
        (
            "a large document at a place in an array",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("d.0.y{n}")): 1 }),
                    1_000,
                ),
            ),
        ),
        (
            "texts compared by a collation",
            collated(doc! { "t": { "$gt": ("a word ".repeat(2_100)) } }, doc! {}),
        ),
        (
            "texts sorted by a collation",
            collated(doc! {}, doc! { "t": 1 }),
        ),
        ("$size", count("arrays", doc! { "a": { "$size": 3 } })),
        (
            "a list in a filter over an array",
            count("arrays", repeated_in("a", 1000)),
        ),
        (
            "$expr",
            count("arrays", doc! { "$expr": { "$in": [(-1), "$a"] } }),
        ),
        ("a polygon of many corners", find("one", area(30_000))),
        (
            "many points and many points",
            count("places", meeting("points", many_points(60.0))),
        ),
        (
            "many points and many polygons",
            count("places", meeting("points", many_polygons())),
        ),
        (
            "many polygons and many points",
            count("places", meeting("areas", many_points(60.0))),
        ),
        (
            "a large $in of _ids",
            find("arrays", repeated_in("_id", 200_000)),
        ),
        (
            "a large $or",
            find(
                "one",
                repeated("$or", |n| Value::from(doc! { "x": (n + 2) }), 100_000),
            ),
        ),
        (
            "a large $and of names",
            find(
                "one",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("x{n}")): 1 }),
                    100_000,
                ),
            ),
        ),
        (
            "$all",
            count("arrays", {
                let members: Value = (0..ELEMENTS).rev().map(Value::from).collect();
                doc! { "a": { "$all": members } }
            }),
        ),
        // Texts that regular expressions try again and again.
        (
            "a regular expression",
            count("texts", doc! { "t": { "$regex": "a.*[bc]" } }),
        ),
        (
            "backtracking",
            count("texts", doc! { "t": { "$regex": "(a+)+[bc]" } }),
        ),
        (
            "a backreference",
            count("texts", doc! { "t": { "$regex": "(a*)(a*)\\1\\2[bc]" } }),
        ),
        (
            "a lazy expression",
            count("texts", doc! { "t": { "$regex": "a.*?a.*?[bc]" } }),
        ),
        (
            "a class",
            count("texts", doc! { "t": { "$regex": "[ab]+c" } }),
        ),
        (
            "many regular expressions",
            find(
                "one",
                doc! { "y": { "$in": ((0..20_000).map(|n| regex(&format!("^a{n}(b|c)+d"))).collect::<Value>()) } },
            ),
        ),
        // The other commands.
        ("distinct", distinct("arrays", "a")),
        ("distinct through a path", distinct("arrays", "p.v")),
        (
            "a sort by an array's least element",
            find_shown("arrays", doc! {}, doc! { "p.v": 1, "p.k": (-1) }),
        ),
        (
            "a computed projection",
            find_shown(
                "arrays",
                doc! { "x": { "$filter": { "input": "$a", "cond": { "$gt": ["$$this", (-1)] } } } },
                doc! { "a": 1 },
            ),
        ),
        (
            "a projection through an array",
            find_shown("arrays", doc! { "p.k": 1 }, doc! { "p.v": 1 }),
        ),
        (
            "an update of many fields",
            update("one", doc! { "$unset": (many_fields(100_000)) }),
        ),
        (
            "an update that pulls",
            update("arrays", doc! { "$pull": { "a": (-1) } }),
        ),
        (
            "an update that adds to a set",
            update("arrays", doc! { "$addToSet": { "a": { "$each": [1, 2] } } }),
        ),
        (
            "an update that sorts",
            update(
                "arrays",
                doc! { "$push": { "p": { "$each": [], "$sort": { "v": 1 } } } },
            ),
        ),
        (
            "the description of an update of many fields",
            describe(many_fields(100_000), doc! { "x": 1 }),
        ),
        (
            "the description of an update of many elements",
            describe(
                Document::build(|fields| {
                    for n in 0..20_000 {
                        fields.append(format!("a.{n}"), -1);
                    }
                }),
                repeated("a", Value::from, 20_000),
            ),
        ),
        (
            "an update of every element",
            update("arrays", doc! { "$max": { "p.$[].v": (-1) } }),
        ),
    ]
}

/// `$trim` of a text that consists of the last of many characters that go.
fn trim_of_many() -> String {
    let chars: String = ('\u{4e00}'..='\u{9fff}').collect();
    let text = "\u{9fff}".repeat(300_000);
    format!("{{$trim: {{input: '{text}', chars: '{chars}'}}}}")
}

fn regex(pattern: &str) -> Value {
    Value::from(RawValue::Regex(quarry_bson::RawRegex {
        pattern: pattern.into(),
        options: "".into(),
    }))
}

fn repeated_in(name: &str, count: i32) -> Document {
    let list = repeated("$in", |n| Value::from(-1 - n), count);
    let mut document = Document::new();
    document.append(name, Value::from(list));
    document
}

/// Runs work until it is ended; how long it went without a look at the most, in milliseconds, and how it ended.
fn gap_of(work: &Work, fixture: &Fixture, deadline: Option<Instant>) -> (u64, Option<i32>) {
    let begun = Arc::new(AtomicU64::new(cpu_ns()));
    let noted = Arc::clone(&begun);
    let given_ns = given_ms() * 1_000_000;
    let hook = Box::new(move || {
        look();
        let used = cpu_ns() - noted.load(Relaxed);
        // Nothing but a killed operation ends by this hook: a deadline is to end it by itself.
        deadline.is_none() && used > given_ns
    });
    let operation = Arc::new(Operation::new(deadline).with_disconnect(hook));
    let running = run_as(Arc::clone(&operation));
    let start = cpu_ns();
    begun.store(start, Relaxed);
    LAST_LOOK.set(start);
    LONGEST.set(0);
    let outcome = work(fixture, &operation);
    look();
    drop(running);
    let code = outcome.err().map(|error| error.code());
    (LONGEST.get() / 1_000_000, code)
}

#[test]
fn whatever_an_operation_does_it_ends_soon() {
    let fixture = Fixture::new();
    let only = std::env::var("ONLY").ok();
    let mut late = Vec::new();
    for (name, work) in table() {
        if only.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        for (how, deadline, code) in [
            ("killed", None, 11_601),
            ("out of time", Some(Duration::from_millis(given_ms())), 50),
        ] {
            let try_once = || {
                gap_of(
                    &work,
                    &fixture,
                    deadline.map(|given| Instant::now() + given),
                )
            };
            let (mut gap_ms, mut ended) = try_once();
            for _ in 1..TRIES {
                if gap_ms > GAP_MS_MAX && ended == Some(code) {
                    (gap_ms, ended) = try_once();
                }
            }
            if std::env::var_os("SHOW").is_some() {
                eprintln!("{gap_ms:>6} ms  {name}, {how}: {ended:?}");
            }
            if gap_ms > GAP_MS_MAX || ended != Some(code) {
                late.push(format!(
                    "{name}, {how}: {gap_ms} ms without a look, ended with {ended:?}"
                ));
            }
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}
