//! Any document as a projection and as a sort: it is refused, or makes of a document another one that is BSON, or a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::RawDocument;
use quarry_query::matcher::MatchDetails;
use quarry_query::projection::Projection;
use quarry_query::sort::SortPattern;

#[path = "../request_lines.rs"]
mod request_lines;

fuzz_target!(|text: &str| {
    let Some((request, document)) = request_lines::parse(text) else {
        return;
    };
    let details = MatchDetails {
        array_index: Some(0),
    };
    if let Ok(projection) = Projection::parse(request.as_raw(), None) {
        let mut out = Vec::new();
        if projection
            .project(document.as_raw(), &details, &mut out)
            .is_ok()
        {
            RawDocument::validated(&out).unwrap();
        }
    }
    if let Ok(pattern) = SortPattern::parse(request.as_raw()) {
        let _ = pattern.key(document.as_raw(), &mut Vec::new());
    }
});
