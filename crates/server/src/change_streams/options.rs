//! The specification of `$changeStream`: where to begin and what events have.

use quarry_bson::{RawDocument, RawElement, RawValue, Timestamp};
use quarry_query::ErrorCode;

use crate::change_streams::resume_token::{ResumeToken, TokenKind};
use crate::dispatch::error::{CommandError, Result};

/// The name under which errors give the specification's fields.
const PARSER: &str = "$changeStream";

/// The options of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub full_document: FullDocument,
    pub before_change: Image,
    pub from: From,
    pub shows_expanded_events: bool,
    pub is_for_cluster: bool,
    /// The last stage is `$changeStreamSplitLargeEvent`. Set by whoever reads the pipeline.
    pub splits_large_events: bool,
}

/// `fullDocument`: the document of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullDocument {
    /// No document with an update.
    #[default]
    Default,
    /// The document as it is when the event is made; null if it has gone.
    UpdateLookup,
    /// The document as the change left it; null where the collection keeps no images.
    WhenAvailable,
    /// Like `WhenAvailable`, but an error where the collection keeps none.
    Required,
}

/// `fullDocumentBeforeChange`: the document before a change, as far as its collection keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Image {
    #[default]
    Off,
    /// Null where it was not kept.
    WhenAvailable,
    /// An error where it was not kept.
    Required,
}

/// The beginning of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum From {
    #[default]
    Now,
    Time(Timestamp),
    Behind(ResumeToken),
}

impl Options {
    /// Whether the events have what collections keep of changes, which expires.
    pub fn asks_for_images(&self) -> bool {
        let asks_for_after = matches!(
            self.full_document,
            FullDocument::WhenAvailable | FullDocument::Required
        );
        asks_for_after || self.before_change != Image::Off
    }

    pub fn parse(value: RawValue<'_>) -> Result<Options> {
        let RawValue::Document(specification) = value else {
            let message = "the $changeStream stage must be specified as an object";
            return Err(CommandError::new(ErrorCode(50_808), message));
        };
        let mut options = Options::default();
        let (mut resume_after, mut start_after, mut start_at) = (None, None, None);
        for element in specification {
            let value = element.value();
            match element.name().as_bytes() {
                // Null stands for an option that is not there.
                b"fullDocument"
                | b"fullDocumentBeforeChange"
                | b"resumeAfter"
                | b"startAfter"
                | b"startAtOperationTime"
                | b"showExpandedEvents"
                | b"allChangesForCluster"
                    if value.is_nullish() => {}
                b"fullDocument" => options.full_document = full_document(element)?,
                b"fullDocumentBeforeChange" => options.before_change = image(element)?,
                b"resumeAfter" => resume_after = Some(token(element)?),
                b"startAfter" => start_after = Some(token(element)?),
                b"startAtOperationTime" => start_at = Some(time(element)?),
                b"showExpandedEvents" => options.shows_expanded_events = flag(element)?,
                b"allChangesForCluster" => options.is_for_cluster = flag(element)?,
                b"showSystemEvents" | b"showMigrationEvents" | b"showRawUpdateDescription"
                    if !value.is_truthy() => {}
                b"showSystemEvents" | b"showMigrationEvents" | b"showRawUpdateDescription" => {
                    let what = format!("the option '{}' of $changeStream", element.name());
                    return Err(CommandError::not_supported(what));
                }
                _ => {
                    let name = element.name().to_string_lossy();
                    return Err(CommandError::unknown_field(PARSER, &name));
                }
            }
        }
        options.from = match (resume_after, start_after, start_at) {
            (Some(_), Some(_), _) => {
                let message =
                    "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage";
                return Err(CommandError::new(ErrorCode(50_865), message));
            }
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                let message = "Only one type of resume option is allowed, but multiple were found";
                return Err(CommandError::new(ErrorCode(40_674), message));
            }
            (Some(token), None, None) if token.kind == TokenKind::Invalidate => {
                let message = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification";
                return Err(CommandError::new(ErrorCode::INVALID_RESUME_TOKEN, message));
            }
            (Some(token), None, None) | (None, Some(token), None) => From::Behind(token),
            (None, None, Some(time)) => From::Time(time),
            (None, None, None) => From::Now,
        };
        Ok(options)
    }
}

fn full_document(element: RawElement<'_>) -> Result<FullDocument> {
    match text(element)? {
        "default" => Ok(FullDocument::Default),
        "updateLookup" => Ok(FullDocument::UpdateLookup),
        "whenAvailable" => Ok(FullDocument::WhenAvailable),
        "required" => Ok(FullDocument::Required),
        other => Err(unknown_mode("fullDocument", other)),
    }
}

fn image(element: RawElement<'_>) -> Result<Image> {
    match text(element)? {
        "off" => Ok(Image::Off),
        "whenAvailable" => Ok(Image::WhenAvailable),
        "required" => Ok(Image::Required),
        other => Err(unknown_mode("fullDocumentBeforeChange", other)),
    }
}

fn unknown_mode(field: &str, found: &str) -> CommandError {
    CommandError::bad_value(format!(
        "Enumeration value '{found}' for field '{PARSER}.{field}' is not a valid value."
    ))
}

fn token(element: RawElement<'_>) -> Result<ResumeToken> {
    ResumeToken::parse(document(element)?)
}

fn time(element: RawElement<'_>) -> Result<Timestamp> {
    match element.value() {
        RawValue::Timestamp(time) => Ok(time),
        _ => Err(wrong_type(element, "timestamp")),
    }
}

fn document(element: RawElement<'_>) -> Result<RawDocument<'_>> {
    let value = element.value();
    value
        .as_document()
        .ok_or_else(|| wrong_type(element, "object"))
}

fn text(element: RawElement<'_>) -> Result<&str> {
    let value = element.value();
    value.as_str().ok_or_else(|| wrong_type(element, "string"))
}

fn flag(element: RawElement<'_>) -> Result<bool> {
    match element.value() {
        RawValue::Boolean(flag) => Ok(flag),
        _ => Err(wrong_type(element, "bool")),
    }
}

fn wrong_type(element: RawElement<'_>, expected: &str) -> CommandError {
    let name = element.name().to_string_lossy();
    CommandError::field_type(PARSER, &name, element.element_type().alias(), expected)
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};
    use quarry_database::ChangePoint;

    use super::*;

    fn parse(specification: &Document) -> Result<Options> {
        Options::parse(RawValue::Document(specification.as_raw()))
    }

    fn token(kind: TokenKind) -> ResumeToken {
        let point = ChangePoint {
            cluster_time: 1,
            index: 0,
            lsn: 1,
            life: 1,
        };
        ResumeToken { point, kind }
    }

    #[test]
    fn a_stream_begins_in_one_way() {
        let place = token(TokenKind::Place);
        let resume = doc! { "resumeAfter": (place.to_document()) };
        assert_eq!(parse(&resume).unwrap().from, From::Behind(place));
        assert_eq!(parse(&doc! {}).unwrap(), Options::default());
        let code = |specification: Document| parse(&specification).unwrap_err().code;
        let time = || RawValue::Timestamp(Timestamp::from_u64(7));
        assert_eq!(
            code(
                doc! { "resumeAfter": (place.to_document()), "startAfter": (place.to_document()) }
            ),
            50_865
        );
        assert_eq!(
            code(doc! { "resumeAfter": (place.to_document()), "startAtOperationTime": (time()) }),
            40_674
        );
        let invalidate = token(TokenKind::Invalidate);
        assert_eq!(
            code(doc! { "resumeAfter": (invalidate.to_document()) }),
            260
        );
        let after = doc! { "startAfter": (invalidate.to_document()) };
        assert_eq!(parse(&after).unwrap().from, From::Behind(invalidate));
    }

    #[test]
    fn null_is_an_option_that_is_not_there() {
        let place = token(TokenKind::Place);
        for name in [
            "fullDocument",
            "fullDocumentBeforeChange",
            "resumeAfter",
            "startAfter",
            "startAtOperationTime",
            "showExpandedEvents",
            "allChangesForCluster",
            "showSystemEvents",
        ] {
            let alone = doc! { (name): (RawValue::Null) };
            assert_eq!(parse(&alone).unwrap(), Options::default(), "{name}");
        }
        let beside = doc! { "resumeAfter": (place.to_document()), "startAfter": (RawValue::Null) };
        assert_eq!(parse(&beside).unwrap().from, From::Behind(place));
        let unknown = doc! { "bogus": (RawValue::Null) };
        assert_eq!(parse(&unknown).unwrap_err().code, 40_415);
    }

    #[test]
    fn options_that_are_not_known_or_not_served_are_refused() {
        let code = |specification: Document| parse(&specification).unwrap_err().code;
        assert_eq!(code(doc! { "fullDocument": "all" }), 2);
        assert_eq!(code(doc! { "fullDocument": 1 }), 14);
        assert_eq!(code(doc! { "bogus": 1 }), 40_415);
        assert_eq!(code(doc! { "showSystemEvents": true }), 238);
        assert_eq!(code(doc! { "startAtOperationTime": 5 }), 14);
    }
}
