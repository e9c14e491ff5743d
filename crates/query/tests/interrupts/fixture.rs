//! The collections that the work is done over, and large values to ask with.

use std::sync::Arc;

use quarry_bson::{Document, RawValue, Value, doc};
use quarry_database::{Database, Level, Namespace, Operation, Options};
use quarry_query::exec::{self, InsertRequest};

/// Elements of the array in each document of the collection `arrays`.
pub const ELEMENTS: i32 = 200_000;

pub struct Fixture {
    pub database: Database,
}

pub fn namespace(name: &str) -> Namespace {
    Namespace::new("db", name).unwrap()
}

impl Fixture {
    /// `arrays` holds a few documents with large arrays, `texts` a long text, `wide` a large document
    /// in an array, `one` a small document, `places` geometries of very many parts.
    pub fn new() -> Fixture {
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

    pub fn insert(&self, collection: &str, document: Document) {
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
pub fn many_words(bytes: usize) -> String {
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

/// A filter with a polygon of so many corners.
pub fn area(corners: i32) -> Document {
    let corner = |at: i32| {
        let turn = std::f64::consts::TAU * f64::from(at % corners) / f64::from(corners);
        Value::from(vec![20.0 * turn.cos(), 20.0 * turn.sin()])
    };
    let border = Value::from_iter((0..=corners).map(corner));
    let area = doc! { "type": "Polygon", "coordinates": [border] };
    doc! { "x": { "$geoWithin": { "$geometry": area } } }
}

pub fn many_points(from: f64) -> Document {
    let points = (0..30_000).map(|n| Value::from(vec![from + f64::from(n) / 1000.0, 1.0]));
    doc! { "type": "MultiPoint", "coordinates": (Value::from_iter(points)) }
}

pub fn many_polygons() -> Document {
    let polygon = |n: i32| {
        let x = 60.0 + f64::from(n) / 100.0;
        let corners = [[x, 1.0], [x + 0.001, 1.0], [x, 1.001], [x, 1.0]];
        let border = Value::from_iter(corners.map(|corner| Value::from(corner.to_vec())));
        Value::from_iter([border])
    };
    doc! { "type": "MultiPolygon", "coordinates": (Value::from_iter((0..5000).map(polygon))) }
}

pub fn meeting(field: &str, geometry: Document) -> Document {
    doc! { (field): { "$geoIntersects": { "$geometry": geometry } } }
}

pub fn repeated(name: &str, element: impl Fn(i32) -> Value, count: i32) -> Document {
    let members: Value = (0..count).map(element).collect();
    let mut document = Document::new();
    document.append(name, members);
    document
}

pub fn many_fields(count: i32) -> Document {
    Document::build(|fields| {
        for number in 0..count {
            fields.append(format!("field{number}"), number);
        }
    })
}

/// An `$addFields` with so many fields, each at the end of a path of many parts.
pub fn deep_fields(count: i32) -> String {
    let within = "a.b.c.d.e.".repeat(10);
    let fields = (0..count).map(|n| format!("'{within}f{n}': 1"));
    let fields = fields.collect::<Vec<_>>().join(", ");
    format!("[{{$addFields: {{{fields}}}}}]")
}

/// A `$group` with so many accumulators, each of another field.
pub fn group_of_firsts(count: i32) -> String {
    let firsts = (0..count).map(|n| format!("a{n}: {{$first: '$f{n}'}}"));
    let firsts = firsts.collect::<Vec<_>>().join(", ");
    format!("[{{$group: {{_id: null, {firsts}}}}}]")
}

/// `$trim` of a text that consists of the last of many characters that go.
pub fn trim_of_many() -> String {
    let chars: String = ('\u{4e00}'..='\u{9fff}').collect();
    let text = "\u{9fff}".repeat(300_000);
    format!("{{$trim: {{input: '{text}', chars: '{chars}'}}}}")
}

pub fn regex(pattern: &str) -> Value {
    Value::from(RawValue::Regex(quarry_bson::RawRegex {
        pattern: pattern.into(),
        options: "".into(),
    }))
}

pub fn repeated_in(name: &str, count: i32) -> Document {
    let list = repeated("$in", |n| Value::from(-1 - n), count);
    let mut document = Document::new();
    document.append(name, Value::from(list));
    document
}
