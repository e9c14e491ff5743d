//! serde: Rust types to BSON and back.
//!
//! BSON's own types (ObjectId, DateTime, Decimal128, Timestamp, Value, Document) travel whole between a Rust
//! type and this crate's serializer, as a newtype under a name of their own. In formats that people read they
//! take their relaxed Extended JSON form.

mod bson_types;
mod deserialize;
mod serialize;

use serde::{Deserialize, Serialize};

use crate::{Document, ElementType, Error, RawDocument, RawValue, Result, Value};

/// The newtype's name under which a BSON value travels: its type byte, then its bytes.
const TOKEN: &str = "$quarry_bson::Value";

/// Serializes a struct or map.
pub fn to_document<T: Serialize + ?Sized>(value: &T) -> Result<Document> {
    let mut bytes = Vec::new();
    match serialize::write(value, &mut bytes)? {
        ElementType::Document => Ok(Document::from_built(bytes)),
        other => Err(Error::Unrepresentable {
            what: format!(
                "a document was expected, not a value of type {}",
                other.alias()
            ),
        }),
    }
}

/// Any serializable value as BSON. An error where BSON has no such value: a number beyond Int64, a map's key
/// that is no text.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value> {
    let mut bytes = Vec::new();
    let element_type = serialize::write(value, &mut bytes)?;
    Value::from_bytes(element_type, &bytes)
}

/// Deserializes a document; strings may be borrowed from it.
pub fn from_document<'de, T: Deserialize<'de>>(document: RawDocument<'de>) -> Result<T> {
    from_value(RawValue::Document(document))
}

/// Reads a Rust value from a BSON value, borrowing its text and bytes where the type asks for that.
pub fn from_value<'de, T: Deserialize<'de>>(value: RawValue<'de>) -> Result<T> {
    T::deserialize(deserialize::ValueDeserializer::new(value))
}

impl serde::ser::Error for Error {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Self::Unrepresentable {
            what: what.to_string(),
        }
    }
}

impl serde::de::Error for Error {
    fn custom<T: std::fmt::Display>(what: T) -> Self {
        Self::Unrepresentable {
            what: what.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{DateTime, Decimal128, ObjectId, Timestamp, doc};

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Everything<'a> {
        id: ObjectId,
        name: &'a str,
        small: i8,
        wide: u32,
        long: i64,
        ratio: f64,
        when: DateTime,
        price: Decimal128,
        clock: Timestamp,
        any: Value,
        nested: Document,
        list: Vec<Option<u8>>,
        map: BTreeMap<i32, bool>,
        pair: (i32, String),
        unit: Shape,
        round: Shape,
        square: Shape,
        line: Shape,
        nothing: Option<i32>,
        letter: char,
    }

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    enum Shape {
        Point,
        Circle(f64),
        Square { side: i32 },
        Line(i32, i32),
    }

    fn everything() -> Everything<'static> {
        Everything {
            id: ObjectId::from_bytes([1; 12]),
            name: "naïve",
            small: -5,
            wide: 4_000_000_000,
            long: 1 << 40,
            ratio: 0.5,
            when: DateTime(5),
            price: Decimal128::parse("1.50").unwrap(),
            clock: Timestamp {
                time: 1,
                increment: 2,
            },
            any: Value::min_key(),
            nested: doc! { "x": [1, { "y": null }] },
            list: vec![Some(1), None],
            map: BTreeMap::from([(-1, true)]),
            pair: (1, "two".to_owned()),
            unit: Shape::Point,
            round: Shape::Circle(1.0),
            square: Shape::Square { side: 2 },
            line: Shape::Line(3, 4),
            nothing: None,
            letter: 'ß',
        }
    }

    #[test]
    fn rust_types_go_to_documents_and_back() {
        let document = to_document(&everything()).unwrap();
        RawDocument::validated(document.as_bytes()).unwrap();
        let wanted = doc! {
            "id": ObjectId::from_bytes([1; 12]), "name": "naïve", "small": -5, "wide": 4_000_000_000i64, "long": 1i64 << 40, "ratio": 0.5,
            "when": DateTime(5), "price": Decimal128::parse("1.50").unwrap(), "clock": Timestamp { time: 1, increment: 2 },
            "any": Value::min_key(), "nested": { "x": [1, { "y": null }] }, "list": [1, null], "map": { "-1": true }, "pair": [1, "two"],
            "unit": "Point", "round": { "Circle": 1.0 }, "square": { "Square": { "side": 2 } }, "line": { "Line": [3, 4] },
            "nothing": null, "letter": "ß",
        };
        assert_eq!(document.as_bytes(), wanted.as_bytes());
        assert_eq!(
            from_document::<Everything<'_>>(document.as_raw()).unwrap(),
            everything()
        );
    }

    #[test]
    fn formats_for_people_see_extended_json() {
        let document =
            doc! { "_id": ObjectId::from_bytes([1; 12]), "n": [1, 1.5, null], "t": DateTime(0) };
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(text, crate::extjson::relaxed(document.as_raw()));
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        let value: Value = serde_json::from_str(r#"{"a":{"$numberDecimal":"1.5"}}"#).unwrap();
        assert_eq!(
            value,
            Value::from(doc! { "a": Decimal128::parse("1.5").unwrap() })
        );
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(to_document(&5).is_err());
        assert!(to_value(&u64::MAX).is_err());
        assert!(to_value(&BTreeMap::from([("a\0b", 1)])).is_err());
        assert!(from_value::<u8>(RawValue::Int32(300)).is_err());
        assert!(from_value::<ObjectId>(RawValue::Int32(3)).is_err());
        assert!(from_document::<Everything<'_>>(doc! { "id": 1 }.as_raw()).is_err());
        assert_eq!(from_value::<i32>(RawValue::Double(3.0)).unwrap(), 3);
    }
}
