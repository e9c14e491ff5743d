//! The locales that MongoDB knows, by their ICU names, and the names of ICU4X for them.

/// MongoDB's locales, sorted.
static LOCALES: [&str; 109] = [
    "af",
    "am",
    "ar",
    "as",
    "az",
    "be",
    "bg",
    "bn",
    "bo",
    "bs",
    "bs_Cyrl",
    "ca",
    "chr",
    "cs",
    "cy",
    "da",
    "de",
    "de_AT",
    "dsb",
    "dz",
    "ee",
    "el",
    "en",
    "en_US",
    "en_US_POSIX",
    "eo",
    "es",
    "et",
    "fa",
    "fa_AF",
    "fi",
    "fil",
    "fo",
    "fr",
    "fr_CA",
    "ga",
    "gl",
    "gu",
    "ha",
    "haw",
    "he",
    "hi",
    "hr",
    "hsb",
    "hu",
    "hy",
    "id",
    "ig",
    "is",
    "it",
    "ja",
    "ka",
    "kk",
    "kl",
    "km",
    "kn",
    "ko",
    "kok",
    "ky",
    "lb",
    "lkt",
    "ln",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "mt",
    "my",
    "nb",
    "ne",
    "nl",
    "nn",
    "om",
    "or",
    "pa",
    "pl",
    "ps",
    "pt",
    "ro",
    "ru",
    "se",
    "si",
    "sk",
    "sl",
    "smn",
    "sq",
    "sr",
    "sr_Latn",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "to",
    "tr",
    "ug",
    "uk",
    "ur",
    "vi",
    "wae",
    "yi",
    "yo",
    "zh",
    "zh_Hant",
    "zu",
];

/// The variants that have data here: locale, MongoDB's name, ICU4X's name.
static VARIANTS: [(&str, &str, &str); 15] = [
    ("bn", "traditional", "trad"),
    ("de", "eor", "eor"),
    ("de", "phonebook", "phonebk"),
    ("de_AT", "phonebook", "phonebk"),
    ("es", "traditional", "trad"),
    ("fi", "traditional", "trad"),
    ("ja", "unihan", "unihan"),
    ("ko", "unihan", "unihan"),
    ("si", "dictionary", "dict"),
    ("vi", "traditional", "trad"),
    ("zh", "pinyin", "pinyin"),
    ("zh", "stroke", "stroke"),
    ("zh", "unihan", "unihan"),
    ("zh", "zhuyin", "zhuyin"),
    ("zh_Hant", "stroke", "stroke"),
];

/// The variants that MongoDB has for some locale and the library's data for none.
static VARIANTS_WITHOUT_DATA: [&str; 9] = [
    "big5han",
    "compat",
    "eor",
    "gb2312han",
    "phonetic",
    "reformed",
    "search",
    "searchjl",
    "traditional",
];

/// The locales for which ICU's rules say that text is normalized first. It always is here; it is only shown.
static NORMALIZED: [&str; 18] = [
    "as", "bn", "el", "fa", "fa_AF", "gu", "he", "hi", "kn", "kok", "ml", "mr", "or", "pa", "ta",
    "te", "th", "vi",
];

/// A locale as a client names it.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Its name as ICU4X has it.
    Known(String),
    /// MongoDB has the variant, and the library has no data of it.
    NoData,
    /// MongoDB does not have it under that name; perhaps it has this one.
    Unknown(Option<&'static str>),
}

/// Looks a locale up by the name that MongoDB gives it: `de`, `fr_CA`, `de@collation=phonebook`.
pub fn find(name: &str) -> Found {
    let (locale, variant) = match name.split_once("@collation=") {
        Some((locale, variant)) => (locale, Some(variant)),
        None => (name, None),
    };
    if LOCALES.binary_search(&locale).is_err() {
        return Found::Unknown(closest(locale));
    }
    let bcp_47 = locale.replace('_', "-");
    let Some(variant) = variant else {
        return Found::Known(bcp_47);
    };
    let mut known = VARIANTS.iter();
    match known.find(|(of, known, _)| *of == locale && *known == variant) {
        Some((_, _, name)) => Found::Known(format!("{bcp_47}-u-co-{name}")),
        None if VARIANTS_WITHOUT_DATA.contains(&variant) => Found::NoData,
        None => LOCALES
            .binary_search(&locale)
            .map_or(Found::Unknown(None), |place| {
                Found::Unknown(Some(LOCALES[place]))
            }),
    }
}

/// The known locale that ICU would fall back to: with `-` for `_`, in the usual case, and with parts at the end left off.
fn closest(name: &str) -> Option<&'static str> {
    let plain = name.split('@').next().unwrap_or_default().replace('-', "_");
    let mut part = plain.as_str();
    loop {
        let known = LOCALES
            .iter()
            .find(|known| known.eq_ignore_ascii_case(part));
        if let Some(known) = known {
            return Some(known);
        }
        part = part.rsplit_once('_')?.0;
    }
}

/// Whether ICU normalizes the text of that locale first.
pub fn is_normalized(name: &str) -> bool {
    let locale = name.split('@').next().unwrap_or_default();
    NORMALIZED.contains(&locale)
}

/// Whether accents count from the end of a text.
pub fn is_backwards(name: &str) -> bool {
    name == "fr_CA"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locales_are_sorted_and_what_is_unknown_is_told_its_neighbour() {
        assert!(LOCALES.is_sorted());
        assert!(NORMALIZED.iter().all(|name| LOCALES.contains(name)));
        assert!(VARIANTS.iter().all(|(of, ..)| LOCALES.contains(of)));
        assert_eq!(find("fr_CA"), Found::Known("fr-CA".to_owned()));
        assert_eq!(
            find("de@collation=phonebook"),
            Found::Known("de-u-co-phonebk".to_owned())
        );
        assert_eq!(find("zh@collation=big5han"), Found::NoData);
        assert_eq!(find("en-us"), Found::Unknown(Some("en_US")));
        assert_eq!(find("fr_FR"), Found::Unknown(Some("fr")));
        assert_eq!(find("xx"), Found::Unknown(None));
        assert_eq!(find(""), Found::Unknown(None));
        assert_eq!(find("de@collation=odd"), Found::Unknown(Some("de")));
    }
}
