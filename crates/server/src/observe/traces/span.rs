//! From a finished operation to its spans: one for the operation, and under it one a phase.
//!
//! A phase's time is exact, its place within the operation is not: an operation goes in and out of its phases, and what
//! is kept of each is the sum. The children stand end to end in the order of the phases, and what is left behind the
//! last one is `unattributed`. Names and attributes follow OpenTelemetry's conventions for databases where it has them.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use quarry_timing::{Breakdown, OperationKind, Phase, Work};

use super::TraceContext;
use crate::net::peer::Peer;
use crate::observe::ended::Ended;
use crate::observe::timing_document::{LockHolder, signed};
use crate::sessions::transaction_tags;

/// An operation on its way to the thread that sends.
pub struct Finished {
    context: Option<TraceContext>,
    command_name: &'static str,
    database: String,
    collection: String,
    opid: u32,
    connection_id: i64,
    client: Peer,
    plan: Option<String>,
    /// Code, its name and the message.
    error: Option<(i32, String, String)>,
    ended: SystemTime,
    breakdown: Breakdown,
}

impl Finished {
    pub fn new(ended: &Ended<'_>, context: Option<TraceContext>, now: SystemTime) -> Finished {
        let outcome = ended.outcome;
        let error = outcome.error.as_ref().map(|error| {
            (
                error.code,
                error.code_name().into_owned(),
                error.message.clone(),
            )
        });
        Finished {
            context,
            command_name: outcome.command_name,
            database: outcome.database.to_owned(),
            collection: outcome.collection.to_owned(),
            opid: outcome.opid,
            connection_id: ended.connection.id,
            client: ended.connection.peer.clone(),
            plan: ended.plan().map(ToString::to_string),
            error,
            ended: now,
            breakdown: *ended.breakdown,
        }
    }

    /// Appends the operation's span and its children's. `new_id` gives random numbers.
    pub fn append_spans(&self, new_id: &mut impl FnMut() -> u64, spans: &mut Vec<Span>) {
        let trace_id = self.context.map_or_else(
            || u128::from(new_id()) << 64 | u128::from(new_id().max(1)),
            |context| context.trace_id,
        );
        let span_id = new_id().max(1);
        let end = unix_ns(self.ended);
        let start = end.saturating_sub(self.breakdown.wall_ns);
        spans.push(Span {
            parent_span_id: self
                .context
                .map(|context| context.span_id.to_be_bytes().to_vec())
                .unwrap_or_default(),
            kind: SpanKind::Server.into(),
            attributes: self.attributes(),
            status: self.error.as_ref().map(|(_, _, message)| Status {
                message: message.clone(),
                code: StatusCode::Error.into(),
            }),
            ..span(trace_id, span_id, self.name(), start, end)
        });
        let mut begun = start;
        for (phase, ns) in self.breakdown.entered() {
            let ended = begun.saturating_add(ns).min(end);
            spans.push(Span {
                parent_span_id: span_id.to_be_bytes().to_vec(),
                kind: SpanKind::Internal.into(),
                attributes: waits(phase, &self.breakdown),
                ..span(trace_id, new_id().max(1), phase.name().into(), begun, ended)
            });
            begun = ended;
        }
    }

    /// `find db.collection`.
    fn name(&self) -> String {
        let (command, database) = (self.command_name, &self.database);
        if self.collection.is_empty() {
            return format!("{command} {database}");
        }
        format!("{command} {database}.{}", self.collection)
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let mut attributes = vec![
            text("db.system.name", "quarry"),
            text("db.namespace", self.database.as_str()),
            text("db.operation.name", self.command_name),
            text("client.address", self.client.host()),
            number("quarry.opid", u64::from(self.opid)),
            number("quarry.connection_id", self.connection_id.unsigned_abs()),
            number("quarry.unattributed_ns", self.breakdown.unattributed_ns),
        ];
        if let Some(address) = self.client.internet() {
            attributes.push(number("client.port", u64::from(address.port())));
        }
        if !self.collection.is_empty() {
            attributes.push(text("db.collection.name", self.collection.as_str()));
        }
        if let Some(plan) = &self.plan {
            attributes.push(text("quarry.plan_summary", plan.as_str()));
        }
        if let Some((code, name, _)) = &self.error {
            attributes.push(text("db.response.status_code", code.to_string()));
            attributes.push(text("error.type", name.as_str()));
        }
        for work in Work::ALL {
            let amount = self.breakdown.work(work);
            if work.is_amount() && amount > 0 {
                attributes.push(number(&format!("quarry.work.{}", work.name()), amount));
            }
        }
        attributes
    }
}

fn span(trace_id: u128, span_id: u64, name: String, start: u64, end: u64) -> Span {
    Span {
        trace_id: trace_id.to_be_bytes().to_vec(),
        span_id: span_id.to_be_bytes().to_vec(),
        name,
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        ..Span::default()
    }
}

fn append_lock_holder(waits: &mut Vec<KeyValue>, holder: LockHolder) {
    match holder {
        LockHolder::Operation(kind, opid) => {
            let kind = kind.map_or("internal", OperationKind::name);
            waits.push(text("quarry.lock_holder.op", kind));
            waits.push(number("quarry.lock_holder.opid", u64::from(opid)));
        }
        LockHolder::Transaction(tag) => {
            waits.push(text("quarry.lock_holder.op", "transaction"));
            if let Some((lsid, txn_number)) = transaction_tags::find(tag) {
                waits.push(text("quarry.lock_holder.lsid", lsid.id.to_string()));
                let txn_number = txn_number.unsigned_abs();
                waits.push(number("quarry.lock_holder.txn_number", txn_number));
            }
        }
    }
}

/// Whom the operation waited for in this phase.
fn waits(phase: Phase, breakdown: &Breakdown) -> Vec<KeyValue> {
    let named = |work: Work| Some(breakdown.work(work)).filter(|number| *number > 0);
    let mut waits = Vec::new();
    match phase {
        Phase::LockWait => {
            if let Some(holder) = named(Work::LockHolder) {
                append_lock_holder(&mut waits, LockHolder::of(holder));
            }
        }
        Phase::CommitWait | Phase::JournalAppend => {
            if let Some(group) = named(Work::Group) {
                let writers = breakdown.work(Work::GroupWriters);
                waits.push(number("quarry.journal.group", group));
                waits.push(number("quarry.journal.group_writers", writers));
            }
        }
        Phase::SyncWait => {
            let sync = named(Work::Sync).map(|sync| number("quarry.journal.sync", sync));
            let checkpoint = named(Work::Checkpoint);
            let checkpoint = checkpoint.map(|count| number("quarry.checkpoint", count));
            waits.extend(sync.into_iter().chain(checkpoint));
        }
        Phase::Stall => {
            let cause = quarry_timing::stall_cause_text(breakdown.work(Work::StallCause));
            waits.extend(cause.map(|cause| text("quarry.stall.cause", cause)));
        }
        _ => {}
    }
    waits
}

pub fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

pub fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(signed(value)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
