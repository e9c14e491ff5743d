//! `getMore`: the next batch of a cursor. With exhaust, batches keep coming until the cursor ends.

use std::time::{Duration, Instant};

use quarry_bson::{DocumentBuilder, RawValue};
use quarry_query::ErrorCode;
use quarry_timing::OperationKind;

use crate::commands::change_stream;
use crate::data::Data;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fail_points;
use crate::dispatch::fields::{Fields, number, object, text};
use crate::dispatch::privilege::Requires;
use crate::dispatch::transaction_arguments::SessionUse;
use crate::observe::counters::Counter;
use crate::sessions::client_cursor::{BatchEnd, ClientCursor};

/// How long a tailable cursor with awaitData waits when the client names no time.
const AWAIT_DATA_DEFAULT: Duration = Duration::from_secs(1);
/// How often one that waits for a commit looks whether it was killed, its client has gone or the server stops.
const INTERRUPT_TICK: Duration = Duration::from_millis(50);
/// How often one that waits for an event of a change stream looks whether its client has gone. Whoever kills it or stops the
/// server wakes it: very many wait for a long time.
const STREAM_TICK: Duration = Duration::from_secs(1);

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        text("collection").required(),
        number("batchSize"),
        number("term").ignored(),
        object("lastKnownCommittedOpTime").ignored(),
    ]),
    kind: OperationKind::GetMore,
    is_in_api_1: true,
    takes_snapshot: true,
    session_use: SessionUse::InTransactions,
    ..Command::new(
        "getMore",
        "gets the next batch of a cursor",
        Requires::Login,
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let Some(RawValue::Int64(id)) = invocation.subject() else {
        let found = invocation
            .subject()
            .map_or("missing", |value| value.element_type().alias());
        return Err(CommandError::field_type(
            "getMore", "getMore", found, "long",
        ));
    };
    let collection = invocation.required("collection")?.text()?;
    let namespace = format!("{}.{collection}", invocation.generic.database);
    let batch_size = match invocation
        .get("batchSize")
        .filter(|size| !size.is_nullish())
        .map(|value| value.as_i64_exact().map(u64::try_from))
    {
        None | Some(Some(Ok(0))) => u64::MAX,
        Some(Some(Ok(size))) => size,
        Some(_) => {
            return Err(CommandError::bad_value(
                "BSON field 'getMore.batchSize' must be a non-negative integer",
            ));
        }
    };
    let server = invocation.server;
    invocation.cursor.id = Some(id);
    let mut cursor = server.cursors.take(
        id,
        &namespace,
        invocation.generic.session,
        invocation.generic.transaction.map(|of| of.number),
        invocation.user,
        invocation.operation,
    )?;
    if let Err(error) = invocation.generic.api.check_get_more(cursor.api) {
        cursor.put_back();
        return Err(error);
    }
    invocation.cursor.origin.clone_from(&cursor.origin);
    let met = fail_points::meet(fail_points::FAIL_GET_MORE, invocation);
    met.map_err(|error| match cursor.changes() {
        Some(_) => change_stream::label_error(error),
        None => error,
    })?;
    if invocation.generic.max_time.is_some() && !cursor.is_await_data {
        cursor.put_back();
        return Err(CommandError::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    // Dispatch waits, before the reply, until what the batch saw is as durable as the cursor's own command asked for.
    invocation.generic.read_concern = cursor.read_concern;
    invocation.pinned.clone_from(&cursor.pinned);
    let started = Instant::now();
    if let Some(query) = &mut cursor.query_stats {
        query.begin_batch(invocation.operation);
    }
    // A cursor whose batch fails is dropped, which ends it.
    let end = next_batch(invocation, &mut cursor, &namespace, batch_size, reply);
    let end = end.map_err(|error| {
        let is_interrupted = error.code == ErrorCode::INTERRUPTED.0;
        let error = match is_interrupted && cursor.is_killed_by_client() {
            true => killed(id),
            false => error,
        };
        match cursor.changes() {
            Some(_) => change_stream::label_error(error),
            None => error,
        }
    })?;
    let stays = end == BatchEnd::Full || (cursor.is_tailable && !cursor.is_dead());
    if !stays {
        invocation.cursor.is_exhausted = true;
        return Ok(());
    }
    cursor.time_left = cursor
        .time_left
        .map(|left| left.saturating_sub(started.elapsed()));
    if !cursor.put_back() {
        return Err(killed(id));
    }
    invocation.is_exhaust = invocation.is_exhaust_allowed;
    Ok(())
}

fn killed(id: i64) -> CommandError {
    CommandError::new(
        ErrorCode::CURSOR_KILLED,
        format!("cursor id {id} was killed"),
    )
}

fn next_batch(
    invocation: &mut Invocation<'_>,
    cursor: &mut ClientCursor,
    namespace: &str,
    batch_size: u64,
    reply: &mut DocumentBuilder<'_>,
) -> Result<BatchEnd> {
    let before = cursor.returned;
    let mut shown = reply.document("cursor");
    let mut batch = shown.array("nextBatch");
    let await_until = (cursor.is_await_data && invocation.may_wait)
        .then(|| Instant::now() + invocation.generic.max_time.unwrap_or(AWAIT_DATA_DEFAULT));
    let server = invocation.server;
    let data = server.data();
    // Registered before the first look, so that no commit falls between a look and the wait.
    let mut watch = await_until
        .and(cursor.collection())
        .map(|ident| data.watch_commits(ident));
    let end = loop {
        cursor.restore(&invocation.data(), invocation.operation)?;
        let end = cursor.fill(invocation.operation, &mut batch, batch_size)?;
        cursor.save(invocation.operation)?;
        let is_waiting = end == BatchEnd::Exhausted && batch.is_empty() && !cursor.is_dead();
        let Some(until) = await_until.filter(|_| is_waiting) else {
            break end;
        };
        let has_come = match (cursor.changes(), &mut watch) {
            (Some(stream), _) => {
                stream.end_wait_with(invocation.operation);
                wait(invocation, until, STREAM_TICK, &mut |until| {
                    stream.wait_until(until)
                })?
            }
            (None, Some(watch)) => wait(invocation, until, INTERRUPT_TICK, &mut |until| {
                watch.wait_until(until)
            })?,
            (None, None) => false,
        };
        if !has_come {
            break end;
        }
    };
    batch.finish();
    cursor.append_resume_token(&mut shown);
    invocation.append_at_cluster_time(&mut shown);
    let is_open = end == BatchEnd::Full || (cursor.is_tailable && !cursor.is_dead());
    shown.append("id", if is_open { cursor.id } else { 0 });
    shown.append("ns", namespace);
    shown.finish();
    cursor.batches += 1;
    cursor.end_counted_batch();
    invocation.returned = cursor.returned - before;
    server.counters.add(
        invocation.connection.id,
        Counter::DocumentsReturned,
        invocation.returned,
    );
    Ok(end)
}

/// Waits for a commit that the cursor may want; false when the time is up or the server stops. `wait_until` waits for the commit
/// alone, for `tick` at most.
fn wait(
    invocation: &Invocation<'_>,
    until: Instant,
    tick: Duration,
    wait_until: &mut dyn FnMut(Instant) -> bool,
) -> Result<bool> {
    // The client's wish, not the server's work.
    let _pause = quarry_timing::pause();
    loop {
        invocation.operation.check()?;
        let now = Instant::now();
        if now >= until || invocation.server.shutdown.is_requested() {
            return Ok(false);
        }
        if wait_until(until.min(now + tick)) {
            return Ok(true);
        }
        // `check` looks at the socket now and then only, because who works asks it very often.
        let is_gone = invocation.connection.transport.is_gone();
        if is_gone && !invocation.server.shutdown.is_requested() {
            return Err(quarry_database::Error::Interrupted.into());
        }
    }
}
