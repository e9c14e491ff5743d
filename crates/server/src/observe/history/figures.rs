//! The figures of one moment: those that serverStatus, the metrics and getOpTiming show, read by the functions that they are shown by.
//!
//! A count since the start becomes a rate, from this moment and the one before. What is not known is NaN: nothing is made up for a
//! server that has just started, or for a machine that does not tell.

use std::time::Instant;

use quarry_timing::{Distribution, OperationKind, Window};

use crate::net::connections::CurrentOperation;
use crate::observe::counters::Counter;
use crate::observe::memory_shares;
use crate::observe::process_figures::ProcessFigures;
use crate::server::Server;

/// The rows of the heat map end below these powers of two of microseconds; the last one takes the rest.
pub const POWERS: std::ops::RangeInclusive<u32> = 0..=25;

/// Operations by the power of two that their wall stays below; the last takes the rest.
pub fn counts_by_power(wall: &Distribution) -> Vec<u64> {
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

/// Reads the figures again and again.
#[derive(Default)]
pub struct Reader {
    before: Option<Before>,
}

/// The counts of the moment before.
struct Before {
    at: Instant,
    counts: Vec<f64>,
}

/// Figures as they are added: by name, the counts apart.
#[derive(Default)]
struct Figures {
    gauges: Vec<(String, f64)>,
    counts: Vec<(String, f64)>,
}

impl Figures {
    fn gauge(&mut self, name: impl Into<String>, value: f64) {
        self.gauges.push((name.into(), value));
    }

    fn count(&mut self, name: impl Into<String>, value: f64) {
        self.counts.push((name.into(), value));
    }
}

impl Reader {
    /// The figures by name, always the same names in the same order. Rates are a second's.
    pub fn read(&mut self, server: &Server) -> Vec<(String, f32)> {
        let at = Instant::now();
        let mut figures = Figures::default();
        add_process(server, &mut figures);
        add_work(server, &mut figures);
        add_storage(server, &mut figures);
        add_kinds(&mut figures);
        let before = self.before.replace(Before {
            at,
            counts: figures.counts.iter().map(|(_, count)| *count).collect(),
        });
        let mut read: Vec<(String, f32)> = figures
            .gauges
            .into_iter()
            .map(|(name, value)| (name, value as f32))
            .collect();
        let counts = figures.counts.into_iter().enumerate();
        read.extend(counts.map(|(place, (name, count))| {
            let rate = before.as_ref().map_or(f64::NAN, |before| {
                let seconds = at.duration_since(before.at).as_secs_f64().max(1e-3);
                // Counts of operations go back when somebody resets them.
                (count - before.counts[place]).max(0.0) / seconds
            });
            (name, rate as f32)
        }));
        read
    }
}

fn add_process(server: &Server, figures: &mut Figures) {
    figures.gauge("uptimeSeconds", server.started.elapsed().as_secs_f64());
    let process = ProcessFigures::now();
    let of_process = |read: fn(&ProcessFigures) -> f64| process.as_ref().map_or(f64::NAN, read);
    figures.gauge(
        "residentBytes",
        of_process(|process| process.resident_bytes as f64),
    );
    figures.gauge(
        "mappedBytes",
        of_process(|process| process.file_bytes as f64),
    );
    figures.gauge("openFiles", of_process(|process| process.open_files as f64));
    figures.gauge("threads", of_process(|process| process.threads as f64));
    // Of one processor: a second of work a second is 100.
    figures.count(
        "cpuPercent",
        of_process(|process| process.cpu_seconds * 100.0),
    );
    for (share, bytes) in memory_shares::of(server) {
        figures.gauge(format!("memory.{share}"), bytes as f64);
    }
    let connections = server.connections.list_of_clients();
    let active = connections
        .iter()
        .filter(|connection| connection.with_running(CurrentOperation::is_active));
    figures.gauge("activeOperations", active.count() as f64);
    figures.gauge("connections", connections.len() as f64);
}

fn add_work(server: &Server, figures: &mut Figures) {
    let errors: u64 = server.errors.list().iter().map(|(_, count)| count).sum();
    figures.count("errors", errors as f64);
    figures.count(
        "refusedWrites",
        server.database.refused_writes().count as f64,
    );
    for (name, counter) in [
        ("requests", Counter::Requests),
        ("bytesIn", Counter::BytesIn),
        ("bytesOut", Counter::BytesOut),
        ("documentsReturned", Counter::DocumentsReturned),
        ("documentsInserted", Counter::DocumentsInserted),
        ("documentsUpdated", Counter::DocumentsUpdated),
        ("documentsDeleted", Counter::DocumentsDeleted),
    ] {
        figures.count(name, server.counters.get(counter) as f64);
    }
}

fn add_storage(server: &Server, figures: &mut Figures) {
    let engine = server.engine.counters();
    figures.gauge("engineDiskBytes", engine.disk_bytes as f64);
    figures.gauge("engineCacheBytes", engine.cache_bytes as f64);
    figures.gauge("unflushedBytes", engine.unflushed_bytes as f64);
    for (name, count) in [
        ("engineBytesRead", engine.bytes_read),
        ("engineBytesWritten", engine.bytes_written),
        ("engineCacheHits", engine.cache_hits),
        ("engineCacheMisses", engine.cache_misses),
        ("compactions", engine.compactions),
    ] {
        figures.count(name, count as f64);
    }
    figures.count("stallPercent", engine.stall_ns as f64 / 1e7);
    let journal = server.database.journal();
    let syncs = journal.sync_counters();
    figures.gauge("journalBytes", journal.live_bytes() as f64);
    figures.count("journalSyncs", syncs.syncs as f64);
    figures.count("journalSyncPercent", syncs.sync_ns as f64 / 1e7);
    let free = quarry_storage::free_bytes(&server.config.data_directory);
    figures.gauge("diskFreeBytes", free.map_or(f64::NAN, |bytes| bytes as f64));
}

/// Rates and quantiles of each kind of operation, and its operations by the time that they took.
fn add_kinds(figures: &mut Figures) {
    let all = quarry_timing::kinds(Window::SinceStart);
    let minute = quarry_timing::kinds(Window::LastMinute);
    for kind in OperationKind::ALL {
        let name = kind.name();
        let wall = |reports: &[quarry_timing::KindReport]| {
            let found = reports.iter().find(|report| report.kind == kind);
            found.map(|report| report.times.wall.clone())
        };
        let recent = wall(&minute);
        for (quantile, share) in [("p50Micros", 0.5), ("p99Micros", 0.99)] {
            let us = recent
                .as_ref()
                .map_or(f64::NAN, |recent| recent.quantile_us(share));
            figures.gauge(format!("{name}.{quantile}"), us);
        }
        let counts = wall(&all).map_or_else(Vec::new, |wall| counts_by_power(&wall));
        let sum: u64 = counts.iter().sum();
        figures.count(format!("{name}.operations"), sum as f64);
        for place in 0..POWERS.count() + 1 {
            let count = counts.get(place).copied().unwrap_or(0);
            figures.count(format!("heat.{name}.{place}"), count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_rates_need_a_moment_before() {
        let server = Server::in_memory();
        let mut reader = Reader::default();
        let first = reader.read(&server);
        server.errors.add(11_000);
        let second = reader.read(&server);
        let names = |read: &[(String, f32)]| {
            read.iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&first), names(&second));
        let of = |read: &[(String, f32)], name: &str| {
            read.iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| *value)
                .unwrap()
        };
        assert!(of(&first, "errors").is_nan() && of(&second, "errors") > 0.0);
        assert!(of(&first, "residentBytes") > 0.0);
        let mut unique = names(&first);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), first.len());
        assert!(unique.iter().all(|name| !name.contains('\n')));
    }
}
