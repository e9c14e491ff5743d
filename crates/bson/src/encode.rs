//! How types, names and values become bytes.
//!
//! Appending is what building documents costs, so it avoids calls: a name of up to fifteen bytes goes out as one
//! or two words and is cut to size. A name ends at its first NUL, whoever gave it.

use crate::{ElementType, RawDocument, RawStr, RawValue, layout};

impl RawValue<'_> {
    /// Appends the value's bytes, without type and name. Inlined, so that a value whose type is known where it
    /// is appended costs no decision.
    #[inline(always)]
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Double(d) => out.extend_from_slice(&d.to_bits().to_le_bytes()),
            Self::String(text) | Self::JavaScript(text) | Self::Symbol(text) => {
                write_text(out, text);
            }
            Self::Document(document) => write_frame(out, document),
            Self::Array(array) => write_frame(out, array.as_document()),
            Self::Binary(binary) => {
                out.extend_from_slice(&(binary.bytes.len() as u32).to_le_bytes());
                out.push(binary.subtype);
                out.extend_from_slice(binary.bytes);
            }
            Self::ObjectId(id) => out.extend_from_slice(&id.bytes()),
            Self::Boolean(b) => out.push(u8::from(b)),
            Self::DateTime(n) | Self::Int64(n) => out.extend_from_slice(&n.to_le_bytes()),
            Self::Regex(regex) => {
                write_cstring(out, regex.pattern.as_bytes());
                write_cstring(out, regex.options.as_bytes());
            }
            Self::DbPointer(pointer) => {
                write_text(out, pointer.namespace);
                out.extend_from_slice(&pointer.id.bytes());
            }
            Self::JavaScriptWithScope(code) => {
                let total = 8 + code.code.len_bytes() + 1 + code.scope.len_bytes();
                out.extend_from_slice(&(total as u32).to_le_bytes());
                write_text(out, code.code);
                write_frame(out, code.scope);
            }
            Self::Int32(n) => out.extend_from_slice(&n.to_le_bytes()),
            Self::Timestamp(t) => out.extend_from_slice(&t.to_u64().to_le_bytes()),
            Self::Decimal128(d) => out.extend_from_slice(&d.bytes()),
            Self::Undefined | Self::Null | Self::MinKey | Self::MaxKey => {}
        }
    }
}

/// Appends what stands before a value: type and name, cut at its first NUL.
#[inline(always)]
pub(crate) fn write_head(out: &mut Vec<u8>, element_type: ElementType, name: &[u8]) {
    if name.len() < 8 {
        let word = layout::short_word(name);
        let head = u128::from(word) << 8 | element_type as u128;
        write_block(out, head, 1 + ended_len(word));
    } else {
        out.push(element_type as u8);
        write_long_cstring(out, name);
    }
}

/// Appends a NUL-terminated text, cut at its first NUL: a name or a pattern cannot hold one.
#[inline(always)]
pub(crate) fn write_cstring(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 8 {
        let word = layout::short_word(text);
        write_block(out, u128::from(word), ended_len(word));
    } else {
        write_long_cstring(out, text);
    }
}

/// The bytes of a word up to and with its first zero.
#[inline(always)]
fn ended_len(word: u64) -> usize {
    (layout::zero_bytes(word).trailing_zeros() / 8) as usize + 1
}

/// Appends the first bytes of a block: all of it goes out, which takes one store, and is cut to size.
#[inline(always)]
fn write_block(out: &mut Vec<u8>, block: u128, len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(&block.to_le_bytes());
    out.truncate(end);
}

#[inline(never)]
fn write_long_cstring(out: &mut Vec<u8>, text: &[u8]) {
    if let (8..16, Some(head), Some(tail)) =
        (text.len(), text.first_chunk::<8>(), text.last_chunk::<8>())
    {
        let head = u64::from_le_bytes(*head);
        let tail = u64::from_le_bytes(*tail) >> 8 >> (8 * (15 - text.len()));
        let len = match layout::zero_bytes(head) {
            0 => 8 + ended_len(tail),
            _ => ended_len(head),
        };
        write_block(out, u128::from(tail) << 64 | u128::from(head), len);
        return;
    }
    let text = match memchr::memchr(0, text) {
        None => text,
        Some(nul) => &text[..nul],
    };
    out.extend_from_slice(text);
    out.push(0);
}

#[inline]
fn write_text(out: &mut Vec<u8>, text: RawStr<'_>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 5);
    out.extend_from_slice(&(bytes.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(bytes);
    out.push(0);
}

#[inline]
fn write_frame(out: &mut Vec<u8>, document: RawDocument<'_>) {
    out.extend_from_slice(document.as_bytes());
}
