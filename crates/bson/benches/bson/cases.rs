//! The cases: one operation over one document, by Quarry and by its peers.

use std::hint::black_box;

use bson::raw::{RawArray as PeerArray, RawBsonRef, RawDocument as PeerDocument};
use quarry_bson::{
    ArrayBuilder, Document, DocumentBuilder, FieldSet, Index, RawArray, RawDocument, RawElement,
    RawValue,
};

use crate::documents::{Field, Scenario};

pub struct Case {
    pub name: String,
    pub bytes: usize,
    pub ours: Box<dyn FnMut()>,
    pub peer: Option<Box<dyn FnMut()>>,
    /// Moves the memory that the operation cannot do without, to show what the machine itself takes for it.
    pub limit: Option<Box<dyn FnMut()>>,
}

/// Documents from this size on are bounded by memory: there the limit is measured too.
const LIMITED_BYTES: usize = 64 * 1024;

/// The scenario's document and what is asked of it.
pub fn of(scenario: &Scenario) -> (&'static [u8], Vec<Case>) {
    let fields: &'static [(String, Field)] = scenario.fields.clone().leak();
    let mut encoded = Vec::new();
    encode(fields, &mut encoded);
    let bytes: &'static [u8] = encoded.leak();
    let ours = RawDocument::validated(bytes).expect("the builder made it");
    let theirs = PeerDocument::from_bytes(bytes).expect("the builder made it");
    let tree: &'static bson::Document = Box::leak(Box::new(
        bson::Document::from_reader(bytes).expect("the builder made it"),
    ));
    let names: &'static [&'static str] = fields
        .iter()
        .map(|(n, _)| n.as_str())
        .collect::<Vec<_>>()
        .leak();
    let spread: Vec<&str> = (0..5)
        .map(|i| names[(i * 2 + 1) * names.len() / 10])
        .collect();
    let first: Vec<&str> = names[..5].to_vec();

    let case = |operation: &str, ours: Box<dyn FnMut()>, peer: Option<Box<dyn FnMut()>>| Case {
        name: format!("{}/{operation}", scenario.name),
        bytes: bytes.len(),
        ours,
        peer,
        limit: (bytes.len() >= LIMITED_BYTES)
            .then(|| limit(operation, bytes, fields))
            .flatten(),
    };
    let mut index = Index::new();
    let mut buffer = Vec::new();
    let copy: &'static [u8] = bytes.to_vec().leak();
    let tree_copy = tree.clone();
    let mut changed = bytes.to_vec();
    let last = changed.len() - 2;
    changed[last] ^= 1;
    let canonical: &'static str = quarry_bson::extjson::canonical(ours).leak();
    let cases = vec![
        case(
            "owned",
            Box::new(move || drop(black_box(Document::decode(black_box(bytes))))),
            Some(Box::new(move || {
                drop(black_box(bson::Document::from_reader(black_box(bytes))));
            })),
        ),
        case(
            "owned-read",
            Box::new(move || {
                let document = Document::decode(black_box(bytes)).expect("the bytes are sound");
                black_box(sum(document.as_raw()));
            }),
            Some(Box::new(move || {
                let document =
                    bson::Document::from_reader(black_box(bytes)).expect("the bytes are sound");
                black_box(peer_tree_sum(&document));
            })),
        ),
        case(
            "iterate",
            Box::new(move || {
                black_box(
                    black_box(ours)
                        .iter()
                        .fold(0, |n, e| n ^ shallow(e.name().len_bytes(), e.value())),
                );
            }),
            Some(Box::new(move || {
                let fields = black_box(theirs).iter().flatten();
                black_box(fields.fold(0, |n, (name, value)| {
                    n ^ peer_shallow(name.as_str().len(), value)
                }));
            })),
        ),
        case(
            "index",
            Box::new(move || {
                index.build(black_box(ours));
                black_box(index.len());
            }),
            None,
        ),
        case(
            "spread5",
            extract(ours, &spread),
            Some(gets(theirs, spread.clone())),
        ),
        case(
            "first5",
            extract(ours, &first),
            Some(gets(theirs, first.clone())),
        ),
        case(
            "validate",
            Box::new(move || {
                let _ = black_box(RawDocument::validated(black_box(bytes)));
            }),
            Some(Box::new(move || {
                let document =
                    PeerDocument::from_bytes(black_box(bytes)).expect("the bytes are sound");
                black_box(peer_walk(document));
            })),
        ),
        case(
            "encode",
            Box::new(move || {
                buffer.clear();
                encode(black_box(fields), &mut buffer);
                black_box(buffer.len());
            }),
            Some(Box::new(move || drop(black_box(black_box(tree).to_vec())))),
        ),
        case(
            "compare",
            Box::new(move || {
                let changed = RawDocument::new(&changed).expect("only a value changed");
                black_box(quarry_bson::compare_documents(
                    black_box(RawDocument::new(copy).expect("a copy")),
                    changed,
                ));
            }),
            Some(Box::new(move || {
                black_box(black_box(tree) == black_box(&tree_copy));
            })),
        ),
        case(
            "extjson",
            Box::new(move || {
                black_box(quarry_bson::extjson::canonical(black_box(ours)));
                drop(black_box(quarry_bson::extjson::parse(black_box(canonical))));
            }),
            Some(Box::new(move || {
                let value = bson::Bson::Document(black_box(tree).clone()).into_canonical_extjson();
                black_box(value.to_string());
                let value: serde_json::Value =
                    serde_json::from_str(black_box(canonical)).expect("canonical text is JSON");
                drop(black_box(bson::Bson::try_from(value)));
            })),
        ),
    ];
    (bytes, cases)
}

/// The copy or the reading that is left of an operation when nothing is done to the bytes.
fn limit(
    operation: &str,
    bytes: &'static [u8],
    fields: &'static [(String, Field)],
) -> Option<Box<dyn FnMut()>> {
    let mut buffer = Vec::new();
    match operation {
        "owned" => Some(Box::new(move || drop(black_box(black_box(bytes).to_vec())))),
        "validate" => Some(Box::new(move || {
            let (words, _) = black_box(bytes).as_chunks::<8>();
            black_box(
                words
                    .iter()
                    .fold(0, |n, word| n | u64::from_le_bytes(*word)),
            );
        })),
        "encode" => Some(Box::new(move || {
            buffer.clear();
            for (_, field) in black_box(fields) {
                if let Field::Text(text) = field {
                    buffer.extend_from_slice(text.as_bytes());
                }
            }
            black_box(buffer.len());
        })),
        _ => None,
    }
}

fn extract(document: RawDocument<'static>, names: &[&str]) -> Box<dyn FnMut()> {
    let set = FieldSet::new(names.iter().copied());
    let mut slots: [Option<RawElement<'_>>; 5] = [None; 5];
    Box::new(move || {
        set.extract(black_box(document), &mut slots);
        black_box(
            slots
                .iter()
                .flatten()
                .fold(0, |n, e| n ^ shallow(0, e.value())),
        );
    })
}

fn gets(document: &'static PeerDocument, names: Vec<&'static str>) -> Box<dyn FnMut()> {
    Box::new(move || {
        let found = names
            .iter()
            .filter_map(|name| black_box(document).get(name).ok().flatten());
        black_box(found.fold(0, |n, value| n ^ peer_shallow(0, value)));
    })
}

fn encode(fields: &[(String, Field)], out: &mut Vec<u8>) {
    let mut builder = DocumentBuilder::new(out);
    for (name, field) in fields {
        match field {
            Field::Int32(n) => builder.append(name, *n),
            Field::Int64(n) => builder.append(name, *n),
            Field::Double(d) => builder.append(name, *d),
            Field::Boolean(b) => builder.append(name, *b),
            Field::Text(text) => builder.append(name, text),
            Field::List(values) => {
                encode_list(values, builder.array(name));
                &mut builder
            }
        };
    }
    builder.finish();
}

fn encode_list(values: &[Field], mut builder: ArrayBuilder<'_>) {
    for value in values {
        match value {
            Field::Int32(n) => builder.push(*n),
            Field::Int64(n) => builder.push(*n),
            Field::Double(d) => builder.push(*d),
            Field::Boolean(b) => builder.push(*b),
            Field::Text(text) => builder.push(text),
            Field::List(values) => {
                encode_list(values, builder.array());
                &mut builder
            }
        };
    }
}

/// Touches a name's length and a value.
#[inline(always)]
fn shallow(name_len: usize, value: RawValue<'_>) -> u64 {
    name_len as u64
        ^ match value {
            RawValue::Int32(n) => n as u64,
            RawValue::Int64(n) => n as u64,
            RawValue::Double(d) => d.to_bits(),
            RawValue::Boolean(b) => u64::from(b),
            RawValue::String(text) => text.len_bytes() as u64,
            RawValue::Array(array) => array.as_bytes().len() as u64,
            _ => 0,
        }
}

#[inline(always)]
fn peer_shallow(name_len: usize, value: RawBsonRef<'_>) -> u64 {
    name_len as u64
        ^ match value {
            RawBsonRef::Int32(n) => n as u64,
            RawBsonRef::Int64(n) => n as u64,
            RawBsonRef::Double(d) => d.to_bits(),
            RawBsonRef::Boolean(b) => u64::from(b),
            RawBsonRef::String(text) => text.len() as u64,
            RawBsonRef::Array(array) => array.as_bytes().len() as u64,
            _ => 0,
        }
}

/// Every value, nested ones too.
fn sum(document: RawDocument<'_>) -> u64 {
    document.iter().fold(0, |n, e| match e.value() {
        RawValue::Array(array) => n ^ sum_list(array),
        value => n ^ shallow(e.name().len_bytes(), value),
    })
}

fn sum_list(array: RawArray<'_>) -> u64 {
    array.iter().fold(0, |n, value| n ^ shallow(0, value))
}

fn peer_tree_sum(document: &bson::Document) -> u64 {
    document.iter().fold(0, |n, (name, value)| {
        n ^ name.len() as u64 ^ peer_tree_value(value)
    })
}

fn peer_tree_value(value: &bson::Bson) -> u64 {
    match value {
        bson::Bson::Int32(n) => *n as u64,
        bson::Bson::Int64(n) => *n as u64,
        bson::Bson::Double(d) => d.to_bits(),
        bson::Bson::Boolean(b) => u64::from(*b),
        bson::Bson::String(text) => text.len() as u64,
        bson::Bson::Array(values) => values.iter().fold(0, |n, v| n ^ peer_tree_value(v)),
        _ => 0,
    }
}

/// The peer has no validating pass of its own; reading every value checks as much.
fn peer_walk(document: &PeerDocument) -> u64 {
    document
        .iter()
        .fold(0, |n, field| match field.expect("the bytes are sound") {
            (_, RawBsonRef::Array(array)) => n ^ peer_walk_list(array),
            (name, value) => n ^ peer_shallow(name.as_str().len(), value),
        })
}

fn peer_walk_list(array: &PeerArray) -> u64 {
    array.into_iter().fold(0, |n, value| {
        n ^ peer_shallow(0, value.expect("the bytes are sound"))
    })
}
