//! A change stream as the bench reads it.

use std::io;

use quarry_bson::{Document, RawValue, Timestamp, Value, doc};

use super::side::{DATABASE, Side};
use crate::raw_client::RawClient;

/// An open stream of one collection, on a connection of its own.
pub(super) struct Stream {
    client: RawClient,
    collection: String,
    cursor: i64,
}

impl Stream {
    /// Opens a stream; `options` are those of `$changeStream`.
    pub fn open(side: &Side, collection: &str, options: Document) -> io::Result<Stream> {
        let mut client = side.connect()?;
        let cursor = open_on(&mut client, collection, options)?;
        Ok(Stream {
            client,
            collection: collection.to_owned(),
            cursor,
        })
    }

    /// Asks for the next events, waits for at most so long, and returns how many came.
    pub fn get_more(&mut self, max_time_ms: i64, batch_size: Option<i64>) -> io::Result<u64> {
        self.ask(max_time_ms, batch_size)?;
        self.client.receive()?;
        let cursor = self.client.reply().get_document("cursor");
        let batch = cursor.and_then(|cursor| cursor.get_array("nextBatch"));
        let batch = batch.ok_or_else(|| io::Error::other("getMore gave no batch"))?;
        Ok(batch.len() as u64)
    }

    /// Asks for the next events, and leaves the reply where it is.
    pub fn ask(&mut self, max_time_ms: i64, batch_size: Option<i64>) -> io::Result<()> {
        let mut command = doc! {
            "getMore": (self.cursor), "collection": (self.collection.as_str()), "maxTimeMS": max_time_ms,
            "$db": DATABASE
        };
        if let Some(batch_size) = batch_size {
            command.append("batchSize", batch_size);
        }
        self.client.send(&command)
    }

    /// The token behind what was read so far.
    pub fn token(&self) -> Option<Value> {
        let cursor = self.client.reply().get_document("cursor")?;
        cursor.get("postBatchResumeToken").map(Value::from)
    }
}

/// Opens a stream on a connection that has others, and returns its cursor.
pub(super) fn open_on(
    client: &mut RawClient,
    collection: &str,
    options: Document,
) -> io::Result<i64> {
    client.command(&doc! {
        "aggregate": collection, "pipeline": [{ "$changeStream": options }], "cursor": { "batchSize": 0 },
        "$db": DATABASE
    })?;
    let cursor = client.reply().get_document("cursor");
    let id = cursor.and_then(|cursor| cursor.get_i64("id"));
    id.filter(|&id| id != 0)
        .ok_or_else(|| io::Error::other("the stream is not open"))
}

/// The time of the last reply, which a stream can start at.
pub(super) fn operation_time(client: &RawClient) -> io::Result<Timestamp> {
    match client.reply().get("operationTime") {
        Some(RawValue::Timestamp(time)) => Ok(time),
        _ => Err(io::Error::other(
            "a reply without operationTime: the server is not a set of one",
        )),
    }
}
