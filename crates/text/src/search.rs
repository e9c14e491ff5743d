//! A search string: the terms and phrases that a document shall have, and those that it shall not have.
//!
//! `"` begins and ends a phrase, of which the words are terms, too. A hyphen at the beginning of a word says that what follows up to the next
//! white space shall not be there: `-rock`, `-rock-pop`, `-"hard rock"`. Elsewhere it divides words.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Folding, Language, Pace, Tokens};

/// The terms that a search string may ask for, each of which is a range of keys to be read.
pub const TERMS_MAX: usize = 4096;

/// Bytes of a word that are passed over between two looks at the pace.
const BYTES_AT_ONCE: usize = 65_536;

/// A search string as it was parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The terms by which an index finds documents: without case and diacritics.
    pub keys: BTreeSet<String>,
    /// The terms one of which a document shall have, with the differences that count.
    pub terms: BTreeSet<String>,
    /// The terms that a document shall not have.
    pub negated_terms: BTreeSet<String>,
    /// The phrases that a document shall have, as they stand.
    pub phrases: Vec<String>,
    /// The phrases that a document shall not have.
    pub negated_phrases: Vec<String>,
}

/// A search string asks for more than [`TERMS_MAX`] terms.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyTerms;

impl fmt::Display for TooManyTerms {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a $search has more than {TERMS_MAX} terms or phrases")
    }
}

impl Search {
    /// Parses a search string in a language.
    pub fn parse(
        text: &str,
        language: Language,
        folding: Folding,
        pace: Pace,
    ) -> Result<Search, TooManyTerms> {
        let parts = Parts::of(text, pace)?;
        let mut search = Search {
            keys: terms_of(&parts.wanted, language, Folding::default(), pace)?,
            terms: terms_of(&parts.wanted, language, folding, pace)?,
            negated_terms: terms_of(&parts.unwanted, language, folding, pace)?,
            ..Search::default()
        };
        for (phrase, is_negated) in parts.phrases {
            match is_negated {
                true => search.negated_phrases.push(phrase.to_owned()),
                false => search.phrases.push(phrase.to_owned()),
            }
        }
        Ok(search)
    }
}

/// The words and phrases of a search string.
#[derive(Default)]
struct Parts<'t> {
    wanted: String,
    unwanted: String,
    phrases: Vec<(&'t str, bool)>,
}

impl<'t> Parts<'t> {
    /// Goes through a search string byte by byte: what divides it is ASCII.
    fn of(text: &'t str, pace: Pace) -> Result<Parts<'t>, TooManyTerms> {
        let mut parts = Parts::default();
        let mut phrase: Option<usize> = None;
        let (mut is_negated, mut is_at_beginning) = (false, true);
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            match bytes[at] {
                byte if is_space(byte) => {
                    is_at_beginning = true;
                    at += 1;
                    continue;
                }
                byte => {
                    // The negation ends with the white space before this, unless that is within its phrase.
                    is_negated &= !is_at_beginning || phrase.is_some();
                    at += 1;
                    match byte {
                        b'-' if phrase.is_none() && is_at_beginning => is_negated = true,
                        b'-' => {}
                        b'"' => match phrase.take() {
                            None => phrase = Some(at),
                            Some(begin) => parts.add_phrase(&text[begin..start], is_negated)?,
                        },
                        _ => {
                            at += length_of_word(&bytes[at..], pace);
                            let word = &text[start..at];
                            parts.add_word(word, is_negated, phrase.is_some());
                        }
                    }
                }
            }
            is_at_beginning = false;
            if pace(1 + (at - start) / 8) {
                break;
            }
        }
        Ok(parts)
    }

    fn add_word(&mut self, word: &str, is_negated: bool, is_in_phrase: bool) {
        let words = match (is_negated, is_in_phrase) {
            // A document may have the words of a phrase that it shall not have.
            (true, true) => return,
            (true, false) => &mut self.unwanted,
            (false, _) => &mut self.wanted,
        };
        words.push_str(word);
        words.push(' ');
    }

    fn add_phrase(&mut self, phrase: &'t str, is_negated: bool) -> Result<(), TooManyTerms> {
        if self.phrases.len() == TERMS_MAX {
            return Err(TooManyTerms);
        }
        self.phrases.push((phrase, is_negated));
        Ok(())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0B | 0x0C | b'\r')
}

/// The length of the word that the bytes begin with, or of a part of it, where the work is to end.
fn length_of_word(bytes: &[u8], pace: Pace) -> usize {
    let ends = |byte: &u8| is_space(*byte) || matches!(byte, b'-' | b'"');
    let mut passed = 0;
    for some in bytes.chunks(BYTES_AT_ONCE) {
        if let Some(end) = some.iter().position(ends) {
            return passed + end;
        }
        passed += some.len();
        if pace(some.len() / 8) {
            break;
        }
    }
    // A word is cut between two characters.
    match bytes[passed..].first() {
        Some(byte) if !byte.is_ascii() => bytes.len(),
        _ => passed,
    }
}

fn terms_of(
    text: &str,
    language: Language,
    folding: Folding,
    pace: Pace,
) -> Result<BTreeSet<String>, TooManyTerms> {
    let mut terms = BTreeSet::new();
    let mut tokens = Tokens::new(text, language, folding, pace);
    while let Some(term) = tokens.next_term() {
        if !terms.contains(term) {
            if terms.len() == TERMS_MAX {
                return Err(TooManyTerms);
            }
            terms.insert(term.to_owned());
        }
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let search = Search::parse(text, Language::ENGLISH, Folding::default(), |_| false).unwrap();
        assert_eq!(search.keys, search.terms);
        let list = |terms: &BTreeSet<String>| terms.iter().cloned().collect::<Vec<_>>().join(" ");
        format!(
            "{} | {} | {} | {}",
            list(&search.terms),
            list(&search.negated_terms),
            search.phrases.join("/"),
            search.negated_phrases.join("/")
        )
    }

    #[test]
    fn what_is_wanted_and_what_is_not() {
        for (text, parsed) in [
            ("java coffee shop", "coffe java shop |  |  | "),
            ("coffee -shop", "coffe | shop |  | "),
            (
                "\"coffee shop\" cake",
                "cake coffe shop |  | coffee shop | ",
            ),
            ("cake -\"coffee shop\"", "cake |  |  | coffee shop"),
            ("pre-market", "market pre |  |  | "),
            ("-really-fun stuff", "stuff | fun realli |  | "),
            ("- fun", "fun |  |  | "),
            ("-\"a b\"-\"c d\" e", "e |  |  | a b/c d"),
            ("\"never ends", "end never |  |  | "),
            ("\"a - b\" x", "b x |  | a - b | "),
            ("\"-x\" z", "x z |  | -x | "),
            ("-\t-x", " | x |  | "),
            ("the of and", " |  |  | "),
            ("", " |  |  | "),
            ("\"\"", " |  |  | "),
            ("Ünïcödé\u{3000}wörds", "unicode words |  |  | "),
        ] {
            assert_eq!(shown(text), parsed, "{text}");
        }
    }

    #[test]
    fn terms_are_bounded() {
        let many: String = (0..5000).map(|number| format!("w{number} ")).collect();
        let parsed = Search::parse(&many, Language::NONE, Folding::default(), |_| false);
        assert_eq!(parsed, Err(TooManyTerms));
    }
}
