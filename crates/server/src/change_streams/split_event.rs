//! `$changeStreamSplitLargeEvent`: an event that is too large for one document, in fragments that follow each other.
//!
//! A fragment has some of the event's top-level fields, whole, a resume token of its own, and `splitEvent: {fragment, of}`. The
//! small fields come first, and each fragment has as many as fit, so that a client soon knows what an event is about, as
//! MongoDB does it. The same event falls into the same fragments each time, so that a client goes on behind any of them.

use quarry_bson::{Document, RawDocument, RawElement};
use quarry_query::ErrorCode;

use crate::change_streams::resume_token::{ResumeToken, TokenKind};
use crate::dispatch::error::{CommandError, Result};

/// The bytes of an event that is handed out whole, and of a fragment: a document's, and some for what an event adds.
pub const EVENT_BYTES_MAX: usize = quarry_bson::DOCUMENT_BYTES_MAX + (8 << 10);
/// The bytes that a fragment's token, its `splitEvent` and the frame of its document have at most.
const FRAME_BYTES: usize = 256;

/// The fragments of an event, each with the place behind it.
///
/// # Errors
/// A field that is too large by itself.
pub fn split(event: RawDocument<'_>, token: ResumeToken) -> Result<Vec<(ResumeToken, Document)>> {
    split_to(event, token, EVENT_BYTES_MAX - FRAME_BYTES)
}

fn split_to(
    event: RawDocument<'_>,
    token: ResumeToken,
    bytes_max: usize,
) -> Result<Vec<(ResumeToken, Document)>> {
    let bytes_of =
        |field: &RawElement<'_>| 2 + field.name().as_bytes().len() + field.value_bytes().len();
    let mut fields: Vec<RawElement<'_>> =
        event.iter().filter(|field| field.name() != "_id").collect();
    fields.sort_by(|a, b| {
        let by_size = bytes_of(a).cmp(&bytes_of(b));
        by_size.then_with(|| a.name().as_bytes().cmp(b.name().as_bytes()))
    });
    let mut fragments: Vec<(usize, Vec<RawElement<'_>>)> = Vec::new();
    for field in fields {
        let bytes = bytes_of(&field);
        if bytes > bytes_max {
            let name = field.name().to_string_lossy().into_owned();
            let message = format!(
                "Splitting change event failed: its field '{name}' has {bytes} bytes, more than {bytes_max}"
            );
            return Err(CommandError::new(ErrorCode::BSON_OBJECT_TOO_LARGE, message));
        }
        match fragments.last_mut() {
            Some((held, last)) if *held + bytes <= bytes_max => {
                *held += bytes;
                last.push(field);
            }
            _ => fragments.push((bytes, vec![field])),
        }
    }
    let count = i32::try_from(fragments.len()).unwrap_or(i32::MAX);
    let fragment = |(number, (_, fields)): (u32, (usize, Vec<RawElement<'_>>))| {
        let token = ResumeToken {
            kind: TokenKind::Fragment(number),
            ..token
        };
        let document = Document::build(|out| {
            token.append("_id", out);
            let mut place = out.document("splitEvent");
            place.append("fragment", i32::try_from(number + 1).unwrap_or(i32::MAX));
            place.append("of", count);
            place.finish();
            for field in fields {
                out.append_element(field);
            }
        });
        (token, document)
    };
    Ok((0..).zip(fragments).map(fragment).collect())
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;
    use quarry_database::ChangePoint;

    use super::*;

    #[test]
    fn small_fields_come_first_and_no_fragment_is_too_large() {
        let token = ResumeToken::at(ChangePoint {
            cluster_time: 7,
            index: 1,
            lsn: 3,
            life: 9,
        });
        let (large, larger) = ("x".repeat(60), "x".repeat(80));
        let event = doc! {
            "_id": 1, "z": (larger.as_str()), "small": 1, "y": (large.as_str()), "a": 1, "b": 2,
        };
        let fragments = split_to(event.as_raw(), token, 110).unwrap();
        let names: Vec<Vec<String>> = fragments
            .iter()
            .map(|(_, fragment)| {
                fragment
                    .iter()
                    .map(|field| field.name().to_string())
                    .collect()
            })
            .collect();
        let expected = [
            &["_id", "splitEvent", "a", "b", "small", "y"][..],
            &["_id", "splitEvent", "z"][..],
        ];
        assert_eq!(names, expected);
        for (number, (token, fragment)) in (1..).zip(&fragments) {
            let id = fragment.get_document("_id").unwrap();
            assert_eq!(ResumeToken::parse(id).unwrap(), *token);
            let place = fragment.get_document("splitEvent").unwrap();
            assert_eq!(
                (place.get_i32("fragment"), place.get_i32("of")),
                (Some(number), Some(2))
            );
        }
        let refused = split_to(event.as_raw(), token, 80).err();
        assert_eq!(
            refused.map(|error| error.code),
            Some(ErrorCode::BSON_OBJECT_TOO_LARGE.0)
        );
    }
}
