//! Fail points: faults that a client asks for, so that drivers can test how they meet them. Only a server that was started with
//! `--setParameter enableTestCommands=1` lets them be set.
//!
//! Each has MongoDB's name, mode and data. While none is on, a command pays one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::command::Invocation;
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::error_labels;
use crate::dispatch::transaction_arguments::TransactionArguments;

/// How often a command that is blocked looks whether it is to end.
const TICK: Duration = Duration::from_millis(5);
/// No command is blocked longer.
const BLOCK_MS_MAX: i64 = 3_600_000;

/// Commands fail, wait or lose their connection, by name, application or namespace.
const FAIL_COMMAND: &str = "failCommand";
/// A getMore fails after it has taken its cursor.
pub const FAIL_GET_MORE: &str = "failGetMoreAfterCursorCheckout";
/// Every command with a time limit has exceeded it.
const MAX_TIME_ALWAYS: &str = "maxTimeAlwaysTimeOut";

/// Statements of retryable writes fail, or their command loses its answer.
const ON_WRITE: &str = "onPrimaryTransactionalWrite";

/// The fail points that there are.
const NAMES: [&str; 4] = [FAIL_COMMAND, FAIL_GET_MORE, MAX_TIME_ALWAYS, ON_WRITE];

/// All fail points of the server; each is off until it is configured.
#[derive(Default)]
pub struct FailPoints {
    are_any_on: AtomicBool,
    points: Mutex<[FailPoint; NAMES.len()]>,
}

/// One fail point.
#[derive(Default)]
struct FailPoint {
    mode: Mode,
    data: Document,
    /// How often it was met since the server started.
    met: i64,
}

/// When a fail point acts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    #[default]
    Off,
    AlwaysOn,
    /// Acts this number of times more.
    Times(i64),
    /// Acts always, once it was passed over this number of times more.
    Skip(i64),
    /// Acts with this probability.
    Sometimes(f64),
}

impl FailPoints {
    /// Whether any fail point is on.
    #[inline]
    pub fn are_any_on(&self) -> bool {
        self.are_any_on.load(Relaxed)
    }

    /// Sets the mode and data of a fail point; returns how often it was met before.
    pub fn configure(&self, name: &str, mode: RawValue<'_>, data: RawDocument<'_>) -> Result<i64> {
        let Some(index) = NAMES.iter().position(|known| *known == name) else {
            let message = format!("{name} not found");
            return Err(CommandError::new(ErrorCode::FAIL_POINT_SET_FAILED, message));
        };
        let mode = Mode::parse(mode)?;
        let mut points = self.points.lock();
        let point = &mut points[index];
        point.mode = mode;
        point.data = data.to_owned_document();
        let met = point.met;
        let are_any_on = points.iter().any(|point| point.mode != Mode::Off);
        self.are_any_on.store(are_any_on, Relaxed);
        Ok(met)
    }

    /// The data of the fail point, if it acts on what `is_meant` says of it.
    fn meet(&self, name: &str, is_meant: impl FnOnce(RawDocument<'_>) -> bool) -> Option<Document> {
        let index = NAMES.iter().position(|known| *known == name)?;
        let mut points = self.points.lock();
        let point = &mut points[index];
        if point.mode == Mode::Off || !is_meant(point.data.as_raw()) || !point.mode.acts() {
            return None;
        }
        point.met += 1;
        Some(point.data.clone())
    }
}

impl Mode {
    fn parse(value: RawValue<'_>) -> Result<Mode> {
        let bad = || {
            CommandError::new(
                ErrorCode::BAD_VALUE,
                format!(
                    "'mode' must be 'off', 'alwaysOn' or one of times, skip and activationProbability, found {value}"
                ),
            )
        };
        let options = match value {
            RawValue::String(mode) if mode == "off" => return Ok(Mode::Off),
            RawValue::String(mode) if mode == "alwaysOn" => return Ok(Mode::AlwaysOn),
            RawValue::Document(options) => options,
            _ => return Err(bad()),
        };
        let element = options.first().ok_or_else(bad)?;
        let count = || {
            let count = element.value().as_i64_exact();
            count.filter(|count| *count >= 0).ok_or_else(bad)
        };
        match element.name().as_bytes() {
            b"times" => Ok(match count()? {
                0 => Mode::Off,
                times => Mode::Times(times),
            }),
            b"skip" => Ok(Mode::Skip(count()?)),
            b"activationProbability" => {
                let share = element.value().as_f64_lossy();
                let share = share.filter(|share| (0.0..=1.0).contains(share));
                Ok(Mode::Sometimes(share.ok_or_else(bad)?))
            }
            _ => Err(bad()),
        }
    }

    /// Whether it acts this time, and what is left of it.
    fn acts(&mut self) -> bool {
        match self {
            Mode::Off => false,
            Mode::AlwaysOn => true,
            Mode::Times(left) => {
                *left -= 1;
                if *left == 0 {
                    *self = Mode::Off;
                }
                true
            }
            Mode::Skip(0) => true,
            Mode::Skip(left) => {
                *left -= 1;
                false
            }
            Mode::Sometimes(share) => {
                let mut bytes = [0; 4];
                getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
                f64::from(u32::from_ne_bytes(bytes)) < *share * f64::from(u32::MAX)
            }
        }
    }
}

/// Does what the fail points that are on say of a command, before it has its session: what fails here has begun and ended
/// no transaction. Hands out the data of a fail point that adds to the reply.
#[cold]
pub fn meet_command(invocation: &Invocation<'_>) -> Result<Option<Document>> {
    let points = &invocation.server.fail_points;
    let is_configuring = invocation.command.name == "configureFailPoint";
    // A getMore has what its cursor has left.
    if invocation.operation.deadline().is_some()
        && !is_configuring
        && points.meet(MAX_TIME_ALWAYS, |_| true).is_some()
    {
        return Err(CommandError::new(
            ErrorCode::MAX_TIME_MS_EXPIRED,
            "operation exceeded time limit",
        ));
    }
    let data = points.meet(FAIL_COMMAND, |data| {
        !is_configuring && is_meant(invocation, data)
    });
    if let Some(data) = &data {
        act(invocation, data.as_raw())?;
    }
    Ok(data)
}

/// Adds to the reply of a command that has succeeded what the data of a fail point say. Where they name no labels the reply has
/// those that a server would give such an error.
pub fn append_write_concern_error(
    data: &Document,
    arguments: Option<TransactionArguments>,
    reply: &mut DocumentBuilder<'_>,
) {
    let Some(error) = data.get_document("writeConcernError") else {
        return;
    };
    reply.append("writeConcernError", error);
    if data.get("errorLabels").is_some() {
        append_labels(data.as_raw(), reply);
        return;
    }
    let code = error.get("code").and_then(|code| code.as_i64_exact());
    let code = code.and_then(|code| i32::try_from(code).ok());
    let label = arguments
        .zip(code)
        .and_then(|(arguments, code)| error_labels::label(arguments, code))
        // A transaction goes on with the error of its statement's write concern.
        .filter(|&label| label == error_labels::RETRYABLE);
    if let Some(label) = label {
        let mut labels = reply.array("errorLabels");
        labels.push(label);
        labels.finish();
    }
}

/// Meets a fail point that stands within a command.
pub fn meet(name: &str, invocation: &Invocation<'_>) -> Result<()> {
    let points = &invocation.server.fail_points;
    if !points.are_any_on() {
        return Ok(());
    }
    match points.meet(name, |data| is_meant_namespace(invocation, data, "nss")) {
        Some(data) => act(invocation, data.as_raw()),
        None => Ok(()),
    }
}

/// Meets the fail point that stands before each statement of a retryable write that is not done yet. The command loses its
/// answer, unless the data say otherwise, and the statement fails where they name a code.
pub fn meet_statement(invocation: &Invocation<'_>) -> Result<()> {
    let points = &invocation.server.fail_points;
    if !points.are_any_on() {
        return Ok(());
    }
    let Some(data) = points.meet(ON_WRITE, |_| true) else {
        return Ok(());
    };
    let closes = data.get("closeConnection");
    if closes.is_none_or(|closes| closes.is_truthy()) {
        invocation.loses_answer.set(true);
    }
    match data
        .get("failBeforeCommitExceptionCode")
        .and_then(|code| code.as_i64_exact())
    {
        None => Ok(()),
        Some(code) => {
            let code = ErrorCode(i32::try_from(code).unwrap_or(i32::MAX));
            let message = "Failing write due to failpoint. The write must not be reflected.";
            Err(CommandError::new(code, message))
        }
    }
}

/// The error of a command whose connection a fail point ends.
pub fn lost_connection() -> CommandError {
    let message = "a fail point ends the connection";
    let mut error = CommandError::new(ErrorCode::SOCKET_EXCEPTION, message);
    error.is_unanswerable = true;
    error
}

/// Does what the data of a fail point say before a command: waits, ends the connection, fails.
fn act(invocation: &Invocation<'_>, data: RawDocument<'_>) -> Result<()> {
    let is_set = |field: &str| data.get(field).is_some_and(|value| value.is_truthy());
    if is_set("blockConnection") {
        let ms = data.get("blockTimeMS").and_then(|ms| ms.as_i64_exact());
        block(invocation, ms.unwrap_or(0).clamp(0, BLOCK_MS_MAX) as u64)?;
    }
    if is_set("closeConnection") {
        return Err(lost_connection());
    }
    let Some(code) = data.get("errorCode").and_then(|code| code.as_i64_exact()) else {
        return Ok(());
    };
    let code = ErrorCode(i32::try_from(code).unwrap_or(i32::MAX));
    let message = format!("Failing command via '{FAIL_COMMAND}' failpoint");
    let mut error = CommandError::new(code, message);
    let details = Document::build(|details| append_labels(data, details));
    error.details = (!details.is_empty()).then(|| Box::new(details));
    Err(error)
}

/// Appends the labels that the data name; none of them is a list as well.
fn append_labels(data: RawDocument<'_>, out: &mut DocumentBuilder<'_>) {
    if let Some(labels) = data.get_array("errorLabels") {
        out.append("errorLabels", RawValue::Array(labels));
    }
}

/// Waits as the data say, unless the operation ends before.
fn block(invocation: &Invocation<'_>, ms: u64) -> Result<()> {
    let until = Instant::now() + Duration::from_millis(ms);
    loop {
        invocation.operation.check()?;
        let now = Instant::now();
        if now >= until || invocation.server.shutdown.is_requested() {
            return Ok(());
        }
        thread::sleep(TICK.min(until - now));
    }
}

/// Whether `failCommand` with these data means the call.
fn is_meant(invocation: &Invocation<'_>, data: RawDocument<'_>) -> bool {
    let command = invocation.command;
    let is_named = data.get_array("failCommands").is_some_and(|names| {
        names.iter().any(|name| {
            let name = name.as_str().unwrap_or_default();
            name == command.name || command.aliases.contains(&name)
        })
    });
    let by_application = match data.get_str("appName") {
        None => true,
        Some(name) => application_of(invocation).as_deref() == Some(name),
    };
    is_named && by_application && is_meant_namespace(invocation, data, "namespace")
}

fn is_meant_namespace(invocation: &Invocation<'_>, data: RawDocument<'_>, field: &str) -> bool {
    let Some(namespace) = data.get_str(field) else {
        return true;
    };
    let collection = match invocation.subject() {
        Some(RawValue::String(name)) => name.as_str().unwrap_or_default(),
        _ => invocation.body.get_str("collection").unwrap_or_default(),
    };
    namespace.split_once('.') == Some((invocation.generic.database, collection))
}

/// The name that the client's application gives itself; a first hello brings it along.
fn application_of(invocation: &Invocation<'_>) -> Option<String> {
    let name = |metadata: RawDocument<'_>| {
        let application = metadata.get_document("application")?;
        application.get_str("name").map(str::to_owned)
    };
    let kept = invocation.connection.metadata.lock();
    match &*kept {
        Some(metadata) => name(metadata.as_raw()),
        None => name(invocation.body.get_document("client")?),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Value, doc};

    use super::*;
    use crate::dispatch::dispatcher::answer;
    use crate::server::Server;

    fn server() -> &'static Server {
        let flags = ["--setParameter", "enableTestCommands=1"];
        Box::leak(Box::new(Server::in_memory_with(&flags)))
    }

    fn configure(server: &'static Server, mode: impl Into<Value>, data: Document) -> Document {
        let command = doc! {
            "configureFailPoint": "failCommand", "mode": (mode.into()), "data": data, "$db": "admin",
        };
        answer(server, &command)
    }

    fn code(server: &'static Server, command: Document) -> Option<i32> {
        answer(server, &command).get_i32("code")
    }

    #[test]
    fn nobody_sets_a_fail_point_without_test_commands() {
        let server = Box::leak(Box::new(Server::in_memory()));
        let reply = configure(server, "alwaysOn", doc! { "failCommands": ["ping"] });
        assert_eq!(reply.get_i32("code"), Some(59), "{reply}");
    }

    #[test]
    fn commands_fail_so_many_times_and_then_no_more() {
        let server = server();
        let ping = || doc! { "ping": 1, "$db": "admin" };
        let data = || doc! { "failCommands": ["ping"], "errorCode": 91, "errorLabels": ["A"] };
        let reply = configure(server, doc! { "times": 2 }, data());
        assert_eq!(
            (reply.get_f64("ok"), reply.get_i64("count")),
            (Some(1.0), Some(0))
        );
        assert_eq!(code(server, doc! { "buildInfo": 1, "$db": "admin" }), None);
        let failed = answer(server, &ping());
        assert_eq!(failed.get_i32("code"), Some(91));
        assert_eq!(failed.get_str("codeName"), Some("ShutdownInProgress"));
        assert_eq!(failed.get_array("errorLabels").unwrap().len(), 1);
        assert_eq!(
            (code(server, ping()), code(server, ping())),
            (Some(91), None)
        );
        assert!(
            !server.fail_points.are_any_on()
                || configure(server, "off", doc! {}).get_i64("count") == Some(2)
        );
        let reply = configure(server, doc! { "skip": 1 }, data());
        assert_eq!(reply.get_i64("count"), Some(2));
        assert_eq!(
            (code(server, ping()), code(server, ping())),
            (None, Some(91))
        );
        configure(server, "off", doc! {});
        assert_eq!(code(server, ping()), None);
        assert!(!server.fail_points.are_any_on());
    }

    #[test]
    fn a_write_concern_error_stands_beside_the_result() {
        let server = server();
        let error = doc! { "code": 91, "errmsg": "x" };
        let data =
            doc! { "failCommands": ["insert"], "writeConcernError": error, "namespace": "db.c" };
        configure(server, "alwaysOn", data);
        let insert = |collection: &str| {
            let command = doc! { "insert": collection, "documents": [{}], "$db": "db" };
            answer(server, &command)
        };
        let reply = insert("c");
        assert_eq!(
            (reply.get_i32("n"), reply.get_f64("ok")),
            (Some(1), Some(1.0))
        );
        assert_eq!(
            reply
                .get_path("writeConcernError.code")
                .and_then(|code| code.as_i64_exact()),
            Some(91)
        );
        assert!(insert("d").get("writeConcernError").is_none());
    }

    #[test]
    fn modes_and_names_that_make_no_sense_are_refused() {
        let server = server();
        for mode in [
            doc! { "times": -1 },
            doc! {},
            doc! { "activationProbability": 2 },
        ] {
            assert_eq!(configure(server, mode, doc! {}).get_i32("code"), Some(2));
        }
        let unknown = doc! { "configureFailPoint": "x", "mode": "off", "$db": "admin" };
        assert_eq!(code(server, unknown), Some(266));
    }

    #[test]
    fn a_retryable_write_loses_its_answer_once_and_is_done_once() {
        let server = server();
        let configure = |data: Document| {
            let command = doc! {
                "configureFailPoint": "onPrimaryTransactionalWrite", "mode": { "times": 1 }, "data": data,
                "$db": "admin",
            };
            assert_eq!(answer(server, &command).get_f64("ok"), Some(1.0));
        };
        let lsid = doc! { "id": (Value::binary(4, &[7; 16])) };
        let insert = |id: i32| {
            let command = doc! {
                "insert": "c", "documents": [{ "_id": id }], "lsid": (lsid.clone()), "txnNumber": (Value::from(i64::from(id))),
                "$db": "db",
            };
            answer(server, &command)
        };
        let count = || answer(server, &doc! { "count": "c", "$db": "db" }).get_i32("n");
        let is_lost = |reply: &Document| reply.get_i32("code") == Some(9001);
        configure(doc! {});
        assert!(is_lost(&insert(1)));
        assert_eq!(count(), Some(1), "it is done");
        assert!(insert(1).get_array("retriedStmtIds").is_some());
        configure(doc! { "failBeforeCommitExceptionCode": 1 });
        assert!(is_lost(&insert(2)));
        assert_eq!(count(), Some(1), "it is not done");
        assert_eq!(insert(2).get_i32("n"), Some(1));
        configure(doc! { "failBeforeCommitExceptionCode": 1, "closeConnection": false });
        assert_eq!(insert(3).get_i32("code"), Some(1));
        assert_eq!(count(), Some(2));
        // A plain write does not meet it.
        configure(doc! {});
        let plain = doc! { "insert": "c", "documents": [{}], "$db": "db" };
        assert_eq!(answer(server, &plain).get_f64("ok"), Some(1.0));
    }

    #[test]
    fn a_blocked_command_ends_with_its_time() {
        let server = server();
        let data =
            doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 60_000 };
        configure(server, "alwaysOn", data);
        let ping = doc! { "ping": 1, "maxTimeMS": 5, "$db": "admin" };
        assert_eq!(code(server, ping), Some(50));
    }
}
