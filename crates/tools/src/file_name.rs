//! How a collection's name stands in the name of a file, as mongodump writes it.
//!
//! Characters that a part of a URL may not have are percent-encoded. A name that is then longer than 238 bytes is cut after 208, and `%24` and the SHA-1 of
//! the whole name, before it is encoded, in URL-safe Base64 follow; the whole name stands in the metadata.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha1::{Digest, Sha1};

const NAME_BYTES_MAX: usize = 238;
const CUT_BYTES: usize = 208;

/// Everything but what Go's `url.PathEscape`, which mongodump calls, leaves as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// The name of a collection's files, without their endings.
pub fn of_collection(collection: &str) -> String {
    let escaped = utf8_percent_encode(collection, ESCAPED).to_string();
    if escaped.len() <= NAME_BYTES_MAX {
        return escaped;
    }
    let hash = URL_SAFE_NO_PAD.encode(Sha1::digest(collection.as_bytes()));
    format!("{}%24{hash}", &escaped[..CUT_BYTES])
}

/// The collection of a file's name; none where it is no text, or was cut, so that only the metadata tells the whole.
pub fn to_collection(name: &str) -> Option<String> {
    if name.len() == NAME_BYTES_MAX && name.get(CUT_BYTES..).is_some_and(is_mark_of_cut) {
        return None;
    }
    let decoded = percent_decode_str(name).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Whether the end of a name is what stands behind a cut.
fn is_mark_of_cut(end: &str) -> bool {
    let hash = end.strip_prefix("%24");
    let hash = hash.and_then(|hash| URL_SAFE_NO_PAD.decode(hash).ok());
    hash.is_some_and(|hash| hash.len() == <Sha1 as Digest>::output_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (collection, file) in [
            ("orders", "orders"),
            ("a/b", "a%2Fb"),
            ("100 %", "100%20%25"),
            ("system.users", "system.users"),
            ("käse", "k%C3%A4se"),
        ] {
            assert_eq!(of_collection(collection), file);
            assert_eq!(to_collection(file).as_deref(), Some(collection));
        }
        let whole = "x".repeat(NAME_BYTES_MAX);
        assert_eq!(to_collection(&of_collection(&whole)), Some(whole));
        let long = of_collection(&"/".repeat(100));
        assert_eq!(to_collection(&long), None);
        assert_eq!(long.len(), CUT_BYTES + 3 + 27);
        assert_ne!(long, of_collection(&"/".repeat(101)));
        // The SHA-1 of a hundred slashes, by another program.
        assert_eq!(&long[CUT_BYTES + 3..], "I_ypOCbo-0Mvl48CFLlZb_hZqfM");
    }
}
