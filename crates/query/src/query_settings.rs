//! The settings of the queries of a shape, as `setQuerySettings` gives them: the indexes that plans may use, collection by collection,
//! and whether the queries are refused.
//!
//! Settings reach the planner with the context of a command (`ExpressionContext`), so that a pipeline's reads of other collections have
//! them, too. Which shape has which settings is not known here. `queryFramework` names an engine of MongoDB's and changes
//! nothing: there is one engine.

use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawArray, RawDocument, RawElement, RawValue, Value};
use quarry_database::{IndexFilter, KeyPattern, Namespace};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Collections that one shape's settings name, and the indexes of each.
const COLLECTIONS_MAX: usize = 64;
const INDEXES_MAX: usize = 128;

const SETTINGS: &str = "QuerySettings";
const INDEX_HINT: &str = "IndexHintSpec";
const FRAMEWORKS: [&str; 2] = ["classic", "sbe"];

/// The settings of the queries of one shape.
#[derive(Debug, Clone, Default)]
pub struct QuerySettings {
    index_hints: Option<Arc<[IndexHints]>>,
    /// `classic` or `sbe`.
    query_framework: Option<&'static str>,
    reject: Option<bool>,
    comment: Option<Value>,
}

/// The ways that plans may take through one collection.
#[derive(Debug)]
pub struct IndexHints {
    namespace: Namespace,
    /// The indexes, by name or key pattern, and scans of the collection as `{$natural: ±1}`.
    pub(crate) allowed: IndexFilter,
    /// The scan of the collection that is allowed, as a hint says it.
    natural: Option<Document>,
}

impl QuerySettings {
    /// Reads settings as a client or the stored parameter names them.
    ///
    /// # Errors
    /// A field that is not known or of another type, with MongoDB's codes. Settings that ask for nothing are an error of `checked`.
    pub fn parse(settings: RawDocument<'_>) -> Result<QuerySettings> {
        let mut parsed = QuerySettings::default();
        for field in settings {
            let value = field.value();
            match field.name().as_bytes() {
                b"indexHints" => parsed.index_hints = Some(parse_hints(value)?),
                b"comment" => parsed.comment = Some(value.to_value()),
                b"queryFramework" | b"reject" if value.is_nullish() => {}
                b"queryFramework" => parsed.query_framework = Some(parse_framework(field)?),
                b"reject" => parsed.reject = Some(parse_reject(value)?),
                _ => return Err(unknown(SETTINGS, field)),
            }
        }
        Ok(parsed)
    }

    /// These settings with those in their place that `newer` names.
    pub fn merged(self, newer: QuerySettings) -> QuerySettings {
        QuerySettings {
            index_hints: newer.index_hints.or(self.index_hints),
            query_framework: newer.query_framework.or(self.query_framework),
            reject: newer.reject.or(self.reject),
            comment: newer.comment.or(self.comment),
        }
    }

    /// The settings without what says nothing, as they are kept.
    ///
    /// # Errors
    /// Settings that ask for nothing, or that name a collection twice.
    pub fn checked(mut self) -> Result<QuerySettings> {
        self.reject = self.reject.filter(|rejects| *rejects);
        let is_bare = |hints: &IndexHints| hints.allowed.indexes.is_empty();
        if let Some(hints) = &self.index_hints
            && hints.iter().all(is_bare)
        {
            self.index_hints = None;
        }
        if self.index_hints.is_none() && self.query_framework.is_none() && self.reject.is_none() {
            let text = "the resulting settings cannot be empty or contain only default values";
            return Err(Error::location(7_746_604, text));
        }
        let hints = self.index_hints.as_deref().unwrap_or_default();
        for (place, one) in hints.iter().enumerate() {
            if hints[..place]
                .iter()
                .any(|it| it.namespace == one.namespace)
            {
                let text = format!(
                    "Collection '{}' has already index hints specified",
                    one.namespace
                );
                return Err(Error::location(7_746_608, text));
            }
        }
        Ok(self)
    }

    /// Whether the queries are refused.
    pub fn rejects(&self) -> bool {
        self.reject == Some(true)
    }

    /// The hints for a collection, if the settings have some.
    pub(crate) fn hints_for(&self, namespace: &Namespace) -> Option<&IndexHints> {
        let hints = self.index_hints.as_deref()?;
        let named = hints.iter().find(|hints| hints.namespace == *namespace);
        named.filter(|hints| !hints.allowed.indexes.is_empty())
    }

    /// The settings as documents show and keep them.
    pub fn to_document(&self) -> Document {
        Document::build(|out| {
            if let Some(hints) = &self.index_hints {
                let mut list = out.array("indexHints");
                let some = hints.iter().filter(|it| !it.allowed.indexes.is_empty());
                for hints in some {
                    let mut one = list.document();
                    hints.append(&mut one);
                    one.finish();
                }
                list.finish();
            }
            if let Some(framework) = self.query_framework {
                out.append("queryFramework", framework);
            }
            if let Some(reject) = self.reject {
                out.append("reject", reject);
            }
            if let Some(comment) = &self.comment {
                out.append("comment", comment);
            }
        })
    }
}

impl IndexHints {
    fn parse(hint: RawDocument<'_>) -> Result<IndexHints> {
        let (mut namespace, mut allowed) = (None, None);
        for field in hint {
            match (field.name().as_bytes(), field.value()) {
                (b"ns", RawValue::Document(names)) => namespace = Some(names),
                (b"ns", _) => return Err(wrong_type(INDEX_HINT, field, "object")),
                (b"allowedIndexes", RawValue::Array(indexes)) => allowed = Some(indexes),
                (b"allowedIndexes", _) => return Err(wrong_type(INDEX_HINT, field, "array")),
                _ => return Err(unknown(INDEX_HINT, field)),
            }
        }
        let namespace = namespace.ok_or_else(|| missing("ns"))?;
        let allowed = allowed.ok_or_else(|| missing("allowedIndexes"))?;
        let namespace = parse_namespace(namespace)?;
        let (indexes, natural) = parse_indexes(allowed)?;
        let allowed = IndexFilter {
            query: Document::new(),
            indexes,
        };
        Ok(IndexHints {
            namespace,
            allowed,
            natural,
        })
    }

    /// The scan of the collection that is allowed, as a hint; none where no plan may scan it.
    pub(crate) fn natural(&self) -> Option<RawValue<'_>> {
        let natural = self.natural.as_ref()?;
        Some(RawValue::Document(natural.as_raw()))
    }

    fn append(&self, out: &mut DocumentBuilder<'_>) {
        let mut namespace = out.document("ns");
        namespace.append("db", self.namespace.database());
        namespace.append("coll", self.namespace.collection());
        namespace.finish();
        let mut allowed = out.array("allowedIndexes");
        for index in &self.allowed.indexes {
            allowed.push(index.as_raw());
        }
        allowed.finish();
    }
}

/// The hints of settings: those of one collection, or a list of them.
fn parse_hints(value: RawValue<'_>) -> Result<Arc<[IndexHints]>> {
    let hints = match value {
        RawValue::Document(one) => vec![IndexHints::parse(one)?],
        RawValue::Array(several) => {
            let mut hints = Vec::new();
            for one in several.elements() {
                if hints.len() == COLLECTIONS_MAX {
                    let text = format!("indexHints names at most {COLLECTIONS_MAX} collections");
                    return Err(Error::bad_value(text));
                }
                let RawValue::Document(hint) = one.value() else {
                    let place = one.name().to_string_lossy();
                    let text = format!("invalid parameter: expected an object ({place})");
                    return Err(Error::location(10_065, text));
                };
                hints.push(IndexHints::parse(hint)?);
            }
            hints
        }
        _ => {
            let text = "'indexHints' must be an object or an array";
            return Err(Error::failed_to_parse(text));
        }
    };
    Ok(hints.into())
}

fn parse_namespace(names: RawDocument<'_>) -> Result<Namespace> {
    let (mut database, mut collection) = (None, None);
    for field in names {
        let name = match field.value() {
            value if value.is_nullish() => continue,
            RawValue::String(name) => name.as_str().map_err(invalid_text)?,
            _ => return Err(wrong_type("ns", field, "string")),
        };
        match field.name().as_bytes() {
            b"db" => database = Some(name),
            b"coll" => collection = Some(name),
            _ => return Err(unknown("ns", field)),
        }
    }
    let missing = |code, name| {
        let text = format!("invalid index hint: 'ns.{name}' field is missing");
        Error::location(code, text)
    };
    let database = database.ok_or_else(|| missing(8_727_500, "db"))?;
    let collection = collection.ok_or_else(|| missing(8_727_501, "coll"))?;
    Ok(Namespace::new(database, collection)?)
}

/// The allowed indexes, and the scan of the collection that is allowed beside them.
fn parse_indexes(allowed: RawArray<'_>) -> Result<(Vec<Value>, Option<Document>)> {
    let (mut indexes, mut natural) = (Vec::new(), None::<Document>);
    for index in allowed {
        if indexes.len() == INDEXES_MAX {
            let text = format!("allowedIndexes names at most {INDEXES_MAX} indexes");
            return Err(Error::bad_value(text));
        }
        match index {
            RawValue::String(_) => {}
            RawValue::Document(pattern) if is_natural(pattern) => {
                let is_forward = parse_natural(pattern)?;
                // Where both directions are allowed, the collection is scanned forwards.
                if is_forward || natural.is_none() {
                    natural = Some(pattern.to_owned_document());
                }
            }
            RawValue::Document(pattern) => check_pattern(pattern)?,
            _ => return Err(Error::failed_to_parse("Hint must be a string or an object")),
        }
        indexes.push(index.to_value());
    }
    Ok((indexes, natural))
}

fn is_natural(pattern: RawDocument<'_>) -> bool {
    let first = pattern.first();
    first.is_some_and(|first| first.name() == "$natural")
}

/// Whether a natural order is the forward one.
fn parse_natural(pattern: RawDocument<'_>) -> Result<bool> {
    let Some(only) = pattern.sole_element("$natural") else {
        let text = format!("$natural hint may only accept one field {pattern}");
        return Err(Error::failed_to_parse(text));
    };
    match only.value().as_i64_truncated() {
        Some(1) => Ok(true),
        Some(-1) => Ok(false),
        _ => {
            let text = format!(
                "$natural hint may only accept 1 or -1, not {}",
                only.value()
            );
            Err(Error::failed_to_parse(text))
        }
    }
}

fn check_pattern(pattern: RawDocument<'_>) -> Result<()> {
    if pattern.is_empty() {
        let text = "key pattern index can't be empty";
        return Err(Error::location(9_646_000, text));
    }
    match KeyPattern::parse(pattern) {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = Error::from(error).in_context("invalid index key pattern hint");
            Err(Error::location(9_646_001, why.message))
        }
    }
}

fn parse_framework(field: RawElement<'_>) -> Result<&'static str> {
    let RawValue::String(given) = field.value() else {
        return Err(wrong_type(SETTINGS, field, "string"));
    };
    let known = FRAMEWORKS.into_iter().find(|known| given == *known);
    known.ok_or_else(|| {
        let given = given.to_string_lossy();
        let text =
            format!("Invalid value for 'queryFramework': expected classic or sbe, but got {given}");
        Error::bad_value(text)
    })
}

fn parse_reject(value: RawValue<'_>) -> Result<bool> {
    value.as_bool().ok_or_else(|| {
        let found = value.element_type().alias();
        let text = format!("Field 'reject' should be a boolean value, but found: {found}");
        Error::type_mismatch(text)
    })
}

fn invalid_text(error: quarry_bson::Error) -> Error {
    Error::new(ErrorCode::INVALID_BSON, error.to_string())
}

fn unknown(of: &str, field: RawElement<'_>) -> Error {
    let name = field.name().to_string_lossy();
    let text = format!("BSON field '{of}.{name}' is an unknown field.");
    Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text)
}

fn missing(name: &str) -> Error {
    let text = format!("BSON field '{INDEX_HINT}.{name}' is missing but a required field");
    Error::new(ErrorCode::IDL_FAILED_TO_PARSE, text)
}

fn wrong_type(of: &str, field: RawElement<'_>, expected: &str) -> Error {
    let name = field.name().to_string_lossy();
    let found = field.value().element_type().alias();
    Error::type_mismatch(format!(
        "BSON field '{of}.{name}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn hint(collection: &str, indexes: Vec<Value>) -> Document {
        doc! { "ns": { "db": "db", "coll": collection }, "allowedIndexes": indexes }
    }

    fn parse(settings: &Document) -> Result<QuerySettings, i32> {
        QuerySettings::parse(settings.as_raw())
            .and_then(QuerySettings::checked)
            .map_err(|error| error.code())
    }

    #[test]
    fn settings_are_kept_without_what_says_nothing() {
        let named = hint("c", vec![Value::from("a_1"), doc! { "b": 1 }.into()]);
        let bare = hint("d", Vec::new());
        let settings = doc! {
            "reject": false, "queryFramework": "sbe", "comment": 7, "indexHints": [(named.clone()), bare],
        };
        let kept = parse(&settings).unwrap();
        let wanted = doc! { "indexHints": [named], "queryFramework": "sbe", "comment": 7 };
        assert_eq!(kept.to_document(), wanted);
        let namespace = |name| Namespace::new("db", name).unwrap();
        assert!(kept.hints_for(&namespace("c")).is_some());
        assert!(kept.hints_for(&namespace("d")).is_none());
        assert!(!kept.rejects());
    }

    #[test]
    fn newer_settings_take_the_place_of_those_that_they_name() {
        let one = hint("c", vec![Value::from("a_1")]);
        let before = parse(&doc! { "indexHints": (one.clone()), "reject": true }).unwrap();
        let newer = QuerySettings::parse(doc! { "comment": "why" }.as_raw()).unwrap();
        let both = before.clone().merged(newer).checked().unwrap();
        let wanted = doc! { "indexHints": [(one.clone())], "reject": true, "comment": "why" };
        assert_eq!(both.to_document(), wanted);
        let milder = QuerySettings::parse(doc! { "reject": false }.as_raw()).unwrap();
        let milder = before.merged(milder).checked().unwrap();
        assert_eq!(milder.to_document(), doc! { "indexHints": [one] });
    }

    #[test]
    fn a_scan_is_allowed_by_name_and_forwards_where_both_are() {
        let natural = |order: i32| Value::from(doc! { "$natural": order });
        for (orders, wanted) in [
            (vec![-1], -1),
            (vec![1], 1),
            (vec![-1, 1], 1),
            (vec![1, -1], 1),
        ] {
            let indexes = orders.iter().map(|order| natural(*order)).collect();
            let settings = doc! { "indexHints": (hint("c", indexes)) };
            let settings = parse(&settings).unwrap();
            let hints = settings.hints_for(&Namespace::new("db", "c").unwrap());
            let allowed = hints.and_then(IndexHints::natural).unwrap();
            let order = allowed.as_document().unwrap().get_i32("$natural");
            assert_eq!(order, Some(wanted), "{orders:?}");
        }
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_mongodbs_codes() {
        let with = |indexes: Vec<Value>| doc! { "indexHints": (hint("c", indexes)) };
        let twice = vec![
            Value::from(hint("c", vec![Value::from("a_1")])),
            Value::from(hint("c", vec![Value::from("b_1")])),
        ];
        for (settings, code) in [
            (doc! {}, 7_746_604),
            (doc! { "comment": "x" }, 7_746_604),
            (doc! { "reject": false }, 7_746_604),
            (with(Vec::new()), 7_746_604),
            (doc! { "indexHints": twice }, 7_746_608),
            (doc! { "indexHints": 5 }, 9),
            (doc! { "indexHints": [5] }, 10_065),
            (doc! { "indexHints": {} }, 40_414),
            (
                doc! { "indexHints": { "ns": { "coll": "c" }, "allowedIndexes": [] } },
                8_727_500,
            ),
            (
                doc! { "indexHints": { "ns": { "db": "d" }, "allowedIndexes": [] } },
                8_727_501,
            ),
            (
                doc! { "indexHints": { "ns": { "db": "d", "coll": "c" } } },
                40_414,
            ),
            (with(vec![Value::from(7)]), 9),
            (with(vec![doc! {}.into()]), 9_646_000),
            (with(vec![doc! { "a": 0 }.into()]), 9_646_001),
            (with(vec![doc! { "$natural": 2 }.into()]), 9),
            (with(vec![doc! { "$natural": 1, "a": 1 }.into()]), 9),
            (doc! { "queryFramework": "new" }, 2),
            (doc! { "queryFramework": 1 }, 14),
            (doc! { "reject": "yes" }, 14),
            (doc! { "reject": true, "unknown": 1 }, 40_415),
        ] {
            assert_eq!(parse(&settings).err(), Some(code), "{settings}");
        }
    }
}
