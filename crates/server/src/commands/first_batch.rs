//! The first reply of a command that makes a cursor: how much it holds, and the cursor that stays open behind it.

use std::sync::Arc;
use std::time::Instant;

use quarry_bson::DocumentBuilder;
use quarry_timing::OperationKind;

use crate::dispatch::argument::Argument;
use crate::dispatch::call::CursorRead;
use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::transaction_arguments::TransactionArguments;
use crate::observe::counters::Counter;
use crate::sessions::client_cursor::{BatchEnd, ClientCursor};
use crate::sessions::cursor_origin::CursorOrigin;

/// Documents of a first batch when the client names no size.
pub const FIRST_BATCH_DOCUMENTS: u64 = 101;

/// The contents of a cursor's first reply.
#[derive(Clone, Copy, Debug)]
pub struct FirstBatch {
    pub documents_max: u64,
    /// No cursor stays open after it.
    pub is_only: bool,
    /// With that many documents returned the cursor has ended.
    pub limit: Option<u64>,
}

impl Default for FirstBatch {
    fn default() -> Self {
        FirstBatch {
            documents_max: FIRST_BATCH_DOCUMENTS,
            is_only: false,
            limit: None,
        }
    }
}

impl FirstBatch {
    /// Reads `cursor: {batchSize}` of the commands that list.
    pub fn parse(invocation: &Invocation<'_>) -> Result<FirstBatch> {
        FirstBatch::parse_or(invocation, FIRST_BATCH_DOCUMENTS)
    }

    /// Like `parse`, for a command whose first batch has up to so many documents when the client names no size.
    pub fn parse_or(invocation: &Invocation<'_>, documents_max: u64) -> Result<FirstBatch> {
        let mut batch = FirstBatch {
            documents_max,
            ..FirstBatch::default()
        };
        let Some(options) = invocation.document("cursor")? else {
            return Ok(batch);
        };
        for element in options {
            let name = element.name();
            if name != "batchSize" {
                let path = format!("{}.cursor", invocation.command.name);
                return Err(CommandError::unknown_field(&path, &name.to_string_lossy()));
            }
            if element.value().is_nullish() {
                continue;
            }
            batch.documents_max = Argument::new("cursor", element).count()?;
        }
        Ok(batch)
    }
}

/// Writes the `cursor` of a first reply and keeps what is left for getMore.
pub fn answer(
    mut cursor: ClientCursor,
    invocation: &mut Invocation<'_>,
    batch: FirstBatch,
    reply: &mut DocumentBuilder<'_>,
) -> Result<()> {
    let server = invocation.server;
    let mut shown = reply.document("cursor");
    let mut list = shown.array("firstBatch");
    let end = cursor.fill(invocation.operation, &mut list, batch.documents_max)?;
    list.finish();
    cursor.end_counted_batch();
    cursor.append_resume_token(&mut shown);
    invocation.append_at_cluster_time(&mut shown);
    cursor.batches = 1;
    invocation.returned = cursor.returned;
    server.counters.add(
        invocation.connection.id,
        Counter::DocumentsReturned,
        cursor.returned,
    );
    let is_open = if cursor.is_tailable {
        !cursor.is_dead()
    } else {
        end == BatchEnd::Full
    };
    let has_reached_limit = batch.limit.is_some_and(|limit| cursor.returned >= limit);
    let (id, namespace) = if is_open && !batch.is_only && !has_reached_limit {
        let namespace = cursor.namespace.clone();
        cursor.save(invocation.operation)?;
        cursor.owner = invocation.user.and_then(|user| user.name.clone());
        if invocation.user.is_some() {
            // Beside what the command has found out that it needs.
            let mut needs = std::mem::take(&mut cursor.needs).into_vec();
            needs.extend(invocation.command.requires.needs(
                invocation.body,
                invocation.sequences,
                invocation.generic.database,
            ));
            cursor.needs = needs.into();
        }
        cursor.read_concern = invocation.generic.read_concern;
        cursor.api = invocation.generic.api;
        cursor.pinned = invocation.pinned.take();
        cursor.time_left = invocation
            .operation
            .deadline()
            .map(|end| end.saturating_duration_since(Instant::now()));
        let plan = invocation.operation.plan.get();
        cursor.origin = Some(Arc::new(CursorOrigin::new(invocation.body, plan)));
        // A retryable write has a txnNumber, too, and its cursor stays behind it.
        let transaction = invocation.generic.transaction;
        let transaction = transaction.filter(TransactionArguments::is_of_transaction);
        cursor.txn_number = transaction.map(|of| of.number);
        let id = server.cursors.keep(cursor)?;
        if let Some(session) = invocation
            .checked_out
            .as_mut()
            .filter(|_| transaction.is_some())
        {
            session.note_cursor(id, &namespace);
        }
        (id, namespace)
    } else {
        (0, std::mem::take(&mut cursor.namespace))
    };
    shown.append("id", id);
    shown.append("ns", namespace.as_str());
    shown.finish();
    // MongoDB tells it of queries alone, and not of lists.
    if matches!(
        invocation.command.kind,
        OperationKind::Find | OperationKind::Aggregate
    ) {
        invocation.cursor = CursorRead {
            id: Some(id).filter(|&id| id != 0),
            is_exhausted: id == 0,
            origin: None,
        };
    }
    Ok(())
}
