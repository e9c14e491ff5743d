//! `currentOp`: what each connection runs now, and the phase that it is in.

use std::sync::Arc;
use std::time::Duration;

use quarry_bson::{DateTime, Document, DocumentBuilder, RawDocument, RawValue};
use quarry_query::ErrorCode;
use quarry_query::matcher::Matcher;
use quarry_query::pipeline::Specification;
use quarry_timing::{Glimpse, Phase, Work};
use rustc_hash::FxHashSet;

use super::open_transactions;
use super::stage_surroundings::Surroundings;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::Fields;
use crate::dispatch::privilege::{Action, On, Requires, When, need_when};
use crate::net::connections::{Connection, CurrentOperation};
use crate::observe::profile_document::operation_of;
use crate::observe::timing_document::{self, LockHolder};
use crate::server::Server;
use crate::sessions::transaction_tags;

pub static COMMAND: Command = Command {
    aliases: &["currentop"],
    fields: Fields::ANY,
    is_admin_only: true,
    ..Command::new(
        "currentOp",
        "lists the running operations",
        Requires::Each(&[need_when(
            Action::Inprog,
            On::Cluster,
            When::Without("$ownOps"),
        )]),
        run,
    )
};

/// Fields of the command that are no condition on the operations listed.
const OPTIONS: [&str; 12] = [
    "currentOp",
    "currentop",
    "$all",
    "$ownOps",
    "$db",
    "lsid",
    "$clusterTime",
    "$readPreference",
    "comment",
    "apiVersion",
    "maxTimeMS",
    "$truncateOps",
];

/// The bytes that a list of idle cursors may hold.
const LISTED_BYTES_MAX: usize = 64 << 20;

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let with_idle = invocation.boolean("$all")?;
    let own_only = invocation.boolean("$ownOps")?;
    let mut filter = Vec::new();
    let mut conditions = DocumentBuilder::new(&mut filter);
    for element in invocation.body {
        if !OPTIONS.contains(&&*element.name().to_string_lossy()) {
            conditions.append_element(element);
        }
    }
    conditions.finish();
    let matcher = Matcher::parse(RawDocument::new(&filter)?)?;
    let mut listed = reply.array("inprog");
    for entry in list(invocation, own_only, with_idle) {
        if matcher.matches(entry.as_raw()) {
            listed.push(&entry);
        }
    }
    listed.finish();
    if invocation.server.database.are_files_locked() {
        reply.append("fsyncLock", true);
        reply.append(
            "info",
            "use db.fsyncUnlock() to terminate the fsync write/snapshot lock",
        );
    }
    Ok(())
}

/// The entries of all connections, or of this one; `$currentOp` shares it.
pub fn list(invocation: &Invocation<'_>, own_only: bool, with_idle: bool) -> Vec<Document> {
    let server = invocation.server;
    let connections = server.connections.list();
    let running = connections.iter().filter_map(|connection| {
        connection.with_running(|running| running.is_active().then_some(running.opid))
    });
    let surroundings = Listed {
        server,
        running: running.collect(),
    };
    let is_meant = |connection: &&Arc<Connection>| !own_only || is_own(invocation, connection);
    connections
        .iter()
        .filter(is_meant)
        .filter_map(|connection| surroundings.entry(connection, with_idle))
        .collect()
}

/// Whether the connection is the client's own: its user's, or without access control the very one that asks.
pub fn is_own(invocation: &Invocation<'_>, other: &Connection) -> bool {
    match invocation.user {
        Some(user) => user.name.is_some() && other.login.lock().name() == user.name.as_ref(),
        None => other.id == invocation.connection.id,
    }
}

/// Things that the entries of one list refer to.
struct Listed {
    server: &'static Server,
    /// The numbers of the operations that run.
    running: FxHashSet<u32>,
}

impl Listed {
    /// The entry of one connection; none when it is idle and idle ones are not asked for.
    fn entry(&self, connection: &Connection, with_idle: bool) -> Option<Document> {
        connection.with_running(|running| {
            if !running.is_active() && !with_idle {
                return None;
            }
            Some(Document::build(|entry| {
                entry.append("type", "op");
                entry.append("host", self.server.host().as_str());
                append_connection(connection, running, entry);
                if running.is_active() {
                    self.append_operation(connection, running, entry);
                }
            }))
        })
    }

    fn append_operation(
        &self,
        connection: &Connection,
        running: &CurrentOperation,
        entry: &mut DocumentBuilder<'_>,
    ) {
        let glimpse = connection.glimpse();
        append_running(running, glimpse.as_ref(), entry);
        if let Some(session) = running.session {
            self.server.sessions.lsid(session).append("lsid", entry);
        }
        open_transactions::append_of_running(self.server, running, entry);
        if let Some(mut glimpse) = glimpse {
            let holder = glimpse.breakdown.work(Work::LockHolder);
            if holder != 0 && !self.is_there(LockHolder::of(holder)) {
                glimpse.breakdown.work[Work::LockHolder as usize] = 0;
            }
            append_timing(&glimpse, entry);
        }
    }

    /// Whether the holder of a lock is still at work: else nobody finds it in the list.
    fn is_there(&self, holder: LockHolder) -> bool {
        match holder {
            LockHolder::Operation(None, _) => true,
            LockHolder::Operation(Some(_), opid) => self.running.contains(&opid),
            LockHolder::Transaction(number) => {
                let named = transaction_tags::find(number);
                let open =
                    named.and_then(|(lsid, _)| self.server.sessions.open_transaction(lsid.id));
                open.is_some_and(|open| open.tag == number)
            }
        }
    }
}

fn append_connection(
    connection: &Connection,
    running: &CurrentOperation,
    entry: &mut DocumentBuilder<'_>,
) {
    let kind = if connection.is_client() {
        "conn"
    } else {
        "console"
    };
    let desc = format!("{kind}{}", connection.id.unsigned_abs());
    entry.append("desc", desc.as_str());
    entry.append(
        "connectionId",
        i32::try_from(connection.id).unwrap_or(i32::MAX),
    );
    entry.append("client", connection.peer.to_string().as_str());
    if let Some(metadata) = &*connection.metadata.lock() {
        if let Some(RawValue::Document(application)) = metadata.get("application")
            && let Some(name) = application.get_str("name")
        {
            entry.append("appName", name);
        }
        entry.append("clientMetadata", metadata);
    }
    entry.append("active", running.is_active());
    entry.append("currentOpTime", DateTime::now().to_string().as_str());
    entry.append("isFromUserConnection", connection.is_client());
    entry.append("threaded", true);
}

fn append_running(
    running: &CurrentOperation,
    glimpse: Option<&Glimpse>,
    entry: &mut DocumentBuilder<'_>,
) {
    // Without what the operation was asked to wait.
    let elapsed = glimpse.map_or_else(
        || running.elapsed(),
        |glimpse| Duration::from_nanos(glimpse.breakdown.wall_ns),
    );
    entry.append("opid", i32::try_from(running.opid).unwrap_or(i32::MAX));
    entry.append("secs_running", elapsed.as_secs() as i64);
    entry.append(
        "microsecs_running",
        i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX),
    );
    entry.append("op", operation_of(running.command_name));
    entry.append("ns", running.namespace.as_str());
    entry.append("redacted", false);
    if let Ok(command) = RawDocument::new(&running.command) {
        entry.append("command", command);
    }
    if let Some(plan) = running.plan() {
        entry.append("planSummary", plan.as_str());
    }
    if let Some(progress) = running.progress() {
        let signed = |steps: u64| i64::try_from(steps).unwrap_or(i64::MAX);
        let done = progress.done();
        let message = format!("{} {}", progress.name, progress.text(done));
        entry.append("msg", message.as_str());
        let mut steps = entry.document("progress");
        steps.append("done", signed(done));
        steps.append("total", signed(progress.total()));
        steps.finish();
    }
    let (keys, documents) = running.examined();
    entry.append("keysExamined", i64::try_from(keys).unwrap_or(i64::MAX));
    entry.append("docsExamined", i64::try_from(documents).unwrap_or(i64::MAX));
    entry.append("killPending", running.is_killed());
    append_locks(glimpse, entry);
}

/// Fields in which tools look for who waits. There are no locks of MongoDB's kinds, no yields and no flow control.
fn append_locks(glimpse: Option<&Glimpse>, entry: &mut DocumentBuilder<'_>) {
    let waits = glimpse.is_some_and(|glimpse| glimpse.phase == Some(Phase::LockWait));
    entry.append("numYields", 0);
    entry.document("locks").finish();
    entry.append("waitingForLock", waits);
    entry.document("lockStats").finish();
    entry.append("waitingForFlowControl", false);
    entry.document("flowControlStats").finish();
}

/// The phase that the operation is in now, its times so far, and whom it waited for.
fn append_timing(glimpse: &Glimpse, entry: &mut DocumentBuilder<'_>) {
    let mut timing = entry.document("quarry");
    let phase = match glimpse.phase {
        _ if glimpse.is_paused => "waiting",
        phase => phase.map_or("none", Phase::name),
    };
    timing.append("phase", phase);
    timing_document::append_breakdown(&mut timing, &glimpse.breakdown);
    timing.finish();
}

/// The documents of `$currentOp`: those that a `$match` behind it lets through, because a list of all idle cursors may be
/// larger than what may be held.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let Surroundings {
        invocation,
        pipeline,
        ..
    } = surroundings;
    if invocation.generic.database != "admin" {
        let message =
            "$currentOp must be run against the 'admin' database with {aggregate: 1}".to_owned();
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    }
    let RawValue::Document(options) = specification.value else {
        return Err(CommandError::failed_to_parse("$currentOp takes an object"));
    };
    let asks_for = |option: &str| options.get(option).is_some_and(|value| value.is_truthy());
    let behind = pipeline.get(1).and_then(|stage| stage.as_document());
    let filter = behind.and_then(|stage| stage.sole_element("$match")?.value().as_document());
    let matcher = match filter {
        Some(filter) => Matcher::parse_in(filter, specification.context)?,
        None => Matcher::of_everything(),
    };
    // A user sees its own operations alone unless it asks for all, which needs a privilege.
    let own_only = invocation.user.is_some() && !asks_for("allUsers");
    let mut documents = list(invocation, own_only, asks_for("idleConnections"));
    documents.retain(|document| matcher.matches(document.as_raw()));
    // A session is nobody's own, and its id lets whoever knows it end its transaction: only who may see all sees them.
    let leaves_out_sessions = options.get_bool("idleSessions") == Some(false);
    if !leaves_out_sessions && !own_only {
        let idle = open_transactions::idle(invocation.server);
        let is_asked = |entry: &Document| matcher.matches(entry.as_raw());
        documents.extend(idle.into_iter().filter(is_asked));
    }
    if asks_for("idleCursors") {
        let mut bytes = 0;
        let cursors = &invocation.server.cursors;
        let owner = invocation.user.filter(|_| own_only);
        cursors.list_idle(invocation.operation, owner, &mut |document| {
            if matcher.matches(document.as_raw()) {
                bytes += document.as_bytes().len();
                documents.push(document);
            }
            check_listed(bytes)
        })?;
    }
    Ok(documents)
}

fn check_listed(bytes: usize) -> Result<()> {
    if bytes <= LISTED_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "$currentOp lists more than {LISTED_BYTES_MAX} bytes of idle cursors; a $match behind it selects some"
    );
    Err(CommandError::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, message))
}
