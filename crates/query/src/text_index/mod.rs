//! The kind `text`: an index of the words of a document's strings, version 3 of MongoDB's.
//!
//! A key has a term and how much the document is about it, between the values of the fields before and behind: `{a: 1, _fts: "text", _ftsx: 1}`
//! is the pattern, whatever the fields with texts are called, and the `weights` say which ones these are. A document has a key for
//! each of its terms; one without any term has no key. A long term stands by its beginning and its hash.
//!
//! What a definition says becomes a [`TextSpec`] (`spec.rs`), which goes through the texts of a document (`texts.rs`). Leaves out: where words begin and end and
//! what their stems are (`quarry_text`), the filter `$text` (`matcher/text.rs`), and the plans that read the keys (`planner/text.rs`).

mod spec;
mod texts;

use std::any::Any;
use std::sync::Arc;

use hashbrown::HashMap;
use md5::{Digest, Md5};
use quarry_bson::{Document, RawDocument, RawValue};
use quarry_database::{ErrorCode, Index, SpecialKeys, TakeKey};
use quarry_text::{Folding, Language, Tokens};

use self::spec::Definition;
pub(crate) use self::spec::TextSpec;
use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::interrupts;
use crate::memory::{Charge, bytes_of};

/// MongoDB's bounds for the keys of one document.
const TERMS_MAX: usize = 400_000;
const KEYS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A longer term stands by its beginning and by 32 digits of its hash.
const TERM_BYTES_MAX: usize = 256;
const TERM_BEGINNING_BYTES: usize = 224;

/// The bytes of a key beside its term, and those of a term in a table beside its own.
const KEY_BYTES: usize = 24;
const TERM_HELD_BYTES: usize = 64;

/// The maker of the keys of a text index.
#[derive(Debug)]
pub(crate) struct TextKeys {
    /// The fields, weights and language of the definition.
    pub spec: Arc<TextSpec>,
    further: Option<Vec<String>>,
}

impl TextKeys {
    /// The maker of an index's keys, if it is a text index.
    pub fn of(index: &Index) -> Option<&TextKeys> {
        (index.special.as_deref()? as &dyn Any).downcast_ref()
    }
}

/// Checks the definition of a `text` index, and completes its options.
pub(crate) fn check(index: &Index) -> Result<Document> {
    if index.unique || index.prepare_unique {
        let text = "Index type 'text' does not support the unique option";
        return Err(Error::cannot_create_index(text));
    }
    Ok(Definition::of(index)?.options())
}

/// The pattern of a definition that was checked, as it is kept.
pub(crate) fn key_pattern(index: &Index) -> Option<Document> {
    Definition::of(index)
        .ok()
        .map(|definition| definition.pattern())
}

/// Makes the maker of keys of a definition that was checked.
pub(crate) fn compile(index: &Index) -> Result<Arc<dyn SpecialKeys>> {
    let spec = Arc::new(TextSpec::new(&Definition::of(index)?)?);
    Ok(Arc::new(TextKeys {
        further: spec.top_level_fields(),
        spec,
    }))
}

/// The form in which keys have a term.
pub(crate) fn term_in_keys(term: &str) -> String {
    if term.len() <= TERM_BYTES_MAX {
        return term.to_owned();
    }
    let beginning = term.floor_char_boundary(TERM_BEGINNING_BYTES);
    let hash = Md5::digest(term.as_bytes());
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{digits}", &term[..beginning])
}

/// How often a term stands in one text. Each time counts half as much as the time before.
#[derive(Default)]
struct Occurrences {
    count: f64,
    frequency: f64,
    /// How much less the next one counts than the first.
    divisor: f64,
}

impl Occurrences {
    fn add(&mut self) {
        self.divisor = match self.count {
            0.0 => 1.0,
            _ => self.divisor * 2.0,
        };
        self.count += 1.0;
        self.frequency += 1.0 / self.divisor;
    }

    /// How much the text is about the term, as MongoDB counts it: the more, the larger the part of the text that it is, and
    /// a little more if it is all of it.
    fn score(&self, weight: f64, terms_len: f64, is_whole_text: bool) -> f64 {
        let share = 0.5 * self.count / terms_len + 0.5;
        let whole = if is_whole_text { 1.1 } else { 1.0 };
        weight * self.frequency * share * whole
    }
}

/// The terms of a document, each with how much the document is about it.
#[derive(Default)]
struct Scores {
    terms: HashMap<String, f64>,
    held: Charge,
}

impl Scores {
    fn add_text(&mut self, text: &str, weight: f64, language: Language) -> Result<()> {
        let mut found: HashMap<String, Occurrences> = HashMap::new();
        let (mut terms_len, mut held) = (0.0, Charge::default());
        let mut tokens = Tokens::new(text, language, Folding::default(), interrupts::is_over);
        while let Some(term) = tokens.next_term() {
            terms_len += 1.0;
            if let Some(known) = found.get_mut(term) {
                known.add();
                continue;
            }
            if found.len() == TERMS_MAX {
                return Err(too_many_terms());
            }
            held.grow(TERM_HELD_BYTES + term.len())?;
            found.entry(term.to_owned()).or_default().add();
        }
        // The text was cut short where the operation is to end.
        interrupts::work(found.len())?;
        for (term, occurrences) in found {
            let is_whole_text = term.eq_ignore_ascii_case(text);
            let score = occurrences.score(weight, terms_len, is_whole_text);
            self.add(term, score)?;
        }
        Ok(())
    }

    fn add(&mut self, term: String, score: f64) -> Result<()> {
        if let Some(known) = self.terms.get_mut(&term) {
            *known += score;
            return Ok(());
        }
        if self.terms.len() == TERMS_MAX {
            return Err(too_many_terms());
        }
        self.held.grow(TERM_HELD_BYTES + term.len())?;
        self.terms.insert(term, score);
        Ok(())
    }

    /// The terms in order, in their form in keys.
    fn into_keys(self) -> Result<Vec<(String, f64)>> {
        interrupts::work(self.terms.len() * 16)?;
        let keys = self.terms.into_iter();
        let mut keys: Vec<(String, f64)> = keys
            .map(|(term, score)| match term.len() <= TERM_BYTES_MAX {
                true => (term, score),
                false => (term_in_keys(&term), score),
            })
            .collect();
        keys.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(keys)
    }
}

fn too_many_terms() -> Error {
    let text = format!(
        "too many unique keys for a single document to have a text index, max = {TERMS_MAX}"
    );
    Error::location(16_732, text)
}

impl TextSpec {
    /// How much a document is about each of its terms.
    fn scores(&self, document: RawDocument<'_>) -> Result<Scores> {
        let mut scores = Scores::default();
        self.each_text(document, &mut |text, weight, language| {
            scores.add_text(text, weight, language)?;
            Ok(true)
        })?;
        Ok(scores)
    }
}

/// The value that a field beside the terms has in keys. Fails for an array at its end or on the way to it.
fn value_at<'d>(document: RawDocument<'d>, path: &FieldPath) -> Result<RawValue<'d>> {
    let mut value = RawValue::Document(document);
    for part in path.parts() {
        let next = match value {
            RawValue::Document(within) => within.get(part.name()),
            _ => None,
        };
        value = next.unwrap_or(RawValue::Null);
        if matches!(value, RawValue::Array(_)) {
            let text = format!(
                "Field '{}' of text index contains an array in document",
                path.as_str()
            );
            return Err(Error::new(ErrorCode::CANNOT_BUILD_INDEX_KEYS, text));
        }
    }
    Ok(value)
}

impl TextKeys {
    fn append_keys(&self, document: RawDocument<'_>, take: &mut TakeKey<'_>) -> Result<u64> {
        let (before, behind) = (&self.spec.before, &self.spec.behind);
        let others = before.iter().chain(behind);
        let others = others.map(|path| value_at(document, path));
        let others: Vec<RawValue<'_>> = others.collect::<Result<_>>()?;
        let (before, behind) = others.split_at(before.len());
        let others_bytes: usize = others.iter().map(|value| bytes_of(*value)).sum();
        let keys = self.spec.scores(document)?.into_keys()?;
        let (mut key, mut bytes) = (Vec::with_capacity(others.len() + 2), 0);
        for (term, score) in &keys {
            bytes += KEY_BYTES + others_bytes + term.len();
            if bytes > KEYS_BYTES_MAX {
                let text = format!(
                    "trying to index text where term list is too big, max = {}mb",
                    KEYS_BYTES_MAX >> 20
                );
                return Err(Error::location(16_733, text));
            }
            interrupts::work_on_bytes(KEY_BYTES + others_bytes + term.len())?;
            key.clear();
            key.extend_from_slice(before);
            key.extend([RawValue::from(term.as_str()), RawValue::Double(*score)]);
            key.extend_from_slice(behind);
            take(&key)?;
        }
        Ok(u64::from(keys.len() > 1) << before.len())
    }
}

impl SpecialKeys for TextKeys {
    fn further_fields(&self) -> Option<&[String]> {
        self.further.as_deref()
    }

    fn keys(
        &self,
        document: RawDocument<'_>,
        take: &mut TakeKey<'_>,
    ) -> quarry_database::Result<u64> {
        self.append_keys(document, take)
            .map_err(Error::into_database)
    }
}
