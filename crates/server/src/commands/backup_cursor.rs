//! An aggregate that begins with `$backupCursor`: copies the data and lists the files of the copy, which stay as long as the cursor is
//! open.
//!
//! The shape is the one that tools know of MongoDB's backup cursor: `{aggregate: 1}` on `admin`, first a document of metadata, then one
//! a file, and then a cursor that is kept open by a getMore now and then until the files are copied.

use std::collections::VecDeque;
use std::path::PathBuf;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Timestamp, Value, doc};
use quarry_database::Operation;
use quarry_query::ErrorCode;

use crate::backup::live_copy::LiveCopy;
use crate::commands::first_batch::{FirstBatch, answer};
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::sessions::client_cursor::{ClientCursor, DocumentStream, Source};

/// The stage.
pub const STAGE: &str = "$backupCursor";

const NAMESPACE: &str = "admin.$cmd.aggregate";

/// Whether the aggregate begins with the stage.
pub fn is_first(body: RawDocument<'_>) -> bool {
    specification(body).is_some()
}

fn specification(body: RawDocument<'_>) -> Option<RawValue<'_>> {
    let first = body.get_array("pipeline")?.get(0)?.as_document()?;
    Some(first.sole_element(STAGE)?.value())
}

/// Makes the copy and answers with its files.
pub fn open(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    check(invocation)?;
    let batch = FirstBatch::parse(invocation)?;
    let server = invocation.server;
    let is_connected = |connection| server.connections.is_open(connection);
    let copy = (server.backups).open(&server.database, invocation.connection.id, &is_connected)?;
    let stream = FilesOfCopy {
        metadata: Some(metadata(&copy, server.config.engine.as_str())),
        files: copy.files.iter().cloned().collect(),
        copy,
    };
    let source = Source::Stream(Box::new(stream));
    let mut cursor = ClientCursor::new(NAMESPACE.into(), invocation.generic.session, source);
    cursor.is_tailable = true;
    answer(cursor, invocation, batch, reply)
}

fn check(invocation: &Invocation<'_>) -> Result<()> {
    let is_of_database = invocation
        .subject()
        .is_some_and(|subject| subject.is_number());
    if !is_of_database || invocation.generic.database != "admin" {
        return Err(CommandError::new(
            ErrorCode::INVALID_NAMESPACE,
            "$backupCursor must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    let options = specification(invocation.body).and_then(|options| options.as_document());
    let Some(options) = options else {
        return Err(CommandError::failed_to_parse(
            "$backupCursor parameters must be specified in an object",
        ));
    };
    if let Some(option) = options.into_iter().next() {
        let name = option.name().to_string_lossy();
        return Err(CommandError::not_supported(format_args!(
            "the option '{name}' of $backupCursor"
        )));
    }
    let stages = invocation.body.get_array("pipeline").into_iter().flatten();
    if stages.count() > 1 {
        return Err(CommandError::not_supported("a stage behind $backupCursor"));
    }
    Ok(())
}

fn metadata(copy: &LiveCopy, engine: &str) -> Document {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the kernel gives random bytes");
    // The marks of a random UUID.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let time = Timestamp::from_u64(copy.copied.cluster_time);
    let lsn = i64::try_from(copy.copied.lsn).unwrap_or(i64::MAX);
    doc! {
        "metadata": doc! {
            "backupId": (Value::binary(4, &id)),
            "dbpath": (copy.directory.to_string_lossy().as_ref()),
            "checkpointTimestamp": time,
            "quarry": doc! { "version": (env!("CARGO_PKG_VERSION")), "engine": engine, "lsn": lsn },
        },
    }
}

/// The documents of the cursor. The copy goes with it.
struct FilesOfCopy {
    metadata: Option<Document>,
    files: VecDeque<(PathBuf, u64)>,
    copy: LiveCopy,
}

impl DocumentStream for FilesOfCopy {
    fn next(&mut self, operation: &Operation, out: &mut Vec<u8>) -> Result<bool> {
        operation.check()?;
        let file = |(path, bytes): (PathBuf, u64)| {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            doc! { "filename": (path.to_string_lossy().as_ref()), "fileSize": bytes }
        };
        let document = (self.metadata.take()).or_else(|| self.files.pop_front().map(file));
        if let Some(document) = &document {
            out.extend_from_slice(document.as_bytes());
        }
        Ok(document.is_some())
    }

    fn save(&mut self) {}

    fn is_dead(&self) -> bool {
        false
    }

    fn closed_by_client(&mut self) {
        if self.metadata.is_none() && self.files.is_empty() {
            self.copy.note_taken();
        }
    }
}
