//! Serialize and Deserialize for BSON's own types.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

use super::TOKEN;
use crate::{
    DateTime, Decimal128, Document, ElementType, ObjectId, RawArray, RawDocument, RawValue,
    Timestamp, Value, extjson,
};

impl Serialize for RawValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return readable(*self, serializer);
        }
        let mut travels = vec![self.element_type() as u8];
        self.write_to(&mut travels);
        serializer.serialize_newtype_struct(TOKEN, &Bytes(&travels))
    }
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Relaxed Extended JSON, as a structure.
fn readable<S: Serializer>(value: RawValue<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        RawValue::Int32(n) => serializer.serialize_i32(n),
        RawValue::Int64(n) => serializer.serialize_i64(n),
        RawValue::Double(d) if d.is_finite() => serializer.serialize_f64(d),
        RawValue::Boolean(b) => serializer.serialize_bool(b),
        RawValue::Null => serializer.serialize_unit(),
        RawValue::String(text) => serializer.serialize_str(&text.to_string_lossy()),
        RawValue::Document(document) => readable_document(document, serializer),
        RawValue::Array(array) => readable_array(array, serializer),
        // The form of any other type is a document of plain text and numbers.
        other => {
            let spelled = extjson::spelled_out(other).map_err(serde::ser::Error::custom)?;
            readable_document(spelled.as_raw(), serializer)
        }
    }
}

fn readable_document<S: Serializer>(
    document: RawDocument<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for element in document {
        map.serialize_entry(&*element.name().to_string_lossy(), &element.value())?;
    }
    map.end()
}

fn readable_array<S: Serializer>(array: RawArray<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(None)?;
    for value in array {
        seq.serialize_element(&value)?;
    }
    seq.end()
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let readable = deserializer.is_human_readable();
        let value = deserializer.deserialize_newtype_struct(TOKEN, ValueVisitor)?;
        if !readable {
            return Ok(value);
        }
        // Objects of Extended JSON become the values that they stand for.
        extjson::parse_value(&extjson::relaxed_value(value.as_raw())).map_err(de::Error::custom)
    }
}

/// Takes what travels under the token, or builds a value from a format's own types.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a BSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }

    fn visit_bytes<E: de::Error>(self, travelled: &[u8]) -> Result<Value, E> {
        let (tag, bytes) = travelled
            .split_first()
            .ok_or_else(|| E::custom("no value"))?;
        let element_type = ElementType::from_u8(*tag)
            .ok_or_else(|| E::custom(format!("element type {tag:#04x}")))?;
        Value::from_bytes(element_type, bytes).map_err(E::custom)
    }
}

struct PlainVisitor;

/// A value of a format's own types; nested ones too.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Plain)
    }
}

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a BSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(i32::try_from(v).map_or_else(|_| v.into(), Value::from))
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
        i64::try_from(v)
            .map_err(|_| E::custom(format!("{v} exceeds an Int64")))
            .and_then(|v| self.visit_i64(v))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_bytes<E>(self, v: &[u8]) -> Result<Value, E> {
        Ok(Value::binary(0, v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::null())
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::null())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Plain(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut document = Document::new();
        while let Some((name, Plain(value))) = map.next_entry::<String, Plain>()? {
            if name.contains('\0') {
                return Err(de::Error::custom("a field name contains NUL"));
            }
            document.append(name, value);
        }
        Ok(document.into())
    }
}

macro_rules! through_value {
    ($($type:ty, $alias:literal, |$to:ident| $raw:expr, |$from:pat_param| $back:expr;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $to = self;
                Serialize::serialize(&RawValue::from($raw), serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match Value::deserialize(deserializer)?.as_raw() {
                    $from => Ok($back),
                    other => Err(de::Error::custom(format!("a value of type {} was expected, not {other}", $alias))),
                }
            }
        }
    )*};
}

through_value! {
    ObjectId, "objectId", |v| *v, |RawValue::ObjectId(id)| id;
    DateTime, "date", |v| *v, |RawValue::DateTime(ms)| DateTime(ms);
    Decimal128, "decimal", |v| *v, |RawValue::Decimal128(d)| d;
    Timestamp, "timestamp", |v| *v, |RawValue::Timestamp(t)| t;
    Document, "object", |v| v, |RawValue::Document(document)| document.to_owned_document();
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(&self.as_raw(), serializer)
    }
}

impl Serialize for RawDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(&RawValue::Document(*self), serializer)
    }
}
