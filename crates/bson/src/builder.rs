//! Append-only builders that write documents and arrays straight into a caller's buffer.
//!
//! A nested document is begun in place and its length patched when it is finished, or dropped, so that the
//! buffer always holds whole documents once the builders are gone. Nothing is allocated beyond the buffer.
//! A name is cut at its first NUL, for a name cannot hold one; callers that take names from values check first.

use crate::{Document, ElementType, RawElement, RawValue, encode::write_head, layout};

/// Builds a document at the end of a buffer.
#[derive(Debug)]
pub struct DocumentBuilder<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
}

impl<'b> DocumentBuilder<'b> {
    /// Begins a document at the buffer's end.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { out, start }
    }

    /// Appends a field. The name is cut at its first NUL.
    #[inline(always)]
    pub fn append<'v>(
        &mut self,
        name: impl AsRef<[u8]>,
        value: impl Into<RawValue<'v>>,
    ) -> &mut Self {
        let value = value.into();
        self.begin(value.element_type(), name.as_ref());
        value.write_to(self.out);
        self
    }

    /// Copies an element as it stands, name included.
    #[inline]
    pub fn append_element(&mut self, element: RawElement<'_>) -> &mut Self {
        self.out.extend_from_slice(element.as_bytes());
        self
    }

    /// Copies an element's value under another name.
    #[inline]
    pub fn append_renamed(&mut self, name: impl AsRef<[u8]>, element: RawElement<'_>) -> &mut Self {
        self.append_bytes(name, element.element_type(), element.value_bytes())
    }

    /// Appends a value already encoded; the caller answers for its bytes.
    #[inline]
    pub fn append_bytes(
        &mut self,
        name: impl AsRef<[u8]>,
        element_type: ElementType,
        value: &[u8],
    ) -> &mut Self {
        self.begin(element_type, name.as_ref());
        self.out.extend_from_slice(value);
        self
    }

    /// Begins a nested document; it ends when the builder returned is finished or dropped.
    #[inline]
    pub fn document(&mut self, name: impl AsRef<[u8]>) -> DocumentBuilder<'_> {
        self.begin(ElementType::Document, name.as_ref());
        DocumentBuilder::new(self.out)
    }

    /// Begins a nested array; it ends when the builder returned is finished or dropped.
    #[inline]
    pub fn array(&mut self, name: impl AsRef<[u8]>) -> ArrayBuilder<'_> {
        self.begin(ElementType::Array, name.as_ref());
        ArrayBuilder::new(self.out)
    }

    /// The bytes written so far, length included and terminator not.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether nothing has been appended yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len_bytes() == 4
    }

    /// Ends the document. Dropping does the same.
    #[inline]
    pub fn finish(self) {}

    #[inline(always)]
    fn begin(&mut self, element_type: ElementType, name: &[u8]) {
        write_head(self.out, element_type, name);
    }
}

impl Drop for DocumentBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        self.out.push(0);
        let len = u32::try_from(self.out.len() - self.start).unwrap_or(u32::MAX);
        if let Some(header) = self.out.get_mut(self.start..self.start + 4) {
            header.copy_from_slice(&len.to_le_bytes());
        }
    }
}

/// Builds an array at the end of a buffer; positions name its elements.
#[derive(Debug)]
pub struct ArrayBuilder<'b> {
    document: DocumentBuilder<'b>,
    position: Position,
}

impl<'b> ArrayBuilder<'b> {
    /// Begins an array at the buffer's end. Type and name of the element that it belongs to are the caller's.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        Self {
            document: DocumentBuilder::new(out),
            position: Position::default(),
        }
    }

    /// Appends a value under the next position.
    #[inline(always)]
    pub fn push<'v>(&mut self, value: impl Into<RawValue<'v>>) -> &mut Self {
        let value = value.into();
        self.begin(value.element_type());
        value.write_to(self.document.out);
        self
    }

    /// Copies an element's value under the next position.
    #[inline]
    pub fn push_element(&mut self, element: RawElement<'_>) -> &mut Self {
        self.push_bytes(element.element_type(), element.value_bytes())
    }

    /// Appends a value already encoded; the caller answers for its bytes.
    #[inline]
    pub fn push_bytes(&mut self, element_type: ElementType, value: &[u8]) -> &mut Self {
        self.begin(element_type);
        self.document.out.extend_from_slice(value);
        self
    }

    /// Begins a nested document at the next position; it ends when the builder returned is finished or dropped.
    #[inline]
    pub fn document(&mut self) -> DocumentBuilder<'_> {
        self.begin(ElementType::Document);
        DocumentBuilder::new(self.document.out)
    }

    /// Begins a nested array at the next position; it ends when the builder returned is finished or dropped.
    #[inline]
    pub fn array(&mut self) -> ArrayBuilder<'_> {
        self.begin(ElementType::Array);
        ArrayBuilder::new(self.document.out)
    }

    /// Appends the document that `fill` writes at the end of the buffer. When it says that there is none, or
    /// fails, the buffer is as before.
    #[inline]
    pub fn push_document_with<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        let out = &mut *self.document.out;
        let before = out.len();
        out.push(ElementType::Document as u8);
        out.extend_from_slice(self.position.digits());
        out.push(0);
        let written = fill(out);
        if matches!(written, Ok(true)) {
            self.position.advance();
        } else {
            out.truncate(before);
        }
        written
    }

    /// The number of elements pushed.
    #[inline]
    pub fn len(&self) -> usize {
        self.position.count
    }

    /// Whether nothing has been pushed yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.position.count == 0
    }

    /// The bytes written so far, length included and terminator not.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.document.len_bytes()
    }

    /// Ends the array. Dropping does the same.
    #[inline]
    pub fn finish(self) {}

    #[inline(always)]
    fn begin(&mut self, element_type: ElementType) {
        let out = &mut *self.document.out;
        write_head(out, element_type, self.position.digits());
        self.position.advance();
    }
}

/// A counter kept as decimal text, so that naming an element costs no division.
#[derive(Debug)]
struct Position {
    text: [u8; Self::DIGITS_MAX],
    start: usize,
    count: usize,
}

impl Position {
    /// Enough for any `usize`.
    const DIGITS_MAX: usize = 20;

    #[inline(always)]
    fn digits(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.count += 1;
        let mut at = Self::DIGITS_MAX - 1;
        while self.text[at] == b'9' {
            self.text[at] = b'0';
            if at == 0 {
                return;
            }
            at -= 1;
        }
        self.text[at] += 1;
        self.start = self.start.min(at);
    }
}

impl Default for Position {
    fn default() -> Self {
        Self {
            text: [b'0'; Self::DIGITS_MAX],
            start: Self::DIGITS_MAX - 1,
            count: 0,
        }
    }
}

impl Document {
    /// A document made by `fill`.
    pub fn build(fill: impl FnOnce(&mut DocumentBuilder<'_>)) -> Self {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        fill(&mut builder);
        builder.finish();
        Self::from_built(bytes)
    }
}

/// Bytes that a document's frame adds to its elements.
pub const FRAME_BYTES: usize = layout::DOCUMENT_BYTES_MIN;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawDocument;

    #[test]
    fn nested_builders_patch_their_lengths() {
        let mut out = vec![0xAA];
        let mut builder = DocumentBuilder::new(&mut out);
        builder.append("a", 1);
        {
            let mut inner = builder.document("b");
            inner.append("c", "x");
            let mut list = inner.array("d");
            for i in 0..120 {
                list.push(i);
            }
        }
        builder.append("e", true);
        builder.finish();
        let document = RawDocument::validated(&out[1..]).unwrap();
        let names: Vec<_> = document.iter().map(|e| e.name().to_string()).collect();
        assert_eq!(names, ["a", "b", "e"]);
        assert_eq!(
            document.get_path("b.d.119").and_then(|v| v.as_i32()),
            Some(119)
        );
        assert_eq!(document.get_path("b.d.9").and_then(|v| v.as_i32()), Some(9));
        assert!(document.get_path("b.d.120").is_none());
    }

    #[test]
    fn a_nul_in_a_name_cannot_break_the_frame() {
        let document = Document::build(|d| {
            d.append("a\0b", 1).append("c", 2);
        });
        RawDocument::validated(document.as_bytes()).unwrap();
        assert_eq!(document.get_i32("a"), Some(1));
    }

    #[test]
    fn names_of_every_length_end_at_their_first_nul() {
        for len in 0..40 {
            let name = vec![b'n'; len];
            for nul in 0..=len {
                let mut cut = name.clone();
                if let Some(byte) = cut.get_mut(nul) {
                    *byte = 0;
                }
                let document = Document::build(|d| {
                    d.append(&cut, true).append("end", 1);
                });
                RawDocument::validated(document.as_bytes()).unwrap();
                let first = document.first().unwrap();
                assert_eq!(first.name().as_bytes(), &name[..nul], "{len} {nul}");
                assert_eq!(document.get_i32("end"), Some(1));
            }
        }
    }
}
