//! Any text as a search string, in any language: it has terms and phrases of its own, and a text that is divided into words has the
//! terms that a search for it asks for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_text::{Folded, Folding, Language, Search, Tokens};

const LANGUAGES: [&str; 16] = [
    "none", "da", "nl", "en", "fi", "fr", "de", "hu", "it", "nb", "pt", "ro", "ru", "es", "sv", "tr",
];

fuzz_target!(|bytes: &[u8]| {
    let [options, text @ ..] = bytes else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Some(language) = Language::find(LANGUAGES[usize::from(options & 15)]) else {
        return;
    };
    let folding = Folding {
        keeps_case: options & 16 != 0,
        keeps_diacritics: options & 32 != 0,
    };
    let endless = |_| false;
    let Ok(search) = Search::parse(text, language, folding, endless) else {
        return;
    };
    for phrase in search.phrases.iter().chain(&search.negated_phrases) {
        assert!(text.contains(phrase.as_str()) && !phrase.contains('"'));
    }
    let folded = Folded::new(text, folding, language, endless);
    assert_eq!(Folded::new(folded.as_str(), folding, language, endless).as_str(), folded.as_str());
    let mut tokens = Tokens::new(text, language, folding, endless);
    while let Some(term) = tokens.next_term() {
        // Words of phrases and those that shall not be there are terms of a text all the same.
        assert!(text.contains(['-', '"']) || search.terms.contains(term), "{term}");
    }
});
