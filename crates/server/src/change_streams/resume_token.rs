//! Resume tokens: `{_data: <hexadecimal digits>}`, a place in the journal's history that a client keeps.
//!
//! ```text
//! version 01 | place, 28 bytes (quarry_database::ChangePoint) | kind | [number of the fragment u32, big-endian]
//! kind: 0 the place alone; 1 behind an event that is followed by an invalidate; 2 behind that invalidate;
//!       3 behind a fragment of an event: its number follows; 4 behind any other event
//! ```
//! Tokens compare as their events do: the place orders first, and the kinds at one place follow each other. Before kind 4 came,
//! tokens of events had kind 0; they are taken as places.

#[cfg(test)]
use quarry_bson::Document;
use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::{CHANGE_POINT_BYTES, ChangePoint};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

const VERSION: u8 = 1;
const TOKEN_BYTES: usize = 1 + CHANGE_POINT_BYTES + 1;
/// The bytes of a token behind a fragment.
const FRAGMENT_TOKEN_BYTES: usize = TOKEN_BYTES + 4;
/// The kind of a token behind a fragment.
const FRAGMENT: u8 = 3;

/// A place that a stream can be resumed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeToken {
    pub point: ChangePoint,
    pub kind: TokenKind,
}

/// The sort of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Behind everything up to a place: of a reply without events, or of an event that an earlier version told.
    Place,
    /// Behind an event that ends the stream: an invalidate follows.
    BeforeInvalidate,
    /// Behind an invalidate.
    Invalidate,
    /// Behind the fragment of an event that has this number, from 0.
    Fragment(u32),
    /// Behind an event, which only streams tell that are over its collection.
    Event,
}

impl TokenKind {
    /// Whether the token is of an event, which the stream that is resumed by it must tell, too.
    pub fn names_event(self) -> bool {
        self != TokenKind::Place
    }
}

impl ResumeToken {
    /// The token of a place alone.
    pub fn at(point: ChangePoint) -> ResumeToken {
        let kind = TokenKind::Place;
        ResumeToken { point, kind }
    }

    /// Reads a token that a client sends back.
    pub fn parse(token: RawDocument<'_>) -> Result<ResumeToken> {
        let Some(RawValue::String(data)) = token.get("_data") else {
            return Err(CommandError::new(
                ErrorCode(40_647),
                "Bad resume token: _data of missing or of wrong type",
            ));
        };
        let bytes = data.as_str().ok().and_then(from_hex);
        let bytes = bytes.ok_or_else(|| {
            CommandError::failed_to_parse("resume token string was not a valid hex string")
        })?;
        ResumeToken::from_bytes(&bytes).ok_or_else(|| {
            CommandError::new(
                ErrorCode::INVALID_RESUME_TOKEN,
                "the resume token is none of this server's",
            )
        })
    }

    fn from_bytes(bytes: &[u8]) -> Option<ResumeToken> {
        let (&VERSION, rest) = bytes.split_first()? else {
            return None;
        };
        let (point, kind) = rest.split_first_chunk::<CHANGE_POINT_BYTES>()?;
        let kind = match *kind {
            [0] => TokenKind::Place,
            [1] => TokenKind::BeforeInvalidate,
            [2] => TokenKind::Invalidate,
            [FRAGMENT, a, b, c, d] => TokenKind::Fragment(u32::from_be_bytes([a, b, c, d])),
            [4] => TokenKind::Event,
            _ => return None,
        };
        let point = ChangePoint::from_bytes(point);
        Some(ResumeToken { point, kind })
    }

    /// Appends `name: {_data}`.
    pub fn append(self, name: &str, out: &mut DocumentBuilder<'_>) {
        let mut bytes = [0; FRAGMENT_TOKEN_BYTES];
        bytes[0] = VERSION;
        bytes[1..=CHANGE_POINT_BYTES].copy_from_slice(&self.point.to_bytes());
        let mut len = TOKEN_BYTES;
        bytes[TOKEN_BYTES - 1] = match self.kind {
            TokenKind::Place => 0,
            TokenKind::BeforeInvalidate => 1,
            TokenKind::Invalidate => 2,
            TokenKind::Fragment(number) => {
                bytes[TOKEN_BYTES..].copy_from_slice(&number.to_be_bytes());
                len = FRAGMENT_TOKEN_BYTES;
                FRAGMENT
            }
            TokenKind::Event => 4,
        };
        let mut digits = [0; 2 * FRAGMENT_TOKEN_BYTES];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        let digits = &digits[..2 * len];
        let mut token = out.document(name);
        token.append("_data", std::str::from_utf8(digits).unwrap_or_default());
        token.finish();
    }

    /// The token as a document.
    #[cfg(test)]
    pub fn to_document(self) -> Document {
        let outer = Document::build(|outer| self.append("token", outer));
        let token = outer.get_document("token");
        token
            .map(|token| token.to_owned_document())
            .unwrap_or_default()
    }
}

/// The bytes of hexadecimal digits of either case; none if the text is something else or longer than a token.
fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if digits.len() > 2 * FRAGMENT_TOKEN_BYTES || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn token(cluster_time: u64, index: u32, kind: TokenKind) -> ResumeToken {
        let point = ChangePoint {
            cluster_time,
            index,
            lsn: 9,
            life: 3,
        };
        ResumeToken { point, kind }
    }

    #[test]
    fn a_token_comes_back_as_it_was_and_orders_as_its_event_does() {
        let tokens = [
            token(7, 0, TokenKind::Place),
            token(7, 0, TokenKind::BeforeInvalidate),
            token(7, 0, TokenKind::Invalidate),
            token(7, 0, TokenKind::Fragment(0)),
            token(7, 0, TokenKind::Fragment(300)),
            token(7, 0, TokenKind::Event),
            token(7, 1, TokenKind::Place),
            token(1 << 40, 0, TokenKind::Place),
        ];
        let texts = tokens.map(|token| {
            let document = token.to_document();
            assert_eq!(ResumeToken::parse(document.as_raw()).unwrap(), token);
            document.get_str("_data").unwrap().to_owned()
        });
        assert!(texts.is_sorted());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let code = |token: Document| ResumeToken::parse(token.as_raw()).unwrap_err().code;
        assert_eq!(code(doc! {}), 40_647);
        assert_eq!(code(doc! { "_data": 1 }), 40_647);
        assert_eq!(code(doc! { "_data": "xy" }), 9);
        assert_eq!(code(doc! { "_data": "82" }), 260);
        assert_eq!(
            code(doc! { "_data": ("00".repeat(TOKEN_BYTES).as_str()) }),
            260
        );
        assert_eq!(code(doc! { "_data": ("00".repeat(1000).as_str()) }), 9);
    }
}
