//! The terms of any text: no text brings a stemmer down, every term is found again, and what indexes keep stays as it is.

use proptest::prelude::*;
use quarry_text::{Folded, Folding, Language, Search, Tokens};

const LANGUAGES: [&str; 16] = [
    "none", "da", "nl", "en", "fi", "fr", "de", "hu", "it", "nb", "pt", "ro", "ru", "es", "sv",
    "tr",
];

fn endless(_: usize) -> bool {
    false
}

fn terms(text: &str, language: Language, folding: Folding) -> Vec<String> {
    let mut tokens = Tokens::new(text, language, folding, endless);
    let mut terms = Vec::new();
    while let Some(term) = tokens.next_term() {
        terms.push(term.to_owned());
    }
    terms
}

/// The first 64 bits of FNV, which need no library.
fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
}

/// A change of this number says that terms are made that indexes do not have: then text indexes need a version of their own.
#[test]
fn the_tables_are_those_that_indexes_were_made_with() {
    let mut hash = 0xCBF2_9CE4_8422_2325;
    for character in (0..=0x10_FFFF).filter_map(char::from_u32) {
        let text = format!("x{character}x");
        for term in terms(&text, Language::NONE, Folding::default()) {
            add(&mut hash, term.as_bytes());
            add(&mut hash, b" ");
        }
    }
    assert_eq!(hash, 6_466_259_835_062_083_182, "the tables of characters");
    let mut hash = 0xCBF2_9CE4_8422_2325;
    let text = include_str!("words.txt");
    for name in LANGUAGES {
        let language = Language::find(name).unwrap();
        for term in terms(text, language, Folding::default()) {
            add(&mut hash, term.as_bytes());
            add(&mut hash, b" ");
        }
    }
    assert_eq!(
        hash, 7_562_880_388_987_782_099,
        "the stems and the words that are passed over"
    );
}

fn words() -> impl Strategy<Value = String> {
    let endings = prop::sample::select(vec![
        "ing",
        "ational",
        "ness",
        "lar",
        "ler",
        "isimo",
        "mente",
        "keit",
        "ование",
        "ität",
        "ssa",
        "iyoruz",
        "zione",
        "ului",
        "'s",
        "ß",
        "İ",
        "ﬁ",
        "\u{308}",
        "e\u{301}",
        "y",
        "yy",
        "ij",
        "que",
        "\u{0}",
        "𝕏",
        "nyi",
        "ció",
        "ene",
        "ått",
    ]);
    prop_oneof![
        "\\PC{0,40}",
        prop::collection::vec(endings, 0..8).prop_map(|parts| parts.concat()),
        "[a-zA-ZäöüßéèñçøåæőűșțğışА-я' -]{0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_brings_a_tokenizer_down(text in words(), language in 0..LANGUAGES.len(), keeps in any::<(bool, bool)>()) {
        let language = Language::find(LANGUAGES[language]).unwrap();
        let folding = Folding { keeps_case: keeps.0, keeps_diacritics: keeps.1 };
        let found = terms(&text, language, folding);
        prop_assert!(found.iter().all(|term| !term.is_empty()));
        let search = Search::parse(&text, language, folding, endless).unwrap();
        // What a text has is what a search for its words asks for, unless it has words that are not to be there.
        if !text.contains(['-', '"']) {
            let found: std::collections::BTreeSet<String> = found.into_iter().collect();
            prop_assert_eq!(search.terms, found);
        }
        let folded = Folded::new(&text, folding, language, endless);
        let again = Folded::new(folded.as_str(), folding, language, endless);
        prop_assert_eq!(folded.as_str(), again.as_str());
    }
}
