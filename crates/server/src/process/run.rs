//! The life of the server: start, serve, stop.
//!
//! Everything that can fail does so before `listening` is logged, with one line and mongod's exit code. Signals are
//! listened to before the data is opened, so that a long replay can be stopped; a second SIGTERM or SIGINT ends the
//! process at once. Stopping lets writes end, interrupts everything else (`stopping`), and makes everything durable.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use quarry_database::{Database, WritesNow};
use quarry_query::memory_budget::{Allocator, BUDGET, Process};
use quarry_query::spilling;
use quarry_query::turns::TURNS;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::access::subject::Subject;
use crate::audit::audit_log::AuditLog;
use crate::audit::made_collections;
use crate::backup::journal_archive::JournalArchive;
use crate::backup::{archiving, live_copy};
use crate::commands::{options_document, rotate_all};
use crate::net::certificates::Certificates;
use crate::net::listener::{Accepting, Listener};
use crate::net::waking;
use crate::observe::counters::Counter;
use crate::observe::log;
use crate::observe::{admin, history, process_figures, timing_collector, traces};
use crate::process::config::{
    AdminPort, BadOptions, Command, CommandLine, Config, EXIT_BAD_OPTIONS, EXIT_DATA_DIRECTORY,
    EXIT_NET_ERROR, EngineName, Face, UserCommand,
};
use crate::process::data_directory::DataDirectory;
use crate::process::descriptors::Shares;
use crate::process::opening::Opening;
use crate::process::parameters::Parameters;
use crate::process::shutdown::{BY_COMMAND, Shutdown};
use crate::process::spill_files::SpillFiles;
use crate::process::{
    add_user, background, descriptors, encryption, engine, file_modes, first_user, foreign_files,
    greeting, mongod, service_manager, stopping,
};
use crate::replication::replica_set::ReplicaSet;
use crate::server::Server;
use crate::sessions::reaper;
use crate::threads;
use crate::ttl_monitor;

/// mongod's thirty days.
const EXPIRY_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// How a server that did not fail ended.
enum Ended {
    Stopped,
    /// Threads of connections still run: nothing that they may use is to be torn down under them.
    LeftConnections,
}

/// Why the server did not start or did not stop cleanly: one line and an exit code.
struct Failure {
    code: u8,
    line: String,
}

impl Failure {
    fn data_directory(line: impl ToString) -> Failure {
        Failure {
            code: EXIT_DATA_DIRECTORY,
            line: line.to_string(),
        }
    }

    fn network(line: impl ToString) -> Failure {
        Failure {
            code: EXIT_NET_ERROR,
            line: line.to_string(),
        }
    }
}

impl From<BadOptions> for Failure {
    fn from(options: BadOptions) -> Failure {
        Failure {
            code: EXIT_BAD_OPTIONS,
            line: options.0,
        }
    }
}

impl From<first_user::BadUser> for Failure {
    fn from(user: first_user::BadUser) -> Failure {
        Failure {
            code: EXIT_BAD_OPTIONS,
            line: user.0,
        }
    }
}

/// Does what the process was asked for; its exit code. The binary that calls it says which `allocator` it has chosen.
#[must_use]
pub fn from_command_line(allocator: Allocator) -> ExitCode {
    BUDGET.use_allocator(allocator);
    let arguments = mongod::with_subcommand(std::env::args_os().collect());
    if let Some(version) = mongod::version(&arguments) {
        print!("{version}");
        return ExitCode::SUCCESS;
    }
    let command = CommandLine::parse_from(arguments).command;
    if copies_data(&command) {
        file_modes::keep_to_owner();
    }
    let (face, options) = match command {
        Command::Serve(options) => (Face::Quarry, options),
        Command::Mongod(options) => (Face::Mongod, options),
        Command::Top(options) => return crate::tools::top::run(&options),
        Command::Dump(options) => return quarry_tools::dump::run(&options),
        Command::RestoreDump(options) => return quarry_tools::restore_dump::run(&options),
        Command::Import(options) => return quarry_tools::import::run(&options),
        Command::Export(options) => return quarry_tools::export::run(&options),
        Command::Migrate(options) => return quarry_tools::migrate::run(&options),
        Command::Backup(command) => return crate::tools::backup::run(&command),
        Command::Archive(command) => return crate::tools::archive::run(&command),
        Command::Restore(options) => return crate::tools::restore::run(&options),
        Command::RotateKey(options) => return crate::tools::rotate_key::run(&options),
        Command::Journal(command) => return crate::tools::journal::run(&command),
        Command::Completions { shell } => return crate::tools::manual::print_completions(shell),
        Command::Man { directory } => return crate::tools::manual::write_pages(&directory),
        Command::User(UserCommand::Add(options)) => return add_user::run(options),
    };
    let is_shutdown = options.shutdown;
    let given = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    match Config::new(face, *options, given.collect()) {
        Ok(config) if is_shutdown => background::shut_down(&config),
        Ok(config) if config.is_forked && !background::is_second() => background::start(),
        Ok(config) => serve(config),
        Err(error) => {
            eprintln!("quarry: {error}");
            ExitCode::from(EXIT_BAD_OPTIONS)
        }
    }
}

/// Whether the command makes or changes a data directory or a copy of one, beside a server itself.
fn copies_data(command: &Command) -> bool {
    matches!(
        command,
        Command::User(_)
            | Command::Backup(_)
            | Command::Archive(_)
            | Command::Restore(_)
            | Command::RotateKey(_)
            | Command::Journal(_)
    )
}

/// Serves until a signal or the shutdown command, and gives the exit code of the process.
fn serve(config: Config) -> ExitCode {
    file_modes::keep_to_owner_unless_told(&config);
    if config.is_forked
        && let Err(error) = background::leave_session()
    {
        eprintln!("quarry: fork: {error}");
        return ExitCode::from(EXIT_BAD_OPTIONS);
    }
    if let Err(why) = mongod::refuse_missing_directory(&config) {
        // Where a harness that starts a mongod looks for it.
        println!("{why}");
        return ExitCode::from(EXIT_DATA_DIRECTORY);
    }
    if let Err(why) = foreign_files::refuse(&config) {
        let directory = config.data_directory.display();
        eprintln!("quarry: data directory `{directory}`: {why}");
        return ExitCode::from(EXIT_DATA_DIRECTORY);
    }
    if let Err(error) = log::start(
        config.log_path.as_deref(),
        config.log_append,
        config.log_rotate,
        config.log_format,
    ) {
        let path = config.log_path.unwrap_or_default();
        let path = path.display();
        eprintln!("quarry: the log `{path}` cannot be written: {error}");
        return ExitCode::from(EXIT_BAD_OPTIONS);
    }
    let is_forked = config.is_forked;
    match start_and_stop(config) {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::LeftConnections) => signal_hook::low_level::exit(0),
        Err(failure) => {
            if is_forked {
                // Whoever started it sees why it did not; once it serves, its outputs lead nowhere.
                eprintln!("quarry: {}", failure.line);
            }
            log::fatal(
                "control",
                &failure.line,
                &[("exitCode", i64::from(failure.code).into())],
            );
            ExitCode::from(failure.code)
        }
    }
}

fn start_and_stop(mut config: Config) -> Result<Ended, Failure> {
    first_user::ask_for_access_control(&mut config)?;
    let parameters = Parameters::new(&config)?;
    let certificates = config.tls.clone().map(Certificates::load);
    let certificates = certificates.transpose().map_err(BadOptions)?;
    // Bound before the data is opened: a second server on the port must not wait for a recovery to say so.
    let mut listener = Listener::bind(&config.addresses, config.port).map_err(Failure::network)?;
    let no_socket = listener.bind_unix(&config.unix_sockets);
    let no_socket = no_socket.map_err(Failure::network)?;
    let directory = DataDirectory::lock(&config.data_directory).map_err(Failure::data_directory)?;
    let signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map_err(Failure::data_directory)?;
    let audit = (config.audit.as_ref()).map(|options| AuditLog::open(options, config.log_rotate));
    let audit = audit.transpose()?.map(Arc::new);
    let shutdown = Arc::new(Shutdown::default());
    watch_signals(&shutdown, signals, audit.clone());
    log_panics();
    log::info(
        "control",
        "quarry starting",
        &[
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("pid", i64::from(std::process::id()).into()),
            (
                "dbpath",
                config.data_directory.to_string_lossy().into_owned().into(),
            ),
            ("engine", config.engine.as_str().into()),
            ("durability", config.durability.as_str().into()),
        ],
    );
    for notice in &config.notices {
        log::warning(
            "control",
            "an option was taken that has no effect here",
            &[
                ("option", notice.option.as_str().into()),
                ("why", notice.why.into()),
            ],
        );
    }
    if let Some(why) = no_socket {
        log::startup_warning("network", &why);
    }
    let shares = share_descriptors(&mut config);
    if config.engine == EngineName::Memory {
        log::startup_warning(
            "storage",
            "the memory engine keeps nothing after the server stops",
        );
    }
    if config.engine == EngineName::Mdbx {
        log::startup_warning(
            "storage",
            "libmdbx keeps no checksums of its pages: damage that the disk does to its file is not noticed",
        );
    }
    if !config.is_authorization_enabled && config.listens_beyond_this_machine() {
        log::startup_warning(
            "control",
            "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted, for whoever reaches an address other than this machine's own",
        );
    }
    if !config.can_promise_durability() {
        log::startup_warning(
            "storage",
            "with --mdbx-sync utterly-no-sync a power loss may damage the data beyond repair",
        );
    }
    if let Some(certificates) = &certificates {
        warn_of_expiry(certificates);
    }
    if config.tls.as_ref().is_some_and(|tls| tls.ca_file.is_none()) {
        log::startup_warning(
            "network",
            "TLS without --tlsCAFile: connections are encrypted, and no client is asked for a certificate",
        );
    }
    let opened = open(
        config,
        parameters,
        certificates,
        shares.tables_max,
        &shutdown,
        audit,
    );
    let server = match (opened, shutdown.reason()) {
        (Ok(server), _) => server,
        // Whatever the start came to, nobody waits for it any more.
        (Err(_), Some(reason)) => {
            log::info(
                "control",
                "stopped while starting",
                &[("reason", reason.into())],
            );
            return Ok(Ended::Stopped);
        }
        (Err(failure), None) => return Err(failure),
    };
    open_spill_files(server, &shares).map_err(Failure::data_directory)?;
    if let Some(audit) = &server.audit {
        let noted = audit.note_start(&options_document(&server.config));
        noted.map_err(|error| BadOptions(error.message))?;
    }
    first_user::make(server)?;
    shutdown.note_started();
    server.set_port(listener.port());
    reaper::start(server).map_err(Failure::data_directory)?;
    ttl_monitor::start(server).map_err(Failure::data_directory)?;
    timing_collector::start(server).map_err(Failure::data_directory)?;
    traces::start(server).map_err(Failure::data_directory)?;
    archiving::start(server).map_err(Failure::data_directory)?;
    history::recorder::start(server).map_err(Failure::data_directory)?;
    let admin_port = admin::start(server, shares.admin_max).map_err(Failure::network)?;
    let accepting = accept(server, &listener).map_err(Failure::network)?;
    directory.write_port(listener.port()).map_err(|error| {
        Failure::data_directory(format!(
            "data directory `{}`: {error}",
            server.config.data_directory.display()
        ))
    })?;
    if let Some(path) = &server.config.pid_path {
        std::fs::write(path, format!("{}\n", std::process::id())).map_err(|error| {
            Failure::data_directory(format!("pid file `{}`: {error}", path.display()))
        })?;
    }
    let mut attributes = vec![
        ("address", server.config.addresses.join(",").into()),
        ("port", log::Attribute::from(listener.port())),
    ];
    let paths = listener.paths().map(Path::to_string_lossy);
    let paths = paths.collect::<Vec<_>>().join(",");
    if !paths.is_empty() {
        attributes.push(("socket", paths.into()));
    }
    if let Some(port) = admin_port {
        server.set_admin_port(port);
        attributes.push(("adminPort", port.into()));
    }
    log::info("network", "listening", &attributes);
    mongod::log_ready(&server.config, listener.port());
    greeting::print(&server.config, listener.port(), admin_port);
    if server.config.is_forked {
        background::say_ready().map_err(Failure::network)?;
    }
    service_manager::say_ready();

    let reason = server.shutdown.wait();
    if let Some(audit) = &server.audit
        && reason != BY_COMMAND
    {
        // Nobody waits for an answer; the log says what became of the event.
        let _ = audit.note_stop();
    }
    log::info("control", "shutting down", &[("reason", reason.into())]);
    service_manager::say_stopping();
    accepting.stop();
    drop(listener);
    end_files_lock(server);
    let has_ended = stopping::end_connections(server);
    traces::finish();
    directory.remove_port();
    if let Some(path) = &server.config.pid_path {
        let _ = std::fs::remove_file(path);
    }
    server.cursors.kill_all();
    stopping::bound_close();
    archiving::finish(server);
    server.database.close().map_err(Failure::data_directory)?;
    log::info("control", "stopped", &[]);
    Ok(match has_ended {
        true => Ended::Stopped,
        false => Ended::LeftConnections,
    })
}

/// Warns of a server's certificate that clients will soon refuse, or do already.
fn warn_of_expiry(certificates: &Certificates) {
    let Some(own) = Subject::of(&certificates.own()) else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let left = own.expires.saturating_sub(now.unwrap_or_default());
    if left <= EXPIRY_WARNING {
        let message = match left.is_zero() {
            true => "the server's certificate has expired",
            false => "the server's certificate expires soon",
        };
        let subject = ("subject", own.name.into());
        let days = ("daysLeft", (left.as_secs() / 86_400).into());
        log::startup_warning_about("network", message, &[subject, days]);
    }
}

/// Nobody will unlock the files any more, and what waits for that is told.
fn end_files_lock(server: &Server) {
    match server.database.end_files_lock() {
        Ok(true) => log::warning("control", "fsync's lock ends: the server stops", &[]),
        Ok(false) => {}
        Err(error) => log::error(
            "control",
            "fsync's lock cannot be ended",
            &[("error", error.to_string().into())],
        ),
    }
}

/// Lowers the bound on connections to what the file descriptors allow, and gives what everybody may have of them.
fn share_descriptors(config: &mut Config) -> Shares {
    let admin_connections = match config.admin_port {
        AdminPort::Off => 0,
        AdminPort::On(_) => admin::CONNECTIONS_MAX,
    };
    let limit = descriptors::raise_limit();
    let shares = descriptors::share_out(limit, config.connections_max, admin_connections);
    if shares.connections_max < config.connections_max {
        log::warning(
            "network",
            "fewer connections are accepted than asked for: the rest of the file descriptors is for files",
            &[
                ("asked", (config.connections_max as u64).into()),
                ("accepted", (shares.connections_max as u64).into()),
                ("descriptors", limit.into()),
            ],
        );
        config.connections_max = shares.connections_max;
    }
    shares
}

/// Operations write what they cannot hold into files of the data directory from now on.
fn open_spill_files(server: &Server, shares: &Shares) -> io::Result<()> {
    let spill_files = SpillFiles::open(
        &server.config.data_directory,
        shares.spill_files_max,
        server.config.encryption.is_some(),
    )?;
    spilling::install(Box::new(spill_files));
    Ok(())
}

/// Begins to take connections, with what those need of the whole process.
pub fn accept(server: &'static Server, listener: &Listener) -> io::Result<Accepting> {
    TURNS.count_operations(Box::new(move || server.counters.get(Counter::Requests)));
    BUDGET.shrink_within(Process {
        bytes_max: server.parameters.memory_budget_mb << 20,
        own_bytes: Box::new(process_figures::own_bytes),
        counted_bytes: Box::new(move || server.request_memory.used_bytes()),
    });
    server.parking.start(waking::start(server)?)?;
    listener.start(server)
}

/// Opens the data for a command that does one thing and ends: it takes no signals, and listens nowhere yet. The wish to stop is the command's.
pub fn open_alone(mut config: Config, shutdown: Shutdown) -> Result<&'static Server, String> {
    let parameters = Parameters::new(&config).map_err(|error| error.0)?;
    let shares = share_descriptors(&mut config);
    let shutdown = Arc::new(shutdown);
    let server = open(config, parameters, None, shares.tables_max, &shutdown, None)
        .map_err(|failure| failure.line)?;
    open_spill_files(server, &shares).map_err(|error| error.to_string())?;
    Ok(server)
}

/// Opens the engine and the database on it. The server is never freed: connections hold it until the process ends.
fn open(
    config: Config,
    parameters: Parameters,
    certificates: Option<Certificates>,
    tables_max: u32,
    shutdown: &Arc<Shutdown>,
    audit: Option<Arc<AuditLog>>,
) -> Result<&'static Server, Failure> {
    let bad = |why: &dyn std::fmt::Display| {
        Failure::data_directory(format!(
            "data directory `{}`: {why}",
            config.data_directory.display()
        ))
    };
    live_copy::remove_leftovers(&config.data_directory).map_err(|error| bad(&error))?;
    let master = encryption::master_key(&config)?;
    let key = encryption::unlock(&config, master.as_ref()).map_err(|error| bad(&error))?;
    let opening = Opening::begin().map_err(Failure::data_directory)?;
    let memory_budget = parameters.memory_budget_mb << 20;
    let engine = engine::open(&config, memory_budget, tables_max, key.as_ref())
        .map_err(|error| bad(&error))?;
    opening.engine_is_open(&engine);
    let options = quarry_database::Options {
        give_up: shutdown.flag(),
        ..crate::process::engine::database_options(&config, &parameters, key.as_ref())
    };
    let database = Database::open(Arc::clone(&engine), options).map_err(|error| bad(&error))?;
    opening.end(&database);
    log_interrupted_builds(&database);
    database.on_writes_change(Box::new(log_writes_change));
    database.on_journal_trouble(Box::new(log_journal_trouble));
    if audit.is_some() {
        database.on_collection_made(Box::new(made_collections::note));
    }
    let replica_set = match &config.replica_set {
        None => None,
        Some(set) => {
            let opened = ReplicaSet::open(&set.name, set.advertised.as_ref(), &database);
            Some(opened.map_err(|why| bad(&why))?)
        }
    };
    let journal_archive = (config.journal_archive.path.as_ref())
        .map(|path| JournalArchive::open(path, &config.data_directory, &database));
    // Somebody who wants an archive is not served without one: an address that is wrong would be noticed when it is needed.
    let journal_archive = journal_archive
        .transpose()
        .map_err(Failure::data_directory)?;
    let mut server = Server::new(
        config,
        parameters,
        certificates,
        engine,
        database,
        replica_set,
        Arc::clone(shutdown),
    );
    server.audit = audit;
    server.journal_archive = journal_archive;
    Ok(Box::leak(Box::new(server)))
}

fn log_interrupted_builds(database: &Database) {
    for build in database.interrupted_builds() {
        log::warning(
            "index",
            "an index build was cut off when the server last ended; the index is dropped",
            &[
                ("namespace", build.namespace.as_str().into()),
                ("index", build.index.as_str().into()),
            ],
        );
    }
}

fn log_writes_change(now: &WritesNow) {
    match now {
        WritesNow::Refused { reason } => {
            let reason = [("reason", reason.into())];
            log::error("storage", "writes are refused", &reason);
        }
        WritesNow::Damaged { reason } => {
            let reason = [("reason", reason.into())];
            log::error("storage", "writes are refused", &reason);
            let message = "stored data is damaged: no write is taken until the data is restored";
            log::startup_warning_about("storage", message, &reason);
        }
        WritesNow::Taken { refused } => {
            let refused = [("refused", (*refused).into())];
            log::info("storage", "writes are taken again", &refused);
        }
    }
}

fn log_journal_trouble(trouble: Option<&str>) {
    match trouble {
        Some(reason) => log::warning(
            "storage",
            "the journal's segments cannot be freed or made",
            &[("reason", reason.into())],
        ),
        None => log::info(
            "storage",
            "the journal's segments are freed and made again",
            &[],
        ),
    }
}

/// Listens to signals from before the data is opened to the end of the process.
pub fn watch_signals(shutdown: &Arc<Shutdown>, mut signals: Signals, audit: Option<Arc<AuditLog>>) {
    let shutdown = Arc::clone(shutdown);
    let mut was_told = false;
    let round = move || {
        for signal in signals.wait() {
            let reason = match signal {
                SIGUSR1 => {
                    rotate_log(audit.as_deref());
                    continue;
                }
                SIGHUP => "SIGHUP",
                SIGTERM | SIGINT if was_told => stopping::force(signal),
                SIGINT => "SIGINT",
                _ => "SIGTERM",
            };
            was_told |= signal != SIGHUP;
            shutdown.request(reason);
            stopping::bound_start(Arc::clone(&shutdown));
        }
        true
    };
    // It listens to the end of the process: a second signal ends a stop that hangs.
    if let Err(error) = threads::start("signals", || false, round) {
        log::error(
            "control",
            "no thread for signals",
            &[("error", error.to_string().into())],
        );
    }
}

fn rotate_log(audit: Option<&AuditLog>) {
    match rotate_all(audit) {
        Ok(()) => log::info("control", "log rotated", &[]),
        Err(error) => log::error(
            "control",
            "log not rotated",
            &[("error", error.to_string().into())],
        ),
    }
}

/// A panic is a defect: it ends its own thread and leaves one line.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        let trace = std::backtrace::Backtrace::capture();
        let thread = thread::current()
            .name()
            .unwrap_or("without a name")
            .to_owned();
        let mut attributes = vec![
            ("message", message.into()),
            ("place", log::Attribute::Owned(place)),
            ("thread", log::Attribute::Owned(thread)),
        ];
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            attributes.push(("trace", trace.to_string().into()));
        }
        log::error("control", "panic", &attributes);
    }));
}
