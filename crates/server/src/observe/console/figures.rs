//! The answer to `/timing.json`, which the console asks for once a second: where the time goes.

use quarry_bson::{DateTime, Document, DocumentBuilder, extjson};
use quarry_timing::{KindReport, LabelReport, Phase, Times, Window};

use crate::observe::history::figures::counts_by_power;
use crate::observe::timing_document::{append_times, signed};
use crate::process::config::ConsoleMode;
use crate::server::Server;

/// The answer to `/timing.json`:
/// `{at, enabled, console, phases: [names], operations: {op: {since start: {count, buckets}, phases}}, collections, shapes, slow}`.
pub fn json(server: &Server) -> String {
    extjson::relaxed(document(server).as_raw())
}

fn document(server: &Server) -> Document {
    Document::build(|out| {
        out.append("at", DateTime::now());
        out.append("enabled", quarry_timing::is_enabled());
        let may_change = server.config.console == Some(ConsoleMode::Rw);
        out.append("console", if may_change { "rw" } else { "ro" });
        let mut phases = out.array("phases");
        for phase in Phase::ALL {
            phases.push(phase.name());
        }
        phases.push("unattributed");
        phases.finish();
        append_kinds(out, "sinceStart", Window::SinceStart);
        append_kinds(out, "lastMinute", Window::LastMinute);
        let namespaces = quarry_timing::namespaces(Window::LastMinute);
        append_labels(out, "collections", &namespaces);
        append_labels(out, "shapes", &quarry_timing::shapes(Window::LastMinute));
        let mut slow = out.array("slow");
        for operation in server.slow_operations.list() {
            slow.push(&operation);
        }
        slow.finish();
    })
}

fn append_kinds(out: &mut DocumentBuilder<'_>, name: &str, window: Window) {
    let mut shown = out.document(name);
    for KindReport {
        kind,
        seconds,
        times,
    } in quarry_timing::kinds(window)
    {
        let mut operation = shown.document(kind.name());
        operation.append("seconds", seconds);
        append_set(&mut operation, &times);
        operation.finish();
    }
    shown.finish();
}

fn append_set(out: &mut DocumentBuilder<'_>, times: &Times) {
    out.append("count", signed(times.wall.count()));
    let mut buckets = out.array("buckets");
    for count in counts_by_power(&times.wall) {
        buckets.push(signed(count));
    }
    buckets.finish();
    let mut phases = out.document("phases");
    append_times(&mut phases, times);
    phases.finish();
}

fn append_labels(out: &mut DocumentBuilder<'_>, name: &str, reports: &[LabelReport]) {
    let mut list = out.array(name);
    for report in reports {
        let mut entry = list.document();
        entry.append("label", report.label.as_str());
        entry.append("count", signed(report.times.wall.count()));
        entry.append("meanMicros", report.times.wall.mean_us());
        entry.append("p99Micros", report.times.wall.quantile_us(0.99));
        entry.append("totalMicros", report.times.wall.sum_ns() as f64 / 1e3);
        entry.finish();
    }
    list.finish();
}
