//! A cursor of a server: one batch after the other.

use quarry_bson::{Document, RawDocument, Value, doc};

use crate::connection::documents;
use crate::{Connection, Error, Result};

/// An open cursor. It uses its connection until it is dropped, which closes it.
pub struct Cursor<'c> {
    connection: &'c mut Connection,
    database: String,
    collection: String,
    id: i64,
    batch: Batch,
    /// Added to each `getMore`.
    more: Document,
}

/// The last batch, which is handed out once.
struct Batch {
    reply: Document,
    path: &'static str,
    is_new: bool,
}

impl<'c> Cursor<'c> {
    /// The cursor that a reply opens.
    pub(crate) fn of_reply(
        connection: &'c mut Connection,
        database: &str,
        reply: Document,
    ) -> Result<Cursor<'c>> {
        let id = reply.get_path("cursor.id").and_then(|id| id.as_i64_exact());
        let Some(id) = id else {
            return Err(Error::Protocol("the reply has no cursor".to_owned()));
        };
        let namespace = reply.get_path("cursor.ns").and_then(|ns| ns.as_str());
        let collection = namespace
            .and_then(|namespace| namespace.split_once('.'))
            .map_or("$cmd", |(_, collection)| collection)
            .to_owned();
        Ok(Cursor {
            connection,
            database: database.to_owned(),
            collection,
            id,
            batch: Batch {
                reply,
                path: "cursor.firstBatch",
                is_new: true,
            },
            more: Document::new(),
        })
    }

    /// Has the server wait so long for documents of a cursor that follows a collection's end or its changes.
    pub fn set_wait_ms(&mut self, milliseconds: i64) {
        self.more.append("maxTimeMS", milliseconds);
    }

    /// Gets the next batch, unless there is one that nobody has seen; false where the cursor has ended.
    ///
    /// # Errors
    /// The connection is lost, or the server has closed the cursor.
    pub fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.batch.is_new) {
            return Ok(true);
        }
        if self.id == 0 {
            return Ok(false);
        }
        let mut command = doc! { "getMore": (self.id), "collection": (self.collection.as_str()) };
        for element in &self.more {
            command.append_element(element);
        }
        self.batch.reply = self.connection.run(&self.database, &command)?;
        self.batch.path = "cursor.nextBatch";
        let id = self.batch.reply.get_path("cursor.id");
        self.id = id.and_then(|id| id.as_i64_exact()).unwrap_or(0);
        Ok(true)
    }

    /// The documents of the batch that `advance` has got.
    pub fn batch(&self) -> impl Iterator<Item = RawDocument<'_>> {
        documents(&self.batch.reply, self.batch.path)
    }

    /// The whole reply that the batch came in.
    #[must_use]
    pub fn reply(&self) -> &Document {
        &self.batch.reply
    }

    /// All documents that are left, which should be few.
    ///
    /// # Errors
    /// As [`Cursor::advance`].
    pub fn collect(mut self) -> Result<Vec<Document>> {
        let mut all = Vec::new();
        while self.advance()? {
            all.extend(self.batch().map(|document| document.to_owned_document()));
        }
        Ok(all)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        let ids: Value = [Value::from(self.id)].into_iter().collect();
        let command = doc! { "killCursors": (self.collection.as_str()), "cursors": ids };
        // A connection that is lost has closed it already, or leaves it to the server's own clean-up.
        let _ = self.connection.run(&self.database, &command);
    }
}
