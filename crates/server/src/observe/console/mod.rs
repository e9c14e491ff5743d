//! The console: a page on the admin port that shows, live, where the time goes. One file, embedded; it loads nothing
//! from elsewhere and asks `/timing.json` once a second.

use quarry_bson::{DateTime, Document, DocumentBuilder, extjson};
use quarry_timing::{Distribution, KindReport, LabelReport, Phase, Times, Window};

use crate::observe::timing_document::{append_times, signed};
use crate::server::Server;

/// The page itself.
pub const PAGE: &str = include_str!("page.html");
/// The policy of the page: it may run its own script and ask its own server.
pub const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:";

/// The heat map's rows end below these powers of two of microseconds.
const POWERS: std::ops::RangeInclusive<u32> = 0..=25;

/// The answer to `/timing.json`:
/// `{at, enabled, phases: [names], operations: {op: {since start: {count, buckets}, phases}}, collections, shapes, slow}`.
pub fn json(server: &Server) -> String {
    extjson::relaxed(document(server).as_raw())
}

fn document(server: &Server) -> Document {
    Document::build(|out| {
        out.append("at", DateTime::now());
        out.append("enabled", quarry_timing::is_enabled());
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
    for count in counts(&times.wall) {
        buckets.push(signed(count));
    }
    buckets.finish();
    let mut phases = out.document("phases");
    append_times(&mut phases, times);
    phases.finish();
}

/// Operations by the power of two that their wall stays below; the last takes the rest.
fn counts(wall: &Distribution) -> Vec<u64> {
    let mut below = 0;
    let mut counts: Vec<u64> = POWERS
        .map(|power| {
            let count = wall.count_below_power(power);
            count - std::mem::replace(&mut below, count)
        })
        .collect();
    counts.push(wall.count() - below);
    counts
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
