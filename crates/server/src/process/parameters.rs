//! Server parameters: what getParameter shows and setParameter changes while the server runs.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::Duration;

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};
use quarry_database::Shortcuts;
use quarry_query::ErrorCode;
use quarry_query::parameters::{PIPELINE_THREADS, Parameter};

use crate::access::credentials::Mechanism;
use crate::dispatch::api_parameters::ApiRules;
use crate::dispatch::error::{CommandError, Result};
use crate::net::busy_poll::{BusyPolling, LIMIT_US_MAX};
use crate::process::config::{BadOptions, Config, EngineName};
use crate::process::file_modes::HONOR_SYSTEM_UMASK;
use crate::process::memory_limit;

/// The version whose features the data has, as clients are told.
pub const FEATURE_COMPATIBILITY_VERSION: &str = "8.0";
const SESSION_CURSORS: &str = "enableTimeoutOfInactiveSessionCursors";
/// MongoDB's ten minutes.
const CURSOR_TIMEOUT_MS_DEFAULT: i64 = 600_000;
/// Longer than a client pauses that is at work, so that it never waits for a thread.
const CONNECTION_PARK_MS_DEFAULT: i64 = 1_000;
const CONNECTION_PARK_MS_MAX: i64 = 86_400_000;
/// MongoDB's minute.
const TRANSACTION_LIFETIME_S_DEFAULT: i64 = 60;
const TRANSACTION_LOCK_MS_DEFAULT: i64 = 5;
/// MongoDB's half an hour.
const SESSION_TIMEOUT_MINUTES_DEFAULT: i32 = 30;
/// MongoDB's five minutes, which the database begins with.
const SNAPSHOT_WINDOW_S_DEFAULT: i64 = 300;
/// An older snapshot would keep the engine from giving back what was replaced for too long.
const SNAPSHOT_WINDOW_S_MAX: i64 = 86_400;
/// Five minutes of replacing 30 MiB a second, which is as long as snapshots are kept.
const SNAPSHOT_PINNED_MB_DEFAULT: i64 = 10_240;
const SNAPSHOT_PINNED_MB_MAX: i64 = 1 << 40;
/// MongoDB's minute.
const TTL_SLEEP_S_DEFAULT: i64 = 60;
/// The sync interval of `--durability journaled`.
const COMMIT_INTERVAL_MS_DEFAULT: i64 = 100;
const COMMIT_INTERVAL_MS_MAX: i64 = 60_000;
/// A get of the other engines costs little more than one of the cache.
const RECORD_CACHE_MB_ROCKSDB: usize = 64;
const RECORD_CACHE_MB_MAX: usize = 1 << 20;
/// The share of the machine's memory that clients may make the server hold, and its bounds.
const MEMORY_BUDGET_SHARE: u64 = 2;
const MEMORY_BUDGET_MB_MIN: usize = 64;
const MEMORY_BUDGET_MB_MAX: usize = 1 << 24;
/// Where the kernel does not tell what there is.
const MEMORY_BUDGET_MB_DEFAULT: usize = 1024;
/// MongoDB's defaults.
const SCRAM_SHA1_ITERATIONS_DEFAULT: i64 = 10_000;
const SCRAM_SHA256_ITERATIONS_DEFAULT: i64 = 15_000;
/// MongoDB's bound; RFC 7677 asks for 4096.
const SCRAM_ITERATIONS_MIN: i64 = 5_000;
/// More would let a login of the client and a createUser here take seconds.
const SCRAM_ITERATIONS_MAX: i64 = 1_000_000;
/// The step of the console's history, of which a day is kept.
const HISTORY_STEP_MS_DEFAULT: u64 = 10_000;
const HISTORY_STEP_MS_MAX: u64 = 600_000;
/// The share that is traced of operations that are neither slow nor traced by their client.
const TRACE_SAMPLE_RATE_DEFAULT: f64 = 0.01;

pub struct Parameters {
    pub cursor_timeout_ms: AtomicI64,
    /// Cursors of sessions that go on have that timeout, too.
    pub times_out_session_cursors: AtomicBool,
    /// How long a connection is idle before it is parked; 0 = none is.
    connection_park_ms: AtomicI64,
    /// How long a transaction may be open.
    pub transaction_lifetime_s: AtomicI64,
    /// How long a transaction waits for a collection that is being defined; below zero without an end.
    pub transaction_lock_ms: AtomicI64,
    /// How long a snapshot is kept for reads that name its time.
    pub snapshot_window_s: AtomicI64,
    /// The MiB that the engine may keep for a transaction or a snapshot; 0 = without a bound.
    snapshot_pinned_mb: AtomicI64,
    pub slow_ms: AtomicI64,
    /// The rest between two passes that delete what has expired.
    pub ttl_sleep_s: AtomicI64,
    pub is_ttl_enabled: AtomicBool,
    pub quiet: AtomicBool,
    /// The audit log tells what clients were authorized to do, too.
    pub audits_successes: AtomicBool,
    /// How long connections wait awake.
    pub busy_polling: BusyPolling,
    /// The bits of a number from 0 to 1.
    trace_sample_rate: AtomicU64,
    /// The iterations of new credentials.
    scram_sha1_iterations: AtomicI64,
    scram_sha256_iterations: AtomicI64,
    /// Fixed at the start.
    pub has_localhost_exception: bool,
    /// Fixed at the start. How long a session lives without being used, as `hello` announces it.
    pub session_timeout_minutes: i32,
    /// Fixed at the start.
    pub commit_interval_ms: i64,
    /// Fixed at the start.
    pub record_cache_mb: usize,
    /// Fixed at the start. For requests, operations and their replies together.
    pub memory_budget_mb: usize,
    /// Fixed at the start. Files are made as the system's umask has them, and not for their owner alone.
    honors_system_umask: bool,
    /// Fixed at the start. How often the console's history is written.
    pub history_step_ms: u64,
    /// Fixed at the start. All, but those named by `commitShortcutsOff`.
    pub shortcuts: Shortcuts,
    shortcuts_off: String,
    /// Fixed at the start. Clients may ask for faults (`configureFailPoint`).
    pub are_test_commands_enabled: bool,
    /// Fixed at the start. Clients may name version 2 of the Stable API, which is there for tests of drivers.
    accepts_api_version_2: bool,
    /// Every command names its version of the Stable API.
    requires_api_version: AtomicBool,
    compressors: String,
}

/// The names, for `getParameter: "*"`.
const NAMES: [&str; 31] = [
    "acceptApiVersion2",
    "auditAuthorizationSuccess",
    "busyPollMicros",
    "commitIntervalMs",
    "commitShortcutsOff",
    "connectionParkMillis",
    "cursorTimeoutMillis",
    "enableLocalhostAuthBypass",
    "enableTestCommands",
    "enableTimeoutOfInactiveSessionCursors",
    "featureCompatibilityVersion",
    "historyStepMillis",
    "honorSystemUmask",
    "localLogicalSessionTimeoutMinutes",
    "logComponentVerbosity",
    "logLevel",
    "maxTransactionLockRequestTimeoutMillis",
    "memoryBudgetMB",
    "minSnapshotHistoryWindowInSeconds",
    "networkMessageCompressors",
    "quiet",
    "recordCacheMB",
    "requireApiVersion",
    "scramIterationCount",
    "scramSHA1IterationCount",
    "slowOpThresholdMs",
    "snapshotPinnedMaxMB",
    "traceSampleRate",
    "transactionLifetimeLimitSeconds",
    "ttlMonitorEnabled",
    "ttlMonitorSleepSecs",
];

/// Flags that are fixed at the start.
const FLAGS_OF_THE_START: [&str; 3] = [
    "acceptApiVersion2",
    "enableLocalhostAuthBypass",
    HONOR_SYSTEM_UMASK,
];

impl Parameters {
    pub fn new(config: &Config) -> Result<Parameters, BadOptions> {
        let compressors: Vec<&str> = config
            .compressors
            .iter()
            .map(|name| name.as_str())
            .collect();
        let mut parameters = Parameters {
            cursor_timeout_ms: AtomicI64::new(CURSOR_TIMEOUT_MS_DEFAULT),
            times_out_session_cursors: AtomicBool::new(false),
            connection_park_ms: AtomicI64::new(CONNECTION_PARK_MS_DEFAULT),
            transaction_lifetime_s: AtomicI64::new(TRANSACTION_LIFETIME_S_DEFAULT),
            transaction_lock_ms: AtomicI64::new(TRANSACTION_LOCK_MS_DEFAULT),
            snapshot_window_s: AtomicI64::new(SNAPSHOT_WINDOW_S_DEFAULT),
            snapshot_pinned_mb: AtomicI64::new(SNAPSHOT_PINNED_MB_DEFAULT),
            slow_ms: AtomicI64::new(config.slow_ms),
            ttl_sleep_s: AtomicI64::new(TTL_SLEEP_S_DEFAULT),
            is_ttl_enabled: AtomicBool::new(true),
            quiet: AtomicBool::new(config.quiet),
            audits_successes: AtomicBool::new(false),
            busy_polling: BusyPolling::new(),
            trace_sample_rate: AtomicU64::new(TRACE_SAMPLE_RATE_DEFAULT.to_bits()),
            scram_sha1_iterations: AtomicI64::new(SCRAM_SHA1_ITERATIONS_DEFAULT),
            scram_sha256_iterations: AtomicI64::new(SCRAM_SHA256_ITERATIONS_DEFAULT),
            has_localhost_exception: true,
            honors_system_umask: false,
            session_timeout_minutes: SESSION_TIMEOUT_MINUTES_DEFAULT,
            commit_interval_ms: COMMIT_INTERVAL_MS_DEFAULT,
            record_cache_mb: match config.engine {
                EngineName::Rocksdb => RECORD_CACHE_MB_ROCKSDB,
                EngineName::Mdbx | EngineName::Memory => 0,
            },
            memory_budget_mb: default_memory_budget_mb(),
            history_step_ms: HISTORY_STEP_MS_DEFAULT,
            shortcuts: Shortcuts::default(),
            shortcuts_off: String::new(),
            are_test_commands_enabled: false,
            accepts_api_version_2: false,
            requires_api_version: AtomicBool::new(false),
            compressors: compressors.join(","),
        };
        let processors = available_parallelism().map_or(1, usize::from);
        PIPELINE_THREADS.set(i64::try_from(processors).unwrap_or(i64::MAX));
        for (name, text) in &config.parameters {
            let bad = |why: &str| BadOptions(format!("setParameter: `{name}={text}`: {why}"));
            if name == "commitIntervalMs" {
                let ms = text
                    .parse()
                    .ok()
                    .filter(|ms| (1..=COMMIT_INTERVAL_MS_MAX).contains(ms));
                parameters.commit_interval_ms =
                    ms.ok_or_else(|| bad("not a number of milliseconds from 1 to 60000"))?;
                continue;
            }
            if name == "commitShortcutsOff" {
                for shortcut in text.split(',').filter(|shortcut| !shortcut.is_empty()) {
                    let known = switch_off(&mut parameters.shortcuts, shortcut);
                    known.ok_or_else(|| bad("not a list of shortcuts of a commit"))?;
                }
                parameters.shortcuts_off.clone_from(text);
                continue;
            }
            if name == "enableTestCommands" {
                parameters.are_test_commands_enabled = match text.as_str() {
                    "1" | "true" => true,
                    "0" | "false" => false,
                    _ => return Err(bad("neither 0 nor 1")),
                };
                continue;
            }
            if FLAGS_OF_THE_START.contains(&name.as_str()) {
                let is_on = match text.as_str() {
                    "true" | "1" => Some(true),
                    "false" | "0" => Some(false),
                    _ => None,
                };
                let is_on = is_on.ok_or_else(|| bad("neither true nor false"))?;
                match name.as_str() {
                    "acceptApiVersion2" => parameters.accepts_api_version_2 = is_on,
                    HONOR_SYSTEM_UMASK => parameters.honors_system_umask = is_on,
                    _ => parameters.has_localhost_exception = is_on,
                }
                continue;
            }
            if name == "localLogicalSessionTimeoutMinutes" {
                let minutes = text.parse().ok().filter(|minutes| *minutes >= 1);
                parameters.session_timeout_minutes =
                    minutes.ok_or_else(|| bad("not a number of minutes from 1 to 2147483647"))?;
                continue;
            }
            if name == "historyStepMillis" {
                let allowed = 100..=HISTORY_STEP_MS_MAX;
                let ms = text.parse().ok().filter(|ms| allowed.contains(ms));
                parameters.history_step_ms =
                    ms.ok_or_else(|| bad("not a number of milliseconds from 100 to 600000"))?;
                continue;
            }
            if name == "memoryBudgetMB" {
                let allowed = MEMORY_BUDGET_MB_MIN..=MEMORY_BUDGET_MB_MAX;
                let mb = text.parse().ok().filter(|mb| allowed.contains(mb));
                parameters.memory_budget_mb =
                    mb.ok_or_else(|| bad("not a number of MiB from 64 to 16777216"))?;
                continue;
            }
            if name == "recordCacheMB" {
                let mb = text.parse().ok().filter(|mb| *mb <= RECORD_CACHE_MB_MAX);
                parameters.record_cache_mb =
                    mb.ok_or_else(|| bad("not a number of MiB from 0 to 1048576"))?;
                continue;
            }
            let value = match (text.as_str(), text.parse::<i64>(), text.parse::<f64>()) {
                ("true", ..) => RawValue::Boolean(true),
                ("false", ..) => RawValue::Boolean(false),
                (_, Ok(number), _) => RawValue::Int64(number),
                (_, _, Ok(number)) => RawValue::Double(number),
                _ => RawValue::from(text.as_str()),
            };
            parameters
                .set(name, value)
                .map_err(|error| bad(&error.message))?;
        }
        Ok(parameters)
    }

    /// How often the password of a new credential is hashed.
    pub fn scram_iterations(&self, mechanism: Mechanism) -> u32 {
        let iterations = match mechanism {
            Mechanism::Sha1 => &self.scram_sha1_iterations,
            Mechanism::Sha256 => &self.scram_sha256_iterations,
        };
        u32::try_from(iterations.load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// How long a connection is idle before it is parked; none where connections keep their threads. A connection follows a
    /// change from its next wait on that begins with a new thread, or after `LONG_WAIT` (`net::conversation`).
    pub fn park_after(&self) -> Option<Duration> {
        let ms = self.connection_park_ms.load(Relaxed).unsigned_abs();
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The bytes that the engine may keep for a transaction or a snapshot; none where there is no bound.
    pub fn pinned_bytes_max(&self) -> Option<u64> {
        let mb = self.snapshot_pinned_mb.load(Relaxed).unsigned_abs();
        (mb > 0).then_some(mb << 20)
    }

    /// The rules by which versions of the Stable API may be named.
    #[inline]
    pub fn api_rules(&self) -> ApiRules {
        ApiRules {
            accepts_version_2: self.accepts_api_version_2,
            requires_version: self.requires_api_version.load(Relaxed),
        }
    }

    pub fn trace_sample_rate(&self) -> f64 {
        f64::from_bits(self.trace_sample_rate.load(Relaxed))
    }

    /// Appends the parameter; false when there is none of that name.
    pub fn append(&self, name: &str, reply: &mut DocumentBuilder<'_>) -> bool {
        match name {
            "acceptApiVersion2" => reply.append(name, self.accepts_api_version_2),
            "auditAuthorizationSuccess" => reply.append(name, self.audits_successes.load(Relaxed)),
            "busyPollMicros" => reply.append(name, self.busy_polling.limit_us.load(Relaxed)),
            "commitIntervalMs" => reply.append(name, self.commit_interval_ms),
            "commitShortcutsOff" => reply.append(name, self.shortcuts_off.as_str()),
            "connectionParkMillis" => reply.append(name, self.connection_park_ms.load(Relaxed)),
            "cursorTimeoutMillis" => reply.append(name, self.cursor_timeout_ms.load(Relaxed)),
            "enableTestCommands" => reply.append(name, self.are_test_commands_enabled),
            SESSION_CURSORS => reply.append(name, self.times_out_session_cursors.load(Relaxed)),
            "enableLocalhostAuthBypass" => reply.append(name, self.has_localhost_exception),
            "scramIterationCount" => reply.append(name, self.scram_sha256_iterations.load(Relaxed)),
            "scramSHA1IterationCount" => {
                reply.append(name, self.scram_sha1_iterations.load(Relaxed))
            }
            "featureCompatibilityVersion" => {
                let mut version = reply.document(name);
                version.append("version", FEATURE_COMPATIBILITY_VERSION);
                version.finish();
                return true;
            }
            "historyStepMillis" => reply.append(name, self.history_step_ms as i64),
            HONOR_SYSTEM_UMASK => reply.append(name, self.honors_system_umask),
            "logComponentVerbosity" => reply.append(name, verbosity()),
            "logLevel" => reply.append(name, 0),
            "localLogicalSessionTimeoutMinutes" => reply.append(name, self.session_timeout_minutes),
            "networkMessageCompressors" => reply.append(name, self.compressors.as_str()),
            "memoryBudgetMB" => reply.append(name, self.memory_budget_mb as i64),
            "quiet" => reply.append(name, self.quiet.load(Relaxed)),
            "recordCacheMB" => reply.append(name, self.record_cache_mb as i64),
            "requireApiVersion" => reply.append(name, self.requires_api_version.load(Relaxed)),
            "slowOpThresholdMs" => reply.append(name, self.slow_ms.load(Relaxed)),
            "snapshotPinnedMaxMB" => reply.append(name, self.snapshot_pinned_mb.load(Relaxed)),
            "traceSampleRate" => reply.append(name, self.trace_sample_rate()),
            "maxTransactionLockRequestTimeoutMillis" => {
                reply.append(name, self.transaction_lock_ms.load(Relaxed))
            }
            "minSnapshotHistoryWindowInSeconds" => {
                reply.append(name, self.snapshot_window_s.load(Relaxed))
            }
            "transactionLifetimeLimitSeconds" => {
                reply.append(name, self.transaction_lifetime_s.load(Relaxed))
            }
            "ttlMonitorEnabled" => reply.append(name, self.is_ttl_enabled.load(Relaxed)),
            "ttlMonitorSleepSecs" => reply.append(name, self.ttl_sleep_s.load(Relaxed)),
            _ => match Parameter::find(name) {
                Some(parameter) => reply.append(name, of_query(parameter)),
                None => return false,
            },
        };
        true
    }

    pub fn append_all(&self, reply: &mut DocumentBuilder<'_>) {
        for name in NAMES {
            self.append(name, reply);
        }
        for parameter in quarry_query::parameters::ALL {
            reply.append(parameter.name, of_query(parameter));
        }
    }

    /// Appends the value that was, as `was`, and changes it.
    pub fn change(
        &self,
        name: &str,
        value: RawValue<'_>,
        reply: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let was = match name {
            "auditAuthorizationSuccess" => RawValue::Boolean(self.audits_successes.load(Relaxed)),
            "busyPollMicros" => RawValue::Int64(self.busy_polling.limit_us.load(Relaxed)),
            "connectionParkMillis" => RawValue::Int64(self.connection_park_ms.load(Relaxed)),
            "cursorTimeoutMillis" => RawValue::Int64(self.cursor_timeout_ms.load(Relaxed)),
            SESSION_CURSORS => RawValue::Boolean(self.times_out_session_cursors.load(Relaxed)),
            "logComponentVerbosity" => verbosity(),
            "logLevel" => RawValue::Int32(0),
            "quiet" => RawValue::Boolean(self.quiet.load(Relaxed)),
            "requireApiVersion" => RawValue::Boolean(self.requires_api_version.load(Relaxed)),
            "scramIterationCount" => RawValue::Int64(self.scram_sha256_iterations.load(Relaxed)),
            "scramSHA1IterationCount" => RawValue::Int64(self.scram_sha1_iterations.load(Relaxed)),
            "slowOpThresholdMs" => RawValue::Int64(self.slow_ms.load(Relaxed)),
            "snapshotPinnedMaxMB" => RawValue::Int64(self.snapshot_pinned_mb.load(Relaxed)),
            "traceSampleRate" => RawValue::Double(self.trace_sample_rate()),
            "maxTransactionLockRequestTimeoutMillis" => {
                RawValue::Int64(self.transaction_lock_ms.load(Relaxed))
            }
            "minSnapshotHistoryWindowInSeconds" => {
                RawValue::Int64(self.snapshot_window_s.load(Relaxed))
            }
            "transactionLifetimeLimitSeconds" => {
                RawValue::Int64(self.transaction_lifetime_s.load(Relaxed))
            }
            "ttlMonitorEnabled" => RawValue::Boolean(self.is_ttl_enabled.load(Relaxed)),
            "ttlMonitorSleepSecs" => RawValue::Int64(self.ttl_sleep_s.load(Relaxed)),
            _ => Parameter::find(name).map_or(RawValue::Null, of_query),
        };
        self.set(name, value)?;
        reply.append("was", was);
        Ok(())
    }

    fn set(&self, name: &str, value: RawValue<'_>) -> Result<()> {
        let number = || {
            value.as_i64_exact().ok_or_else(|| {
                CommandError::bad_value(format!("the value {value} is not an integer"))
            })
        };
        match name {
            "cursorTimeoutMillis" => {
                let ms = number()?;
                if ms <= 0 {
                    return Err(CommandError::bad_value(
                        "cursorTimeoutMillis must be greater than 0",
                    ));
                }
                self.cursor_timeout_ms.store(ms, Relaxed);
            }
            "connectionParkMillis" => {
                let ms = number()?;
                if !(0..=CONNECTION_PARK_MS_MAX).contains(&ms) {
                    return Err(CommandError::bad_value(format!(
                        "connectionParkMillis must be from 0 to {CONNECTION_PARK_MS_MAX}"
                    )));
                }
                self.connection_park_ms.store(ms, Relaxed);
            }
            "busyPollMicros" => {
                let micros = number()?;
                if !(0..=LIMIT_US_MAX).contains(&micros) {
                    return Err(CommandError::bad_value(format!(
                        "busyPollMicros must be from 0 to {LIMIT_US_MAX}"
                    )));
                }
                self.busy_polling.limit_us.store(micros, Relaxed);
            }
            "scramIterationCount" | "scramSHA1IterationCount" => {
                let count = number()?;
                if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&count) {
                    return Err(CommandError::bad_value(format!(
                        "{name} must be from {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}"
                    )));
                }
                let iterations = match name {
                    "scramIterationCount" => &self.scram_sha256_iterations,
                    _ => &self.scram_sha1_iterations,
                };
                iterations.store(count, Relaxed);
            }
            "slowOpThresholdMs" => self.slow_ms.store(number()?, Relaxed),
            "maxTransactionLockRequestTimeoutMillis" => {
                self.transaction_lock_ms.store(number()?, Relaxed);
            }
            "minSnapshotHistoryWindowInSeconds" => {
                let seconds = number()?;
                if !(0..=SNAPSHOT_WINDOW_S_MAX).contains(&seconds) {
                    return Err(CommandError::bad_value(format!(
                        "minSnapshotHistoryWindowInSeconds must be from 0 to {SNAPSHOT_WINDOW_S_MAX}"
                    )));
                }
                self.snapshot_window_s.store(seconds, Relaxed);
            }
            "snapshotPinnedMaxMB" => {
                let mb = number()?;
                if !(0..=SNAPSHOT_PINNED_MB_MAX).contains(&mb) {
                    return Err(CommandError::bad_value(format!(
                        "snapshotPinnedMaxMB must be from 0 to {SNAPSHOT_PINNED_MB_MAX}"
                    )));
                }
                self.snapshot_pinned_mb.store(mb, Relaxed);
            }
            "transactionLifetimeLimitSeconds" => {
                let seconds = number()?;
                if seconds < 1 {
                    return Err(CommandError::bad_value(
                        "transactionLifetimeLimitSeconds must be greater than or equal to 1",
                    ));
                }
                self.transaction_lifetime_s.store(seconds, Relaxed);
            }
            "ttlMonitorEnabled" => self.is_ttl_enabled.store(value.is_truthy(), Relaxed),
            "ttlMonitorSleepSecs" => {
                let seconds = number()?;
                if seconds < 1 {
                    return Err(CommandError::bad_value(
                        "ttlMonitorSleepSecs must be greater than or equal to 1",
                    ));
                }
                self.ttl_sleep_s.store(seconds, Relaxed);
            }
            "auditAuthorizationSuccess" => {
                self.audits_successes.store(value.is_truthy(), Relaxed);
            }
            "quiet" => self.quiet.store(value.is_truthy(), Relaxed),
            "requireApiVersion" => self.requires_api_version.store(value.is_truthy(), Relaxed),
            SESSION_CURSORS => {
                self.times_out_session_cursors
                    .store(value.is_truthy(), Relaxed);
            }
            "traceSampleRate" => {
                let share = value.as_f64_lossy();
                let share = share.filter(|share| (0.0..=1.0).contains(share));
                let share = share.ok_or_else(|| {
                    CommandError::bad_value(format!("traceSampleRate: {value} is not from 0 to 1"))
                })?;
                self.trace_sample_rate.store(share.to_bits(), Relaxed);
            }
            "logComponentVerbosity" | "logLevel" if asks_for_more(value) => {
                return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, ONE_VERBOSITY));
            }
            "logComponentVerbosity" | "logLevel" => {}
            name if NAMES.contains(&name) => {
                let message = format!("not allowed to change [{name}] at runtime");
                return Err(CommandError::new(ErrorCode::ILLEGAL_OPERATION, message));
            }
            _ => match Parameter::find(name) {
                Some(parameter) => set_of_query(parameter, value)?,
                None => {
                    let message = format!(
                        "attempted to set unrecognized parameter [{name}], use help:true to see options "
                    );
                    return Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
                }
            },
        }
        Ok(())
    }
}

const ONE_VERBOSITY: &str = "the log has one verbosity, which is 0: slowms, the profiler and getOpTiming show what operations do";

/// `{verbosity: 0}`, as BSON.
const VERBOSITY: &[u8] = b"\x14\0\0\0\x10verbosity\0\0\0\0\0\0";

/// The verbosity of the log and of its components.
fn verbosity() -> RawValue<'static> {
    RawDocument::new(VERBOSITY).map_or(RawValue::Null, RawValue::Document)
}

/// Whether a verbosity, or one of those of components, is above 0. As deep as the document.
fn asks_for_more(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Document(components) => components
            .iter()
            .any(|component| asks_for_more(component.value())),
        number => number.as_f64_lossy().is_some_and(|number| number > 0.0),
    }
}

/// The value of a parameter of queries.
fn of_query(parameter: &Parameter) -> RawValue<'static> {
    match parameter.is_flag {
        true => RawValue::Boolean(parameter.get() != 0),
        false => RawValue::Int64(parameter.get()),
    }
}

fn set_of_query(parameter: &Parameter, value: RawValue<'_>) -> Result<()> {
    if parameter.is_flag {
        parameter.set(i64::from(value.is_truthy()));
        return Ok(());
    }
    let number = value
        .as_i64_exact()
        .filter(|number| *number >= parameter.least);
    let number = number.ok_or_else(|| {
        CommandError::bad_value(format!(
            "Invalid value for parameter {}: {value} is not an integer of at least {}",
            parameter.name, parameter.least
        ))
    })?;
    parameter.set(number);
    Ok(())
}

fn default_memory_budget_mb() -> usize {
    let Some(bytes) = memory_limit::bytes() else {
        return MEMORY_BUDGET_MB_DEFAULT;
    };
    let mb = usize::try_from((bytes / MEMORY_BUDGET_SHARE) >> 20).unwrap_or(usize::MAX);
    mb.clamp(MEMORY_BUDGET_MB_MIN, MEMORY_BUDGET_MB_MAX)
}

/// Switches one shortcut off; none if there is none of that name.
fn switch_off(shortcuts: &mut Shortcuts, name: &str) -> Option<()> {
    let switch = match name {
        "lateWrites" => &mut shortcuts.late_writes,
        "locksOverSync" => &mut shortcuts.locks_over_sync,
        "loneWriters" => &mut shortcuts.journal.lone_writers,
        "gathering" => &mut shortcuts.journal.gathering,
        "earlySync" => &mut shortcuts.journal.early_sync,
        _ => return None,
    };
    *switch = false;
    Some(())
}
