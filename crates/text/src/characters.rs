//! Single characters: whether they divide words, their small forms, and what they are without diacritics.
//!
//! A word ends at a character with one of Unicode's properties Dash, Hyphen, Pattern_Syntax, Quotation_Mark, Terminal_Punctuation and
//! White_Space. A character without diacritics is the first one of its canonical decomposition, as long as all that
//! follows there has the property Diacritic; a character that has that property itself is none.

use std::sync::LazyLock;

use icu_normalizer::properties::{CanonicalDecompositionBorrowed, Decomposed};
use icu_properties::CodePointSetData;
use icu_properties::props::{
    Dash, Diacritic, Hyphen, PatternSyntax, QuotationMark, TerminalPunctuation, WhiteSpace,
};

use crate::{Language, Pace};

/// Characters up to here are looked up; further ones are rare, and computed.
const TABLE_CHARACTERS: u32 = 0x1_0000;

/// Characters that are folded between two looks at the pace, and the work of one.
const FOLDED_AT_ONCE: usize = 1024;
const UNITS_OF_SOME: usize = 2 * FOLDED_AT_ONCE;

struct Tables {
    /// A bit for each character that divides words.
    delimiters: Vec<u64>,
    /// Each character without diacritics; 0 where nothing is left.
    bases: Vec<u16>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables {
        delimiters: vec![0; TABLE_CHARACTERS as usize / 64],
        bases: Vec::with_capacity(TABLE_CHARACTERS as usize),
    };
    for number in 0..TABLE_CHARACTERS {
        let character = char::from_u32(number);
        if character.is_some_and(has_dividing_property) {
            tables.delimiters[number as usize / 64] |= 1 << (number % 64);
        }
        let base = character.and_then(without_marks).map_or(0, u32::from);
        // A few ideographs stand for others beyond the table: these stay as they are.
        let base = u16::try_from(base).unwrap_or(number as u16);
        tables.bases.push(base);
    }
    tables
});

fn has_dividing_property(character: char) -> bool {
    CodePointSetData::new::<Dash>().contains(character)
        || CodePointSetData::new::<Hyphen>().contains(character)
        || CodePointSetData::new::<PatternSyntax>().contains(character)
        || CodePointSetData::new::<QuotationMark>().contains(character)
        || CodePointSetData::new::<TerminalPunctuation>().contains(character)
        || CodePointSetData::new::<WhiteSpace>().contains(character)
}

/// Takes the marks off a character, from the last one on; none is left of a mark.
fn without_marks(character: char) -> Option<char> {
    let marks = CodePointSetData::new::<Diacritic>();
    let decompositions = CanonicalDecompositionBorrowed::new();
    let mut base = character;
    loop {
        match decompositions.decompose(base) {
            Decomposed::Singleton(other) => base = other,
            Decomposed::Expansion(first, second) if marks.contains(second) => base = first,
            Decomposed::Expansion(..) | Decomposed::Default => break,
        }
    }
    (!marks.contains(base)).then_some(base)
}

/// Whether words end at the character.
pub(crate) fn divides(character: char, language: Language) -> bool {
    let number = u32::from(character);
    if character == '\'' && language.keeps_apostrophes() {
        return false;
    }
    match number < TABLE_CHARACTERS {
        true => TABLES.delimiters[number as usize / 64] & (1 << (number % 64)) != 0,
        false => has_dividing_property(character),
    }
}

fn base_of(character: char) -> Option<char> {
    let number = u32::from(character);
    match number < TABLE_CHARACTERS {
        true => {
            char::from_u32(u32::from(TABLES.bases[number as usize])).filter(|base| *base != '\0')
        }
        false => without_marks(character),
    }
}

/// The differences between characters that count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Folding {
    /// Capitals differ from small letters.
    pub keeps_case: bool,
    /// Letters with diacritics differ from those without.
    pub keeps_diacritics: bool,
}

/// Appends the small form of a character.
fn push_small(character: char, language: Language, out: &mut String) {
    match character {
        'I' if language.has_dotless_i() => out.push('ı'),
        'İ' if language.has_dotless_i() => out.push('i'),
        _ if character.is_ascii() => out.push(character.to_ascii_lowercase()),
        _ => out.extend(character.to_lowercase()),
    }
}

/// Appends a part of a text in lower case. It is looked at the pace where a part is long.
pub(crate) fn push_lower(text: &str, language: Language, pace: Pace, out: &mut String) {
    for (number, character) in text.chars().enumerate() {
        if number % FOLDED_AT_ONCE == FOLDED_AT_ONCE - 1 && pace(UNITS_OF_SOME) {
            return;
        }
        push_small(character, language, out);
    }
}

/// Appends a part of a text without diacritics.
pub(crate) fn push_without_diacritics(text: &str, pace: Pace, out: &mut String) {
    for (number, character) in text.chars().enumerate() {
        if number % FOLDED_AT_ONCE == FOLDED_AT_ONCE - 1 && pace(UNITS_OF_SOME) {
            return;
        }
        match character.is_ascii() && !matches!(character, '^' | '`') {
            true => out.push(character),
            false => out.extend(base_of(character)),
        }
    }
}

/// A text without the differences that do not count, in which phrases are looked for.
#[derive(Debug)]
pub struct Folded(String);

impl Folded {
    /// Folds a text.
    pub fn new(text: &str, folding: Folding, language: Language, pace: Pace) -> Folded {
        let mut lower = String::with_capacity(text.len());
        match folding.keeps_case {
            true => lower.push_str(text),
            false => push_lower(text, language, pace, &mut lower),
        }
        if folding.keeps_diacritics {
            return Folded(lower);
        }
        let mut folded = String::with_capacity(lower.len());
        push_without_diacritics(&lower, pace, &mut folded);
        Folded(folded)
    }

    /// The text as it is now.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, folding: Folding) -> String {
        let language = Language::ENGLISH;
        Folded::new(text, folding, language, |_| false)
            .as_str()
            .to_owned()
    }

    #[test]
    fn differences_that_do_not_count_are_gone() {
        let nothing_counts = Folding::default();
        assert_eq!(folded("Crème BRÛLÉE, Ǘ", nothing_counts), "creme brulee, u");
        assert_eq!(folded("e\u{301}Å\u{212B}", nothing_counts), "eaa");
        assert_eq!(
            folded("한글 が \u{FACF}", nothing_counts),
            "한글 か \u{FACF}"
        );
        let case = Folding {
            keeps_case: true,
            ..nothing_counts
        };
        assert_eq!(folded("Crème BRÛLÉE", case), "Creme BRULEE");
        let marks = Folding {
            keeps_diacritics: true,
            ..nothing_counts
        };
        assert_eq!(folded("Crème BRÛLÉE", marks), "crème brûlée");
        let turkish = Language::find("tr").unwrap();
        let text = Folded::new("ISPARTA İ", marks, turkish, |_| false);
        assert_eq!(text.as_str(), "ısparta i");
    }

    #[test]
    fn words_end_where_unicode_says_so() {
        for character in " \t\n.,;:!?-–—«»„“”\"()[]{}<>|/\\$%&=+*~^`@#。、".chars() {
            assert!(divides(character, Language::ENGLISH), "{character:?}");
        }
        for character in "aäß0_語한\u{301}🎉x".chars().filter(|c| *c != '🎉') {
            assert!(!divides(character, Language::ENGLISH), "{character:?}");
        }
        assert!(!divides('\'', Language::ENGLISH));
        assert!(divides('\'', Language::NONE));
    }
}
