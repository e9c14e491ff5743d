//! Languages of texts: their names, the words that they pass over, and how they cut endings.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// A language whose words are known, or none.
#[derive(Debug, Clone, Copy)]
pub struct Language(&'static Row);

#[derive(Debug)]
struct Row {
    name: &'static str,
    /// The code of ISO 639-1, by which the lists of words know it, too.
    code: &'static str,
    stemmer: Option<Algorithm>,
    stop_words: LazyLock<HashSet<&'static str>>,
}

const fn row(
    name: &'static str,
    code: &'static str,
    stemmer: Algorithm,
    stop_words: fn() -> HashSet<&'static str>,
) -> Row {
    Row {
        name,
        code,
        stemmer: Some(stemmer),
        stop_words: LazyLock::new(stop_words),
    }
}

/// The words that carry no meaning in the language with a code.
fn words_of(code: &str) -> HashSet<&'static str> {
    let words = stop_words::lookup(code).unwrap_or_default();
    words.iter().copied().collect()
}

static ROWS: [Row; 16] = [
    row("english", "en", Algorithm::English, || words_of("en")),
    row("danish", "da", Algorithm::Danish, || words_of("da")),
    row("dutch", "nl", Algorithm::Dutch, || words_of("nl")),
    row("finnish", "fi", Algorithm::Finnish, || words_of("fi")),
    row("french", "fr", Algorithm::French, || words_of("fr")),
    row("german", "de", Algorithm::German, || words_of("de")),
    row("hungarian", "hu", Algorithm::Hungarian, || words_of("hu")),
    row("italian", "it", Algorithm::Italian, || words_of("it")),
    row("norwegian", "nb", Algorithm::Norwegian, || words_of("no")),
    row("portuguese", "pt", Algorithm::Portuguese, || words_of("pt")),
    row("romanian", "ro", Algorithm::Romanian, || words_of("ro")),
    row("russian", "ru", Algorithm::Russian, || words_of("ru")),
    row("spanish", "es", Algorithm::Spanish, || words_of("es")),
    row("swedish", "sv", Algorithm::Swedish, || words_of("sv")),
    row("turkish", "tr", Algorithm::Turkish, || words_of("tr")),
    Row {
        name: "none",
        code: "none",
        stemmer: None,
        stop_words: LazyLock::new(HashSet::new),
    },
];

impl Language {
    /// English, which a text index has unless it says otherwise.
    pub const ENGLISH: Language = Language(&ROWS[0]);
    /// No language: every word is a term as it stands.
    pub const NONE: Language = Language(&ROWS[15]);

    /// The language with this name or ISO code, whatever the case of its letters.
    pub fn find(name: &str) -> Option<Language> {
        let is_meant =
            |row: &&Row| row.name.eq_ignore_ascii_case(name) || row.code.eq_ignore_ascii_case(name);
        ROWS.iter().find(is_meant).map(Language)
    }

    /// Its name in English, in lower case.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether a word in lower case carries no meaning.
    pub fn passes_over(self, word: &str) -> bool {
        self.0.stop_words.contains(word)
    }

    /// Cuts the ending off words.
    pub(crate) fn stemmer(self) -> Option<Stemmer> {
        self.0.stemmer.map(Stemmer::create)
    }

    /// Whether an apostrophe is a part of a word.
    pub(crate) fn keeps_apostrophes(self) -> bool {
        self.0.code == "en"
    }

    /// Whether `I` is the capital of a letter without a dot.
    pub fn has_dotless_i(self) -> bool {
        self.0.code == "tr"
    }
}

impl PartialEq for Language {
    fn eq(&self, other: &Language) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Language {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_words_that_it_passes_over() {
        for row in ROWS.iter().filter(|row| row.stemmer.is_some()) {
            let language = Language::find(row.name).unwrap();
            assert_eq!(Language::find(row.code), Some(language));
            assert!(language.0.stop_words.len() > 40, "{}", row.name);
            // Words with capitals would never be met.
            let is_lower = |word: &&str| word.to_lowercase() == **word;
            assert!(language.0.stop_words.iter().all(is_lower), "{}", row.name);
        }
        assert!(!Language::NONE.passes_over("the"));
        assert_eq!(Language::find("English"), Some(Language::ENGLISH));
        assert_eq!(Language::find("klingon"), None);
    }
}
