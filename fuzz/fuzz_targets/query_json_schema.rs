//! Any document as a `$jsonSchema`: it is refused, or asked of any other document, which it takes or tells what is wrong with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::{Document, RawDocument};
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::Matcher;

fuzz_target!(|bytes: &[u8]| {
    let Some((schema, rest)) = RawDocument::split_first(bytes) else {
        return;
    };
    let (Ok(schema), Ok(document)) = (
        RawDocument::validated(schema.as_bytes()),
        RawDocument::validated(rest),
    ) else {
        return;
    };
    let filter = Document::build(|out| {
        out.append("$jsonSchema", schema);
    });
    let Ok(matcher) = Matcher::parse(filter.as_raw()) else {
        return;
    };
    if matcher.try_matches(document) == Ok(false) {
        let context = ExpressionContext::default();
        // A pattern that takes too much work is no failure of the document.
        if let Ok(failure) = Matcher::failure(filter.as_raw(), document, &context) {
            RawDocument::validated(failure.as_bytes()).unwrap();
        }
    }
});
