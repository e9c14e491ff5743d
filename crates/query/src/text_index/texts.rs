//! The texts of a document that an index keeps: the strings of the fields that have weights, each with its weight and its language.
//!
//! A document says its language in the index's `language_override` field, and a document within it says its own. Strings in an array are
//! texts of the array's field; an array within an array is opened only where every field has texts.

use quarry_bson::{RawDocument, RawValue};
use quarry_text::Language;

use super::TextSpec;
use crate::error::{Error, Result};
use crate::interrupts;

/// Takes a text with its weight and language; false if no more are wanted.
pub(crate) type TakeText<'t> = dyn FnMut(&str, f64, Language) -> Result<bool> + 't;

/// The work of looking for a field among the weights.
const UNITS_OF_A_FIELD: usize = 10;

struct Walk<'s, 't, 'c> {
    spec: &'s TextSpec,
    take: &'t mut TakeText<'c>,
    /// The path of where the walk stands, without positions.
    path: String,
}

/// The weights at a path.
#[derive(Clone, Copy)]
struct Weighed {
    /// The weight of strings there, if these are texts.
    own: Option<f64>,
    /// Fields of documents there may be texts.
    leads_on: bool,
}

impl TextSpec {
    /// Hands over the texts of a document until no more are wanted. Fails for a document that names a language which is not
    /// known.
    pub fn each_text(&self, document: RawDocument<'_>, take: &mut TakeText<'_>) -> Result<()> {
        let mut walk = Walk {
            spec: self,
            take,
            path: String::new(),
        };
        walk.document(document, self.default_language).map(drop)
    }

    /// The language of a document within one of another language.
    fn language_of(&self, document: RawDocument<'_>, outer: Language) -> Result<Language> {
        match document.get(self.language_override.as_str()) {
            None => Ok(outer),
            Some(RawValue::String(name)) => {
                let name = name.to_string_lossy();
                Language::find(&name).ok_or_else(|| {
                    Error::location(17_262, format!("language override unsupported: {name}"))
                })
            }
            Some(_) => Err(Error::location(
                17_261,
                "found language override field in document with non-string type",
            )),
        }
    }
}

impl Walk<'_, '_, '_> {
    /// Goes through a document; false if no more texts are wanted. Recursion is bounded by the depth of a validated document.
    fn document(&mut self, document: RawDocument<'_>, outer: Language) -> Result<bool> {
        interrupts::work(interrupts::units_of_search(document))?;
        let language = self.spec.language_of(document, outer)?;
        for field in document {
            interrupts::work(UNITS_OF_A_FIELD)?;
            let Ok(name) = field.name().as_str() else {
                continue;
            };
            let is_every_field = self.spec.of_every_field.is_some();
            if is_every_field && name == self.spec.language_override {
                continue;
            }
            let end = self.path.len();
            if end > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let (own, leads_on) = self.spec.weigh(&self.path);
            let weighed = Weighed { own, leads_on };
            let wants_more = self.value(field.value(), weighed, language, false)?;
            self.path.truncate(end);
            if !wants_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn value(
        &mut self,
        value: RawValue<'_>,
        weighed: Weighed,
        language: Language,
        is_element: bool,
    ) -> Result<bool> {
        match (value, weighed.own) {
            (RawValue::String(text), Some(weight)) => {
                (self.take)(&text.to_string_lossy(), weight, language)
            }
            (RawValue::Document(document), _) if weighed.leads_on => {
                self.document(document, language)
            }
            (RawValue::Array(array), _) if !is_element || self.spec.of_every_field.is_some() => {
                if weighed.own.is_none() && !weighed.leads_on {
                    return Ok(true);
                }
                for element in array {
                    interrupts::work(1)?;
                    if !self.value(element, weighed, language, true)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}
