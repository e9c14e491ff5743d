//! A reusable index of a document's elements: one pass notes where each stands, after which names and
//! positions are found without walking.
//!
//! The index keeps offsets, not bytes; it is asked together with the document it was built from. Nested
//! documents and arrays get an index of their own when they are touched. The buffers are kept from build to
//! build, so that an index in use allocates nothing.

use crate::{
    ElementType, RawDocument, RawElement, RawValue,
    element::Step,
    layout::{self, NameLens},
};

/// Where the elements of one document stand: 24 bytes each, in a buffer that is kept from build to build.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
}

/// Where an element stands in its document.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first eight bytes of the name.
    key: u64,
    start: u32,
    size: u32,
    name_len: u32,
    element_type: ElementType,
}

impl Index {
    /// An index of no elements, without a buffer yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the document before and notes the elements of this one, up to the first malformed one.
    #[inline]
    pub fn build(&mut self, document: RawDocument<'_>) {
        self.entries.clear();
        let bytes = document.as_bytes();
        let mut rest = bytes.get(4..).unwrap_or_default();
        let mut names = NameLens::new();
        while let Some(step) = Step::read(rest, &mut names) {
            self.entries.push(Entry {
                key: step.key,
                start: (bytes.len() - rest.len()) as u32,
                size: step.bytes.len() as u32,
                name_len: step.name_len as u32,
                element_type: step.element_type,
            });
            rest = step.rest;
        }
    }

    /// An index together with its document.
    #[inline]
    pub fn of<'i, 'a>(&'i mut self, document: RawDocument<'a>) -> IndexedDocument<'i, 'a> {
        self.build(document);
        IndexedDocument {
            index: self,
            document,
        }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A document with the index built from it.
#[derive(Clone, Copy, Debug)]
pub struct IndexedDocument<'i, 'a> {
    index: &'i Index,
    document: RawDocument<'a>,
}

impl<'i, 'a> IndexedDocument<'i, 'a> {
    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The document that the index was built from.
    #[inline]
    pub fn document(&self) -> RawDocument<'a> {
        self.document
    }

    /// The element at a position.
    #[inline]
    pub fn at(&self, position: usize) -> Option<RawElement<'a>> {
        let entry = self.index.entries.get(position)?;
        let start = entry.start as usize;
        let bytes = self
            .document
            .as_bytes()
            .get(start..start + entry.size as usize)?;
        Some(RawElement::from_parts(
            bytes,
            entry.name_len,
            entry.element_type,
        ))
    }

    /// The first element of a name.
    #[inline]
    pub fn get_element(&self, name: impl AsRef<[u8]>) -> Option<RawElement<'a>> {
        let name = name.as_ref();
        let key = layout::name_key(name);
        let entries = self.index.entries.iter().enumerate();
        let candidates = entries.filter(|(_, entry)| entry.key == key);
        candidates
            .filter_map(|(position, _)| self.at(position))
            .find(|e| e.name().as_bytes() == name)
    }

    /// The value of the first element of a name.
    #[inline]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<RawValue<'a>> {
        self.get_element(name).map(|e| e.value())
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = RawElement<'a>> + use<'i, 'a> {
        let this = *self;
        (0..this.len()).filter_map(move |position| this.at(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn names_and_positions_lead_to_their_elements() {
        let document = doc! { "a": 1, "abcdefgh": 2, "abcdefghi": 3, "a": 4, "": 5, "l": [1, 2] };
        let mut index = Index::new();
        let indexed = index.of(document.as_raw());
        for (name, n) in [("a", 1), ("abcdefgh", 2), ("abcdefghi", 3), ("", 5)] {
            assert_eq!(
                indexed.get(name).and_then(|v| v.as_i32()),
                Some(n),
                "{name}"
            );
        }
        assert!(indexed.get("abcdefg").is_none() && indexed.get("b").is_none());
        assert!(indexed.iter().eq(document.iter()));
        assert_eq!(indexed.at(3).and_then(|e| e.value().as_i32()), Some(4));
        assert!(indexed.at(6).is_none());

        let list = document.get_array("l").unwrap();
        let mut nested = Index::new();
        assert_eq!(
            nested
                .of(list.as_document())
                .get("1")
                .and_then(|v| v.as_i32()),
            Some(2)
        );
        index.build(RawDocument::EMPTY);
        assert!(index.is_empty());
    }
}
