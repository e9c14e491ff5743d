//! `serverStatus`: what the server has counted and measured since it started.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quarry_bson::{DateTime, Document, DocumentBuilder};
use quarry_database::RecordCacheCounters;
use quarry_query::memory_budget::BUDGET;
use quarry_query::spilling::{GROUPS, SORTS};
use quarry_query::turns::TURNS;
use quarry_storage::EngineCounters;
use quarry_timing::{Durations, OperationClass, Use, Uses, Window, Work};

use super::authenticate::X509;
use crate::access::credentials::Mechanism;
use crate::access::subject::Subject;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::net::certificates::Certificates;
use crate::observe::counters::Counter;
use crate::observe::memory_shares;
use crate::observe::mongod_sections;
use crate::observe::process_figures;
use crate::observe::server_facts;
use crate::observe::timing_document::append_times;
use crate::observe::traces;
use crate::server::Server;
use crate::threads;

pub static COMMAND: Command = Command {
    aliases: &["serverstatus"],
    // Sections are chosen by naming them.
    fields: Fields::ANY,
    ..Command::new(
        "serverStatus",
        "shows what the server has counted and measured",
        Requires::Each(&[need(Action::ServerStatus, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let server = invocation.server;
    let uptime = server.started.elapsed();
    reply.append("host", server.host().as_str());
    reply.append("version", super::build_info::MONGODB_VERSION);
    reply.append("process", "quarry");
    reply.append("pid", i64::from(std::process::id()));
    reply.append("uptime", uptime.as_secs_f64().floor());
    reply.append("uptimeMillis", signed(uptime.as_millis()));
    reply.append("uptimeEstimate", signed(uptime.as_secs()));
    reply.append("localTime", DateTime::now());
    let is_wanted = |section: &str| {
        invocation
            .get(section)
            .is_none_or(|value| value.is_truthy())
    };
    mongod_sections::append(server, &is_wanted, reply);
    if is_wanted("connections") {
        connections(server, reply);
    }
    if is_wanted("network") {
        network(server, reply);
    }
    if is_wanted("security") {
        security(server, reply);
    }
    if is_wanted("transportSecurity") {
        transport_security(server, reply);
    }
    if is_wanted("encryptionAtRest") {
        encryption_at_rest(server, reply);
    }
    if is_wanted("opcounters") {
        opcounters(server, reply);
    }
    if is_wanted("opLatencies") {
        let histograms = invocation
            .document("opLatencies")
            .ok()
            .flatten()
            .and_then(|options| options.get("histograms"))
            .is_some_and(|value| value.is_truthy());
        op_latencies(server, reply, histograms);
    }
    if is_wanted("mem") {
        memory(reply);
    }
    if is_wanted("metrics") {
        metrics(server, reply);
    }
    if is_wanted("logicalSessionRecordCache") {
        let mut sessions = reply.document("logicalSessionRecordCache");
        sessions.append("activeSessionsCount", signed(server.sessions.len()));
        sessions.finish();
    }
    if is_wanted("transactions") {
        transactions(server, reply);
    }
    if is_wanted("repl")
        && let Some(set) = &server.replica_set
    {
        let mut section = reply.document("repl");
        super::hello::append_topology_version(server, &mut section);
        let local = invocation.connection.transport.local_address();
        set.append_hello("isWritablePrimary", local, &server.database, &mut section);
        section.append("rbid", 1);
        section.finish();
    }
    let mut engine = reply.document("storageEngine");
    engine.append("name", server.config.engine.as_str());
    engine.append(
        "persistent",
        server.config.engine != crate::process::config::EngineName::Memory,
    );
    engine.append("readOnly", false);
    engine.finish();
    if is_wanted("quarry") {
        quarry(server, reply);
    }
    Ok(())
}

/// Appends the transactions that are open and those that were, and what the open ones hold.
fn transactions(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let counters = server.database.transaction_counters();
    let open = server.sessions.open_transactions();
    let active = open
        .iter()
        .filter(|(_, participant, _)| !participant.is_idle());
    let active = (active.count() as u64).min(counters.open);
    let mut section = reply.document("transactions");
    for (name, count) in [
        ("currentActive", active),
        ("currentInactive", counters.open - active),
        ("currentOpen", counters.open),
        ("totalStarted", counters.started),
        ("totalCommitted", counters.committed),
        ("totalAborted", counters.aborted),
    ] {
        section.append(name, i64::try_from(count).unwrap_or(i64::MAX));
    }
    for (name, counter) in [
        ("retriedCommandsCount", Counter::RetriedCommands),
        ("retriedStatementsCount", Counter::RetriedStatements),
        ("transactionsCollectionWriteCount", Counter::SessionRecords),
    ] {
        section.append(name, server.counters.get_i64(counter));
    }
    let mut held = section.document("quarry");
    let oldest = counters.oldest.unwrap_or_default();
    let staged = i64::try_from(counters.staged_bytes).unwrap_or(i64::MAX);
    held.append("stagedBytes", staged);
    let micros = i64::try_from(oldest.as_micros()).unwrap_or(i64::MAX);
    held.append("oldestOpenMicros", micros);
    let pinned = server.database.pinned_figures();
    held.append("pinnedSnapshots", signed(pinned.count));
    let oldest = pinned.oldest.unwrap_or_default();
    let micros = i64::try_from(oldest.as_micros()).unwrap_or(i64::MAX);
    held.append("oldestPinnedMicros", micros);
    // Who is older keeps what the younger ones keep, too.
    let pinned_bytes = counters.pinned_bytes.max(pinned.pinned_bytes);
    let pinned_bytes = i64::try_from(pinned_bytes).unwrap_or(i64::MAX);
    held.append("pinnedBytesAtMost", pinned_bytes);
    let given_up = i64::try_from(pinned.given_up).unwrap_or(i64::MAX);
    held.append("givenUpSnapshots", given_up);
    held.finish();
    section.finish();
}

fn connections(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let list = server.connections.list_of_clients();
    let active = list
        .iter()
        .filter(|connection| {
            connection.with_running(crate::net::connections::CurrentOperation::is_active)
        })
        .count();
    let mut section = reply.document("connections");
    section.append("current", signed(list.len()));
    section.append(
        "available",
        signed(server.config.connections_max.saturating_sub(list.len())),
    );
    section.append("totalCreated", server.connections.total_created());
    section.append(
        "rejected",
        signed(server.connections.rejected.load(Relaxed)),
    );
    section.append("active", signed(active));
    let parked = server.parking.len();
    section.append("threaded", signed(list.len().saturating_sub(parked)));
    section.append("parked", signed(parked));
    section.finish();
}

fn network(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("network");
    section.append("bytesIn", server.counters.get_i64(Counter::BytesIn));
    section.append("bytesOut", server.counters.get_i64(Counter::BytesOut));
    section.append("numRequests", server.counters.get_i64(Counter::Requests));
    section.append(
        "numRequestsBusyPolled",
        server.counters.get_i64(Counter::RequestsMetAwake),
    );
    let mut compression = section.document("compression");
    compression.append(
        "messagesDecompressed",
        server.counters.get_i64(Counter::MessagesDecompressed),
    );
    compression.append(
        "messagesCompressed",
        server.counters.get_i64(Counter::MessagesCompressed),
    );
    compression.finish();
    section.finish();
}

fn opcounters(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("opcounters");
    for (name, counter) in [
        ("insert", Counter::Insert),
        ("query", Counter::Query),
        ("update", Counter::Update),
        ("delete", Counter::Delete),
        ("getmore", Counter::GetMore),
        ("command", Counter::Command),
    ] {
        section.append(name, server.counters.get_i64(counter));
    }
    section.finish();
}

/// Memory of the process as the kernel counts it, in MiB.
fn memory(reply: &mut DocumentBuilder<'_>) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mib = |name: &str| -> Option<i32> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: i64 = line
            .trim_start_matches(':')
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .ok()?;
        i32::try_from(kib / 1024).ok()
    };
    let mut section = reply.document("mem");
    section.append("bits", usize::BITS as i32);
    if let Some(resident) = mib("VmRSS") {
        section.append("resident", resident);
    }
    if let Some(size) = mib("VmSize") {
        section.append("virtual", size);
    }
    section.append("supported", true);
    section.finish();
}

fn metrics(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("metrics");
    let mut documents = section.document("document");
    documents.append(
        "deleted",
        server.counters.get_i64(Counter::DocumentsDeleted),
    );
    documents.append(
        "inserted",
        server.counters.get_i64(Counter::DocumentsInserted),
    );
    documents.append(
        "returned",
        server.counters.get_i64(Counter::DocumentsReturned),
    );
    documents.append(
        "updated",
        server.counters.get_i64(Counter::DocumentsUpdated),
    );
    documents.finish();
    let (open, no_timeout, pinned) = server.cursors.count();
    let mut cursor = section.document("cursor");
    cursor.append("timedOut", server.cursors.total_timed_out.load(Relaxed));
    cursor.append("totalOpened", server.cursors.total_opened.load(Relaxed));
    let mut now = cursor.document("open");
    now.append("total", open);
    now.append("noTimeout", no_timeout);
    now.append("pinned", pinned);
    now.finish();
    cursor.finish();
    let mut query = section.document("query");
    for (name, kind) in [("group", &GROUPS), ("sort", &SORTS)] {
        let counts = &kind.counts;
        let mut of_kind = query.document(name);
        for (name, counter) in [
            ("spills", &counts.spills),
            ("spilledRecords", &counts.records),
            ("spilledBytes", &counts.bytes),
            ("spilledDataStorageSize", &counts.stored_bytes),
        ] {
            of_kind.append(name, signed(counter.load(Relaxed)));
        }
        of_kind.finish();
    }
    query.finish();
    examined(&mut section);
    let mut ttl = section.document("ttl");
    for (name, counter) in [
        ("deletedDocuments", Counter::DocumentsExpired),
        ("passes", Counter::TtlPasses),
    ] {
        ttl.append(name, server.counters.get_i64(counter));
    }
    ttl.finish();
    section.finish();
}

/// `queryExecutor`: the keys and documents that plans have looked at.
fn examined(metrics: &mut DocumentBuilder<'_>) {
    let work = all_work().unwrap_or_default();
    let mut section = metrics.document("queryExecutor");
    for (name, counted) in [
        ("scanned", Work::KeysExamined),
        ("scannedObjects", Work::DocsExamined),
    ] {
        section.append(name, work.get_i64(counted.name()).unwrap_or(0));
    }
    section.finish();
}

fn quarry(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("quarry");
    section.append("version", env!("CARGO_PKG_VERSION"));
    section.append("engine", server.config.engine.as_str());
    section.append("durability", server.config.durability.as_str());
    section.append("opTimingEnabled", quarry_timing::is_enabled());
    let mut phases = section.document("phases");
    for window in Window::ALL {
        let mut shown = phases.document(window.name());
        for report in quarry_timing::kinds(window) {
            let mut operation = shown.document(report.kind.name());
            append_times(&mut operation, &report.times);
            operation.finish();
        }
        shown.finish();
    }
    phases.finish();
    if let Some(work) = all_work() {
        section.append("work", work.as_raw());
    }
    memory_budget(server, &mut section);
    long_reads(&mut section);
    connection_buffers(server, &mut section);
    engine_counters(server.engine.counters(), &mut section);
    refused_writes(server, &mut section);
    journal(server, &mut section);
    server_facts::append(server, &mut section);
    section.append(
        "backgroundPanics",
        signed(server.database.background_panics() + threads::panics()),
    );
    if let Some(counters) = server.database.record_cache_counters() {
        record_cache(counters, &mut section);
    }
    if let Some(tracer) = traces::tracer() {
        let mut shown = section.document("traces");
        tracer.append_status(&mut shown);
        shown.finish();
    }
    section.finish();
}

/// The work of all operations since the start.
fn all_work() -> Option<Document> {
    let mut sums: Vec<(&'static str, u64)> = Vec::new();
    for report in quarry_timing::kinds(Window::SinceStart) {
        for (work, amount) in report.times.work() {
            match sums.iter_mut().find(|(name, _)| *name == work.name()) {
                Some((_, sum)) => *sum = sum.saturating_add(amount),
                None => sums.push((work.name(), amount)),
            }
        }
    }
    (!sums.is_empty()).then(|| {
        Document::build(|document| {
            for (name, sum) in sums {
                document.append(name, signed(sum));
            }
        })
    })
}

/// Logins by mechanism.
/// Handshakes since the start, by version.
fn transport_security(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let count = |counter: fn(&Certificates) -> &AtomicU64| {
        let certificates = server.certificates.as_ref();
        certificates.map_or(0, |certificates| {
            signed(counter(certificates).load(Relaxed))
        })
    };
    let mut section = reply.document("transportSecurity");
    section.append("1.0", 0i64);
    section.append("1.1", 0i64);
    section.append("1.2", count(|certificates| &certificates.tls_1_2));
    section.append("1.3", count(|certificates| &certificates.tls_1_3));
    section.append("unknown", 0i64);
    section.append("failed", count(|certificates| &certificates.failed));
    section.finish();
}

fn encryption_at_rest(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("encryptionAtRest");
    let is_enabled = server.config.encryption.is_some();
    section.append("encryptionEnabled", is_enabled);
    if is_enabled {
        section.append("encryptionCipherMode", "AES256-GCM");
    }
    section.finish();
}

fn security(server: &Server, reply: &mut DocumentBuilder<'_>) {
    let mut section = reply.document("security");
    if let Some(certificates) = &server.certificates
        && let Some(own) = Subject::of(&certificates.own())
    {
        let expires = i64::try_from(own.expires.as_millis()).unwrap_or(i64::MAX);
        section.append("SSLServerSubjectName", own.name.as_str());
        section.append(
            "SSLServerHasCertificateAuthority",
            certificates.has_authorities(),
        );
        section.append("SSLServerCertificateExpirationDate", DateTime(expires));
    }
    let mut authentication = section.document("authentication");
    let mut mechanisms = authentication.document("mechanisms");
    let number = |counter: &AtomicU64| i64::try_from(counter.load(Relaxed)).unwrap_or(i64::MAX);
    let by_password = Mechanism::ALL.into_iter().map(|mechanism| {
        let counters = &server.access.logins[mechanism as usize];
        (mechanism.name(), counters)
    });
    let by_certificate = (X509, &server.access.x509_logins);
    for (name, counters) in std::iter::once(by_certificate).chain(by_password) {
        let mut shown = mechanisms.document(name);
        let mut speculative = shown.document("speculativeAuthenticate");
        speculative.append("received", number(&counters.speculative_received));
        speculative.append("successful", number(&counters.speculative_successful));
        speculative.finish();
        let mut all = shown.document("authenticate");
        all.append("received", number(&counters.received));
        all.append("successful", number(&counters.successful));
        all.finish();
        shown.finish();
    }
    mechanisms.finish();
    let attempts = &server.access.attempts;
    for (name, counter) in [
        ("failed", &attempts.failed),
        ("delayed", &attempts.delayed),
        ("refused", &attempts.refused),
    ] {
        authentication.append(name, number(counter));
    }
    authentication.finish();
    section.finish();
}

/// MongoDB's three sorts of operation since the start, and the transactions that have ended, in microseconds.
fn op_latencies(server: &Server, reply: &mut DocumentBuilder<'_>, with_histograms: bool) {
    let mut section = reply.document("opLatencies");
    let transactions = server.database.transaction_durations();
    let uses = quarry_timing::all_uses();
    append_latencies(&mut section, &uses, &transactions, with_histograms);
    section.finish();
}

/// `{reads: {latency, ops}, writes, commands, transactions}`; `$collStats` shares it.
pub fn append_latencies(
    out: &mut DocumentBuilder<'_>,
    uses: &Uses,
    transactions: &Durations,
    with_histograms: bool,
) {
    for class in OperationClass::ALL {
        let mut shown = out.document(class.name());
        if with_histograms {
            append_histogram(&mut shown, uses.latencies(class));
        }
        append_use(&mut shown, uses.of_class(class));
        shown.finish();
    }
    let mut shown = out.document("transactions");
    if with_histograms {
        append_histogram(&mut shown, transactions.latencies());
    }
    append_use(&mut shown, transactions.total());
    shown.finish();
}

fn append_histogram(shown: &mut DocumentBuilder<'_>, counts: impl Iterator<Item = (u64, u64)>) {
    let mut histogram = shown.array("histogram");
    for (micros, count) in counts {
        let mut range = histogram.document();
        range.append("micros", signed(micros));
        range.append("count", signed(count));
        range.finish();
    }
    histogram.finish();
}

fn append_use(shown: &mut DocumentBuilder<'_>, total: Use) {
    shown.append("latency", signed(total.ns / 1000));
    shown.append("ops", signed(total.count));
}

/// Appends what clients make the server hold, by share, and what of it has one bound.
fn memory_budget(server: &Server, section: &mut DocumentBuilder<'_>) {
    let mut shown = section.document("memory");
    let budget = BUDGET.in_use();
    let requests = &server.request_memory;
    shown.append(
        "budgetBytes",
        signed(server.parameters.memory_budget_mb << 20),
    );
    shown.append("operationsMaxBytes", signed(budget.bytes_max));
    shown.append("requestsMaxBytes", signed(requests.bytes_max()));
    shown.append("waiting", signed(budget.waiting + requests.waiting()));
    shown.append("refused", signed(budget.refused));
    let mut shares = shown.document("shares");
    let mut sum = 0;
    for (name, bytes) in memory_shares::of(server) {
        shares.append(name, signed(bytes));
        sum += bytes;
    }
    shares.finish();
    shown.append("sumBytes", signed(sum));
    if let Some(own) = process_figures::own_bytes() {
        shown.append("ownBytes", signed(own));
        // Less than nothing where memory was given out that nobody has written yet.
        let counted = i64::try_from(sum).unwrap_or(i64::MAX);
        shown.append("unaccountedBytes", signed(own).saturating_sub(counted));
    }
    shown.finish();
}

/// Appends how the long reads take turns.
fn long_reads(section: &mut DocumentBuilder<'_>) {
    let turns = TURNS.in_use();
    let mut shown = section.document("longReads");
    shown.append("limit", signed(turns.limit));
    shown.append("working", signed(turns.working));
    shown.append("waiting", signed(turns.waiting));
    shown.append("turns", signed(turns.taken));
    shown.append("waitedMicros", signed(turns.waited_us));
    shown.append("helping", signed(turns.helping));
    shown.append("helpers", signed(turns.helped));
    shown.append("helpedMicros", signed(turns.helped_us));
    shown.append("helpedDocuments", signed(turns.helped_documents));
    shown.finish();
}

/// Appends what connections hold between two requests.
fn connection_buffers(server: &Server, section: &mut DocumentBuilder<'_>) {
    let (mut bytes, mut largest) = (0, 0);
    for connection in server.connections.list() {
        let held = connection.buffer_bytes();
        bytes += held;
        largest = largest.max(held);
    }
    let mut shown = section.document("connectionBuffers");
    shown.append("bytes", signed(bytes));
    shown.append("largestBytes", signed(largest));
    shown.append(
        "largeRequestBytes",
        signed(server.request_memory.used_bytes()),
    );
    shown.append("waiting", signed(server.request_memory.waiting()));
    shown.finish();
}

fn engine_counters(counters: EngineCounters, section: &mut DocumentBuilder<'_>) {
    let mut shown = section.document("engineCounters");
    for (name, value) in [
        ("gets", counters.gets),
        ("seeks", counters.seeks),
        ("nexts", counters.nexts),
        ("writes", counters.writes),
        ("bytesRead", counters.bytes_read),
        ("bytesWritten", counters.bytes_written),
        ("cacheHits", counters.cache_hits),
        ("cacheMisses", counters.cache_misses),
        ("flushes", counters.flushes),
        ("compactions", counters.compactions),
        ("stallNanos", counters.stall_ns),
        ("unflushedBytes", counters.unflushed_bytes),
        ("cacheBytes", counters.cache_bytes),
        ("diskBytes", counters.disk_bytes),
    ] {
        shown.append(name, signed(value));
    }
    shown.finish();
}

/// A reason is there as long as writes are refused.
fn refused_writes(server: &Server, section: &mut DocumentBuilder<'_>) {
    let refused = server.database.refused_writes();
    let mut shown = section.document("refusedWrites");
    shown.append("count", signed(refused.count));
    if let Some(reason) = &refused.reason {
        shown.append("reason", reason.as_str());
    }
    shown.finish();
}

const MS_PER_HOUR: f64 = 3_600_000.0;

/// How far the journal has come, what it costs, and how much of it is kept for those who read what was.
fn journal(server: &Server, section: &mut DocumentBuilder<'_>) {
    let journal = server.database.journal();
    let syncs = journal.sync_counters();
    let mut shown = section.document("journal");
    for (name, value) in [
        ("acceptedLsn", journal.accepted_lsn()),
        ("durableLsn", journal.durable_lsn()),
        ("replayedRecords", journal.replayed()),
        ("fileBytes", journal.live_bytes()),
        ("syncs", syncs.syncs),
        ("syncMicros", syncs.sync_ns / 1000),
    ] {
        shown.append(name, signed(value));
    }
    let window = journal.window();
    let mut kept = shown.document("window");
    kept.append("hours", window.ms_max as f64 / MS_PER_HOUR);
    kept.append("bytesMax", signed(window.bytes_max));
    kept.append("bytes", signed(window.bytes));
    kept.append("firstLsn", signed(journal.first_lsn()));
    kept.finish();
    journal_archive(server, &mut shown);
    shown.finish();
}

/// The archive of the journal, where one is kept.
fn journal_archive(server: &Server, journal: &mut DocumentBuilder<'_>) {
    let Some(archive) = &server.journal_archive else {
        return;
    };
    let state = archive.state();
    let waiting = server.database.journal().waiting_for_archive();
    let waiting = waiting.unwrap_or_default();
    let mut shown = journal.document("archive");
    if state.last_round_ms > 0 {
        shown.append("lastRound", DateTime(state.last_round_ms));
    }
    for (name, value) in [
        ("lsn", state.lsn),
        ("bytes", state.bytes),
        ("writtenBytes", state.written_bytes),
        ("waitingBytes", waiting.bytes),
        ("waitingBytesMax", waiting.bytes_max),
        ("givenUpSegments", waiting.given_up),
        ("givenUpBytes", waiting.given_up_bytes),
        ("gaps", state.gaps),
        ("failures", state.failures),
    ] {
        shown.append(name, signed(value));
    }
    if let Some(failure) = &state.failure {
        shown.append("failure", failure.as_str());
    }
    shown.finish();
}

fn record_cache(counters: RecordCacheCounters, section: &mut DocumentBuilder<'_>) {
    let mut shown = section.document("recordCache");
    for (name, value) in [
        ("hits", counters.hits),
        ("misses", counters.misses),
        ("bytes", counters.bytes),
    ] {
        shown.append(name, signed(value));
    }
    shown.finish();
}

/// BSON has no unsigned numbers.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
