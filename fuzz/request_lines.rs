//! The input of the targets of the query language: lines of Extended JSON, so that a change of a byte is most often a document again.
//! `language.dict` has the names that the language knows.

use quarry_bson::{Document, extjson};

/// Parses a request and the document that it is asked of.
pub fn parse(text: &str) -> Option<(Document, Document)> {
    let (request, stored) = text.split_once('\n')?;
    Some((extjson::parse(request).ok()?, extjson::parse(stored).ok()?))
}
