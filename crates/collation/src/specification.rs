//! The document of a collation: read, checked as MongoDB checks it, and completed with the defaults of its locale.

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use quarry_bson::{Document, RawDocument, RawElement, RawValue};

use crate::SHOWN_VERSION;
use crate::error::{Error, Result};
use crate::locale::{self, Found};

/// The locale of bytes.
pub const SIMPLE: &str = "simple";

/// MongoDB's names of an option's values, and what they are to the library.
type Words<T> = [(&'static str, T)];

static CASE_FIRST: &Words<CollationCaseFirst> = &[
    ("upper", CollationCaseFirst::Upper),
    ("lower", CollationCaseFirst::Lower),
    ("off", CollationCaseFirst::False),
];
static ALTERNATE: &Words<AlternateHandling> = &[
    ("non-ignorable", AlternateHandling::NonIgnorable),
    ("shifted", AlternateHandling::Shifted),
];
static MAX_VARIABLE: &Words<MaxVariable> = &[
    ("punct", MaxVariable::Punctuation),
    ("space", MaxVariable::Space),
];
const STRENGTHS: [Strength; 5] = [
    Strength::Primary,
    Strength::Secondary,
    Strength::Tertiary,
    Strength::Quaternary,
    Strength::Identical,
];

/// The fields that a client gave.
#[derive(Default)]
pub struct Given<'s> {
    pub locale: &'s str,
    case_level: Option<bool>,
    case_first: Option<CollationCaseFirst>,
    strength: Option<Strength>,
    numeric_ordering: Option<bool>,
    alternate: Option<AlternateHandling>,
    max_variable: Option<MaxVariable>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'s str>,
}

impl<'s> Given<'s> {
    /// Reads the fields. Each is checked by itself.
    pub fn read(specification: RawDocument<'s>) -> Result<Given<'s>> {
        let mut given = Given::default();
        let mut has_locale = false;
        let mut seen: Vec<&str> = Vec::new();
        for element in specification {
            let name = element.name().as_str().map_err(malformed)?;
            if seen.contains(&name) {
                let text = format!("BSON field 'collation.{name}' is a duplicate field");
                return Err(Error::new(40_413, text));
            }
            if matches!(element.value(), RawValue::Null | RawValue::Undefined) && is_field(name) {
                continue;
            }
            given.take(name, element)?;
            has_locale |= name == "locale";
            // The names that are known bound the list.
            seen.push(name);
        }
        if !has_locale {
            let text = "BSON field 'collation.locale' is missing but a required field";
            return Err(Error::new(40_414, text));
        }
        if given.locale.contains('\0') {
            return Err(Error::bad_value(format!(
                "Field 'locale' cannot contain null byte. Collation spec: {specification}"
            )));
        }
        Ok(given)
    }

    fn take(&mut self, name: &'s str, element: RawElement<'s>) -> Result<()> {
        match name {
            "locale" => self.locale = text(element)?,
            "caseLevel" => self.case_level = Some(flag(element)?),
            "caseFirst" => self.case_first = Some(word(element, CASE_FIRST)?),
            "strength" => self.strength = Some(strength(element)?),
            "numericOrdering" => self.numeric_ordering = Some(flag(element)?),
            "alternate" => self.alternate = Some(word(element, ALTERNATE)?),
            "maxVariable" => self.max_variable = Some(word(element, MAX_VARIABLE)?),
            "normalization" => self.normalization = Some(flag(element)?),
            "backwards" => self.backwards = Some(flag(element)?),
            "version" => self.version = Some(text(element)?),
            _ => {
                let text = format!("BSON field 'collation.{name}' is an unknown field.");
                return Err(Error::new(40_415, text));
            }
        }
        Ok(())
    }

    /// The library's collator for the fields, and the specification with all of its fields.
    pub fn build(
        &self,
        specification: RawDocument<'_>,
    ) -> Result<(CollatorBorrowed<'static>, Document)> {
        let collator = self.collator(specification)?;
        let resolved = collator.resolved_options();
        let is_backwards = locale::is_backwards(self.locale);
        let case_level = resolved.case_level == CaseLevel::On;
        self.check_version(specification)?;
        if self.backwards == Some(true) && resolved.strength == Strength::Primary {
            return Err(Error::bad_value(format!(
                "'backwards' is invalid with 'strength' of 1 in: {specification}"
            )));
        }
        let is_weak = resolved.strength <= Strength::Secondary && !case_level;
        if resolved.case_first != CollationCaseFirst::False && is_weak {
            return Err(Error::bad_value(format!(
                "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {specification}"
            )));
        }
        if self.backwards.is_some_and(|asked| asked != is_backwards) {
            let asked = !is_backwards;
            let what = format!(
                "'backwards: {asked}' in a collation of the locale '{}'",
                self.locale
            );
            return Err(Error::not_served(what));
        }
        let mut whole = Document::new();
        whole.append("locale", self.locale);
        whole.append("caseLevel", case_level);
        whole.append("caseFirst", name_of(CASE_FIRST, &resolved.case_first));
        whole.append("strength", number_of(resolved.strength));
        let is_numeric = resolved.numeric == CollationNumericOrdering::True;
        whole.append("numericOrdering", is_numeric);
        whole.append(
            "alternate",
            name_of(ALTERNATE, &resolved.alternate_handling),
        );
        whole.append("maxVariable", name_of(MAX_VARIABLE, &resolved.max_variable));
        let is_normalized = locale::is_normalized(self.locale);
        whole.append("normalization", self.normalization.unwrap_or(is_normalized));
        whole.append("backwards", is_backwards);
        whole.append("version", SHOWN_VERSION);
        Ok((collator, whole))
    }

    fn collator(&self, specification: RawDocument<'_>) -> Result<CollatorBorrowed<'static>> {
        if self.locale.is_empty() {
            return Err(Error::bad_value(format!(
                "Field 'locale' cannot be the empty string in: {specification}"
            )));
        }
        let no_data =
            || Error::not_served(format!("the collation of the locale '{}'", self.locale));
        let name = match locale::find(self.locale) {
            Found::Known(name) => name,
            Found::NoData => return Err(no_data()),
            Found::Unknown(closest) => {
                let mut text = format!("Field 'locale' is invalid in: {specification}");
                if let Some(closest) = closest {
                    text.push_str(&format!(". Did you mean '{closest}'?"));
                }
                return Err(Error::bad_value(text));
            }
        };
        let locale = Locale::try_from_str(&name).map_err(|_| no_data())?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.case_first = self.case_first;
        preferences.numeric_ordering = self.numeric_ordering.map(|is_on| match is_on {
            true => CollationNumericOrdering::True,
            false => CollationNumericOrdering::False,
        });
        let mut options = CollatorOptions::default();
        options.strength = self.strength;
        options.alternate_handling = self.alternate;
        options.max_variable = self.max_variable;
        options.case_level = self.case_level.map(|is_on| match is_on {
            true => CaseLevel::On,
            false => CaseLevel::Off,
        });
        CollatorBorrowed::try_new(preferences, options).map_err(|_| no_data())
    }

    fn check_version(&self, specification: RawDocument<'_>) -> Result<()> {
        match self.version {
            Some(version) if version != SHOWN_VERSION => Err(Error::new(
                161,
                format!(
                    "Requested collation version {version} but the only available collator version was {SHOWN_VERSION}. \
                     Requested collation spec: {specification}"
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn is_field(name: &str) -> bool {
    matches!(
        name,
        "locale"
            | "caseLevel"
            | "caseFirst"
            | "strength"
            | "numericOrdering"
            | "alternate"
            | "maxVariable"
            | "normalization"
            | "backwards"
            | "version"
    )
}

fn malformed(error: quarry_bson::Error) -> Error {
    Error::new(9, error.to_string())
}

fn wrong_type(element: RawElement<'_>, expected: &str) -> Error {
    let (name, found) = (element.name(), element.element_type().alias());
    let text =
        format!("BSON field 'collation.{name}' is the wrong type '{found}', expected {expected}");
    Error::new(14, text)
}

fn text<'s>(element: RawElement<'s>) -> Result<&'s str> {
    let RawValue::String(text) = element.value() else {
        return Err(wrong_type(element, "type 'string'"));
    };
    text.as_str().map_err(malformed)
}

fn flag(element: RawElement<'_>) -> Result<bool> {
    let RawValue::Boolean(flag) = element.value() else {
        return Err(wrong_type(element, "type 'bool'"));
    };
    Ok(flag)
}

fn not_enumerated(element: RawElement<'_>, given: impl std::fmt::Display) -> Error {
    Error::bad_value(format!(
        "Enumeration value '{given}' for field 'collation.{}' is not a valid value.",
        element.name()
    ))
}

fn word<T: Copy>(element: RawElement<'_>, words: &Words<T>) -> Result<T> {
    let given = text(element)?;
    let known = words.iter().find(|(word, _)| *word == given);
    known
        .map(|(_, value)| *value)
        .ok_or_else(|| not_enumerated(element, given))
}

/// From any number, of which a fraction is cut off.
fn strength(element: RawElement<'_>) -> Result<Strength> {
    let value = element.value();
    let number = value.as_f64_lossy().filter(|_| value.is_number());
    let number =
        number.ok_or_else(|| wrong_type(element, "types '[long, int, decimal, double]'"))?;
    let whole = number as i32;
    let place = usize::try_from(whole)
        .ok()
        .and_then(|whole| whole.checked_sub(1));
    let known = place.and_then(|place| STRENGTHS.get(place));
    known.copied().ok_or_else(|| not_enumerated(element, whole))
}

fn number_of(strength: Strength) -> i32 {
    let place = STRENGTHS.iter().position(|known| *known == strength);
    place.map_or(3, |place| place as i32 + 1)
}

fn name_of<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    let known = words.iter().find(|(_, known)| known == value);
    known.map_or("", |(word, _)| word)
}
