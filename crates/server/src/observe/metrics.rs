//! The figures for monitoring systems: what `/metrics` serves, built anew for every scrape.
//!
//! The library writes OpenMetrics; the classic text differs in a few lines (see `metrics_text`). Histograms have a
//! bucket for every power of two of microseconds, so their counts are exact.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use quarry_query::ErrorCode;
use quarry_query::memory_budget::BUDGET;
use quarry_timing::{Distribution, KindReport, LabelReport, OperationKind, Window};

use crate::access::subject::Subject;
use crate::commands::build_info::MONGODB_VERSION;
use crate::net::certificates::Certificates;
use crate::observe::counters::Counter;
use crate::observe::memory_shares;
use crate::observe::metrics_text::{self, ExemplarLine};
use crate::observe::process_figures::ProcessFigures;
use crate::observe::traces;
use crate::server::Server;
use crate::threads;

/// Buckets end below these powers of two of microseconds: the last one is about half a minute.
const POWERS: std::ops::RangeInclusive<u32> = 0..=25;

/// The two forms of text, chosen by the scraper's Accept header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Classic,
    OpenMetrics,
}

impl Format {
    pub fn accepted(accept: Option<&str>) -> Format {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Format::OpenMetrics,
            _ => Format::Classic,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

pub fn text(server: &'static Server, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let kinds = quarry_timing::kinds(Window::SinceStart);
    let exemplars = exemplars(&kinds);
    registry.register_collector(Box::new(Scrape {
        server,
        kinds,
        namespaces: quarry_timing::namespaces(Window::SinceStart),
    }));
    let mut text = String::with_capacity(64 << 10);
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(match format {
        Format::Classic => metrics_text::classic(&text),
        Format::OpenMetrics => metrics_text::with_exemplars(&text, &exemplars),
    })
}

/// The state that one scrape shows.
struct Scrape {
    server: &'static Server,
    kinds: Vec<KindReport>,
    namespaces: Vec<LabelReport>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.operations(&mut encoder)?;
        self.phases(&mut encoder)?;
        self.collections(&mut encoder)?;
        self.work(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.transactions(&mut encoder)?;
        self.refused_writes(&mut encoder)?;
        self.record_cache(&mut encoder)?;
        self.counters(&mut encoder)?;
        self.errors(&mut encoder)?;
        self.storage(&mut encoder)?;
        self.backups(&mut encoder)?;
        self.journal(&mut encoder)?;
        self.journal_archive(&mut encoder)?;
        self.certificate(&mut encoder)?;
        self.build_info(&mut encoder)?;
        process(&mut encoder)?;
        traces(&mut encoder)
    }
}

impl Scrape {
    fn operations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time of an operation, from its first byte in to its last byte out and the end of its writes";
        let histogram = MetricType::Histogram;
        let mut family =
            encoder.encode_descriptor("quarry_operation_seconds", help, None, histogram)?;
        for report in &self.kinds {
            let labels = [("operation", report.kind.name())];
            encode(family.encode_family(&labels)?, &report.times.wall)?;
        }
        Ok(())
    }

    fn phases(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Exclusive time of an operation within one phase";
        let histogram = MetricType::Histogram;
        let mut family =
            encoder.encode_descriptor("quarry_phase_seconds", help, None, histogram)?;
        for report in &self.kinds {
            let phases = report.times.phases.iter();
            let phases = phases.map(|phase| (phase.phase.name(), &phase.time));
            for (phase, time) in phases.chain([("unattributed", &report.times.unattributed)]) {
                let labels = [("operation", report.kind.name()), ("phase", phase)];
                encode(family.encode_family(&labels)?, time)?;
            }
        }
        Ok(())
    }

    fn collections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time of an operation on one of the busiest collections, the rest as (others)";
        let histogram = MetricType::Histogram;
        let mut family =
            encoder.encode_descriptor("quarry_collection_seconds", help, None, histogram)?;
        for report in &self.namespaces {
            let labels = [("collection", report.label.as_str())];
            encode(family.encode_family(&labels)?, &report.times.wall)?;
        }
        Ok(())
    }

    fn work(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What operations did, counted";
        let mut family =
            encoder.encode_descriptor("quarry_work", help, None, MetricType::Counter)?;
        for report in &self.kinds {
            for (work, amount) in report.times.work() {
                let labels = [("operation", report.kind.name()), ("work", work.name())];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, u64, u64>(&amount, None)?;
            }
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let server = self.server;
        for (name, help, value) in [
            (
                "quarry_uptime_seconds",
                "Seconds since the start",
                server.started.elapsed().as_secs(),
            ),
            (
                "quarry_connections_open",
                "Client connections open",
                server.connections.len() as u64,
            ),
            (
                "quarry_connections_parked",
                "Client connections that are idle and have no thread",
                server.parking.len() as u64,
            ),
            (
                "quarry_connections_max",
                "Client connections that may be open at once",
                server.config.connections_max as u64,
            ),
            (
                "quarry_sessions_open",
                "Logical sessions",
                server.sessions.len() as u64,
            ),
            (
                "quarry_cursors_open",
                "Open cursors",
                server.cursors.count().0.unsigned_abs(),
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        Ok(())
    }

    /// The transactions, and what they hold.
    fn transactions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let transactions = self.server.database.transaction_counters();
        for (name, help, value) in [
            (
                "quarry_transactions_open",
                "Transactions that are open",
                transactions.open,
            ),
            (
                "quarry_transactions_staged_bytes",
                "Bytes that open transactions hold of what they write",
                transactions.staged_bytes,
            ),
            (
                "quarry_transactions_oldest_seconds",
                "Age of the oldest open transaction, whose snapshot keeps what was replaced since",
                transactions.oldest.unwrap_or_default().as_secs(),
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        for (name, help, value) in [
            (
                "quarry_transactions_started",
                "Transactions begun",
                transactions.started,
            ),
            (
                "quarry_transactions_committed",
                "Transactions committed",
                transactions.committed,
            ),
            (
                "quarry_transactions_aborted",
                "Transactions given up or ended",
                transactions.aborted,
            ),
        ] {
            counter(encoder, name, help, value)?;
        }
        self.pinned_snapshots(transactions.pinned_bytes, encoder)
    }

    /// The snapshots that are kept for reads at a time, and the space that they and the transactions keep the engine from giving
    /// back.
    fn pinned_snapshots(
        &self,
        pinned_by_transactions: u64,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let pinned = self.server.database.pinned_figures();
        for (name, help, value) in [
            (
                "quarry_snapshots_pinned",
                "Snapshots that are kept, or still read, for reads at a cluster time",
                pinned.count as u64,
            ),
            (
                "quarry_snapshots_pinned_oldest_seconds",
                "Age of the oldest of the kept snapshots",
                pinned.oldest.unwrap_or_default().as_secs(),
            ),
            (
                "quarry_snapshots_pinned_bytes_at_most",
                "Bytes replaced or dropped since the oldest open transaction or kept snapshot began; no more does the engine keep for them",
                pinned_by_transactions.max(pinned.pinned_bytes),
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        counter(
            encoder,
            "quarry_snapshots_given_up",
            "Snapshots given up because they pinned too much space",
            pinned.given_up,
        )
    }

    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let server = self.server;
        let counters = &server.counters;
        let engine = self.server.engine.counters();
        let of = |counter| counters.get(counter);
        for (name, help, value) in [
            (
                "quarry_connections_accepted",
                "Client connections accepted",
                server.connections.total_created().unsigned_abs(),
            ),
            (
                "quarry_connections_rejected",
                "Client connections closed because as many were open as may be",
                server.connections.rejected.load(Relaxed),
            ),
            (
                "quarry_connections_woken",
                "Times that a parked connection was woken by a request or by its end",
                server.parking.woken(),
            ),
            (
                "quarry_background_panics",
                "Panics of threads behind the operations, which were survived",
                server.database.background_panics() + threads::panics(),
            ),
            (
                "quarry_memory_refused",
                "Operations that failed because others held the memory that they asked for",
                BUDGET.in_use().refused,
            ),
            (
                "quarry_network_received_bytes",
                "Bytes received from clients",
                of(Counter::BytesIn),
            ),
            (
                "quarry_network_sent_bytes",
                "Bytes sent to clients",
                of(Counter::BytesOut),
            ),
            (
                "quarry_documents_returned",
                "Documents returned",
                of(Counter::DocumentsReturned),
            ),
            (
                "quarry_documents_inserted",
                "Documents inserted",
                of(Counter::DocumentsInserted),
            ),
            (
                "quarry_documents_updated",
                "Documents updated",
                of(Counter::DocumentsUpdated),
            ),
            (
                "quarry_documents_deleted",
                "Documents deleted",
                of(Counter::DocumentsDeleted),
            ),
            (
                "quarry_engine_gets",
                "Point reads in the engine",
                engine.gets,
            ),
            (
                "quarry_engine_seeks",
                "Cursor seeks in the engine",
                engine.seeks,
            ),
            (
                "quarry_engine_nexts",
                "Cursor steps in the engine",
                engine.nexts,
            ),
            (
                "quarry_engine_writes",
                "Batches applied to the engine",
                engine.writes,
            ),
            (
                "quarry_engine_flushes",
                "Durable points of the engine",
                engine.flushes,
            ),
            (
                "quarry_engine_cache_hits",
                "Blocks found in the engine's cache",
                engine.cache_hits,
            ),
            (
                "quarry_engine_cache_misses",
                "Blocks not found in the engine's cache",
                engine.cache_misses,
            ),
        ] {
            counter(encoder, name, help, value)?;
        }
        Ok(())
    }

    fn errors(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Errors of commands and of single writes, by code";
        let mut family =
            encoder.encode_descriptor("quarry_errors", help, None, MetricType::Counter)?;
        for (code, count) in self.server.errors.list() {
            let labels = [
                ("code", code.to_string()),
                ("name", ErrorCode(code).name().into_owned()),
            ];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        }
        Ok(())
    }

    /// The bytes that the engine holds on disk and in memory, and those that are left of the disk.
    fn storage(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let engine = self.server.engine.counters();
        for (name, help, value) in [
            (
                "quarry_engine_disk_bytes",
                "Bytes of the engine's files",
                engine.disk_bytes,
            ),
            (
                "quarry_engine_unflushed_bytes",
                "Bytes written to the engine and not yet durable in it",
                engine.unflushed_bytes,
            ),
            (
                "quarry_engine_memory_bytes",
                "Memory that the engine holds for caching",
                engine.cache_bytes,
            ),
            (
                "quarry_request_memory_bytes",
                "Memory of large requests",
                self.server.request_memory.used_bytes() as u64,
            ),
            (
                "quarry_memory_budget_bytes",
                "Memory that requests, operations and replies may take together",
                (self.server.parameters.memory_budget_mb as u64) << 20,
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        let help = "Memory that is counted, by what it is held for";
        let mut family =
            encoder.encode_descriptor("quarry_memory_bytes", help, None, MetricType::Gauge)?;
        for (share, bytes) in memory_shares::of(self.server) {
            let labels = [("share", share)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_gauge(&i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }
        // A directory that cannot be asked is left out.
        let Ok(space) = rustix::fs::statvfs(&self.server.config.data_directory) else {
            return Ok(());
        };
        let help = "Bytes of the file system of the data directory that are free to the server";
        gauge(
            encoder,
            "quarry_disk_free_bytes",
            help,
            space.f_bavail * space.f_frsize,
        )?;
        let help = "Bytes of the file system of the data directory";
        gauge(
            encoder,
            "quarry_disk_size_bytes",
            help,
            space.f_blocks * space.f_frsize,
        )
    }

    fn backups(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let last_ms = self.server.backups.last_taken_ms().unwrap_or_default();
        gauge(
            encoder,
            "quarry_last_backup_timestamp_seconds",
            "When the last backup was made, in seconds since the epoch; 0 where none was",
            u64::try_from(last_ms / 1000).unwrap_or_default(),
        )
    }

    fn journal(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let journal = self.server.database.journal();
        let syncs = journal.sync_counters();
        let help = "Bytes of the journal's segments";
        gauge(encoder, "quarry_journal_bytes", help, journal.live_bytes())?;
        let help = "Records that the journal has accepted and not yet synced";
        let unsynced = journal.accepted_lsn().saturating_sub(journal.durable_lsn());
        gauge(encoder, "quarry_journal_unsynced_records", help, unsynced)?;
        let help = "Records that the journal has accepted";
        counter(
            encoder,
            "quarry_journal_records",
            help,
            journal.accepted_lsn(),
        )?;
        counter(
            encoder,
            "quarry_journal_syncs",
            "Syncs of the journal",
            syncs.syncs,
        )?;
        let help = "Time of the journal's syncs";
        let seconds = syncs.sync_ns as f64 / 1e9;
        float_counter(encoder, "quarry_journal_sync_seconds", help, seconds)
    }

    /// The archive of the journal, where one is kept.
    fn journal_archive(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(archive) = &self.server.journal_archive else {
            return Ok(());
        };
        let state = archive.state();
        let waiting = self.server.database.journal().waiting_for_archive();
        let waiting = waiting.unwrap_or_default();
        for (name, help, value) in [
            (
                "quarry_journal_archive_bytes",
                "Bytes of the archive of the journal",
                state.bytes,
            ),
            (
                "quarry_journal_archive_waiting_bytes",
                "Bytes of full journal segments that wait for the archive",
                waiting.bytes,
            ),
            (
                "quarry_journal_archive_is_failing",
                "1 while the journal is not archived",
                u64::from(state.failure.is_some()),
            ),
        ] {
            gauge(encoder, name, help, value)?;
        }
        for (name, help, value) in [
            (
                "quarry_journal_archive_written_bytes",
                "Bytes written to the archive of the journal",
                state.written_bytes,
            ),
            (
                "quarry_journal_archive_given_up_segments",
                "Journal segments that were freed before they were archived",
                waiting.given_up,
            ),
            (
                "quarry_journal_archive_gaps",
                "Places at which the archive of the journal lacks something",
                state.gaps,
            ),
            (
                "quarry_journal_archive_failures",
                "Rounds that could not archive the journal",
                state.failures,
            ),
        ] {
            counter(encoder, name, help, value)?;
        }
        Ok(())
    }

    /// When the certificate ends that connections are encrypted with, where there is one.
    fn certificate(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let own = self.server.certificates.as_ref().map(Certificates::own);
        let Some(own) = own.and_then(|own| Subject::of(&own)) else {
            return Ok(());
        };
        gauge(
            encoder,
            "quarry_tls_certificate_expiry_timestamp_seconds",
            "When the server's certificate expires, in seconds since the epoch",
            own.expires.as_secs(),
        )
    }

    fn build_info(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let config = &self.server.config;
        let help = "1; the labels tell what was built and how it was started";
        let mut family =
            encoder.encode_descriptor("quarry_build_info", help, None, MetricType::Gauge)?;
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("mongodb_version", MONGODB_VERSION),
            ("engine", config.engine.as_str()),
            ("durability", config.durability.as_str()),
        ];
        family.encode_family(&labels)?.encode_gauge(&1i64)
    }

    fn refused_writes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let refused = self.server.database.refused_writes();
        let help = "Writes refused by a full disk, an engine or a journal that fails";
        counter(encoder, "quarry_writes_refused", help, refused.count)?;
        let help = "1 while writes are refused";
        let is_refusing = u64::from(refused.reason.is_some());
        gauge(encoder, "quarry_is_refusing_writes", help, is_refusing)
    }

    fn record_cache(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(cache) = self.server.database.record_cache_counters() else {
            return Ok(());
        };
        for (name, help, value) in [
            (
                "quarry_record_cache_hits",
                "Records found in the cache of records",
                cache.hits,
            ),
            (
                "quarry_record_cache_misses",
                "Records asked of the engine",
                cache.misses,
            ),
        ] {
            counter(encoder, name, help, value)?;
        }
        let help = "Memory of the cache of records";
        gauge(encoder, "quarry_record_cache_bytes", help, cache.bytes)?;
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    gauge.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))
}

/// The figures of the process, by the names that every Prometheus client library gives them.
fn process(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(figures) = ProcessFigures::now() else {
        return Ok(());
    };
    let help = "Processor time of the process, in the kernel too";
    float_counter(encoder, "process_cpu_seconds", help, figures.cpu_seconds)?;
    let help = "When the process started, in seconds since the epoch";
    let mut start =
        encoder.encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?;
    start.encode_gauge(&figures.start_seconds)?;
    for (name, help, value) in [
        (
            "process_resident_memory_bytes",
            "Memory of the process that is resident",
            figures.resident_bytes,
        ),
        (
            "process_resident_file_bytes",
            "The share of the resident memory that stands behind files",
            figures.file_bytes,
        ),
        (
            "process_virtual_memory_bytes",
            "Addresses that the process has taken",
            figures.virtual_bytes,
        ),
        ("process_threads", "Threads of the process", figures.threads),
        (
            "process_open_fds",
            "File descriptors that are open",
            figures.open_files,
        ),
    ] {
        gauge(encoder, name, help, value)?;
    }
    match figures.open_files_max {
        Some(max) => gauge(
            encoder,
            "process_max_fds",
            "File descriptors that may be open",
            max,
        ),
        None => Ok(()),
    }
}

fn float_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    counter.encode_counter::<NoLabelSet, f64, f64>(&value, None)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    counter.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

fn traces(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(tracer) = traces::tracer() else {
        return Ok(());
    };
    let help = "Operations traced, by what became of them";
    let mut family =
        encoder.encode_descriptor("quarry_traced_operations", help, None, MetricType::Counter)?;
    for (end, count) in tracer.counts() {
        let labels = [("end", end)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
    }
    Ok(())
}

fn encode(mut metric: MetricEncoder<'_>, times: &Distribution) -> fmt::Result {
    let mut buckets = Vec::with_capacity(POWERS.count() + 1);
    let mut below = 0;
    for power in POWERS {
        let count = times.count_below_power(power);
        buckets.push((bound(power), count - below));
        below = count;
    }
    buckets.push((f64::INFINITY, times.count() - below));
    let sum = times.sum_ns() as f64 / 1e9;
    metric.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)
}

/// The end of a bucket, in seconds.
fn bound(power: u32) -> f64 {
    (1u64 << power) as f64 / 1e6
}

/// The operations that stand for their buckets.
fn exemplars(kinds: &[KindReport]) -> Vec<ExemplarLine> {
    let of = |kind: OperationKind| {
        POWERS.filter_map(move |power| {
            Some(ExemplarLine {
                operation: kind.name(),
                bound: bound(power),
                exemplar: quarry_timing::exemplar(kind, power)?,
            })
        })
    };
    kinds.iter().flat_map(|report| of(report.kind)).collect()
}
