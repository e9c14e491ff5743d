//! The trace that a client says its operation belongs to: a W3C `traceparent` in the command's `comment`.
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version, trace id, span id of the caller, flags (bit 0: the caller samples it)
//! ```
//! The comment is that string, a document `{traceparent: "..."}`, or such a document as JSON. A comment that is
//! something else is a comment.

use quarry_bson::{RawDocument, RawValue, extjson};

/// A longer comment is not parsed as JSON.
const JSON_BYTES_MAX: usize = 1024;
/// `version-trace-span-flags` of version 00.
const TRACEPARENT_CHARS: usize = 55;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: u128,
    /// The span of the caller.
    pub span_id: u64,
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads the trace context of a command.
    pub fn of(body: RawDocument<'_>) -> Option<TraceContext> {
        match body.get("comment")? {
            RawValue::String(text) => {
                let text = text.as_str().ok()?;
                TraceContext::parse(text).or_else(|| of_json(text))
            }
            RawValue::Document(document) => TraceContext::parse(document.get_str("traceparent")?),
            _ => None,
        }
    }

    /// The form of version 00; of a later version, what stands first in the same form.
    fn parse(text: &str) -> Option<TraceContext> {
        let (head, rest) = text.split_at_checked(TRACEPARENT_CHARS)?;
        let mut parts = head.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        let is_known = version == 0 && rest.is_empty();
        let is_later = (1..0xff).contains(&version) && (rest.is_empty() || rest.starts_with('-'));
        if parts.next().is_some() || !(is_known || is_later) || trace_id == 0 || span_id == 0 {
            return None;
        }
        Some(TraceContext {
            trace_id,
            span_id: span_id as u64,
            is_sampled: flags & 1 == 1,
        })
    }
}

fn of_json(text: &str) -> Option<TraceContext> {
    let text = text.trim();
    if !text.starts_with('{') || text.len() > JSON_BYTES_MAX {
        return None;
    }
    let document = extjson::parse(text).ok()?;
    TraceContext::parse(document.as_raw().get_str("traceparent")?)
}

/// Exactly so many lower-case hexadecimal digits.
fn hex(text: &str, chars: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != chars || !text.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(command: &Document) -> Option<TraceContext> {
        TraceContext::of(command.as_raw())
    }

    #[test]
    fn a_traceparent_is_found_in_each_form_of_a_comment() {
        let wanted = TraceContext {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span_id: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        let json = format!(" {{\"user\": 7, \"traceparent\": \"{TRACEPARENT}\"}}");
        for command in [
            doc! { "find": "c", "comment": TRACEPARENT },
            doc! { "find": "c", "comment": json.as_str() },
            doc! { "find": "c", "comment": doc! { "traceparent": TRACEPARENT } },
        ] {
            assert_eq!(of(&command), Some(wanted), "{command}");
        }
        let unsampled = TRACEPARENT.replace("-01", "-00");
        let command = doc! { "find": "c", "comment": unsampled.as_str() };
        assert!(!of(&command).unwrap().is_sampled);
        let later = format!("{}-more", TRACEPARENT.replacen("00", "01", 1));
        assert!(of(&doc! { "find": "c", "comment": later.as_str() }).is_some());
    }

    #[test]
    fn other_comments_are_no_trace() {
        let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = TRACEPARENT.to_uppercase();
        let version_ff = TRACEPARENT.replacen("00", "ff", 1);
        let longer = format!("{TRACEPARENT}-x");
        let deep = "{\"a\":".repeat(2000);
        for text in [
            "",
            "a note",
            "{",
            "{}",
            zero,
            &upper,
            &version_ff,
            &longer,
            "ä".repeat(60).as_str(),
            &deep,
        ] {
            assert_eq!(of(&doc! { "find": "c", "comment": text }), None, "{text}");
        }
        assert_eq!(of(&doc! { "find": "c", "comment": 7 }), None);
        assert_eq!(of(&doc! { "find": "c" }), None);
    }
}
