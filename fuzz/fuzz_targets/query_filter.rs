//! Any document as a filter: it is refused, or answers, and what it does not match matches its contrary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::doc;
use quarry_query::matcher::Matcher;

#[path = "../request_lines.rs"]
mod request_lines;

fuzz_target!(|text: &str| {
    let Some((filter, document)) = request_lines::parse(text) else {
        return;
    };
    let Ok(matcher) = Matcher::parse(filter.as_raw()) else {
        return;
    };
    let Ok(matches) = matcher.try_matches(document.as_raw()) else {
        return;
    };
    let shown = filter.to_string();
    if ["$rand", "$sampleRate"]
        .iter()
        .any(|name| shown.contains(name))
    {
        return;
    }
    // A filter at the greatest depth has no contrary, and some operators stand at the top alone.
    let contrary = doc! { "$nor": [(filter)] };
    if let Ok(contrary) = Matcher::parse(contrary.as_raw())
        && let Ok(contrary) = contrary.try_matches(document.as_raw())
    {
        assert_ne!(contrary, matches);
    }
});
