//! The use of a document: an insert as it stands, or a statement of `update` or `delete`.

use clap::ValueEnum;
use quarry_bson::{DocumentBuilder, ObjectId, RawDocument, RawElement};

use crate::error::{Error, Result};
use crate::loader::Verb;

const ID: &str = "_id";

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
            // It is found by nothing, so that it is inserted.
            false => {
                query.append(ID, id);
            }
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

    fn append_query(&self, document: RawDocument<'_>, query: &mut DocumentBuilder<'_>) {
        for field in &self.fields {
            // A field that is not there is looked for as null, which finds what has none.
            match document.get_path_element(field) {
                Some(element) => query.append_renamed(field, element),
                None => query.append(field, quarry_bson::RawValue::Null),
            };
        }
    }

    fn is_in_query(&self, element: &RawElement<'_>) -> bool {
        self.fields
            .iter()
            .any(|field| element.name() == field.as_str())
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
    use quarry_bson::{Document, doc};

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
                "{ q: { c: 3, d: null }, u: { $set: {} }, upsert: true }",
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
    }
}
