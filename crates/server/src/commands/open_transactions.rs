//! Transactions as `$currentOp` shows them: those that wait for their clients as entries of their own, and the one that a
//! running operation is part of within its entry.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use quarry_bson::{DateTime, Document, DocumentBuilder};

use crate::dispatch::transaction_arguments::TransactionArguments;
use crate::net::connections::CurrentOperation;
use crate::server::Server;
use crate::sessions::participant::OpenTransaction;

/// The transactions that are open and that no command works in now.
pub fn idle(server: &Server) -> Vec<Document> {
    let open = server.sessions.open_transactions();
    let idle = open
        .iter()
        .filter(|(_, participant, _)| participant.is_idle());
    let entries = idle.map(|(session, _, open)| {
        Document::build(|entry| {
            entry.append("type", "idleSession");
            entry.append("desc", "inactive transaction");
            entry.append("active", false);
            server.sessions.lsid(*session).append("lsid", entry);
            append(server, open, entry);
        })
    });
    entries.collect()
}

/// Appends the transaction that a running operation is part of; of a retryable write its number alone, as MongoDB does.
pub fn append_of_running(
    server: &Server,
    running: &CurrentOperation,
    entry: &mut DocumentBuilder<'_>,
) {
    let (Some(session), Some(arguments)) = (running.session, running.transaction) else {
        return;
    };
    if !arguments.is_of_transaction() {
        append_retryable_write(arguments, entry);
        return;
    }
    // One that has not begun yet, or has just ended, has nothing to show.
    let open = server.sessions.open_transaction(session);
    if let Some(open) = open.filter(|open| open.number == arguments.number) {
        append(server, &open, entry);
    }
}

fn append_retryable_write(arguments: TransactionArguments, entry: &mut DocumentBuilder<'_>) {
    let mut transaction = entry.document("transaction");
    let mut parameters = transaction.document("parameters");
    parameters.append("txnNumber", arguments.number);
    parameters.finish();
    transaction.finish();
}

fn append(server: &Server, open: &OpenTransaction, entry: &mut DocumentBuilder<'_>) {
    let (age, active) = open.times();
    let mut transaction = entry.document("transaction");
    let mut parameters = transaction.document("parameters");
    parameters.append("txnNumber", open.number);
    parameters.append("autocommit", false);
    open.read_concern.append("readConcern", &mut parameters);
    parameters.finish();
    if let Some(time) = open.read_concern.at_cluster_time {
        transaction.append("readTimestamp", time);
    }
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let begun = DateTime(DateTime::now().0.saturating_sub(age_ms));
    transaction.append("startWallClockTime", begun.to_string().as_str());
    transaction.append("timeOpenMicros", micros(age));
    transaction.append("timeActiveMicros", micros(active));
    transaction.append("timeInactiveMicros", micros(age - active));
    let lifetime_s = server.parameters.transaction_lifetime_s.load(Relaxed);
    let expires = DateTime(begun.0.saturating_add(lifetime_s.saturating_mul(1000)));
    transaction.append("expiryTime", expires.to_string().as_str());
    let staged = i64::try_from(open.transaction.staged_bytes()).unwrap_or(i64::MAX);
    transaction.append("stagedBytes", staged);
    transaction.finish();
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
