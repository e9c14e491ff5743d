//! A reusable index of a document's elements: one pass notes where each stands, after which names and
//! positions are found without walking.
//!
//! The index keeps offsets, not bytes; it is asked together with the document it was built from. A nested
//! document or array gets an index of its own when it is first touched. The buffers are kept from build to
//! build, so that an index in use allocates nothing.

use crate::{
    ElementType, RawDocument, RawElement, RawValue,
    document::split_path,
    element::Step,
    layout::{self, NameLens},
};

/// Where the elements of one document stand: 24 bytes each, in a buffer that is kept from build to build.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
    nested: Nested,
}

/// The indexes of the documents and arrays inside, made when they are touched.
#[derive(Clone, Debug, Default)]
struct Nested {
    /// By position in the document around them, which of `indexes` is whose; empty until one is touched.
    places: Vec<u32>,
    /// Those in use first, then spare ones of documents before.
    indexes: Vec<Index>,
    used: usize,
}

/// No index yet.
const NO_PLACE: u32 = u32::MAX;

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
        self.nested.places.clear();
        self.nested.used = 0;
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

    /// The document or array at a position of `document`, which is the one that the index was built from, with
    /// an index of its own: built on the first call, kept until the next build. `None` where a value of another
    /// type stands, or none.
    pub fn nested<'a>(
        &mut self,
        document: RawDocument<'a>,
        position: usize,
    ) -> Option<IndexedDocument<'_, 'a>> {
        let inner = self.at(document, position)?.nested_document()?;
        let index = self.nested_index(position, inner)?;
        Some(IndexedDocument {
            index,
            document: inner,
        })
    }

    /// The element at a dotted path of `document`, which is the one that the index was built from; the path means
    /// what [`RawDocument::get_path`] makes of it. What lies on the way is indexed once and not walked again.
    pub fn get_path_element<'a>(
        &mut self,
        document: RawDocument<'a>,
        path: impl AsRef<[u8]>,
    ) -> Option<RawElement<'a>> {
        let (mut index, mut document, mut rest) = (self, document, path.as_ref());
        loop {
            let (part, after) = split_path(rest);
            let (position, element) = index.find(document, part)?;
            let Some(after) = after else {
                return Some(element);
            };
            document = element.nested_document()?;
            index = index.nested_index(position, document)?;
            rest = after;
        }
    }

    fn nested_index(&mut self, position: usize, inner: RawDocument<'_>) -> Option<&mut Index> {
        let Nested {
            places,
            indexes,
            used,
        } = &mut self.nested;
        places.resize(self.entries.len(), NO_PLACE);
        let place = places.get_mut(position)?;
        if *place == NO_PLACE {
            *place = *used as u32;
            *used += 1;
            if indexes.len() < *used {
                indexes.push(Index::new());
            }
            indexes.get_mut(*place as usize)?.build(inner);
        }
        indexes.get_mut(*place as usize)
    }

    #[inline]
    fn at<'a>(&self, document: RawDocument<'a>, position: usize) -> Option<RawElement<'a>> {
        let entry = self.entries.get(position)?;
        let start = entry.start as usize;
        let bytes = document
            .as_bytes()
            .get(start..start + entry.size as usize)?;
        Some(RawElement::from_parts(
            bytes,
            entry.name_len,
            entry.element_type,
        ))
    }

    /// The first element of a name, and its position.
    #[inline]
    fn find<'a>(&self, document: RawDocument<'a>, name: &[u8]) -> Option<(usize, RawElement<'a>)> {
        let key = layout::name_key(name);
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.key == key)
            .filter_map(|(position, _)| Some((position, self.at(document, position)?)))
            .find(|(_, element)| element.name().as_bytes() == name)
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
        self.index.at(self.document, position)
    }

    /// The first element of a name.
    #[inline]
    pub fn get_element(&self, name: impl AsRef<[u8]>) -> Option<RawElement<'a>> {
        let found = self.index.find(self.document, name.as_ref())?;
        Some(found.1)
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

    #[test]
    fn nested_documents_are_indexed_when_touched() {
        let wide = doc! { "a": { "l": [1, { "x": "deep" }], "n": 2 }, "s": "text", "l": [[7]] };
        let narrow = doc! { "s": 1, "a": { "n": 3 } };
        let mut index = Index::new();
        for document in [&wide, &narrow, &wide] {
            index.build(document.as_raw());
            for _ in 0..2 {
                for path in [
                    "a.l.1.x", "a.n", "a.l", "s.x", "l.0.0", "l.1", "a.x", "s", "x.y",
                ] {
                    assert_eq!(
                        index.get_path_element(document.as_raw(), path),
                        document.as_raw().get_path_element(path),
                        "{path}"
                    );
                }
            }
        }
        let list = index.nested(wide.as_raw(), 2).unwrap();
        assert_eq!(
            list.document().as_bytes(),
            wide.get_array("l").unwrap().as_bytes()
        );
        assert_eq!(list.len(), 1);
        assert!(index.nested(wide.as_raw(), 1).is_none());
        assert!(index.nested(wide.as_raw(), 3).is_none());
    }
}
