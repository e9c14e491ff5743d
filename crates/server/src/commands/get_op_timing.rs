//! `getOpTiming`: where the time of operations went, by kind, or in one line a layer; by collection and by query shape
//! when asked.

use quarry_bson::DocumentBuilder;
use quarry_query::ErrorCode;
use quarry_timing::{LabelReport, Layer, OperationKind, Times, Window};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, flag, text};
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::observe::timing_document::{append_times, append_times_work, micros, signed};

pub static COMMAND: Command = Command {
    fields: Fields::named(&[
        flag("summary"),
        text("window"),
        flag("collections"),
        flag("shapes"),
    ]),
    is_admin_only: true,
    ..Command::new(
        "getOpTiming",
        "shows where the time of operations went",
        Requires::Each(&[need(Action::ServerStatus, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let window = window(invocation)?;
    let is_summary = invocation.boolean("summary")?;
    reply.append("enabled", quarry_timing::is_enabled());
    reply.append("window", window.name());
    let mut operations = reply.document("operations");
    for report in quarry_timing::kinds(window) {
        let mut operation = operations.document(report.kind.name());
        append_rate(&mut operation, &report.times, report.seconds);
        append(&mut operation, &report.times, is_summary);
        operation.finish();
    }
    operations.finish();
    if invocation.boolean("collections")? {
        append_labels(
            "collections",
            "ns",
            &quarry_timing::namespaces(window),
            is_summary,
            reply,
        );
    }
    if invocation.boolean("shapes")? {
        append_labels(
            "shapes",
            "shape",
            &quarry_timing::shapes(window),
            is_summary,
            reply,
        );
    }
    Ok(())
}

fn append_labels(
    field: &str,
    name: &str,
    reports: &[LabelReport],
    is_summary: bool,
    reply: &mut DocumentBuilder<'_>,
) {
    let mut list = reply.array(field);
    for report in reports {
        let mut entry = list.document();
        entry.append(name, report.label.as_str());
        entry.append("count", signed(report.times.wall.count()));
        append(&mut entry, &report.times, is_summary);
        entry.finish();
    }
    list.finish();
}

/// The times of one set of operations, whole or in one line a layer; a set of one kind shares it.
pub fn append(out: &mut DocumentBuilder<'_>, times: &Times, is_summary: bool) {
    if is_summary {
        append_layers(out, times);
        return;
    }
    let mut phases = out.document("phases");
    append_times(&mut phases, times);
    phases.finish();
    append_times_work(out, times);
}

pub fn append_rate(out: &mut DocumentBuilder<'_>, times: &Times, seconds: f64) {
    let count = times.wall.count();
    out.append("count", signed(count));
    out.append("seconds", seconds);
    out.append("opsPerSecond", count as f64 / seconds.max(1e-3));
}

/// Appends for each layer its time, the mean an operation and the share of the wall.
fn append_layers(out: &mut DocumentBuilder<'_>, times: &Times) {
    let (wall_ns, count) = (times.wall.sum_ns(), times.wall.count());
    let mut layers = out.document("layers");
    let mut line = |name: &str, ns: u64| {
        let mut layer = layers.document(name);
        layer.append("totalMicros", micros(ns));
        layer.append("meanMicros", micros(ns) / (count as f64).max(1.0));
        layer.append("share", ns as f64 / (wall_ns as f64).max(1.0));
        layer.finish();
    };
    for layer in Layer::ALL {
        let phases = times.phases.iter();
        let mine = phases.filter(|report| Layer::of(report.phase) == layer);
        line(layer.name(), mine.map(|report| report.time.sum_ns()).sum());
    }
    line("unattributed", times.unattributed.sum_ns());
    line("total", wall_ns);
    layers.finish();
}

/// The window that the command asks for; since the last reset when it names none.
fn window(invocation: &Invocation<'_>) -> Result<Window> {
    let Some(name) = invocation.text("window")? else {
        return Ok(Window::SinceReset);
    };
    let found = Window::ALL.into_iter().find(|window| window.name() == name);
    found.ok_or_else(|| {
        CommandError::bad_value(format!(
            "Enumeration value '{name}' for field 'getOpTiming.window' is not a valid value."
        ))
    })
}

/// The kind of operation that `op` names.
pub fn kind(invocation: &Invocation<'_>) -> Result<Option<OperationKind>> {
    let Some(name) = invocation.text("op")? else {
        return Ok(None);
    };
    let found = OperationKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name);
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
        let message = format!(
            "unknown operation '{name}': one of {} is expected",
            names.join(", ")
        );
        CommandError::new(ErrorCode::BAD_VALUE, message)
    })
}
