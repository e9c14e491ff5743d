//! The terms of a text, one after the other.

use rust_stemmers::Stemmer;

use crate::characters::{divides, push_lower, push_without_diacritics};
use crate::{Folding, Language, Pace};

/// A longer word has no ending that is cut: its stem would be found in time that grows faster than the word.
pub const STEMMED_BYTES_MAX: usize = 256;

/// The work of making a term of a word, beside that of its characters.
const UNITS_OF_A_WORD: usize = 15;

/// Characters that are passed over between two looks at the pace.
const CHARACTERS_AT_ONCE: usize = 4096;

/// A walk through a text that gives a term for each word that carries a meaning.
pub struct Tokens<'t> {
    text: &'t str,
    /// Where the next word is looked for.
    at: usize,
    language: Language,
    folding: Folding,
    stemmer: Option<Stemmer>,
    pace: Pace,
    lower: String,
    term: String,
}

impl<'t> Tokens<'t> {
    /// The terms of a text in a language. With differences that count, terms that differ in them are different.
    pub fn new(text: &'t str, language: Language, folding: Folding, pace: Pace) -> Tokens<'t> {
        Tokens {
            text,
            at: 0,
            language,
            folding,
            stemmer: language.stemmer(),
            pace,
            lower: String::new(),
            term: String::new(),
        }
    }

    /// The next term; none at the end of the text, or where the work is to end.
    pub fn next_term(&mut self) -> Option<&str> {
        loop {
            let word = self.next_word()?;
            if (self.pace)(UNITS_OF_A_WORD + word.len()) {
                return None;
            }
            self.lower.clear();
            push_lower(word, self.language, self.pace, &mut self.lower);
            if self.language.passes_over(&self.lower) {
                continue;
            }
            self.make_term(word);
            // A word of nothing but diacritics.
            if !self.term.is_empty() {
                return Some(&self.term);
            }
        }
    }

    fn make_term(&mut self, word: &str) {
        let word = match self.folding.keeps_case {
            true => word,
            false => &self.lower,
        };
        // Endings are known with their diacritics.
        let stem = match &self.stemmer {
            Some(stemmer) if word.len() <= STEMMED_BYTES_MAX => stemmer.stem(word),
            _ => word.into(),
        };
        self.term.clear();
        match self.folding.keeps_diacritics {
            true => self.term.push_str(&stem),
            false => push_without_diacritics(&stem, self.pace, &mut self.term),
        }
    }

    /// The next word as it stands.
    fn next_word(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let language = self.language;
        let start = self.position(rest, |character| !divides(character, language));
        let Some(start) = start else {
            self.at = self.text.len();
            return None;
        };
        let rest = &rest[start..];
        let end = self.position(rest, |character| divides(character, language));
        let end = end.unwrap_or(rest.len());
        self.at += start + end;
        Some(&rest[..end])
    }

    /// Where the first character is that is wanted; none, too, where the work is to end.
    fn position(&self, text: &str, is_wanted: impl Fn(char) -> bool) -> Option<usize> {
        for (number, (place, character)) in text.char_indices().enumerate() {
            if is_wanted(character) {
                return Some(place);
            }
            if number % CHARACTERS_AT_ONCE == CHARACTERS_AT_ONCE - 1
                && (self.pace)(CHARACTERS_AT_ONCE)
            {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str, language: &str, folding: Folding) -> Vec<String> {
        let language = Language::find(language).unwrap();
        let mut tokens = Tokens::new(text, language, folding, |_| false);
        let mut terms = Vec::new();
        while let Some(term) = tokens.next_term() {
            terms.push(term.to_owned());
        }
        terms
    }

    #[test]
    fn words_become_terms() {
        let plain = Folding::default();
        assert_eq!(
            terms("Do you see Mark's dogs running?", "english", plain),
            ["see", "mark", "dog", "run"]
        );
        assert_eq!(
            terms("The quick-brown FOX's", "none", plain),
            ["the", "quick", "brown", "fox", "s"]
        );
        assert_eq!(terms("don't it's THE", "en", plain), [""; 0]);
        assert_eq!(
            terms("l'épée des châteaux", "french", plain),
            ["epe", "chateau"]
        );
        assert_eq!(terms("Die Häuser", "german", plain), ["haus"]);
        assert_eq!(terms("пожилые люди", "russian", plain), ["пожил", "люд"]);
        assert_eq!(terms("", "english", plain), [""; 0]);
        assert_eq!(terms(" -- ", "english", plain), [""; 0]);
        assert_eq!(terms("\u{301}", "none", plain), [""; 0]);
    }

    #[test]
    fn differences_that_count_stay() {
        let case = Folding {
            keeps_case: true,
            keeps_diacritics: false,
        };
        assert_eq!(
            terms("Cafés CAFÉ the The", "english", case),
            ["Cafe", "CAFE"]
        );
        let marks = Folding {
            keeps_case: false,
            keeps_diacritics: true,
        };
        assert_eq!(terms("Cafés CAFÉ", "english", marks), ["café", "café"]);
    }

    #[test]
    fn a_long_word_takes_time_by_its_length() {
        let long = "yay".repeat(1 << 20);
        assert_eq!(terms(&long, "english", Folding::default()), [long]);
        let endless = "a".repeat(1 << 20);
        let mut tokens = Tokens::new(&endless, Language::ENGLISH, Folding::default(), |_| true);
        assert_eq!(tokens.next_term(), None);
    }
}
