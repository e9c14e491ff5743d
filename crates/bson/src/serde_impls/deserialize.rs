//! The deserializer over a value in place.
//!
//! Types that Rust has no word for show, to a visitor that asks for nothing in particular, as text (ObjectId,
//! DateTime, Decimal128 and the rarer ones) or bytes (Binary).

use serde::{
    Deserializer,
    de::{
        self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
        value::BorrowedStrDeserializer,
    },
};

use super::TOKEN;
use crate::{DEPTH_MAX, DateTime, Error, Iter, RawDocument, RawValue, Result, Values};

pub(super) struct ValueDeserializer<'de> {
    value: RawValue<'de>,
    /// Documents around this one; bounded, for the bytes may not have been validated.
    depth: usize,
}

impl<'de> ValueDeserializer<'de> {
    pub(super) fn new(value: RawValue<'de>) -> Self {
        Self { value, depth: 0 }
    }

    fn deeper(&self) -> Result<usize> {
        if self.depth < DEPTH_MAX {
            Ok(self.depth + 1)
        } else {
            Err(Error::TooDeep {
                offset: 0,
                path: String::new(),
            })
        }
    }

    fn whole(&self) -> Option<i64> {
        self.value.as_i64_exact()
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {$(
        /// A number of any type that is whole fits a whole type of Rust.
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.whole() {
                Some(n) => visitor.visit_i64(n),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.value {
            RawValue::Double(d) => visitor.visit_f64(d),
            RawValue::Int32(n) => visitor.visit_i32(n),
            RawValue::Int64(n) => visitor.visit_i64(n),
            RawValue::Boolean(b) => visitor.visit_bool(b),
            RawValue::Null | RawValue::Undefined => visitor.visit_unit(),
            RawValue::String(text) | RawValue::Symbol(text) | RawValue::JavaScript(text) => {
                visitor.visit_borrowed_str(text.as_str()?)
            }
            RawValue::Binary(binary) => visitor.visit_borrowed_bytes(binary.bytes),
            RawValue::Document(document) => {
                visitor.visit_map(Fields::new(document, self.deeper()?))
            }
            RawValue::Array(array) => {
                let depth = self.deeper()?;
                visitor.visit_seq(Elements {
                    values: array.iter(),
                    depth,
                })
            }
            RawValue::ObjectId(id) => visitor.visit_string(id.to_hex()),
            RawValue::DateTime(ms) => visitor.visit_string(DateTime(ms).to_string()),
            RawValue::Decimal128(d) => visitor.visit_string(d.to_string()),
            RawValue::Timestamp(t) => visitor.visit_u64(t.to_u64()),
            other => visitor.visit_string(other.to_string()),
        }
    }

    whole_numbers! { deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.value.as_f64_lossy() {
            Some(d) => visitor.visit_f64(d),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.value.is_nullish() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        if name != TOKEN {
            return visitor.visit_newtype_struct(self);
        }
        let mut travels = vec![self.value.element_type() as u8];
        self.value.write_to(&mut travels);
        visitor.visit_byte_buf(travels)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.value {
            RawValue::String(name) => visitor.visit_enum(Variant {
                name: name.as_str()?,
                content: None,
                depth: self.depth,
            }),
            RawValue::Document(document) => {
                let depth = self.deeper()?;
                let mut fields = document.iter();
                match (fields.next(), fields.next()) {
                    (Some(field), None) => visitor.visit_enum(Variant {
                        name: field.name().as_str()?,
                        content: Some(field.value()),
                        depth,
                    }),
                    _ => Err(de::Error::custom(
                        "an enum is a string or a document of one field",
                    )),
                }
            }
            _ => Err(de::Error::custom(
                "an enum is a string or a document of one field",
            )),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Fields<'de> {
    fields: Iter<'de>,
    value: Option<RawValue<'de>>,
    depth: usize,
}

impl<'de> Fields<'de> {
    fn new(document: RawDocument<'de>, depth: usize) -> Self {
        Self {
            fields: document.iter(),
            value: None,
            depth,
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = self.fields.next() else {
            return Ok(None);
        };
        self.value = Some(field.value());
        seed.deserialize(Key(field.name().as_str()?)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let value = self.value.take().unwrap_or(RawValue::Null);
        seed.deserialize(ValueDeserializer {
            value,
            depth: self.depth,
        })
    }
}

/// A field name: text, or a number written out where the map's keys are numbers.
struct Key<'de>(&'de str);

macro_rules! number_keys {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.0.parse::<$type>() {
                Ok(n) => visitor.$visit(n),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    number_keys! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_bool visit_bool bool;
    }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Elements<'de> {
    values: Values<'de>,
    depth: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        match self.values.next() {
            Some(value) => seed
                .deserialize(ValueDeserializer {
                    value,
                    depth: self.depth,
                })
                .map(Some),
            None => Ok(None),
        }
    }
}

struct Variant<'de> {
    name: &'de str,
    content: Option<RawValue<'de>>,
    depth: usize,
}

impl<'de> Variant<'de> {
    fn content(self) -> ValueDeserializer<'de> {
        ValueDeserializer {
            value: self.content.unwrap_or(RawValue::Null),
            depth: self.depth,
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        Ok((seed.deserialize(Key(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        match self.content {
            None | Some(RawValue::Null) => Ok(()),
            Some(_) => Err(de::Error::custom(format!(
                "variant `{}` has no content",
                self.name
            ))),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        seed.deserialize(self.content())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.content().deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.content().deserialize_any(visitor)
    }
}
