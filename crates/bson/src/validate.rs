//! The one full check of bytes from outside: structure, depth, size and, unless any text will do, UTF-8 in a single pass.
//!
//! The pass answers yes or no and keeps nothing. When the answer is no, `explain` walks again, slowly, to say
//! where, at which path and what was expected. Both walks must agree; a test feeds them the same damage.

use crate::{
    DEPTH_MAX, DOCUMENT_BYTES_INTERNAL_MAX, ElementType, Error, Result, STORED_DEPTH_MAX,
    layout::{self, NameLens},
};

/// Whether text has to be UTF-8. A parameter of the pass, so that each of its two forms is compiled by itself.
const UTF8: bool = true;
const ANY_TEXT: bool = false;

/// Checks that `bytes` are exactly one sound document whose text is UTF-8.
#[inline]
pub(crate) fn document(bytes: &[u8]) -> Result<()> {
    if fits::<UTF8>(bytes, DEPTH_MAX) {
        Ok(())
    } else {
        Err(explain::<UTF8>(bytes))
    }
}

/// Checks that `bytes` are exactly one sound document. Its text may be any bytes.
#[inline]
pub(crate) fn any_text(bytes: &[u8]) -> Result<()> {
    if fits::<ANY_TEXT>(bytes, DEPTH_MAX) {
        Ok(())
    } else {
        Err(explain::<ANY_TEXT>(bytes))
    }
}

/// Whether `bytes` are exactly one sound document, of any text, that nests no deeper than what may be stored.
#[inline]
pub(crate) fn is_storable(bytes: &[u8]) -> bool {
    fits::<ANY_TEXT>(bytes, STORED_DEPTH_MAX)
}

#[inline]
fn fits<const TEXT: bool>(bytes: &[u8], levels: usize) -> bool {
    bytes.len() <= DOCUMENT_BYTES_INTERNAL_MAX && is_document::<TEXT>(bytes, levels)
}

/// Checks that `bytes` are exactly one sound document, and copies it.
#[inline]
pub(crate) fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    /// The size of a document that a first-level cache holds whole.
    const SMALL_BYTES: usize = if cfg!(test) { 64 } else { 32 * 1024 };
    if (SMALL_BYTES..=DOCUMENT_BYTES_INTERNAL_MAX).contains(&bytes.len()) {
        return copy_in_turns(bytes).ok_or_else(|| explain::<UTF8>(bytes));
    }
    document(bytes)?;
    Ok(bytes.to_vec())
}

/// Checks and copies element after element, so that the copy reads what is still in the nearest cache.
#[inline(never)]
fn copy_in_turns(bytes: &[u8]) -> Option<Vec<u8>> {
    /// Small enough for a copy that begins at once: from 4 KiB on copies take a way that begins slowly.
    const PIECE_BYTES: usize = if cfg!(test) { 16 } else { 1024 };
    let mut rest = body(bytes, DEPTH_MAX)?;
    let mut copy = Vec::with_capacity(bytes.len());
    let mut names = NameLens::new();
    while rest.len() > 1 {
        rest = after_element::<UTF8>(rest, &mut names, DEPTH_MAX)?;
        let passed = bytes.len() - rest.len();
        if passed - copy.len() >= PIECE_BYTES {
            copy.extend_from_slice(&bytes[copy.len()..passed]);
        }
    }
    copy.extend_from_slice(&bytes[copy.len()..]);
    (rest.len() == 1).then_some(copy)
}

/// At most `levels` documents within each other, this one counted.
fn is_document<const TEXT: bool>(bytes: &[u8], levels: usize) -> bool {
    let Some(mut rest) = body(bytes, levels) else {
        return false;
    };
    let mut names = NameLens::new();
    while rest.len() > 1 {
        match after_element::<TEXT>(rest, &mut names, levels) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.len() == 1
}

/// A document's elements and terminator, if its frame is sound and not too deep.
#[inline(always)]
fn body(bytes: &[u8], levels: usize) -> Option<&[u8]> {
    let is_framed =
        levels > 0 && layout::read_len(bytes, 0) == Some(bytes.len()) && bytes.last() == Some(&0);
    // A document of fewer than five bytes has no terminator of its own: its last byte belongs to the length.
    bytes.get(4..).filter(|_| is_framed)
}

/// Checks the element that `rest` begins with, and returns the bytes behind it, at least the terminator.
#[inline(always)]
fn after_element<'a, const TEXT: bool>(
    rest: &'a [u8],
    names: &mut NameLens,
    levels: usize,
) -> Option<&'a [u8]> {
    let (&tag, after) = rest.split_first()?;
    let name_len = name::<TEXT>(after, names)?;
    let value_at = name_len + 2;
    layout::by_type!(tag, rest, value_at, |element_type, value_bytes| {
        let end = value_at + value_bytes;
        if end >= rest.len() {
            return None;
        }
        let is_sound = match element_type {
            ElementType::String => is_text::<TEXT>(rest.get(value_at + 4..end)?),
            ElementType::Boolean => *rest.get(value_at)? <= 1,
            ElementType::Document | ElementType::Array => {
                is_document::<TEXT>(rest.get(value_at..end)?, levels - 1)
            }
            ElementType::Double
            | ElementType::Int32
            | ElementType::Int64
            | ElementType::DateTime
            | ElementType::ObjectId
            | ElementType::Null
            | ElementType::Timestamp => true,
            other => rare::<TEXT>(other, rest.get(value_at..end)?, levels),
        };
        if !is_sound {
            return None;
        }
        rest.get(end..)
    })
}

/// The length of the name that starts `bytes`, if its text will do; the ASCII of a short one shows in its key.
#[inline(always)]
fn name<const TEXT: bool>(bytes: &[u8], names: &mut NameLens) -> Option<usize> {
    let (len, key) = names.next(bytes)?;
    let short = len <= 8 && key & layout::HIGH_BITS == 0;
    (short || has_text::<TEXT>(&bytes[..len])).then_some(len)
}

/// Text with its NUL.
#[inline(always)]
fn is_text<const TEXT: bool>(bytes: &[u8]) -> bool {
    match bytes.split_last() {
        Some((0, text)) => has_text::<TEXT>(text),
        _ => false,
    }
}

#[inline(always)]
fn has_text<const TEXT: bool>(bytes: &[u8]) -> bool {
    !TEXT || is_utf8(bytes)
}

/// Strings up to this size are looked at word by word before a SIMD routine is called for.
const SHORT_BYTES: usize = 64;

#[inline(always)]
fn is_utf8(bytes: &[u8]) -> bool {
    if bytes.len() <= SHORT_BYTES && is_ascii(bytes) {
        return true;
    }
    simdutf8::basic::from_utf8(bytes).is_ok()
}

#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut seen = words
        .iter()
        .fold(0, |seen, word| seen | u64::from_le_bytes(*word));
    if let Some(last) = bytes.last_chunk::<8>() {
        seen |= u64::from_le_bytes(*last);
    } else {
        seen |= tail.iter().fold(0, |seen, byte| seen | u64::from(*byte));
    }
    seen & layout::HIGH_BITS == 0
}

#[inline(never)]
fn rare<const TEXT: bool>(element_type: ElementType, value: &[u8], levels: usize) -> bool {
    match element_type {
        ElementType::JavaScript | ElementType::Symbol => is_text::<TEXT>(&value[4..]),
        ElementType::Binary => is_binary(value),
        ElementType::Regex => has_text::<TEXT>(value),
        ElementType::DbPointer => is_text::<TEXT>(&value[4..value.len() - 12]),
        ElementType::JavaScriptWithScope => {
            let code = layout::read_len(value, 4).unwrap_or_default();
            is_text::<TEXT>(&value[8..8 + code])
                && is_document::<TEXT>(&value[8 + code..], levels - 1)
        }
        _ => true,
    }
}

/// The old binary subtype 2 carries a second length inside its payload.
fn is_binary(value: &[u8]) -> bool {
    const SUBTYPE_OLD: u8 = 2;
    value.get(4) != Some(&SUBTYPE_OLD)
        || layout::read_len(value, 5).is_some_and(|inner| inner + 9 == value.len())
}

/// Finds the first fault of bytes that failed the pass.
#[cold]
#[inline(never)]
fn explain<const TEXT: bool>(bytes: &[u8]) -> Error {
    if bytes.len() > DOCUMENT_BYTES_INTERNAL_MAX {
        return Error::TooLarge {
            bytes: bytes.len(),
            limit: DOCUMENT_BYTES_INTERNAL_MAX,
        };
    }
    let mut search = Search::<TEXT> { path: Vec::new() };
    match search.document(bytes, 0, 1) {
        Err(error) => error,
        Ok(()) => Error::malformed(0, "a sound document"),
    }
}

/// The slow walk: keeps the path it is on.
struct Search<'a, const TEXT: bool> {
    path: Vec<&'a [u8]>,
}

impl<'a, const TEXT: bool> Search<'a, TEXT> {
    fn document(&mut self, bytes: &'a [u8], offset: usize, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::TooDeep {
                offset,
                path: self.dotted(),
            });
        }
        match layout::read_len(bytes, 0) {
            Some(len) if len == bytes.len() && len >= layout::DOCUMENT_BYTES_MIN => {}
            Some(len) => {
                return self.fault(
                    offset,
                    format!("a document length of {}, not {}", bytes.len(), len as i32),
                );
            }
            None => return self.fault(offset, "a document of at least 5 bytes"),
        }
        if bytes.last() != Some(&0) {
            return self.fault(offset + bytes.len() - 1, "a NUL at the end of the document");
        }
        let mut at = 4;
        while at + 1 < bytes.len() {
            at += self.element(&bytes[at..], offset + at, depth)?;
        }
        if at + 1 == bytes.len() {
            Ok(())
        } else {
            self.fault(offset + at, "a NUL at the end of the document")
        }
    }

    fn element(&mut self, rest: &'a [u8], offset: usize, depth: usize) -> Result<usize> {
        let tag = rest[0];
        let Some(name_len) = memchr::memchr(0, &rest[1..]) else {
            return self.fault(offset + 1, "a name that ends in NUL");
        };
        let name = &rest[1..=name_len];
        self.path.push(name);
        let Some(element_type) = ElementType::from_u8(tag) else {
            return self.fault(offset, format!("an element type, not {tag:#04x}"));
        };
        if !has_text::<TEXT>(name) {
            return self.fault(offset + 1, "a name in UTF-8");
        }
        let value_at = offset + name_len + 2;
        let value = &rest[name_len + 2..];
        let size = match layout::value_bytes(tag, value) {
            Some(size) if size < value.len() => size,
            _ => {
                return self.fault(
                    value_at,
                    format!("a whole value of type {}", element_type.alias()),
                );
            }
        };
        self.value(element_type, &value[..size], value_at, depth)?;
        self.path.pop();
        Ok(name_len + 2 + size)
    }

    fn value(
        &mut self,
        element_type: ElementType,
        value: &'a [u8],
        offset: usize,
        depth: usize,
    ) -> Result<()> {
        match element_type {
            ElementType::String | ElementType::JavaScript | ElementType::Symbol => {
                self.text(&value[4..], offset + 4)
            }
            ElementType::Boolean if value[0] > 1 => self.fault(offset, "0 or 1 for a bool"),
            ElementType::Document | ElementType::Array => self.document(value, offset, depth + 1),
            ElementType::Binary if !is_binary(value) => {
                self.fault(offset + 5, "the inner length of binary subtype 2")
            }
            ElementType::Regex if !has_text::<TEXT>(value) => {
                self.fault(offset, "a pattern in UTF-8")
            }
            ElementType::DbPointer => self.text(&value[4..value.len() - 12], offset + 4),
            ElementType::JavaScriptWithScope => {
                let code = layout::read_len(value, 4).unwrap_or_default();
                self.text(&value[8..8 + code], offset + 8)?;
                self.document(&value[8 + code..], offset + 8 + code, depth + 1)
            }
            _ => Ok(()),
        }
    }

    fn text(&self, bytes: &[u8], offset: usize) -> Result<()> {
        match bytes.split_last() {
            Some((0, text)) if has_text::<TEXT>(text) => Ok(()),
            Some((0, _)) => self.fault(offset, "text in UTF-8"),
            _ => self.fault(
                offset + bytes.len().saturating_sub(1),
                "a NUL at the end of the text",
            ),
        }
    }

    fn fault<T>(&self, offset: usize, expected: impl Into<String>) -> Result<T> {
        Err(Error::Malformed {
            offset,
            path: self.dotted(),
            expected: expected.into(),
        })
    }

    fn dotted(&self) -> String {
        let parts: Vec<_> = self
            .path
            .iter()
            .map(|p| String::from_utf8_lossy(p))
            .collect();
        parts.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, RawDocument, RawValue, doc};

    #[test]
    fn errors_name_offset_path_and_expectation() {
        let mut bytes = doc! { "a": { "b": [true, "text"] } }.into_bytes();
        let at = bytes.windows(4).position(|w| w == b"text").unwrap();
        bytes[at] = 0xff;
        let error = RawDocument::validated(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid BSON at byte {at} in `a.b.1`: expected text in UTF-8")
        );
        assert_eq!((error.offset(), error.path()), (Some(at), "a.b.1"));
    }

    #[test]
    fn old_binary_needs_its_inner_length() {
        for payload in [
            &[][..],
            &[1, 0, 0],
            &[2, 0, 0, 0, 7],
            &[255, 255, 255, 255, 7],
        ] {
            let bytes = doc! { "b": crate::Value::binary(2, payload) }.into_bytes();
            assert!(RawDocument::validated(&bytes).is_err(), "{payload:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested =
            |levels: usize| (1..levels).fold(Document::new(), |inner, _| doc! { "x": inner });
        assert!(RawDocument::validated(nested(DEPTH_MAX).as_bytes()).is_ok());
        let error = RawDocument::validated(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
        assert!(matches!(error, Error::TooDeep { .. }), "{error}");
        let far = nested(30_000);
        assert!(RawDocument::validated(far.as_bytes()).is_err());
        assert!(RawDocument::validated_storable(nested(STORED_DEPTH_MAX).as_bytes()).is_some());
        assert!(RawDocument::validated_storable(nested(STORED_DEPTH_MAX + 1).as_bytes()).is_none());
    }

    #[test]
    fn any_text_is_sound_where_utf8_is_not_asked_for() {
        for text in [&b"\xff\xfe"[..], b"\xc3", b"plain then \x80"] {
            let text = crate::RawStr::from_bytes(text);
            let values = [
                RawValue::String(text),
                RawValue::Symbol(text),
                RawValue::JavaScript(text),
                RawValue::Regex(crate::RawRegex {
                    pattern: text,
                    options: text,
                }),
                RawValue::JavaScriptWithScope(crate::RawCodeWithScope {
                    code: text,
                    scope: RawDocument::EMPTY,
                }),
            ];
            for value in values {
                let built = Document::build(|document| {
                    document.append("a", value);
                });
                let bytes = built.into_bytes();
                assert!(RawDocument::validated(&bytes).is_err(), "{value:?}");
                let document = RawDocument::validated_any_text(&bytes).unwrap();
                assert_eq!(document.get("a").unwrap(), value);
            }
        }
        let mut bytes = doc! { "name": 1 }.into_bytes();
        bytes[5] = 0xff;
        assert!(RawDocument::validated(&bytes).is_err());
        assert!(RawDocument::validated_any_text(&bytes).is_ok());
    }

    #[test]
    fn both_walks_agree_on_every_damaged_byte() {
        let sound = doc! {
            "i": 1, "s": "häh", "d": { "n": null, "l": [1.5, true] }, "b": crate::Value::binary(2, &[1, 0, 0, 0, 7]),
            "r": RawValue::Regex(crate::RawRegex { pattern: "a".into(), options: "i".into() }),
            "c": RawValue::JavaScriptWithScope(crate::RawCodeWithScope { code: "x".into(), scope: RawDocument::EMPTY }),
        };
        for at in 0..sound.as_bytes().len() {
            for new in [0, 1, 2, 3, 4, 5, 0x0f, 0x7f, 0x80, 0xc3, 0xff] {
                let mut bytes = sound.as_bytes().to_vec();
                bytes[at] = new;
                let passes = is_document::<UTF8>(&bytes, DEPTH_MAX);
                let found = Search::<UTF8> { path: Vec::new() }.document(&bytes, 0, 1);
                assert_eq!(passes, found.is_ok(), "byte {at} = {new}: {found:?}");
                let is_sound = is_document::<ANY_TEXT>(&bytes, DEPTH_MAX);
                let found = Search::<ANY_TEXT> { path: Vec::new() }.document(&bytes, 0, 1);
                assert_eq!(is_sound, found.is_ok(), "byte {at} = {new}: {found:?}");
                assert!(is_sound || !passes);
                // Long enough to be checked and copied in turns.
                assert_eq!(copy(&bytes).ok(), passes.then(|| bytes.clone()));
                for cut in 0..bytes.len() {
                    assert!(!is_document::<ANY_TEXT>(&bytes[..cut], DEPTH_MAX));
                }
            }
        }
    }
}
