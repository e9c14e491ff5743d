//! The definition of a text index: which fields have texts, how much each weighs, and the language of what says nothing of
//! its own.
//!
//! A definition comes as a client gives it, `{a: 1, title: "text"}`, or as it is kept and shown, `{a: 1, _fts: "text", _ftsx: 1}` with
//! `weights`; both say the same.

use std::collections::BTreeMap;

use quarry_bson::{Document, RawDocument, RawValue};
use quarry_database::{Index, KeyField, TEXT};
use quarry_text::Language;

use crate::error::{Error, Result};
use crate::field_path::FieldPath;
use crate::geo_index::unknown_option;

/// The fields of the pattern that stand for the terms and for how much a document is about them.
pub(super) const FIELD_OF_TERMS: &str = "_fts";
pub(super) const FIELD_OF_SCORES: &str = "_ftsx";

/// The name that stands for all fields.
pub(super) const EVERY_FIELD: &str = "$**";

const VERSION: i32 = 3;
const OVERRIDE: &str = "language";

/// A weight is below this one.
const WEIGHT_END: f64 = 100_000.0;
/// The fields that have weights at most.
const WEIGHTS_MAX: usize = 1000;

/// A definition whose options were checked.
pub(super) struct Definition {
    /// The pattern's elements before and behind the terms.
    before: Document,
    behind: Document,
    weights: BTreeMap<String, RawWeight>,
    default_language: String,
    language_override: String,
}

/// A weight, and whether it was given as a whole number.
#[derive(Clone, Copy)]
struct RawWeight(f64);

/// The parts of a document that a text index keeps.
#[derive(Debug)]
pub(crate) struct TextSpec {
    /// The fields before the terms.
    pub before: Vec<FieldPath>,
    /// Those behind.
    pub behind: Vec<FieldPath>,
    /// The fields with texts, in order.
    weights: Vec<(String, f64)>,
    /// The weight of the fields that have none of their own, where every field has texts.
    pub(super) of_every_field: Option<f64>,
    /// The language of documents that say nothing of theirs.
    pub default_language: Language,
    /// The field of a document that says its language.
    pub(super) language_override: String,
}

fn refused<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::cannot_create_index(text))
}

impl Definition {
    pub fn of(index: &Index) -> Result<Definition> {
        let mut definition = Definition {
            before: Document::new(),
            behind: Document::new(),
            weights: BTreeMap::new(),
            default_language: "english".to_owned(),
            language_override: OVERRIDE.to_owned(),
        };
        definition.read_pattern(&index.pattern.fields, index.pattern.document.as_raw())?;
        definition.read_options(index.kind_options.as_raw())?;
        if definition.weights.is_empty() {
            return refused("a text index needs `weights` that name its fields");
        }
        Ok(definition)
    }

    fn read_pattern(&mut self, fields: &[KeyField], pattern: RawDocument<'_>) -> Result<()> {
        let (mut has_texts, mut is_kept_form) = (false, false);
        for (field, element) in fields.iter().zip(pattern) {
            let path = field.path.as_str();
            let is_text = element.value().as_str() == Some(TEXT);
            if is_text && path == FIELD_OF_TERMS {
                is_kept_form = true;
            } else if is_kept_form && path == FIELD_OF_SCORES {
                continue;
            } else if is_text {
                self.weights.insert(path.to_owned(), RawWeight(1.0));
            } else {
                check_path("field", path)?;
                let others = match has_texts {
                    true => &mut self.behind,
                    false => &mut self.before,
                };
                others.append(path, element.value());
                continue;
            }
            if has_texts && !self.behind.is_empty() {
                return refused("'text' fields in index must all be adjacent");
            }
            has_texts = true;
        }
        Ok(())
    }

    fn read_options(&mut self, options: RawDocument<'_>) -> Result<()> {
        for option in options {
            let (name, value) = (option.name().to_string_lossy(), option.value());
            match &*name {
                "weights" => self.read_weights(value)?,
                "default_language" => {
                    let language = text_of(&name, value)?;
                    if Language::find(language).is_none() {
                        return refused("default_language is not valid");
                    }
                    language.clone_into(&mut self.default_language);
                }
                "language_override" => {
                    let field = text_of(&name, value)?;
                    if field.is_empty() || field.starts_with('$') || field.contains('.') {
                        return refused("language_override is not valid");
                    }
                    field.clone_into(&mut self.language_override);
                }
                "textIndexVersion" => check_version(value)?,
                other => return Err(unknown_option(other, TEXT)),
            }
        }
        Ok(())
    }

    fn read_weights(&mut self, weights: RawValue<'_>) -> Result<()> {
        if let Some(field) = weights.as_str() {
            check_path("weight", field)?;
            self.weights.insert(field.to_owned(), RawWeight(1.0));
            return Ok(());
        }
        let RawValue::Document(weights) = weights else {
            return refused(format!(
                "text index option 'weights' must be an object: {weights}"
            ));
        };
        for element in weights {
            let field = element.name().as_str()?;
            if field != EVERY_FIELD {
                check_path("weight", field)?;
            }
            let value = element.value();
            let Some(weight) = value.as_f64_lossy().filter(|_| value.is_number()) else {
                return refused("weight for text index needs numeric type");
            };
            if !(weight > 0.0 && weight < WEIGHT_END) {
                return refused(format!(
                    "text index weight must be in the exclusive interval (0,{WEIGHT_END}) but found: {weight}"
                ));
            }
            self.weights.insert(field.to_owned(), RawWeight(weight));
            if self.weights.len() > WEIGHTS_MAX {
                return refused(format!(
                    "a text index has weights of more than {WEIGHTS_MAX} fields"
                ));
            }
        }
        Ok(())
    }

    /// The pattern as it is kept.
    pub fn pattern(&self) -> Document {
        let mut pattern = self.before.clone();
        pattern.append(FIELD_OF_TERMS, TEXT);
        pattern.append(FIELD_OF_SCORES, 1);
        for element in self.behind.as_raw() {
            pattern.append(element.name().to_string_lossy().as_ref(), element.value());
        }
        pattern
    }

    /// The options as they are kept.
    pub fn options(&self) -> Document {
        let mut weights = Document::new();
        for (field, weight) in &self.weights {
            weights.append(field.as_str(), weight.shown());
        }
        let mut options = Document::new();
        options.append("weights", weights);
        options.append("default_language", self.default_language.as_str());
        options.append("language_override", self.language_override.as_str());
        options.append("textIndexVersion", VERSION);
        options
    }
}

impl RawWeight {
    /// As explain and listIndexes show it.
    fn shown(self) -> RawValue<'static> {
        match self.0.fract() == 0.0 {
            true => RawValue::Int32(self.0 as i32),
            false => RawValue::Double(self.0),
        }
    }
}

/// Refuses the path of a field that no document has, or that is the index's own.
fn check_path(what: &str, path: &str) -> Result<()> {
    if path == FIELD_OF_TERMS || path == FIELD_OF_SCORES {
        return refused(format!(
            "a {what} of a text index cannot be on an internal field: {path}"
        ));
    }
    if path
        .split('.')
        .any(|part| part.is_empty() || part.starts_with('$'))
    {
        return refused(format!(
            "a {what} of a text index has an illegal field name: '{path}'"
        ));
    }
    Ok(())
}

fn text_of<'v>(option: &str, value: RawValue<'v>) -> Result<&'v str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => refused(format!("{option} needs a string type")),
    }
}

fn check_version(value: RawValue<'_>) -> Result<()> {
    match value.as_i64_exact().filter(|_| value.is_number()) {
        Some(3) => Ok(()),
        Some(1 | 2) => refused("text indexes of the versions 1 and 2 are not supported"),
        _ => refused(format!(
            "bad text index version {value}, only version {VERSION} is supported"
        )),
    }
}

impl TextSpec {
    pub(super) fn new(definition: &Definition) -> Result<TextSpec> {
        let paths = |fields: &Document| {
            let paths = fields.as_raw().iter();
            let paths = paths.map(|field| FieldPath::parse(field.name().as_str()?));
            paths.collect::<Result<Vec<_>>>()
        };
        let language = Language::find(&definition.default_language);
        let weights = definition.weights.iter();
        let every_field = definition.weights.get(EVERY_FIELD);
        Ok(TextSpec {
            before: paths(&definition.before)?,
            behind: paths(&definition.behind)?,
            weights: weights
                .filter(|(field, _)| *field != EVERY_FIELD)
                .map(|(field, weight)| (field.clone(), weight.0))
                .collect(),
            of_every_field: every_field.map(|weight| weight.0),
            default_language: language.unwrap_or(Language::ENGLISH),
            language_override: definition.language_override.clone(),
        })
    }

    /// The top-level fields that the keys depend on; none if these are all.
    pub(super) fn top_level_fields(&self) -> Option<Vec<String>> {
        if self.of_every_field.is_some() {
            return None;
        }
        let paths = self
            .before
            .iter()
            .chain(&self.behind)
            .map(FieldPath::as_str);
        let paths = paths.chain(self.weights.iter().map(|(path, _)| path.as_str()));
        let firsts = paths.map(|path| path.split('.').next().unwrap_or_default());
        let mut fields: Vec<String> = firsts.map(str::to_owned).collect();
        fields.push(self.language_override.clone());
        fields.sort_unstable();
        fields.dedup();
        Some(fields)
    }

    /// The weight of a field, if it has texts, and whether some field within it may have texts.
    pub(super) fn weigh(&self, path: &str) -> (Option<f64>, bool) {
        let at = self
            .weights
            .partition_point(|(known, _)| known.as_str() < path);
        let own = self.weights.get(at).filter(|(known, _)| known == path);
        let own = own.map(|(_, weight)| *weight).or(self.of_every_field);
        let leads_on = self.of_every_field.is_some() || {
            let is_before = |known: &str| known.bytes().lt(path.bytes().chain([b'.']));
            let at = self.weights.partition_point(|(known, _)| is_before(known));
            let within = self
                .weights
                .get(at)
                .and_then(|(known, _)| known.strip_prefix(path));
            within.is_some_and(|rest| rest.starts_with('.'))
        };
        (own, leads_on)
    }
}
