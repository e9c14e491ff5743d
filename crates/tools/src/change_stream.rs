//! The stream of all changes of a server, and places in it.

use quarry_bson::{Document, Value, doc};
use quarry_client::Connection;

/// A server without change streams: a MongoDB that is no set.
pub const NO_CHANGE_STREAMS: i32 = 40_573;
/// Codes of a server that has forgotten the place, or cannot go on behind it.
pub const FORGOTTEN: [i32; 2] = [280, 286];

/// The place in a server's changes as it is now.
pub fn current_token(connection: &mut Connection) -> quarry_client::Result<Document> {
    let cursor = connection.cursor("admin", &command(None, &[]))?;
    token_of(cursor.reply()).ok_or_else(|| {
        quarry_client::Error::Protocol("the change stream has no place to resume at".to_owned())
    })
}

/// The place behind a batch.
pub fn token_of(reply: &Document) -> Option<Document> {
    let token = reply.get_path("cursor.postBatchResumeToken")?;
    Some(token.as_document()?.to_owned_document())
}

/// Whether a place is not before another one: their texts have the order of the places.
pub fn has_reached(token: &Document, goal: &Document) -> bool {
    token.get_str("_data") >= goal.get_str("_data")
}

/// The command that opens a stream of all changes, changes of definitions among them, behind a place or as of now; the stages stand behind it.
pub fn command(token: Option<&Document>, stages: &[Document]) -> Document {
    let mut stream = doc! { "allChangesForCluster": true, "showExpandedEvents": true };
    if let Some(token) = token {
        stream.append("resumeAfter", token);
    }
    let pipeline = [doc! { "$changeStream": stream }];
    let pipeline: Value = pipeline.iter().chain(stages).map(Value::from).collect();
    doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_by_their_text() {
        let token = |data: &str| doc! { "_data": data };
        assert!(has_reached(&token("82AB"), &token("82AB")));
        assert!(has_reached(&token("82AC"), &token("82AB")));
        assert!(!has_reached(&token("82AA"), &token("82AB")));
    }
}
