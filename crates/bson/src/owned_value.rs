//! An owned value: its type and its bytes, scalars without an allocation.

use std::{cmp::Ordering, fmt, hash};

use smallvec::SmallVec;

use crate::{
    DateTime, Decimal128, Document, ElementType, ObjectId, RawArray, RawBinary, RawDocument,
    RawElement, RawStr, RawValue, Result, Timestamp, compare,
};

/// Bytes that every scalar fits into without an allocation.
const INLINE_BYTES: usize = 16;

/// A value on its own. `==`, order and hash are MongoDB's: 1 and 1.0 are equal.
#[derive(Clone)]
pub struct Value {
    element_type: ElementType,
    bytes: SmallVec<[u8; INLINE_BYTES]>,
}

impl Value {
    /// Null.
    pub const fn null() -> Self {
        Self::marker(ElementType::Null)
    }

    /// Undefined.
    pub const fn undefined() -> Self {
        Self::marker(ElementType::Undefined)
    }

    /// MinKey, below all other values.
    pub const fn min_key() -> Self {
        Self::marker(ElementType::MinKey)
    }

    /// MaxKey, above all other values.
    pub const fn max_key() -> Self {
        Self::marker(ElementType::MaxKey)
    }

    /// A DateTime of milliseconds since 1970 in UTC.
    pub fn date_time(ms: i64) -> Self {
        Self::from(DateTime(ms))
    }

    /// A Binary of a subtype. The payload of subtype 2 must begin with its own length.
    pub fn binary(subtype: u8, bytes: &[u8]) -> Self {
        Self::from(RawValue::Binary(RawBinary { subtype, bytes }))
    }

    /// The array without values.
    pub fn array() -> Self {
        Self::from(RawArray::EMPTY)
    }

    /// A value from its bytes as they stand after a name. Checks what `RawValue::from_bytes` checks.
    pub fn from_bytes(element_type: ElementType, bytes: &[u8]) -> Result<Self> {
        RawValue::from_bytes(element_type, bytes)?;
        Ok(Self {
            element_type,
            bytes: SmallVec::from_slice(bytes),
        })
    }

    const fn marker(element_type: ElementType) -> Self {
        Self {
            element_type,
            bytes: SmallVec::new_const(),
        }
    }

    /// The value in place, for everything that a borrowed one offers.
    #[inline]
    pub fn as_raw(&self) -> RawValue<'_> {
        RawValue::decode(self.element_type, &self.bytes)
    }

    /// The value's type.
    #[inline]
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The value's bytes as they stand after a name.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Int32, Int64, Double or Decimal128.
    pub fn is_number(&self) -> bool {
        self.element_type.is_number()
    }

    /// As [`RawValue::is_truthy`].
    pub fn is_truthy(&self) -> bool {
        self.as_raw().is_truthy()
    }

    /// As [`RawValue::is_nullish`].
    pub fn is_nullish(&self) -> bool {
        self.as_raw().is_nullish()
    }

    /// As [`RawValue::as_str`].
    pub fn as_str(&self) -> Option<&str> {
        self.as_raw().as_str()
    }

    /// As [`RawValue::as_document`].
    pub fn as_document(&self) -> Option<RawDocument<'_>> {
        self.as_raw().as_document()
    }

    /// As [`RawValue::as_array`].
    pub fn as_array(&self) -> Option<RawArray<'_>> {
        self.as_raw().as_array()
    }

    /// As [`RawValue::as_bool`].
    pub fn as_bool(&self) -> Option<bool> {
        self.as_raw().as_bool()
    }

    /// As [`RawValue::as_i64_exact`].
    pub fn as_i64_exact(&self) -> Option<i64> {
        self.as_raw().as_i64_exact()
    }

    /// As [`RawValue::as_f64_lossy`].
    pub fn as_f64_lossy(&self) -> Option<f64> {
        self.as_raw().as_f64_lossy()
    }
}

impl Default for Value {
    fn default() -> Self {
        Self::null()
    }
}

impl RawValue<'_> {
    /// A copy that owns its bytes.
    pub fn to_value(&self) -> Value {
        Value::from(*self)
    }
}

impl<'a> From<&'a Value> for RawValue<'a> {
    #[inline]
    fn from(value: &'a Value) -> Self {
        value.as_raw()
    }
}

impl From<RawValue<'_>> for Value {
    #[inline]
    fn from(value: RawValue<'_>) -> Self {
        let element_type = value.element_type();
        let bytes = match value {
            RawValue::Double(d) => SmallVec::from_slice(&d.to_bits().to_le_bytes()),
            RawValue::Int64(n) | RawValue::DateTime(n) => SmallVec::from_slice(&n.to_le_bytes()),
            RawValue::Int32(n) => SmallVec::from_slice(&n.to_le_bytes()),
            RawValue::Boolean(b) => SmallVec::from_slice(&[u8::from(b)]),
            RawValue::ObjectId(id) => SmallVec::from_slice(&id.bytes()),
            RawValue::Timestamp(t) => SmallVec::from_slice(&t.to_u64().to_le_bytes()),
            RawValue::Decimal128(d) => SmallVec::from_buf(d.bytes()),
            RawValue::Document(document) => SmallVec::from_slice(document.as_bytes()),
            RawValue::Array(array) => SmallVec::from_slice(array.as_bytes()),
            RawValue::String(text) | RawValue::Symbol(text) | RawValue::JavaScript(text) => {
                let text = text.as_bytes();
                let mut bytes = SmallVec::with_capacity(text.len() + 5);
                bytes.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
                bytes.extend_from_slice(text);
                bytes.push(0);
                bytes
            }
            other => {
                let mut bytes = Vec::new();
                other.write_to(&mut bytes);
                SmallVec::from_vec(bytes)
            }
        };
        Self {
            element_type,
            bytes,
        }
    }
}

impl From<RawElement<'_>> for Value {
    fn from(element: RawElement<'_>) -> Self {
        Self {
            element_type: element.element_type(),
            bytes: SmallVec::from_slice(element.value_bytes()),
        }
    }
}

impl From<Document> for Value {
    fn from(document: Document) -> Self {
        Self {
            element_type: ElementType::Document,
            bytes: SmallVec::from_vec(document.into_bytes()),
        }
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    /// None is Null.
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::null, Into::into)
    }
}

impl FromIterator<Value> for Value {
    /// An array of the values.
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut bytes = Vec::new();
        let mut array = crate::ArrayBuilder::new(&mut bytes);
        for value in values {
            array.push(&value);
        }
        array.finish();
        Self {
            element_type: ElementType::Array,
            bytes: SmallVec::from_vec(bytes),
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::from(RawValue::from(text.as_str()))
    }
}

macro_rules! from_raw {
    ($($from:ty),*) => {$(
        impl From<$from> for Value {
            #[inline]
            fn from(value: $from) -> Self {
                Self::from(RawValue::from(value))
            }
        }
    )*};
}

from_raw!(
    f64,
    i32,
    i64,
    u32,
    bool,
    ObjectId,
    Timestamp,
    DateTime,
    Decimal128,
    RawStr<'_>,
    RawDocument<'_>,
    RawArray<'_>,
    RawBinary<'_>,
    crate::RawRegex<'_>,
    &str,
    &String,
    &Document
);

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        value.clone()
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        compare::values_equal(self.as_raw(), other.as_raw())
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        compare::compare_values(self.as_raw(), other.as_raw())
    }
}

impl hash::Hash for Value {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        compare::hash_value(self.as_raw(), state);
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_raw(), f)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_raw(), f)
    }
}
