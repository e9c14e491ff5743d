//! An owned document: one buffer of validated bytes.

use std::fmt;

use crate::{
    Error, Iter, ObjectId, RawArray, RawDocument, RawElement, RawValue, Result, Value,
    encode::write_head, validate,
};

/// A document on its own. Fields keep their order; where a name occurs twice the first one counts.
#[derive(Clone)]
pub struct Document {
    bytes: Vec<u8>,
}

impl Document {
    /// The document without fields.
    pub fn new() -> Self {
        Self {
            bytes: RawDocument::EMPTY.as_bytes().to_vec(),
        }
    }

    /// Takes bytes over after checking all of them.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        RawDocument::validated(&bytes)?;
        Ok(Self { bytes })
    }

    /// Takes bytes over after checking all of them but their text, as [`RawDocument::validated_any_text`] does.
    pub fn from_bytes_any_text(bytes: Vec<u8>) -> Result<Self> {
        RawDocument::validated_any_text(&bytes)?;
        Ok(Self { bytes })
    }

    /// Checks and copies: the owned form of bytes that belong to someone else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(Self {
            bytes: validate::copy(bytes)?,
        })
    }

    /// Copies without checking: for bytes checked before.
    pub fn from_raw(document: RawDocument<'_>) -> Self {
        Self {
            bytes: document.as_bytes().to_vec(),
        }
    }

    /// Bytes that a builder of this crate has made.
    pub(crate) fn from_built(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The document in place, for everything that a borrowed one offers.
    #[inline]
    pub fn as_raw(&self) -> RawDocument<'_> {
        RawDocument::framed(&self.bytes)
    }

    /// All bytes: length, elements and terminator.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives up the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The size in bytes, length and terminator included.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a field at the end, even if one of that name is there.
    pub fn append(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        self.bytes.pop();
        write_head(&mut self.bytes, value.element_type(), name.as_ref());
        self.bytes.extend_from_slice(value.as_bytes());
        self.close();
        self
    }

    /// Adds an element at the end as it stands.
    pub fn append_element(&mut self, element: RawElement<'_>) -> &mut Self {
        self.bytes.pop();
        self.bytes.extend_from_slice(element.as_bytes());
        self.close();
        self
    }

    fn close(&mut self) {
        self.bytes.push(0);
        self.patch_len();
    }

    pub(crate) fn patch_len(&mut self) {
        let len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.as_raw().is_empty()
    }

    /// The number of fields, by walking.
    pub fn len(&self) -> usize {
        self.as_raw().len()
    }

    /// The fields in order.
    pub fn iter(&self) -> Iter<'_> {
        self.as_raw().iter()
    }

    /// The first field.
    pub fn first(&self) -> Option<RawElement<'_>> {
        self.as_raw().first()
    }

    /// As [`RawDocument::get`].
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<RawValue<'_>> {
        self.as_raw().get(name)
    }

    /// As [`RawDocument::get_element`].
    pub fn get_element(&self, name: impl AsRef<[u8]>) -> Option<RawElement<'_>> {
        self.as_raw().get_element(name)
    }

    /// Whether a field has that name.
    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.as_raw().contains(name)
    }

    /// As [`RawDocument::get_path`].
    pub fn get_path(&self, path: impl AsRef<[u8]>) -> Option<RawValue<'_>> {
        self.as_raw().get_path(path)
    }

    /// As [`RawDocument::get_str`].
    pub fn get_str(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        self.as_raw().get_str(name)
    }

    /// As [`RawDocument::get_bool`].
    pub fn get_bool(&self, name: impl AsRef<[u8]>) -> Option<bool> {
        self.as_raw().get_bool(name)
    }

    /// As [`RawDocument::get_i32`].
    pub fn get_i32(&self, name: impl AsRef<[u8]>) -> Option<i32> {
        self.as_raw().get_i32(name)
    }

    /// As [`RawDocument::get_i64`].
    pub fn get_i64(&self, name: impl AsRef<[u8]>) -> Option<i64> {
        self.as_raw().get_i64(name)
    }

    /// As [`RawDocument::get_f64`].
    pub fn get_f64(&self, name: impl AsRef<[u8]>) -> Option<f64> {
        self.as_raw().get_f64(name)
    }

    /// As [`RawDocument::get_document`].
    pub fn get_document(&self, name: impl AsRef<[u8]>) -> Option<RawDocument<'_>> {
        self.as_raw().get_document(name)
    }

    /// As [`RawDocument::get_array`].
    pub fn get_array(&self, name: impl AsRef<[u8]>) -> Option<RawArray<'_>> {
        self.as_raw().get_array(name)
    }

    /// As [`RawDocument::get_object_id`].
    pub fn get_object_id(&self, name: impl AsRef<[u8]>) -> Option<ObjectId> {
        self.as_raw().get_object_id(name)
    }
}

impl Default for Document {
    fn default() -> Self {
        Self::new()
    }
}

impl TryFrom<Vec<u8>> for Document {
    type Error = Error;

    fn try_from(bytes: Vec<u8>) -> Result<Self> {
        Self::from_bytes(bytes)
    }
}

impl RawDocument<'_> {
    /// A copy that owns its bytes.
    pub fn to_owned_document(&self) -> Document {
        Document::from_raw(*self)
    }
}

impl From<RawDocument<'_>> for Document {
    fn from(document: RawDocument<'_>) -> Self {
        Self::from_raw(document)
    }
}

impl<'a> From<&'a Document> for RawValue<'a> {
    #[inline]
    fn from(document: &'a Document) -> Self {
        RawValue::Document(document.as_raw())
    }
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<'a> IntoIterator for &'a Document {
    type Item = RawElement<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw()
    }
}

impl PartialEq<RawDocument<'_>> for Document {
    fn eq(&self, other: &RawDocument<'_>) -> bool {
        self.as_raw() == *other
    }
}

impl PartialEq<Document> for RawDocument<'_> {
    fn eq(&self, other: &Document) -> bool {
        *self == other.as_raw()
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_raw(), f)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_raw(), f)
    }
}
