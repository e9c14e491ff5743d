//! The use of a document: an insert as it stands, or a statement of `update` or `delete`.

use clap::ValueEnum;
use quarry_bson::{DocumentBuilder, ObjectId, RawDocument, RawElement, RawValue};

use crate::error::{Error, Result};
use crate::loader::Verb;

pub const ID: &str = "_id";

/// The use that is made of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// It is inserted
    Insert,
    /// It replaces the one with the same fields, or is inserted
    Upsert,
    /// Its fields are set in the one with the same fields, or it is inserted
    Merge,
    /// The one with the same fields is removed
    Delete,
}

/// Makes statements of documents.
pub struct Statements {
    mode: Mode,
    /// The fields by which a document is found.
    fields: Vec<String>,
}

impl Statements {
    pub fn new(mode: Mode, fields: &str) -> Result<Statements> {
        let fields: Vec<String> = fields
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        if fields.iter().any(String::is_empty) {
            return Err(Error::usage("--upsertFields are names separated by commas"));
        }
        if let Some(operator) = fields.iter().find(|name| name.starts_with('$')) {
            return Err(Error::usage(format!(
                "--upsertFields are names of fields: `{operator}` would be an operator of the filter"
            )));
        }
        Ok(Statements { mode, fields })
    }

    pub fn verb(&self) -> Verb {
        match self.mode {
            Mode::Insert => Verb::Insert,
            Mode::Upsert | Mode::Merge => Verb::Update,
            Mode::Delete => Verb::Delete,
        }
    }

    /// Appends what is sent for a document. One that has no `_id` of its own gets `id` where it is inserted. The error says why there is
    /// no statement; `out` is then as before.
    pub fn append(
        &self,
        document: RawDocument<'_>,
        id: ObjectId,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        if self.mode == Mode::Insert {
            append_with_id(document, id, out);
            return Ok(());
        }
        let has_any = self
            .fields
            .iter()
            .any(|field| document.get_path(field).is_some());
        if self.mode == Mode::Delete && !has_any {
            return Err(format!(
                "the document has no field `{}`",
                self.fields.join("`, `")
            ));
        }
        let mut statement = DocumentBuilder::new(out);
        let mut query = statement.document("q");
        match has_any {
            true => self.append_query(document, &mut query),
            false => append_query_of_none(document, id, &mut query),
        }
        query.finish();
        match self.mode {
            Mode::Delete => {
                statement.append("limit", 1);
            }
            Mode::Merge => {
                let mut update = statement.document("u");
                let mut set = update.document("$set");
                for element in document.iter().filter(|element| !self.is_in_query(element)) {
                    set.append_element(element);
                }
                set.finish();
                update.finish();
                statement.append("upsert", true);
            }
            Mode::Upsert | Mode::Insert => {
                statement.append("u", document).append("upsert", true);
            }
        }
        statement.finish();
        Ok(())
    }

    /// Appends a filter that finds documents with the same values. One that a filter would obey stands behind `$eq`, so that it is
    /// compared. A null does not find documents without the field, and neither the other way round.
    fn append_query(&self, document: RawDocument<'_>, query: &mut DocumentBuilder<'_>) {
        for field in &self.fields {
            let element = document.get_path_element(field);
            // The server finds a plain `_id` without a plan.
            if let Some(element) = element.filter(|element| is_plain(element.value())) {
                query.append_renamed(field, element);
                continue;
            }
            let mut condition = query.document(field);
            if let Some(element) = element {
                condition.append_renamed("$eq", element);
            }
            match element.map(|element| element.value()) {
                None => condition.append("$exists", false),
                Some(RawValue::Null) => condition.append("$exists", true),
                Some(_) => &mut condition,
            };
            condition.finish();
        }
    }

    fn is_in_query(&self, element: &RawElement<'_>) -> bool {
        self.fields
            .iter()
            .any(|field| element.name() == field.as_str())
    }
}

/// Whether a filter takes the value for itself, and for nothing beside it.
fn is_plain(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Document(document) => {
            let first = document.first();
            !first.is_some_and(|first| first.name().as_bytes().starts_with(b"$"))
        }
        RawValue::Regex(_) | RawValue::Null | RawValue::Undefined => false,
        _ => true,
    }
}

/// Appends a filter that finds nothing, so that the document is inserted. One without `_id` gets `id`, and is found by that when it is sent again.
fn append_query_of_none(document: RawDocument<'_>, id: ObjectId, query: &mut DocumentBuilder<'_>) {
    if document.contains(ID) {
        let mut condition = query.document(ID);
        condition.array("$in").finish();
        condition.finish();
    } else {
        query.append(ID, id);
    }
}

/// Appends the document, with `_id` in front if it has none.
fn append_with_id(document: RawDocument<'_>, id: ObjectId, out: &mut Vec<u8>) {
    if document.contains(ID) {
        out.extend_from_slice(document.as_bytes());
        return;
    }
    let mut builder = DocumentBuilder::new(out);
    builder.append(ID, id);
    for element in document {
        builder.append_element(element);
    }
    builder.finish();
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::{Document, doc, extjson};

    fn statement(mode: Mode, fields: &str, document: &Document) -> String {
        let mut out = Vec::new();
        let id = ObjectId::from_bytes([1; 12]);
        let statements = Statements::new(mode, fields).unwrap();
        match statements.append(document.as_raw(), id, &mut out) {
            Ok(()) => RawDocument::validated(&out).unwrap().to_string(),
            Err(what) => {
                assert!(out.is_empty());
                what
            }
        }
    }

    #[test]
    fn each_mode_has_its_statement() {
        let document = doc! { "_id": 1, "a": { "b": 2 }, "c": 3 };
        let without = doc! { "c": 3 };
        for (mode, fields, document, said) in [
            (
                Mode::Insert,
                "_id",
                &document,
                "{ _id: 1, a: { b: 2 }, c: 3 }",
            ),
            (
                Mode::Insert,
                "_id",
                &without,
                "{ _id: ObjectId('010101010101010101010101'), c: 3 }",
            ),
            (
                Mode::Upsert,
                "a.b",
                &document,
                "{ q: { a.b: 2 }, u: { _id: 1, a: { b: 2 }, c: 3 }, upsert: true }",
            ),
            (
                Mode::Upsert,
                "_id",
                &without,
                "{ q: { _id: ObjectId('010101010101010101010101') }, u: { c: 3 }, upsert: true }",
            ),
            (
                Mode::Merge,
                "_id,c",
                &document,
                "{ q: { _id: 1, c: 3 }, u: { $set: { a: { b: 2 } } }, upsert: true }",
            ),
            (
                Mode::Merge,
                "c,d",
                &without,
                "{ q: { c: 3, d: { $exists: false } }, u: { $set: {} }, upsert: true }",
            ),
            (
                Mode::Upsert,
                "x",
                &document,
                "{ q: { _id: { $in: [] } }, u: { _id: 1, a: { b: 2 }, c: 3 }, upsert: true }",
            ),
            (Mode::Delete, "c", &document, "{ q: { c: 3 }, limit: 1 }"),
            (
                Mode::Delete,
                "x,y",
                &document,
                "the document has no field `x`, `y`",
            ),
        ] {
            let shown = statement(mode, fields, document).replace("'a.b'", "a.b");
            assert_eq!(shown, said);
        }
        assert!(Statements::new(Mode::Upsert, "a,,b").is_err());
        let operator = Statements::new(Mode::Upsert, "a,$expr").err();
        let said = operator.unwrap().to_string();
        assert!(said.contains("`$expr` would be an operator"), "{said}");
        assert!(Statements::new(Mode::Upsert, "ref.$id").is_ok());
    }

    #[test]
    fn values_are_compared_and_are_no_operators() {
        let operator = doc! { "_id": { "$gt": "m" }, "k": { "$ne": 1 } };
        assert_eq!(
            statement(Mode::Delete, "_id,k", &operator),
            "{ q: { _id: { $eq: { $gt: 'm' } }, k: { $eq: { $ne: 1 } } }, limit: 1 }"
        );
        let text = r#"{"k": {"$regularExpression": {"pattern": "^a", "options": ""}}}"#;
        let expression = extjson::parse(text).unwrap();
        assert_eq!(
            statement(Mode::Delete, "k", &expression),
            "{ q: { k: { $eq: /^a/ } }, limit: 1 }"
        );
        let null = doc! { "k": null };
        assert_eq!(
            statement(Mode::Merge, "k", &null),
            "{ q: { k: { $eq: null, $exists: true } }, u: { $set: {} }, upsert: true }"
        );
    }
}
