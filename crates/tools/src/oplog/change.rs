//! The change that an entry makes of one document.

use quarry_bson::{
    ArrayBuilder, DEPTH_MAX, Document, DocumentBuilder, ElementType, RawDocument, RawElement,
    RawValue, Value,
};

use super::diff;

/// The change of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is this one, whether it was there or not.
    Put(Document),
    /// It is this one, where it was there.
    Replace(Document),
    /// A difference of the second version.
    Diff(Document),
    /// `$set` and `$unset` of dotted paths, as entries had them before MongoDB 5.0.
    Set {
        set: Document,
        unset: Document,
    },
    Delete,
}

impl Change {
    /// The change that the `o` of an entry of an update says.
    ///
    /// # Errors
    /// The text says what of it is unknown.
    pub fn of_update(o: RawDocument<'_>) -> Result<Change, String> {
        let version = o.get("$v").and_then(|version| version.as_i64_exact());
        if version == Some(2) {
            return match (o.get_document("diff"), o.len()) {
                (Some(diff), 2) => Ok(Change::Diff(diff.to_owned_document())),
                _ => Err("an update of version 2 without a difference alone".to_owned()),
            };
        }
        let is_of_operators = o.first().is_some_and(is_operator);
        if !is_of_operators {
            return Ok(Change::Replace(o.to_owned_document()));
        }
        let (mut set, mut unset) = (Document::new(), Document::new());
        for operator in o {
            match (operator.name().as_str(), operator.value()) {
                (Ok("$v"), _) if version == Some(1) => {}
                (Ok("$set"), RawValue::Document(fields)) => set = fields.to_owned_document(),
                (Ok("$unset"), RawValue::Document(fields)) => unset = fields.to_owned_document(),
                _ => {
                    let what = format!("an update by `{}` is not supported", operator.name());
                    return Err(what);
                }
            }
        }
        Ok(Change::Set { set, unset })
    }

    /// Whether the document after the change depends on the one before.
    pub fn looks_back(&self) -> bool {
        !matches!(self, Change::Put(_) | Change::Delete)
    }

    /// The document after the change; none where it is not there.
    ///
    /// # Errors
    /// The text says what of the change is unknown.
    pub fn apply(self, before: Option<Document>) -> Result<Option<Document>, String> {
        let Some(before) = before else {
            return Ok(match self {
                Change::Put(document) => Some(document),
                // It is deleted by what comes behind, as the newer copy says.
                _ => None,
            });
        };
        match self {
            Change::Put(document) => Ok(Some(document)),
            Change::Replace(document) => Ok(Some(with_id(document, &before))),
            Change::Diff(diff) => diff::apply(diff.as_raw(), before.as_raw()).map(Some),
            Change::Set { set, unset } => {
                let mut document = before;
                for field in &set {
                    document = changed(&document, field, Some(field.value()))?;
                }
                for field in &unset {
                    document = changed(&document, field, None)?;
                }
                Ok(Some(document))
            }
            Change::Delete => Ok(None),
        }
    }
}

fn is_operator(field: RawElement<'_>) -> bool {
    field.name().as_bytes().starts_with(b"$")
}

/// A replacement may leave the `_id` out, which stays.
fn with_id(document: Document, before: &Document) -> Document {
    match (document.contains("_id"), before.get_element("_id")) {
        (false, Some(id)) => {
            let mut whole = Document::new();
            whole.append_element(id);
            for field in &document {
                whole.append_element(field);
            }
            whole
        }
        _ => document,
    }
}

/// The document with another value at a dotted path, or with none.
fn changed(
    document: &Document,
    path: RawElement<'_>,
    value: Option<RawValue<'_>>,
) -> Result<Document, String> {
    let path = path.name().to_string_lossy().into_owned();
    let parts: Vec<&str> = path.split('.').collect();
    if parts.len() > DEPTH_MAX {
        return Err(format!("an update of a path of {} parts", parts.len()));
    }
    let after = within(RawValue::Document(document.as_raw()), &parts, value)?;
    match after.as_document() {
        Some(after) => Ok(after.to_owned_document()),
        None => Ok(document.clone()),
    }
}

/// A value with another one at a path within it. Where the path runs into something else, it stays as it is: it is newer than the change.
fn within(
    before: RawValue<'_>,
    path: &[&str],
    value: Option<RawValue<'_>>,
) -> Result<Value, String> {
    let Some((part, rest)) = path.split_first() else {
        return Ok(value.map_or_else(Value::null, Value::from));
    };
    match before {
        RawValue::Document(document) => within_document(document, part, rest, value),
        RawValue::Array(array) => match part.parse::<usize>() {
            Ok(index) if index < diff::ARRAY_LEN_MAX => {
                let len = array.len();
                let wanted = match value {
                    Some(_) => len.max(index + 1),
                    None => len,
                };
                let mut after = Vec::new();
                let mut out = ArrayBuilder::new(&mut after);
                let mut elements = array.iter();
                for at in 0..wanted {
                    match (elements.next(), at == index) {
                        (element, true) => out.push(&below(element, rest, value)?),
                        (element, false) => out.push(element.unwrap_or(RawValue::Null)),
                    };
                }
                out.finish();
                Value::from_bytes(ElementType::Array, &after).map_err(|error| error.to_string())
            }
            Ok(index) => Err(format!("an update of element {index} of an array")),
            Err(_) => Ok(before.to_value()),
        },
        _ => Ok(before.to_value()),
    }
}

fn within_document(
    document: RawDocument<'_>,
    part: &str,
    rest: &[&str],
    value: Option<RawValue<'_>>,
) -> Result<Value, String> {
    let mut is_there = false;
    let mut after = Vec::new();
    let mut out = DocumentBuilder::new(&mut after);
    for field in document {
        if field.name() != part {
            out.append_element(field);
            continue;
        }
        is_there = true;
        // The field itself goes.
        if !rest.is_empty() || value.is_some() {
            out.append(part, &below(Some(field.value()), rest, value)?);
        }
    }
    if !is_there && value.is_some() {
        out.append(part, &below(None, rest, value)?);
    }
    out.finish();
    Document::from_bytes_any_text(after)
        .map(Value::from)
        .map_err(|error| error.to_string())
}

/// The value of a field or an element whose own one, or one within it, is changed.
fn below(
    before: Option<RawValue<'_>>,
    rest: &[&str],
    value: Option<RawValue<'_>>,
) -> Result<Value, String> {
    within(
        before.unwrap_or(RawValue::Document(RawDocument::EMPTY)),
        rest,
        value,
    )
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn updated(o: Document, before: Document) -> Document {
        let change = Change::of_update(o.as_raw()).unwrap();
        change.apply(Some(before)).unwrap().unwrap()
    }

    #[test]
    fn each_form_of_an_update_is_applied() {
        let before = || doc! { "_id": 1, "a": { "b": 1, "c": 2 }, "list": [1, { "x": 1 }] };
        let diff = doc! { "$v": 2, "diff": { "u": { "a": 5 } } };
        assert_eq!(
            updated(diff, before()),
            doc! { "_id": 1, "a": 5, "list": [1, { "x": 1 }] }
        );
        assert_eq!(
            updated(doc! { "_id": 1, "b": 2 }, before()),
            doc! { "_id": 1, "b": 2 }
        );
        assert_eq!(
            updated(doc! { "b": 2 }, before()),
            doc! { "_id": 1, "b": 2 }
        );
        let first = doc! {
            "$v": 1, "$unset": { "a.c": true, "list.0": true, "none.x": true },
            "$set": { "a.b": 7, "list.1.x": 8, "list.3": 9, "new.deep": 1 },
        };
        let after = doc! {
            "_id": 1, "a": { "b": 7 }, "new": { "deep": 1 },
            "list": [(Value::null()), { "x": 8 }, (Value::null()), 9],
        };
        let found = updated(first.clone(), before());
        assert_eq!(found.get("list"), after.get("list"));
        assert_eq!(
            (found.get("a"), found.get("new")),
            (after.get("a"), after.get("new"))
        );
        // Applied twice it is no other.
        assert_eq!(updated(first, found.clone()), found);
        assert_eq!(updated(doc! { "$set": { "a.b.c": 1 } }, before()), before());
    }

    #[test]
    fn what_is_there_no_more_stays_so() {
        for o in [
            doc! { "$set": { "a": 1 } },
            doc! { "a": 1 },
            doc! { "$v": 2, "diff": {} },
        ] {
            let change = Change::of_update(o.as_raw()).unwrap();
            assert!(change.looks_back());
            assert_eq!(change.apply(None), Ok(None));
        }
        let put = Change::Put(doc! { "_id": 1 });
        assert!(!put.looks_back());
        assert_eq!(put.apply(None), Ok(Some(doc! { "_id": 1 })));
        assert_eq!(Change::Delete.apply(Some(doc! {})), Ok(None));
    }

    #[test]
    fn unknown_updates_are_refused() {
        for (o, said) in [
            (doc! { "$inc": { "a": 1 } }, "by `$inc`"),
            (doc! { "$v": 3, "$set": { "a": 1 } }, "by `$v`"),
            (doc! { "$v": 2, "$set": { "a": 1 } }, "without a difference"),
            (doc! { "$set": 1 }, "by `$set`"),
        ] {
            let error = Change::of_update(o.as_raw()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let far = Change::of_update(doc! { "$set": { "a.9999999999": 1 } }.as_raw()).unwrap();
        assert!(far.apply(Some(doc! { "a": [1] })).is_err());
    }
}
