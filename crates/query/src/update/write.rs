//! The bytes of elements, documents and arrays as an update writes them.

use quarry_bson::{ElementType, RawValue};

/// The bytes of a document's or an array's length.
pub(super) const LENGTH_BYTES: usize = 4;

/// Starts a document or array in `out`.
pub(super) fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    start
}

/// Ends the one that began at `start`. A length beyond 32 bits is refused with the document's size.
pub(super) fn end(start: usize, out: &mut Vec<u8>) {
    debug_assert!(
        out[start..].starts_with(&[0; LENGTH_BYTES]),
        "a document that begins here is ended once"
    );
    out.push(0);
    let length = (out.len() - start) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Writes the type and the name of an element.
pub(super) fn header(element_type: ElementType, name: &[u8], out: &mut Vec<u8>) {
    out.push(element_type as u8);
    out.extend_from_slice(name);
    out.push(0);
}

/// Writes an element.
pub(super) fn put(name: &[u8], value: RawValue<'_>, out: &mut Vec<u8>) {
    header(value.element_type(), name, out);
    value.write_to(out);
}
