//! A borrowed document: bytes that begin with their length and end with a NUL. An array is a document whose names are
//! positions and are not looked at.

use std::fmt;
use std::ops::Range;

use crate::{
    Error, Iter, ObjectId, RawElement, RawValue, Result,
    element::Step,
    layout::{self, NameLens},
    validate,
};

/// A document in place. `validated` checks everything once; `new` trusts that it was done before and checks
/// the frame alone. Either way no accessor panics: over malformed bytes a walk ends early.
#[derive(Clone, Copy)]
pub struct RawDocument<'a>(&'a [u8]);

impl<'a> RawDocument<'a> {
    /// The document without fields, five bytes.
    pub const EMPTY: RawDocument<'static> = RawDocument(&[5, 0, 0, 0, 0]);

    /// Checks the whole document once: structure, UTF-8, depth and size. `bytes` must be exactly one document.
    pub fn validated(bytes: &'a [u8]) -> Result<Self> {
        validate::document(bytes)?;
        Ok(Self(bytes))
    }

    /// Checks the whole document as `validated` does, except that names and text may be any bytes: what a client of
    /// MongoDB may send and have stored. Whoever needs text asks `RawStr::as_str`, which looks.
    pub fn validated_any_text(bytes: &'a [u8]) -> Result<Self> {
        validate::any_text(bytes)?;
        Ok(Self(bytes))
    }

    /// As `validated_any_text`, and none where the document nests deeper than [`crate::STORED_DEPTH_MAX`] as well.
    pub fn validated_storable(bytes: &'a [u8]) -> Option<Self> {
        validate::is_storable(bytes).then_some(Self(bytes))
    }

    /// Checks length and terminator only: for bytes validated before, such as stored documents.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let framed = layout::read_len(bytes, 0) == Some(bytes.len())
            && bytes.len() >= layout::DOCUMENT_BYTES_MIN
            && bytes.last() == Some(&0);
        if framed {
            Ok(Self(bytes))
        } else {
            Err(frame_error(bytes))
        }
    }

    /// The document that starts `bytes`, and what follows it: how documents written one after another are taken
    /// apart. Looks at the frame alone, as `new` does; `None` where there is no whole document.
    #[inline]
    pub fn split_first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (document, rest) = bytes.split_at_checked(layout::read_len(bytes, 0)?)?;
        Some((Self::new(document).ok()?, rest))
    }

    /// A document from bytes whose frame a walk has measured; its terminator is not looked at.
    #[inline(always)]
    pub(crate) fn framed(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// All bytes: length, elements and terminator.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The size in bytes, length and terminator included.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() <= layout::DOCUMENT_BYTES_MIN
    }

    /// The elements in order. The walk ends at the first that does not hold together, and `Iter::malformed`
    /// says so.
    #[inline]
    pub fn iter(&self) -> Iter<'a> {
        Iter::over(self.0)
    }

    /// The elements from an offset at which one starts: how a walk is taken up again, at `len_bytes` less what
    /// `Iter::remaining_bytes` left.
    #[inline]
    pub fn iter_from(&self, at: usize) -> Iter<'a> {
        Iter::over_rest(self.0.get(at..).unwrap_or_default())
    }

    /// The elements between two offsets: one starts at the first, and at the second one starts or the document's terminator
    /// stands.
    #[inline]
    pub fn iter_within(&self, offsets: Range<usize>) -> Iter<'a> {
        // A walk ends before the last byte that it is given, whatever that is.
        let behind = offsets.end.saturating_add(1);
        Iter::over_rest(self.0.get(offsets.start..behind).unwrap_or_default())
    }

    /// The number of elements, by walking.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The first element; of what a client sends as a command, its name.
    #[inline]
    pub fn first(&self) -> Option<RawElement<'a>> {
        self.iter().next()
    }

    /// The element of that name, if there is no other element: finds `{_id: ...}` without a walk.
    #[inline]
    pub fn sole_element(&self, name: &str) -> Option<RawElement<'a>> {
        let is_name = |after: &[u8]| {
            let ahead = after.split_at_checked(name.len());
            ahead.is_some_and(|(ahead, rest)| ahead == name.as_bytes() && rest.first() == Some(&0))
        };
        let step = Step::read_named(self.0.get(4..)?, name.len(), is_name)?;
        (step.rest.len() == 1).then(|| step.element())
    }

    /// The first element of that name: where a name occurs twice the first one counts.
    #[inline]
    pub fn get_element(&self, name: impl AsRef<[u8]>) -> Option<RawElement<'a>> {
        find(self.0, name.as_ref())
    }

    /// The value of the first element of that name, found by walking.
    #[inline]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<RawValue<'a>> {
        find(self.0, name.as_ref()).map(|e| e.value())
    }

    /// Whether an element has that name.
    #[inline]
    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        find(self.0, name.as_ref()).is_some()
    }

    /// The value at a dotted path. A numeric part picks an array's element by position; arrays are not spread.
    pub fn get_path(&self, path: impl AsRef<[u8]>) -> Option<RawValue<'a>> {
        self.get_path_element(path).map(|e| e.value())
    }

    /// The element at a dotted path, by the rules of `get_path`.
    pub fn get_path_element(&self, path: impl AsRef<[u8]>) -> Option<RawElement<'a>> {
        let mut rest = path.as_ref();
        let mut bytes = self.0;
        loop {
            let (part, after) = split_path(rest);
            let element = find(bytes, part)?;
            let Some(after) = after else {
                return Some(element);
            };
            bytes = match element.value() {
                RawValue::Document(inner) => inner.as_bytes(),
                RawValue::Array(inner) => inner.as_bytes(),
                _ => return None,
            };
            rest = after;
        }
    }

    /// The text of a String that is UTF-8; `None` for other types.
    pub fn get_str(&self, name: impl AsRef<[u8]>) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// The value of a Boolean; `None` for other types.
    pub fn get_bool(&self, name: impl AsRef<[u8]>) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// The value of an Int32; `None` for other types, other numbers included.
    pub fn get_i32(&self, name: impl AsRef<[u8]>) -> Option<i32> {
        self.get(name)?.as_i32()
    }

    /// A number of any type whose value is a whole number in range.
    pub fn get_i64(&self, name: impl AsRef<[u8]>) -> Option<i64> {
        self.get(name)?.as_i64_exact()
    }

    /// A number of any type, rounded to the nearest Double.
    pub fn get_f64(&self, name: impl AsRef<[u8]>) -> Option<f64> {
        self.get(name)?.as_f64_lossy()
    }

    /// A nested document; `None` for other types.
    pub fn get_document(&self, name: impl AsRef<[u8]>) -> Option<RawDocument<'a>> {
        self.get(name)?.as_document()
    }

    /// An array; `None` for other types.
    pub fn get_array(&self, name: impl AsRef<[u8]>) -> Option<RawArray<'a>> {
        self.get(name)?.as_array()
    }

    /// The value of an ObjectId; `None` for other types.
    pub fn get_object_id(&self, name: impl AsRef<[u8]>) -> Option<ObjectId> {
        match self.get(name)? {
            RawValue::ObjectId(id) => Some(id),
            _ => None,
        }
    }
}

/// Splits a dotted path after its first part.
pub(crate) fn split_path(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'.', path) {
        Some(dot) => (&path[..dot], Some(&path[dot + 1..])),
        None => (path, None),
    }
}

/// Compares names by their first eight bytes, which the walk has loaded anyway, and by the rest only then.
#[inline]
fn find<'a>(document: &'a [u8], name: &[u8]) -> Option<RawElement<'a>> {
    let key = layout::name_key(name);
    let mut names = NameLens::new();
    let mut rest = document.get(4..)?;
    loop {
        let step = Step::read(rest, &mut names)?;
        if step.has_name(key, name) {
            return Some(step.element());
        }
        rest = step.rest;
    }
}

#[cold]
fn frame_error(bytes: &[u8]) -> Error {
    match layout::read_len(bytes, 0) {
        None => Error::malformed(0, "a document of at least 5 bytes"),
        Some(len) if len != bytes.len() => Error::malformed(
            0,
            format!("a document length of {}, not {}", bytes.len(), len as i32),
        ),
        Some(_) => Error::malformed(
            bytes.len().saturating_sub(1),
            "a NUL at the end of the document",
        ),
    }
}

impl<'a> IntoIterator for RawDocument<'a> {
    type Item = RawElement<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawDocument<'a> {
    type Item = RawElement<'a>;
    type IntoIter = Iter<'a>;

    #[inline]
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Default for RawDocument<'_> {
    fn default() -> Self {
        RawDocument::EMPTY
    }
}

impl fmt::Debug for RawDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An array in place: its values in order, by position. What its elements are named is not looked at.
#[derive(Clone, Copy)]
pub struct RawArray<'a>(RawDocument<'a>);

impl<'a> RawArray<'a> {
    /// The array without values.
    pub const EMPTY: RawArray<'static> = RawArray(RawDocument::EMPTY);

    /// Reads a document as an array, whatever its names are.
    #[inline]
    pub fn from_document(document: RawDocument<'a>) -> Self {
        Self(document)
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> Values<'a> {
        Values(self.0.iter())
    }

    /// The elements in order, with the names that they happen to have.
    #[inline]
    pub fn elements(&self) -> Iter<'a> {
        self.0.iter()
    }

    /// The value at a position, whatever the elements are named.
    pub fn get(&self, index: usize) -> Option<RawValue<'a>> {
        self.0.iter().nth(index).map(|e| e.value())
    }

    /// The element at a position, by walking there.
    pub fn get_element(&self, index: usize) -> Option<RawElement<'a>> {
        self.0.iter().nth(index)
    }

    /// The array as the document that it is in bytes.
    #[inline]
    pub fn as_document(&self) -> RawDocument<'a> {
        self.0
    }

    /// All bytes: length, elements and terminator.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of elements, by walking.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The values of an array, in order.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(Iter<'a>);

impl Values<'_> {
    /// Whether the walk ended at bytes that do not hold together.
    pub fn malformed(&self) -> bool {
        self.0.malformed()
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = RawValue<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawValue<'a>> {
        self.0.next().map(|e| e.value())
    }
}

impl<'a> IntoIterator for RawArray<'a> {
    type Item = RawValue<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawArray<'a> {
    type Item = RawValue<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl fmt::Debug for RawArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&RawValue::Array(*self), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, doc};

    #[test]
    fn a_part_of_the_elements_is_walked_between_offsets() {
        let document = doc! { "a": 1, "b": true, "c": 3 };
        let raw = document.as_raw();
        let mut elements = raw.iter();
        let mut offsets = vec![4];
        while elements.next().is_some() {
            offsets.push(raw.len_bytes() - elements.remaining_bytes().len());
        }
        let names = |from: usize, to: usize| {
            let within = raw.iter_within(offsets[from]..offsets[to]);
            within
                .map(|element| element.name().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(names(0, 3), "abc");
        assert_eq!(names(1, 2), "b");
        assert_eq!(names(1, 1) + &names(3, 3), "");
        // Offsets that are no elements', or none of the document's at all, end the walk.
        assert_eq!(raw.iter_within(0..0).count(), 0);
        assert_eq!(raw.iter_within(4..usize::MAX).count(), 0);
        assert_eq!(RawDocument::EMPTY.iter_within(4..4).count(), 0);
    }

    #[test]
    fn a_sole_element_is_found_by_its_name_and_no_other_is() {
        let value = |document: &Document, name| {
            let element = document.as_raw().sole_element(name)?;
            element.value().as_i64_exact()
        };
        assert_eq!(value(&doc! { "_id": 7 }, "_id"), Some(7));
        assert_eq!(value(&doc! { "_id": 7 }, "_i"), None);
        assert_eq!(value(&doc! { "_id": 7 }, "_id2"), None);
        assert_eq!(value(&doc! { "_id": 7, "a": 1 }, "_id"), None);
        assert_eq!(value(&doc! { "a": 1, "_id": 7 }, "_id"), None);
        assert_eq!(
            value(
                &doc! { "a name of many bytes": 7_i64 },
                "a name of many bytes"
            ),
            Some(7)
        );
        assert_eq!(value(&doc! {}, ""), None);
    }

    #[test]
    fn a_name_is_found_whole_and_nothing_like_it() {
        let names = [
            "",
            "a",
            "abcdefg",
            "abcdefgh",
            "abcdefghi",
            "abcdefghj",
            "b",
        ];
        let document = Document::build(|out| {
            for (i, name) in names.iter().enumerate() {
                out.append(name, i as i32).append(name, -1);
            }
        });
        for (i, name) in names.iter().enumerate() {
            assert_eq!(document.get_i32(name), Some(i as i32), "{name}");
        }
        for other in [
            "abcdef",
            "abcdefghk",
            "abcdefghij",
            "a\0",
            "\0",
            "abcdefgh\0",
            "B",
        ] {
            assert!(document.get(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn documents_one_after_another_are_taken_apart() {
        let (a, b) = (doc! { "a": 1 }, doc! {});
        let both = [a.as_bytes(), b.as_bytes()].concat();
        let (first, rest) = RawDocument::split_first(&both).unwrap();
        assert_eq!((first.as_bytes(), rest), (a.as_bytes(), b.as_bytes()));
        let (second, rest) = RawDocument::split_first(rest).unwrap();
        assert!(second.is_empty() && rest.is_empty());
        for broken in [
            &both[..a.len_bytes() - 1],
            &[],
            &[4, 0, 0, 0],
            &[255; 9],
            &[5, 0, 0, 0, 1],
        ] {
            assert!(RawDocument::split_first(broken).is_none(), "{broken:?}");
        }
    }
}
