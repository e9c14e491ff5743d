//! The serializer: writes a value's bytes into a buffer and answers its type, which whoever began the element
//! puts before the name.

use serde::{Serialize, ser};

use super::TOKEN;
use crate::{ElementType, Error, RawStr, RawValue, Result, Value, encode::write_cstring};

pub(super) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<ElementType> {
    value.serialize(Serializer { out })
}

struct Serializer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Serializer<'b> {
    fn put(self, value: RawValue<'_>) -> Result<ElementType> {
        value.write_to(self.out);
        Ok(value.element_type())
    }

    fn begin(self, frame: ElementType) -> Frame<'b> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        Frame {
            out: self.out,
            start,
            frame,
            variant: None,
            count: 0,
            key: None,
        }
    }

    /// An enum's variant with content: a document around it, of one field.
    fn begin_variant(self, variant: &str, frame: ElementType) -> Frame<'b> {
        let outer = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.push(frame as u8);
        write_cstring(self.out, variant.as_bytes());
        let mut inner = self.begin(frame);
        inner.variant = Some(outer);
        inner
    }
}

/// A document or array that is being written.
struct Frame<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    frame: ElementType,
    /// Where the document around a variant starts.
    variant: Option<usize>,
    count: usize,
    key: Option<String>,
}

impl Frame<'_> {
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        if name.contains('\0') {
            return Err(Error::Unrepresentable {
                what: format!("field name {name:?} contains NUL"),
            });
        }
        let tag_at = self.out.len();
        self.out.push(0);
        write_cstring(self.out, name.as_bytes());
        let element_type = write(value, self.out)?;
        self.out[tag_at] = element_type as u8;
        Ok(())
    }

    fn next<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let position = self.count.to_string();
        self.count += 1;
        self.field(&position, value)
    }

    fn finish(self) -> ElementType {
        close(self.out, self.start);
        match self.variant {
            None => self.frame,
            Some(outer) => {
                close(self.out, outer);
                ElementType::Document
            }
        }
    }
}

fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

impl<'b> ser::Serializer for Serializer<'b> {
    type Ok = ElementType;
    type Error = Error;
    type SerializeSeq = Frame<'b>;
    type SerializeTuple = Frame<'b>;
    type SerializeTupleStruct = Frame<'b>;
    type SerializeTupleVariant = Frame<'b>;
    type SerializeMap = Frame<'b>;
    type SerializeStruct = Frame<'b>;
    type SerializeStructVariant = Frame<'b>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, v: bool) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_i8(self, v: i8) -> Result<ElementType> {
        self.put(i32::from(v).into())
    }

    fn serialize_i16(self, v: i16) -> Result<ElementType> {
        self.put(i32::from(v).into())
    }

    fn serialize_i32(self, v: i32) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_u8(self, v: u8) -> Result<ElementType> {
        self.put(i32::from(v).into())
    }

    fn serialize_u16(self, v: u16) -> Result<ElementType> {
        self.put(i32::from(v).into())
    }

    fn serialize_u32(self, v: u32) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<ElementType> {
        match i64::try_from(v) {
            Ok(v) => self.put(v.into()),
            Err(_) => Err(Error::Unrepresentable {
                what: format!("{v} exceeds an Int64"),
            }),
        }
    }

    fn serialize_f32(self, v: f32) -> Result<ElementType> {
        self.put(f64::from(v).into())
    }

    fn serialize_f64(self, v: f64) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_char(self, v: char) -> Result<ElementType> {
        self.put(RawValue::String(RawStr::from(&*v.encode_utf8(&mut [0; 4]))))
    }

    fn serialize_str(self, v: &str) -> Result<ElementType> {
        self.put(v.into())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<ElementType> {
        self.put(RawValue::Binary(crate::RawBinary {
            subtype: 0,
            bytes: v,
        }))
    }

    fn serialize_none(self) -> Result<ElementType> {
        self.put(RawValue::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<ElementType> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<ElementType> {
        self.put(RawValue::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<ElementType> {
        self.put(RawValue::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<ElementType> {
        self.put(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<ElementType> {
        if name != TOKEN {
            return value.serialize(self);
        }
        // What travels under the token is its type byte and its bytes, as the payload of a Binary.
        let start = self.out.len();
        write(value, self.out)?;
        let travelled = self.out.split_off(start);
        let Some((tag, bytes)) = travelled.get(5..).and_then(<[u8]>::split_first) else {
            return Err(Error::Unrepresentable {
                what: format!("`{TOKEN}` without a value"),
            });
        };
        self.out.extend_from_slice(bytes);
        ElementType::from_u8(*tag).ok_or_else(|| Error::Unrepresentable {
            what: format!("element type {tag:#04x}"),
        })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<ElementType> {
        let mut frame = self.begin(ElementType::Document);
        frame.field(variant, value)?;
        Ok(frame.finish())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Frame<'b>> {
        Ok(self.begin(ElementType::Array))
    }

    fn serialize_tuple(self, _: usize) -> Result<Frame<'b>> {
        Ok(self.begin(ElementType::Array))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Frame<'b>> {
        Ok(self.begin(ElementType::Array))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Frame<'b>> {
        Ok(self.begin_variant(variant, ElementType::Array))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Frame<'b>> {
        Ok(self.begin(ElementType::Document))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Frame<'b>> {
        Ok(self.begin(ElementType::Document))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Frame<'b>> {
        Ok(self.begin_variant(variant, ElementType::Document))
    }
}

macro_rules! frames {
    ($($trait:ident :: $method:ident($($key:ident)?) as $call:ident),* $(,)?) => {$(
        impl ser::$trait for Frame<'_> {
            type Ok = ElementType;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $($key: &'static str,)? value: &T) -> Result<()> {
                self.$call($($key,)? value)
            }

            fn end(self) -> Result<ElementType> {
                Ok(self.finish())
            }
        }
    )*};
}

frames! {
    SerializeSeq::serialize_element() as next,
    SerializeTuple::serialize_element() as next,
    SerializeTupleStruct::serialize_field() as next,
    SerializeTupleVariant::serialize_field() as next,
    SerializeStruct::serialize_field(key) as field,
    SerializeStructVariant::serialize_field(key) as field,
}

impl ser::SerializeMap for Frame<'_> {
    type Ok = ElementType;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(key_text(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let key = self.key.take().unwrap_or_default();
        self.field(&key, value)
    }

    fn end(self) -> Result<ElementType> {
        Ok(self.finish())
    }
}

/// A map's key as a field name: text as it is, whole numbers and booleans written out.
fn key_text<T: Serialize + ?Sized>(key: &T) -> Result<String> {
    let mut bytes = Vec::new();
    let element_type = write(key, &mut bytes)?;
    match Value::from_bytes(element_type, &bytes)?.as_raw() {
        RawValue::String(text) => Ok(text.as_str()?.to_owned()),
        RawValue::Int32(n) => Ok(n.to_string()),
        RawValue::Int64(n) => Ok(n.to_string()),
        RawValue::Boolean(b) => Ok(b.to_string()),
        RawValue::ObjectId(id) => Ok(id.to_hex()),
        other => Err(Error::Unrepresentable {
            what: format!("{other} cannot be a field name"),
        }),
    }
}
