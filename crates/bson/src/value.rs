//! A borrowed value: scalars decoded, everything longer still in place.

use crate::{
    DateTime, Decimal128, ElementType, Error, ObjectId, RawArray, RawDocument, RawStr, Result,
    Timestamp, layout,
};

/// Bytes with a subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawBinary<'a> {
    /// 0 for plain bytes, 4 for a UUID; 128 and above are the user's.
    pub subtype: u8,
    /// The payload as it stands; for subtype 2 it begins with a second length.
    pub bytes: &'a [u8],
}

/// A regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRegex<'a> {
    /// Holds no NUL.
    pub pattern: RawStr<'a>,
    /// Letters, sorted if whoever wrote them kept the rule.
    pub options: RawStr<'a>,
}

/// A reference to a document; deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDbPointer<'a> {
    /// Database and collection, a dot between them.
    pub namespace: RawStr<'a>,
    /// The `_id` of the document referred to.
    pub id: ObjectId,
}

/// JavaScript code with variables; deprecated.
#[derive(Clone, Copy, Debug)]
pub struct RawCodeWithScope<'a> {
    /// The code's text.
    pub code: RawStr<'a>,
    /// The variables by name.
    pub scope: RawDocument<'a>,
}

/// A value of any BSON type. `==` is MongoDB's equality: 1 and 1.0 are equal.
#[derive(Clone, Copy, Debug)]
pub enum RawValue<'a> {
    /// A 64-bit binary floating-point number.
    Double(f64),
    /// UTF-8 text; may hold NUL.
    String(RawStr<'a>),
    /// A nested document.
    Document(RawDocument<'a>),
    /// An array.
    Array(RawArray<'a>),
    /// Bytes with a subtype.
    Binary(RawBinary<'a>),
    /// Undefined; deprecated.
    Undefined,
    /// Twelve bytes that identify a document.
    ObjectId(ObjectId),
    /// True or false.
    Boolean(bool),
    /// Milliseconds since 1970.
    DateTime(i64),
    /// Null.
    Null,
    /// A regular expression.
    Regex(RawRegex<'a>),
    /// A namespace and an ObjectId; deprecated.
    DbPointer(RawDbPointer<'a>),
    /// JavaScript code.
    JavaScript(RawStr<'a>),
    /// A symbol; deprecated.
    Symbol(RawStr<'a>),
    /// JavaScript code with variables; deprecated.
    JavaScriptWithScope(RawCodeWithScope<'a>),
    /// A 32-bit whole number.
    Int32(i32),
    /// MongoDB's internal clock: seconds and an ordinal.
    Timestamp(Timestamp),
    /// A 64-bit whole number.
    Int64(i64),
    /// A decimal floating-point number of 34 digits.
    Decimal128(Decimal128),
    /// Below all other values.
    MinKey,
    /// Above all other values.
    MaxKey,
}

impl<'a> RawValue<'a> {
    /// Reads a value of a type from exactly its bytes. Checks sizes, not UTF-8 and not nested documents.
    pub fn from_bytes(element_type: ElementType, bytes: &'a [u8]) -> Result<Self> {
        // A Regex finds its own end, and every other type its size, only with the bytes in hand.
        match layout::value_bytes(element_type as u8, bytes) {
            Some(size) if size == bytes.len() => Ok(Self::decode(element_type, bytes)),
            _ => Err(Error::malformed(
                0,
                format!("the bytes of a value of type {}", element_type.alias()),
            )),
        }
    }

    /// Reads the value of a type that bytes begin with; the bytes behind it. Checks what `from_bytes` checks.
    pub fn split_first(element_type: ElementType, bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let size = layout::value_bytes(element_type as u8, bytes);
        match size.and_then(|size| bytes.split_at_checked(size)) {
            Some((value, rest)) => Ok((Self::decode(element_type, value), rest)),
            None => Err(Error::malformed(
                0,
                format!("the bytes of a value of type {}", element_type.alias()),
            )),
        }
    }

    /// Reads a value whose size a walk has measured. Over anything else: some value of the type, no panic.
    #[inline(always)]
    pub(crate) fn decode(element_type: ElementType, bytes: &'a [u8]) -> Self {
        match element_type {
            ElementType::Double => Self::Double(f64::from_bits(u64_of(bytes))),
            ElementType::String => Self::String(text_of(bytes)),
            ElementType::Document => Self::Document(RawDocument::framed(bytes)),
            ElementType::Array => Self::Array(RawArray::from_document(RawDocument::framed(bytes))),
            ElementType::Boolean => Self::Boolean(bytes.first().is_some_and(|b| *b != 0)),
            ElementType::DateTime => Self::DateTime(u64_of(bytes) as i64),
            ElementType::Null => Self::Null,
            ElementType::Int32 => {
                Self::Int32(layout::read_u32(bytes, 0).unwrap_or_default() as i32)
            }
            ElementType::Int64 => Self::Int64(u64_of(bytes) as i64),
            ElementType::ObjectId => Self::ObjectId(object_id_of(bytes)),
            ElementType::Timestamp => Self::Timestamp(Timestamp::from_u64(u64_of(bytes))),
            ElementType::Binary => Self::Binary(RawBinary {
                subtype: bytes.get(4).copied().unwrap_or_default(),
                bytes: bytes.get(5..).unwrap_or_default(),
            }),
            ElementType::Decimal128 => Self::Decimal128(Decimal128::from_bytes(
                bytes.first_chunk().copied().unwrap_or_default(),
            )),
            ElementType::Symbol => Self::Symbol(text_of(bytes)),
            ElementType::JavaScript => Self::JavaScript(text_of(bytes)),
            ElementType::Regex => {
                let pattern = layout::name_len(bytes).unwrap_or(bytes.len());
                let options = bytes.get(pattern + 1..).unwrap_or_default();
                Self::Regex(RawRegex {
                    pattern: RawStr::from_bytes(&bytes[..pattern]),
                    options: RawStr::from_bytes(
                        options.split_last().map_or(&[], |(_, before)| before),
                    ),
                })
            }
            ElementType::DbPointer => {
                let (namespace, id) = bytes.split_at(bytes.len().saturating_sub(12));
                Self::DbPointer(RawDbPointer {
                    namespace: text_of(namespace),
                    id: object_id_of(id),
                })
            }
            ElementType::JavaScriptWithScope => {
                let inner = bytes.get(4..).unwrap_or_default();
                let code = layout::read_len(inner, 0)
                    .unwrap_or_default()
                    .saturating_add(4)
                    .min(inner.len());
                let (code, scope) = inner.split_at(code);
                Self::JavaScriptWithScope(RawCodeWithScope {
                    code: text_of(code),
                    scope: RawDocument::framed(scope),
                })
            }
            ElementType::Undefined => Self::Undefined,
            ElementType::MinKey => Self::MinKey,
            ElementType::MaxKey => Self::MaxKey,
        }
    }

    /// The value's type.
    #[inline]
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::Double(_) => ElementType::Double,
            Self::String(_) => ElementType::String,
            Self::Document(_) => ElementType::Document,
            Self::Array(_) => ElementType::Array,
            Self::Binary(_) => ElementType::Binary,
            Self::Undefined => ElementType::Undefined,
            Self::ObjectId(_) => ElementType::ObjectId,
            Self::Boolean(_) => ElementType::Boolean,
            Self::DateTime(_) => ElementType::DateTime,
            Self::Null => ElementType::Null,
            Self::Regex(_) => ElementType::Regex,
            Self::DbPointer(_) => ElementType::DbPointer,
            Self::JavaScript(_) => ElementType::JavaScript,
            Self::Symbol(_) => ElementType::Symbol,
            Self::JavaScriptWithScope(_) => ElementType::JavaScriptWithScope,
            Self::Int32(_) => ElementType::Int32,
            Self::Timestamp(_) => ElementType::Timestamp,
            Self::Int64(_) => ElementType::Int64,
            Self::Decimal128(_) => ElementType::Decimal128,
            Self::MinKey => ElementType::MinKey,
            Self::MaxKey => ElementType::MaxKey,
        }
    }

    /// Int32, Int64, Double or Decimal128.
    #[inline]
    pub fn is_number(&self) -> bool {
        self.element_type().is_number()
    }

    /// A String's text; `None` for other types and for bytes that are not UTF-8.
    #[inline]
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Self::String(text) => text.as_str().ok(),
            _ => None,
        }
    }

    /// A nested document; `None` for other types.
    #[inline]
    pub fn as_document(&self) -> Option<RawDocument<'a>> {
        match self {
            Self::Document(document) => Some(*document),
            _ => None,
        }
    }

    /// An array; `None` for other types.
    #[inline]
    pub fn as_array(&self) -> Option<RawArray<'a>> {
        match self {
            Self::Array(array) => Some(*array),
            _ => None,
        }
    }

    /// The value of a Boolean; `None` for other types.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Boolean(b) => Some(*b),
            _ => None,
        }
    }

    /// The number of an Int32, and of no other type.
    #[inline]
    pub fn as_i32(&self) -> Option<i32> {
        match self {
            Self::Int32(n) => Some(*n),
            _ => None,
        }
    }

    /// A number of any type whose value is a whole number in Int64's range.
    pub fn as_i64_exact(&self) -> Option<i64> {
        match self {
            Self::Int32(n) => Some(i64::from(*n)),
            Self::Int64(n) => Some(*n),
            Self::Double(d) => f64_to_i64_exact(*d),
            Self::Decimal128(d) => d.to_i64_exact(),
            _ => None,
        }
    }

    /// A number of any type without its fraction, if that is in Int64's range.
    pub fn as_i64_truncated(&self) -> Option<i64> {
        match self {
            Self::Double(d) => f64_to_i64_exact(d.trunc()),
            Self::Decimal128(d) => d.to_i64_truncated(),
            _ => self.as_i64_exact(),
        }
    }

    /// A number of any type, rounded to the nearest Double.
    pub fn as_f64_lossy(&self) -> Option<f64> {
        match self {
            Self::Int32(n) => Some(f64::from(*n)),
            Self::Int64(n) => Some(*n as f64),
            Self::Double(d) => Some(*d),
            Self::Decimal128(d) => Some(d.to_f64()),
            _ => None,
        }
    }

    /// MongoDB's truth: false, zero of any type, null and undefined are false, all else (NaN too) is true.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Boolean(b) => *b,
            Self::Int32(n) => *n != 0,
            Self::Int64(n) => *n != 0,
            Self::Double(d) => *d != 0.0,
            Self::Decimal128(d) => !d.is_zero(),
            Self::Null | Self::Undefined => false,
            _ => true,
        }
    }

    /// Null or Undefined.
    pub fn is_nullish(&self) -> bool {
        matches!(self, Self::Null | Self::Undefined)
    }
}

/// A Double's value as an Int64, where it is one.
pub(crate) fn f64_to_i64_exact(d: f64) -> Option<i64> {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    let whole = (-TWO_POW_63..TWO_POW_63).contains(&d) && d.trunc() == d;
    whole.then_some(d as i64)
}

#[inline(always)]
fn u64_of(bytes: &[u8]) -> u64 {
    layout::read_u64(bytes, 0).unwrap_or_default()
}

#[inline(always)]
fn object_id_of(bytes: &[u8]) -> ObjectId {
    ObjectId::from_bytes(bytes.first_chunk().copied().unwrap_or_default())
}

/// The text between a length and a NUL.
#[inline(always)]
fn text_of(bytes: &[u8]) -> RawStr<'_> {
    RawStr::from_bytes(
        bytes
            .get(4..bytes.len().wrapping_sub(1))
            .unwrap_or_default(),
    )
}

macro_rules! from_scalar {
    ($($from:ty => |$v:ident| $to:expr;)*) => {$(
        impl<'a> From<$from> for RawValue<'a> {
            #[inline]
            fn from($v: $from) -> Self {
                $to
            }
        }
    )*};
}

from_scalar! {
    f64 => |v| RawValue::Double(v);
    i32 => |v| RawValue::Int32(v);
    i64 => |v| RawValue::Int64(v);
    u32 => |v| RawValue::Int64(i64::from(v));
    bool => |v| RawValue::Boolean(v);
    ObjectId => |v| RawValue::ObjectId(v);
    Timestamp => |v| RawValue::Timestamp(v);
    DateTime => |v| RawValue::DateTime(v.0);
    Decimal128 => |v| RawValue::Decimal128(v);
    RawStr<'a> => |v| RawValue::String(v);
    RawDocument<'a> => |v| RawValue::Document(v);
    RawArray<'a> => |v| RawValue::Array(v);
    RawBinary<'a> => |v| RawValue::Binary(v);
    RawRegex<'a> => |v| RawValue::Regex(v);
    &'a str => |v| RawValue::String(RawStr::from(v));
    &'a String => |v| RawValue::String(RawStr::from(v));
    &RawValue<'a> => |v| *v;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_split_off_the_bytes_behind_it() {
        let of = |element_type, bytes| RawValue::split_first(element_type, bytes);
        let (text, rest) = of(ElementType::String, b"\x03\0\0\0ab\0rest").unwrap();
        assert_eq!((text.as_str(), rest), (Some("ab"), &b"rest"[..]));
        let (null, rest) = of(ElementType::Null, b"rest").unwrap();
        assert!(null.is_nullish() && rest == b"rest");
        for (element_type, bytes) in [
            (ElementType::String, &b"\x03\0\0\0a\0"[..]),
            (ElementType::String, b"\xff\xff\xff\xff\0"),
            (ElementType::Int64, b"1234567"),
            (ElementType::Regex, b"a\0b"),
            (ElementType::Document, b"\x06\0\0\0\0"),
        ] {
            assert!(of(element_type, bytes).is_err(), "{bytes:?}");
        }
    }
}
