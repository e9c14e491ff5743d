//! The promises of a collation: comparing two values, and comparing the keys of the values that an index keeps in their place, is
//! one thing, whatever the locale and its options; equal values hash alike; strings compare as the library compares them.

use std::cmp::Ordering;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use icu_collator::CollatorBorrowed;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_locale_core::Locale;
use proptest::prelude::*;
use quarry_bson::compare::compare_values;
use quarry_bson::{Document, RawStr, RawValue, Value, doc, extjson};
use quarry_collation::{Collation, SHOWN_VERSION, SORT_KEYS_VERSION};

/// Collations of several scripts, with each option away from its default in one of them.
fn specifications() -> Vec<Document> {
    vec![
        doc! { "locale": "en" },
        doc! { "locale": "en", "strength": 1 },
        doc! { "locale": "en_US", "strength": 2 },
        doc! { "locale": "de", "strength": 1, "caseLevel": true },
        doc! { "locale": "de@collation=phonebook", "strength": 4, "alternate": "shifted" },
        doc! { "locale": "fr_CA" },
        doc! { "locale": "sv", "caseFirst": "upper" },
        doc! { "locale": "da", "strength": 5 },
        doc! { "locale": "es@collation=traditional", "numericOrdering": true },
        doc! { "locale": "tr", "alternate": "shifted", "maxVariable": "space" },
        doc! { "locale": "ja", "strength": 4 },
        doc! { "locale": "zh" },
        doc! { "locale": "th" },
        doc! { "locale": "vi", "normalization": true },
        doc! { "locale": "en_US_POSIX" },
    ]
}

fn collation(specification: &Document) -> Collation {
    Collation::parse(specification.as_raw())
        .unwrap_or_else(|error| panic!("{specification}: {error}"))
}

/// Letters that locales treat differently, with and without case, accents, digits, blanks, and what is no text at all.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![
        12 => prop::sample::select(vec![
            "a", "A", "b", "B", "c", "ch", "Ch", "o", "ö", "Ö", "oe", "ss", "ß", "é", "e\u{301}", "ê", "n", "ñ", "i", "I", "ı",
            "İ", "å", "aa", "ll", "z", "Z", "1", "2", "10", "09", " ", "-", "_", ".", "'", "\u{200d}", "あ", "ア", "ｱ", "ー",
            "中", "文", "ก", "เ", "đ", "한", "α", "Σ", "ς", "я", "Я", "ё", "\u{1f600}",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<char>().prop_map(|letter| letter.to_string().into_bytes()),
        1 => Just(vec![0]),
        1 => Just(vec![0xff]),
    ];
    prop::collection::vec(letter, 0..6).prop_map(|letters| letters.concat())
}

/// Strings, and values that hold some.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        8 => text().prop_map(|text| Value::from(RawValue::String(RawStr::from_bytes(&text)))),
        1 => text().prop_map(|text| Value::from(RawValue::Symbol(RawStr::from_bytes(&text)))),
        1 => (0..3).prop_map(Value::from),
        1 => Just(Value::from(1.0)),
        1 => Just(Value::null()),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(vec!["a", "b"]), inner), 0..3).prop_map(
                |fields| {
                    let mut document = Document::new();
                    for (name, value) in &fields {
                        document.append(*name, value);
                    }
                    Value::from(document)
                }
            ),
        ]
    })
}

fn kept(collation: &Collation, value: &Value) -> Value {
    let kept = collation.index_value(value.as_raw());
    kept.unwrap_or_else(|| value.clone())
}

fn hash(collation: &Collation, value: &Value) -> u64 {
    let mut state = DefaultHasher::new();
    collation.hash(value.as_raw(), &mut state);
    state.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_compare_as_what_an_index_keeps_of_them(
        specification in prop::sample::select(specifications()),
        a in value(),
        b in value(),
    ) {
        let collation = collation(&specification);
        let order = collation.compare(a.as_raw(), b.as_raw());
        let (kept_a, kept_b) = (kept(&collation, &a), kept(&collation, &b));
        prop_assert_eq!(order, compare_values(kept_a.as_raw(), kept_b.as_raw()), "{} and {} by {}", a, b, specification);
        prop_assert_eq!(order.reverse(), collation.compare(b.as_raw(), a.as_raw()));
        if order == Ordering::Equal {
            prop_assert_eq!(hash(&collation, &a), hash(&collation, &b), "{} and {} by {}", a, b, specification);
        }
    }

    #[test]
    fn the_simple_collation_is_the_order_of_bson(a in value(), b in value()) {
        let simple = Collation::SIMPLE;
        prop_assert_eq!(simple.compare(a.as_raw(), b.as_raw()), compare_values(a.as_raw(), b.as_raw()));
        prop_assert!(simple.index_value(a.as_raw()).is_none());
    }

    /// Against collators of the library that are made by hand.
    #[test]
    fn strings_compare_as_the_library_compares_them(a in text(), b in text()) {
        let library = |locale: &str, set: fn(&mut CollatorOptions)| {
            let locale: Locale = locale.parse().unwrap();
            let mut options = CollatorOptions::default();
            set(&mut options);
            CollatorBorrowed::try_new((&locale).into(), options).unwrap()
        };
        let pairs = [
            (doc! { "locale": "fr_CA" }, library("fr-CA", |_| {})),
            (doc! { "locale": "de", "strength": 2 }, library("de", |options| options.strength = Some(Strength::Secondary))),
            (doc! { "locale": "da", "strength": 5 }, library("da", |options| options.strength = Some(Strength::Identical))),
            (doc! { "locale": "en", "strength": 1, "caseLevel": true, "alternate": "shifted" }, library("en", |options| {
                options.strength = Some(Strength::Primary);
                options.case_level = Some(CaseLevel::On);
                options.alternate_handling = Some(AlternateHandling::Shifted);
            })),
        ];
        for (specification, library) in pairs {
            let ours = collation(&specification);
            let string = |text: &[u8]| Value::from(RawValue::String(RawStr::from_bytes(text)));
            let order = ours.compare(string(&a).as_raw(), string(&b).as_raw());
            prop_assert_eq!(order, library.compare_utf8(&a, &b), "{}", specification);
        }
    }
}

#[test]
fn a_specification_is_completed_with_the_defaults_of_its_locale() {
    let whole = |specification: Document| {
        let collation = collation(&specification);
        extjson::relaxed(collation.specification().unwrap().as_raw())
    };
    assert_eq!(
        whole(doc! { "locale": "en" }),
        r#"{"locale":"en","caseLevel":false,"caseFirst":"off","strength":3,"numericOrdering":false,"alternate":"non-ignorable","maxVariable":"punct","normalization":false,"backwards":false,"version":"57.1"}"#
    );
    assert_eq!(
        whole(doc! { "locale": "fr_CA", "strength": 2.0, "numericOrdering": true }),
        r#"{"locale":"fr_CA","caseLevel":false,"caseFirst":"off","strength":2,"numericOrdering":true,"alternate":"non-ignorable","maxVariable":"punct","normalization":false,"backwards":true,"version":"57.1"}"#
    );
    assert!(whole(doc! { "locale": "da" }).contains(r#""caseFirst":"upper""#));
    assert!(
        whole(doc! { "locale": "th" })
            .contains(r#""alternate":"shifted","maxVariable":"punct","normalization":true"#)
    );
    // What was shown is taken again, and means the same.
    for specification in specifications() {
        let first = collation(&specification);
        let again = collation(first.specification().unwrap());
        assert_eq!(first, again, "{specification}");
        assert_eq!(
            again.specification().unwrap().get_str("version"),
            Some(SHOWN_VERSION)
        );
    }
}

#[test]
fn bad_specifications_have_mongodbs_codes() {
    for (specification, code, text) in [
        (
            doc! { "strength": 1 },
            40_414,
            "BSON field 'collation.locale' is missing but a required field",
        ),
        (
            doc! { "locale": null },
            40_414,
            "BSON field 'collation.locale' is missing but a required field",
        ),
        (
            doc! { "locale": "en", "odd": 1 },
            40_415,
            "BSON field 'collation.odd' is an unknown field.",
        ),
        (
            doc! { "locale": 1 },
            14,
            "BSON field 'collation.locale' is the wrong type 'int', expected type 'string'",
        ),
        (
            doc! { "locale": "en", "caseLevel": 1 },
            14,
            "BSON field 'collation.caseLevel' is the wrong type 'int', expected type 'bool'",
        ),
        (
            doc! { "locale": "en", "strength": "3" },
            14,
            "expected types '[long, int, decimal, double]'",
        ),
        (
            doc! { "locale": "en", "strength": 6 },
            2,
            "Enumeration value '6' for field 'collation.strength' is not a valid value.",
        ),
        (
            doc! { "locale": "en", "strength": 0 },
            2,
            "Enumeration value '0' for field 'collation.strength' is not a valid value.",
        ),
        (
            doc! { "locale": "en", "caseFirst": "none" },
            2,
            "Enumeration value 'none' for field 'collation.caseFirst' is not a valid value.",
        ),
        (
            doc! { "locale": "" },
            2,
            "Field 'locale' cannot be the empty string in: ",
        ),
        (doc! { "locale": "xx" }, 2, "Field 'locale' is invalid in: "),
        (doc! { "locale": "en_us" }, 2, "Did you mean 'en_US'?"),
        (
            doc! { "locale": "en\0" },
            2,
            "Field 'locale' cannot contain null byte.",
        ),
        (
            doc! { "locale": "en", "strength": 2, "caseFirst": "upper" },
            2,
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: ",
        ),
        (
            doc! { "locale": "fr_CA", "strength": 1, "backwards": true },
            2,
            "'backwards' is invalid with 'strength' of 1 in: ",
        ),
        (
            doc! { "locale": "en", "version": "99" },
            161,
            "Requested collation version 99 but the only available collator version was 57.1.",
        ),
        (
            doc! { "locale": "de", "backwards": true },
            238,
            "'backwards: true' in a collation of the locale 'de' is not supported",
        ),
        (
            doc! { "locale": "fr_CA", "backwards": false },
            238,
            "'backwards: false' in a collation of the locale 'fr_CA' is not supported",
        ),
        (
            doc! { "locale": "zh@collation=big5han" },
            238,
            "the collation of the locale 'zh@collation=big5han' is not supported",
        ),
    ] {
        let error = Collation::parse(specification.as_raw()).unwrap_err();
        assert_eq!(error.code(), code, "{specification}: {error}");
        assert!(error.to_string().contains(text), "{specification}: {error}");
    }
    // The simple collation takes any options and has none.
    let simple = doc! { "locale": "simple", "strength": 3 };
    assert!(Collation::parse(simple.as_raw()).unwrap().is_simple());
}

/// Each locale and variant that is taken has data, and those with a variant of their own order as no other does.
#[test]
fn variants_order_as_they_say() {
    let ordered = |locale: &str, list: &[&str]| {
        let collation = collation(&doc! { "locale": locale });
        for pair in list.windows(2) {
            let order = collation.compare(RawValue::from(pair[0]), RawValue::from(pair[1]));
            assert_eq!(order, Ordering::Less, "{pair:?} in {locale}");
        }
    };
    ordered("de", &["ö", "oa", "of"]);
    ordered("de@collation=phonebook", &["oa", "od", "ö", "of"]);
    ordered("es", &["cg", "ch", "cz", "d"]);
    ordered("es@collation=traditional", &["cg", "cz", "ch", "d"]);
    ordered("sv", &["z", "å", "ä", "ö"]);
    ordered("fr", &["cote", "coté", "côte", "côté"]);
    ordered("fr_CA", &["cote", "côte", "coté", "côté"]);
    ordered("en", &["a", "B", "c"]);
    ordered("en_US_POSIX", &["B", "a", "c"]);
}

/// Another version of the library, of its data, or of what it normalizes by may make other sort keys: indexes that have those of
/// this version are then not to be used, which `SORT_KEYS_VERSION` says.
#[test]
fn the_version_of_sort_keys_is_that_of_the_library() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    for library in [
        "icu_collator",
        "icu_collator_data",
        "icu_normalizer",
        "icu_normalizer_data",
    ] {
        let name = format!("name = \"{library}\"\nversion = \"");
        let at = lock.find(&name).unwrap() + name.len();
        let version = lock[at..].split('"').next().unwrap();
        assert_eq!(SORT_KEYS_VERSION, format!("icu4x-{version}"), "{library}");
    }
    let key = |specification: Document, text: &str| {
        let kept = collation(&specification)
            .index_value(RawValue::from(text))
            .unwrap();
        let RawValue::String(key) = kept.as_raw() else {
            panic!("{kept}");
        };
        key.as_bytes().to_vec()
    };
    assert_eq!(
        key(doc! { "locale": "en" }, "aB"),
        [43, 45, 1, 6, 1, 197, 220]
    );
    assert_eq!(key(doc! { "locale": "en", "strength": 1 }, "Ab"), [43, 45]);
}
