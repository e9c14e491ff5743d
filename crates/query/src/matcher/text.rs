//! `$text`: a search for words, which the text index of a collection answers.
//!
//! What it means depends on that index: the fields that have texts, their weights, and the language of a search that names none. The planner
//! binds the filter to the index (`TextQuery::bind`); a filter that nobody bound is refused when it is asked. A document that was found by a term in the index need only be
//! asked for the rest (`BoundText::takes_found`): terms that are not to be there, phrases, and differences in case and diacritics, which keys do not have.

use std::sync::{Arc, OnceLock};

use memchr::memmem;
use quarry_bson::{RawDocument, RawValue};
use quarry_text::{Folded, Folding, Language, Search, Tokens};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::interrupts;
use crate::memory::{self, Charge};
use crate::text_index::TextSpec;

/// A `$text`, as it was parsed.
#[derive(Debug)]
pub struct TextQuery {
    search: String,
    language: Option<Language>,
    folding: Folding,
    bound: OnceLock<BoundText>,
}

/// A `$text` with the index that says what it means.
#[derive(Debug)]
pub struct BoundText {
    spec: Arc<TextSpec>,
    /// The search string as it was parsed.
    pub search: Search,
    folding: Folding,
    phrases: Phrases,
    /// As texts of a language are folded that has letters of its own without a dot.
    dotless: Phrases,
}

/// The phrases of a search without the differences that do not count.
#[derive(Debug)]
struct Phrases {
    wanted: Vec<Folded>,
    unwanted: Vec<Folded>,
}

impl Phrases {
    fn new(search: &Search, folding: Folding, language: Language) -> Phrases {
        let folded = |phrases: &[String]| {
            let phrases = phrases.iter();
            let folded =
                phrases.map(|phrase| Folded::new(phrase, folding, language, interrupts::is_over));
            folded.collect()
        };
        Phrases {
            wanted: folded(&search.phrases),
            unwanted: folded(&search.negated_phrases),
        }
    }
}

fn wrong_type(name: &str, expected: &str, value: RawValue<'_>) -> Error {
    let found = value.element_type().alias();
    Error::type_mismatch(format!(
        "\"{name}\" had the wrong type. Expected {expected}, found {found}"
    ))
}

fn text_of<'v>(name: &str, value: RawValue<'v>) -> Result<&'v str> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(name, "string", value))
}

fn truth_of(name: &str, value: RawValue<'_>) -> Result<bool> {
    match value {
        RawValue::Boolean(_) => Ok(value.is_truthy()),
        _ => Err(wrong_type(name, "bool", value)),
    }
}

/// The language of a name; none of an empty one, which leaves it to the index.
fn language_of(name: &str) -> Result<Option<Language>> {
    match Language::find(name) {
        None if !name.is_empty() => Err(Error::bad_value(format!(
            "unsupported language: \"{name}\" for text index version 3"
        ))),
        language => Ok(language),
    }
}

/// The error of a `$text` that no index answers.
pub(crate) fn no_text_index() -> Error {
    Error::new(
        ErrorCode::INDEX_NOT_FOUND,
        "text index required for $text query",
    )
}

impl TextQuery {
    /// Parses the operand of `$text`.
    pub(super) fn parse(operand: RawValue<'_>) -> Result<TextQuery> {
        let RawValue::Document(asked) = operand else {
            return Err(Error::bad_value("$text expects an object"));
        };
        let (mut search, mut language, mut folding) = (None, None, Folding::default());
        for element in asked {
            let (name, value) = (element.name().to_string_lossy(), element.value());
            match &*name {
                "$search" => search = Some(text_of(&name, value)?.to_owned()),
                "$language" => language = language_of(text_of(&name, value)?)?,
                "$caseSensitive" => folding.keeps_case = truth_of(&name, value)?,
                "$diacriticSensitive" => folding.keeps_diacritics = truth_of(&name, value)?,
                _ => return Err(Error::bad_value("extra fields in $text")),
            }
        }
        let Some(search) = search else {
            let text = "Missing expected field \"$search\"";
            return Err(Error::new(ErrorCode::NO_SUCH_KEY, text));
        };
        Ok(TextQuery {
            search,
            language,
            folding,
            bound: OnceLock::new(),
        })
    }

    /// Has the filter mean what the index makes of it. A filter that was planned before keeps its meaning.
    pub(crate) fn bind(&self, spec: &Arc<TextSpec>) -> Result<&BoundText> {
        if let Some(bound) = self.bound.get() {
            return Ok(bound);
        }
        let language = self.language.unwrap_or(spec.default_language);
        let search = Search::parse(&self.search, language, self.folding, interrupts::is_over);
        let search = search.map_err(|many| Error::bad_value(many.to_string()))?;
        let turkish = Language::find("turkish").unwrap_or(Language::NONE);
        let bound = BoundText {
            phrases: Phrases::new(&search, self.folding, Language::NONE),
            dotless: Phrases::new(&search, self.folding, turkish),
            spec: Arc::clone(spec),
            search,
            folding: self.folding,
        };
        // The search was cut short where the operation is to end.
        interrupts::work(1 + bound.search.keys.len())?;
        Ok(self.bound.get_or_init(|| bound))
    }

    /// The filter with the index that it was bound to.
    pub(crate) fn bound(&self) -> Option<&BoundText> {
        self.bound.get()
    }

    /// Whether the document has what is searched for.
    pub(crate) fn accepts(&self, document: RawDocument<'_>) -> Result<bool> {
        match self.bound.get() {
            Some(bound) => bound.takes(document),
            None => Err(no_text_index()),
        }
    }
}

/// The things that were found in a document.
struct Found {
    has_term: bool,
    /// The wanted phrases that were not found yet, by number.
    missing: Vec<usize>,
    has_unwanted: bool,
}

impl BoundText {
    /// Whether a document has what is searched for.
    pub fn takes(&self, document: RawDocument<'_>) -> Result<bool> {
        self.accepts(document, true)
    }

    /// Whether a document has what is searched for beside the terms by which the index found it.
    pub fn takes_found(&self, document: RawDocument<'_>) -> Result<bool> {
        let asks_terms = self.folding != Folding::default();
        let asks_more = !self.search.negated_terms.is_empty()
            || !self.phrases.wanted.is_empty()
            || !self.phrases.unwanted.is_empty();
        match asks_terms || asks_more {
            true => self.accepts(document, asks_terms),
            false => Ok(true),
        }
    }

    /// The first of the search's keys, in their order, that the document has; none if it has none.
    pub(crate) fn first_key(&self, document: RawDocument<'_>) -> Result<Option<&str>> {
        let mut first: Option<&str> = None;
        let folding = Folding::default();
        self.spec.each_text(document, &mut |text, _, language| {
            let mut tokens = Tokens::new(text, language, folding, interrupts::is_over);
            while let Some(term) = tokens.next_term() {
                let known = self.search.keys.get(term).map(String::as_str);
                if let Some(known) = known
                    && first.is_none_or(|first| known < first)
                {
                    first = Some(known);
                }
            }
            interrupts::work(1)?;
            Ok(true)
        })?;
        Ok(first)
    }

    fn accepts(&self, document: RawDocument<'_>, asks_terms: bool) -> Result<bool> {
        let mut found = Found {
            has_term: !asks_terms,
            missing: (0..self.phrases.wanted.len()).collect(),
            has_unwanted: false,
        };
        let refuses = !self.search.negated_terms.is_empty() || !self.phrases.unwanted.is_empty();
        self.spec.each_text(document, &mut |text, _, language| {
            self.look_for_terms(text, language, &mut found)?;
            self.look_for_phrases(text, language, &mut found)?;
            let is_done = found.has_term && found.missing.is_empty() && !refuses;
            Ok(!is_done && !found.has_unwanted)
        })?;
        Ok(found.has_term && found.missing.is_empty() && !found.has_unwanted)
    }

    fn look_for_terms(&self, text: &str, language: Language, found: &mut Found) -> Result<()> {
        let (wanted, unwanted) = (&self.search.terms, &self.search.negated_terms);
        if found.has_term && unwanted.is_empty() {
            return Ok(());
        }
        let mut tokens = Tokens::new(text, language, self.folding, interrupts::is_over);
        while let Some(term) = tokens.next_term() {
            found.has_term |= wanted.contains(term);
            found.has_unwanted |= unwanted.contains(term);
            if found.has_unwanted || (found.has_term && unwanted.is_empty()) {
                break;
            }
        }
        interrupts::work(1)
    }

    fn look_for_phrases(&self, text: &str, language: Language, found: &mut Found) -> Result<()> {
        let phrases = match language.has_dotless_i() {
            true => &self.dotless,
            false => &self.phrases,
        };
        if found.has_unwanted || (found.missing.is_empty() && phrases.unwanted.is_empty()) {
            return Ok(());
        }
        let _held = Charge::of(2 * text.len());
        memory::check()?;
        let text = Folded::new(text, self.folding, language, interrupts::is_over);
        let text = text.as_str().as_bytes();
        let mut failure = None;
        let mut holds = |phrase: &Folded| {
            let looked = interrupts::work_on_bytes(text.len());
            failure = failure.take().or(looked.err());
            memmem::find(text, phrase.as_str().as_bytes()).is_some()
        };
        found
            .missing
            .retain(|number| !holds(&phrases.wanted[*number]));
        found.has_unwanted = phrases.unwanted.iter().any(holds);
        failure.map_or(Ok(()), Err)
    }
}
