//! The shape of a find, a distinct or an aggregate as a document: the query without its values. `$queryStats` counts by it, and its hash
//! is what settings of queries go by (`setQuerySettings`).

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_query::normalised::{
    append_filter, append_pipeline, append_projection, append_values, placeholder,
};

use crate::dispatch::command::Invocation;

/// The collection of a pipeline over none.
const COLLECTIONLESS: &str = "$cmd.aggregate";

/// The commands that have a shape.
const COMMANDS: [&str; 3] = ["aggregate", "distinct", "find"];

/// A query whose shape is asked for.
#[derive(Clone, Copy)]
pub struct ShapedQuery<'q> {
    /// The name of the command.
    pub command: &'static str,
    pub database: &'q str,
    /// The command, its name first.
    pub body: RawDocument<'q>,
}

impl<'q> ShapedQuery<'q> {
    /// The query that a command is.
    pub fn of(invocation: &Invocation<'q>) -> ShapedQuery<'q> {
        ShapedQuery {
            command: invocation.command.name,
            database: invocation.generic.database,
            body: invocation.body,
        }
    }

    /// The query that the body of some command is; none for one that has no shape.
    pub fn in_body(database: &'q str, body: RawDocument<'q>) -> Option<ShapedQuery<'q>> {
        let name = body.first()?.name();
        let command = COMMANDS.into_iter().find(|known| name == *known)?;
        Some(ShapedQuery {
            command,
            database,
            body,
        })
    }

    /// The name of the collection.
    pub fn collection(&self) -> &'q str {
        let first = self.body.first();
        let named = first.and_then(|first| first.value().as_str());
        named.unwrap_or(COLLECTIONLESS)
    }

    /// The shape as a document.
    pub fn shape(&self) -> quarry_query::Result<Document> {
        let mut made = Ok(());
        let shape = Document::build(|out| made = self.append_shape(out));
        made.map(|()| shape)
    }

    /// Appends what the shape is made of. What names an index is no part of it, as in MongoDB.
    pub fn append_shape(&self, shape: &mut DocumentBuilder<'_>) -> quarry_query::Result<()> {
        let body = self.body;
        let mut namespace = shape.document("cmdNs");
        namespace.append("db", self.database);
        namespace.append("coll", self.collection());
        namespace.finish();
        shape.append("command", self.command);
        if let Some(key) = body.get_str("key") {
            shape.append("key", key);
        }
        if let Some(pipeline) = body.get_array("pipeline") {
            append_pipeline("pipeline", pipeline, shape)?;
        } else {
            let filter = match self.command {
                "distinct" => "query",
                _ => "filter",
            };
            let conditions = body.get_document(filter).unwrap_or(RawDocument::EMPTY);
            append_filter(filter, conditions, shape)?;
        }
        for name in ["sort", "collation"] {
            if let Some(value) = said(body, name) {
                shape.append(name, value);
            }
        }
        if let Some(RawValue::Document(projection)) = said(body, "projection") {
            append_projection("projection", projection, shape);
        }
        if let Some(variables) = body.get_document("let") {
            append_values("let", variables, shape);
        }
        self.append_options(shape);
        Ok(())
    }

    fn append_options(&self, shape: &mut DocumentBuilder<'_>) {
        for name in ["limit", "skip", "min", "max"] {
            if let Some(value) = said(self.body, name) {
                shape.append(name, placeholder(value).as_str());
            }
        }
        for name in [
            "singleBatch",
            "allowDiskUse",
            "returnKey",
            "showRecordId",
            "tailable",
            "awaitData",
        ] {
            if let Some(value) = self.body.get(name).filter(RawValue::is_truthy) {
                shape.append(name, value.is_truthy());
            }
        }
    }
}

/// A field that says something.
fn said<'b>(body: RawDocument<'b>, name: &str) -> Option<RawValue<'b>> {
    body.get(name).filter(|value| match value {
        RawValue::Document(document) => !document.is_empty(),
        value => !value.is_nullish(),
    })
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn shape(body: &Document) -> Document {
        let query = ShapedQuery::in_body("db", body.as_raw()).unwrap();
        query.shape().unwrap()
    }

    #[test]
    fn a_shape_has_neither_values_nor_what_names_an_index() {
        let find = doc! {
            "find": "c", "filter": { "a": 1 }, "sort": { "b": 1 }, "projection": {}, "hint": "a_1", "limit": 5,
        };
        let wanted = doc! {
            "cmdNs": { "db": "db", "coll": "c" }, "command": "find", "filter": { "a": { "$eq": "?number" } },
            "sort": { "b": 1 }, "limit": "?number",
        };
        assert_eq!(shape(&find), wanted);
        let distinct = doc! { "distinct": "c", "key": "k", "query": { "a": "x" } };
        let wanted = doc! {
            "cmdNs": { "db": "db", "coll": "c" }, "command": "distinct", "key": "k", "query": { "a": { "$eq": "?string" } },
        };
        assert_eq!(shape(&distinct), wanted);
        let aggregate =
            doc! { "aggregate": 1, "pipeline": [{ "$limit": 3 }], "cursor": { "batchSize": 1 } };
        let wanted = doc! {
            "cmdNs": { "db": "db", "coll": "$cmd.aggregate" }, "command": "aggregate", "pipeline": [{ "$limit": "?number" }],
        };
        assert_eq!(shape(&aggregate), wanted);
    }

    #[test]
    fn other_commands_have_no_shape() {
        for body in [doc! { "count": "c", "query": {} }, doc! {}] {
            assert!(
                ShapedQuery::in_body("db", body.as_raw()).is_none(),
                "{body}"
            );
        }
    }
}
