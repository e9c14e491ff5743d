//! Any document as an update: it is refused, or makes of a document another one that is BSON, and of an upsert's filter, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::{RawDocument, RawValue};
use quarry_query::matcher::{MatchDetails, Matcher};
use quarry_query::update::Update;

#[path = "../request_lines.rs"]
mod request_lines;

fuzz_target!(|text: &str| {
    let Some((request, document)) = request_lines::parse(text) else {
        return;
    };
    // An update alone, or `{update: ..., arrayFilters: [...]}`.
    let update = request
        .get("update")
        .unwrap_or(RawValue::Document(request.as_raw()));
    let filters = request
        .get("arrayFilters")
        .and_then(|filters| filters.as_array());
    let Ok(update) = Update::parse_with(update, filters) else {
        return;
    };
    let details = MatchDetails {
        array_index: Some(0),
    };
    let mut out = Vec::new();
    if update
        .apply(document.as_raw(), &details, false, 0, &mut out)
        .is_ok()
    {
        RawDocument::validated(&out).unwrap();
    }
    if let Ok(filter) = Matcher::parse(document.as_raw())
        && let Ok(made) = update.upsert_document(&filter, 0)
    {
        RawDocument::validated(made.as_bytes()).unwrap();
    }
});
