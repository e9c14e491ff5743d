//! One element of a document, and the walk over them.
//!
//! The walk decodes nothing: it finds where each element ends. Whatever the bytes are it never panics, and
//! ends at the first element that does not hold together.

use std::fmt;

use crate::{
    ElementType, RawDocument, RawStr, RawValue,
    layout::{self, NameLens},
};

/// An element in place: type, name and value still encoded. Copying it costs three words.
#[derive(Clone, Copy)]
pub struct RawElement<'a> {
    bytes: &'a [u8],
    name_len: u32,
    element_type: ElementType,
}

impl<'a> RawElement<'a> {
    #[inline(always)]
    pub(crate) fn from_parts(bytes: &'a [u8], name_len: u32, element_type: ElementType) -> Self {
        Self {
            bytes,
            name_len,
            element_type,
        }
    }

    /// The name, without its NUL.
    #[inline]
    pub fn name(&self) -> RawStr<'a> {
        RawStr::from_bytes(
            self.bytes
                .get(1..1 + self.name_len as usize)
                .unwrap_or_default(),
        )
    }

    /// The type that the type byte says.
    #[inline]
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The value, decoded on each call.
    #[inline]
    pub fn value(&self) -> RawValue<'a> {
        RawValue::decode(self.element_type, self.value_bytes())
    }

    /// The value's bytes as they stand after the name.
    #[inline]
    pub fn value_bytes(&self) -> &'a [u8] {
        self.bytes
            .get(self.name_len as usize + 2..)
            .unwrap_or_default()
    }

    /// Type byte, name, NUL and value: what a splice copies.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> RawElement<'a> {
    /// The value as a document, if it is a document or an array.
    #[inline]
    pub(crate) fn nested_document(&self) -> Option<RawDocument<'a>> {
        match self.element_type {
            ElementType::Document | ElementType::Array => {
                Some(RawDocument::framed(self.value_bytes()))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for RawElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.name(), self.value())
    }
}

impl PartialEq for RawElement<'_> {
    /// Byte equality: the same type, name and value bytes.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// The parts of an element that one look at it finds. Every walk goes by them.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    /// The first eight bytes of the name.
    pub key: u64,
    pub name_len: usize,
    pub element_type: ElementType,
    /// The whole element.
    pub bytes: &'a [u8],
    /// The bytes behind the element, at least the document's terminator.
    pub rest: &'a [u8],
}

impl<'a> Step<'a> {
    /// Looks at the element that starts `bytes`, which run to the document's terminator. `None` at the
    /// terminator and at a malformed element.
    #[inline(always)]
    pub(crate) fn read(bytes: &'a [u8], names: &mut NameLens) -> Option<Self> {
        let (&tag, after) = bytes.split_first()?;
        if after.is_empty() {
            return None;
        }
        let (name_len, key) = names.next(after)?;
        Self::read_value(bytes, tag, name_len, key)
    }

    /// Looks at the element that starts `bytes` if its name, of `name_len` bytes, is as it should be.
    #[inline(always)]
    pub(crate) fn read_named(
        bytes: &'a [u8],
        name_len: usize,
        is_name: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Self> {
        let (&tag, after) = bytes.split_first()?;
        if !is_name(after) {
            return None;
        }
        Self::read_value(bytes, tag, name_len, 0)
    }

    #[inline(always)]
    fn read_value(bytes: &'a [u8], tag: u8, name_len: usize, key: u64) -> Option<Self> {
        let value_at = name_len + 2;
        layout::by_type!(tag, bytes, value_at, |element_type, value_bytes| {
            let end = value_at + value_bytes;
            // The terminator at least must follow.
            if end >= bytes.len() {
                return None;
            }
            let (bytes, rest) = bytes.split_at(end);
            Some(Self {
                key,
                name_len,
                element_type,
                bytes,
                rest,
            })
        })
    }

    /// Whether the element has a name, of which `key` is the key.
    #[inline(always)]
    pub(crate) fn has_name(&self, key: u64, name: &[u8]) -> bool {
        // A name of up to eight bytes is all in its key.
        self.key == key
            && self.name_len == name.len()
            && (name.len() <= 8 || self.name() == Some(name))
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> Option<&'a [u8]> {
        self.bytes.get(1..1 + self.name_len)
    }

    #[inline(always)]
    pub(crate) fn element(&self) -> RawElement<'a> {
        RawElement {
            bytes: self.bytes,
            name_len: self.name_len as u32,
            element_type: self.element_type,
        }
    }
}

/// The elements of a document, in order.
#[derive(Clone, Debug, Default)]
pub struct Iter<'a> {
    /// From the next element to the document's terminator inclusive; empty after a malformed element.
    rest: &'a [u8],
    names: NameLens,
    malformed: bool,
}

impl<'a> Iter<'a> {
    /// `document` includes its length and terminator.
    #[inline]
    pub(crate) fn over(document: &'a [u8]) -> Self {
        Self::over_rest(document.get(4..).unwrap_or_default())
    }

    /// `rest` starts with an element and ends with the document's terminator.
    #[inline]
    pub(crate) fn over_rest(rest: &'a [u8]) -> Self {
        Self {
            rest,
            names: NameLens::new(),
            malformed: false,
        }
    }

    /// Whether the walk ended because the bytes did not hold together. Never true over validated bytes.
    #[inline]
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    /// The bytes not yet walked, terminator included.
    #[inline]
    pub fn remaining_bytes(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn stop(&mut self) -> Option<RawElement<'a>> {
        self.malformed = true;
        self.rest = &[];
        None
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = RawElement<'a>;

    // Always: inlined it costs half of what a call for each element does.
    #[inline(always)]
    fn next(&mut self) -> Option<RawElement<'a>> {
        if self.rest.len() <= 1 {
            return None;
        }
        let Some(step) = Step::read(self.rest, &mut self.names) else {
            return self.stop();
        };
        self.rest = step.rest;
        Some(step.element())
    }
}

impl std::iter::FusedIterator for Iter<'_> {}
