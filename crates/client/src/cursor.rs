//! A cursor of a server: one batch after the other.

use std::time::Duration;

use quarry_bson::{Document, RawDocument, Value, doc};

use crate::connection::documents;
use crate::{Connection, Error, Result};

/// A reply that has not come so long after a server should have said that there is nothing yet comes no more.
const REPLY_GRACE: Duration = Duration::from_secs(60);

/// An open cursor. It uses its connection until it is dropped, which closes it.
pub struct Cursor<'c> {
    connection: &'c mut Connection,
    database: String,
    collection: String,
    id: i64,
    batch: Batch,
    /// The time that the server is to wait for documents.
    wait: Option<Duration>,
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
            wait: None,
        })
    }

    /// Has the server wait so long for documents of a cursor that follows a collection's end or its changes. A server that says nothing
    /// for a minute more has gone.
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = Some(wait);
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
        if let Some(wait) = self.wait {
            let milliseconds = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            command.append("maxTimeMS", milliseconds);
            self.connection.set_reply_time(Some(wait + REPLY_GRACE))?;
        }
        let reply = self.connection.run(&self.database, &command);
        let reply = reply?;
        if self.wait.is_some() {
            self.connection.set_reply_time(None)?;
        }
        self.batch.reply = reply;
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
        // A cursor of a connection that is lost is left to the server's own clean-up.
        if self.id == 0 || self.connection.is_lost() {
            return;
        }
        let ids: Value = [Value::from(self.id)].into_iter().collect();
        let command = doc! { "killCursors": (self.collection.as_str()), "cursors": ids };
        // One that has gone already is closed.
        let _ = self.connection.run(&self.database, &command);
    }
}
