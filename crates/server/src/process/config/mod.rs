//! The configuration: the command line over the configuration file over the defaults.
//!
//! Names follow mongod where it has the option. An option that changes nothing here is taken with a warning (`options`);
//! any other that Quarry does not have is refused, never ignored: a server that silently runs without what was asked of it
//! is worse than one that does not start.

mod audit;
mod command_line;
mod encryption;
mod file;
mod journal_settings;
mod options;
mod tls;
mod unix_sockets;
mod values;

use std::net::IpAddr;
use std::path::PathBuf;

use crate::observe::traces::Endpoint;
use crate::replication::address::Address;

use file::ConfigFile;

pub use audit::{AuditDestination, AuditFormat, AuditOptions};
pub use command_line::{
    AddUser, ArchiveCommand, BackupCommand, Command, CommandLine, CreateBackup, FlushArchive,
    JournalCommand, JournalPlace, LoginOptions, RepositoryFlags, Restore, RestoreMoment, RotateKey,
    Serve, Top, UserCommand,
};
pub use encryption::{EncryptionOptions, EncryptionSettings, KeyFileOption};
pub use journal_settings::{ArchiveSettings, JournalSettings};
pub use options::Notice;
pub use tls::TlsOptions;
pub use unix_sockets::UnixSockets;
pub use values::{
    AdminPort, BadOptions, CompressorName, ConsoleMode, Durability, EngineName, LogFormat,
    LogRotate, MdbxSync, Token,
};

/// mongod's exit code for options that make no sense.
pub const EXIT_BAD_OPTIONS: u8 = 2;
/// mongod's exit code for an address that cannot be listened on.
pub const EXIT_NET_ERROR: u8 = 48;
/// mongod's exit code for a data directory that cannot be used.
pub const EXIT_DATA_DIRECTORY: u8 = 100;

/// How far the admin port is from the port, by default.
const ADMIN_PORT_OFFSET: u16 = 1000;
const PORT_DEFAULT: u16 = 27_017;
const SLOW_MS_DEFAULT: i64 = 100;
/// Connections served at once; further ones are closed as they come. Each costs a thread.
const CONNECTIONS_MAX_DEFAULT: usize = 20_000;
const COMPRESSORS_DEFAULT: [CompressorName; 3] = [
    CompressorName::Snappy,
    CompressorName::Zstd,
    CompressorName::Zlib,
];

/// Where mongod looks for its data when nobody says.
const MONGOD_DATA_DIRECTORY: &str = "/data/db";
/// mongod's bounds of `wiredTigerCacheSizeGB`, but that a smaller cache is allowed.
const CACHE_GB: std::ops::RangeInclusive<f64> = 0.01..=10_000.0;

/// The name that the server was called by, which gives what is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    Quarry,
    /// Its data is in `/data/db`, and must be there; no admin port is opened unless asked for, because many of them stand
    /// side by side on ports that somebody else chose; the log is JSON.
    Mongod,
}

/// Everything that the server needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Config {
    pub face: Face,
    pub data_directory: PathBuf,
    /// The set that the server is the only member of; a standalone has none.
    pub replica_set: Option<SetOptions>,
    pub engine: EngineName,
    /// Bytes of RocksDB's cache of blocks; its own default without. The other engines have no cache that is given a size.
    #[cfg_attr(
        not(feature = "rocksdb"),
        expect(dead_code, reason = "a build without RocksDB has none that reads it")
    )]
    pub cache_bytes: Option<usize>,
    pub durability: Durability,
    /// The sync mode of libmdbx; another engine has none.
    pub mdbx_sync: Option<MdbxSync>,
    pub journal: JournalSettings,
    pub journal_archive: ArchiveSettings,
    /// Addresses of the network.
    pub addresses: Vec<String>,
    pub port: u16,
    pub unix_sockets: UnixSockets,
    pub admin_port: AdminPort,
    /// Opens the admin port of a server with access control.
    pub admin_token: Option<Token>,
    /// The powers of the console; none where nobody said.
    pub console: Option<ConsoleMode>,
    /// How connections are encrypted; none where they are not.
    pub tls: Option<TlsOptions>,
    /// Where the audit log goes; none is kept without.
    pub audit: Option<AuditOptions>,
    /// How the data is encrypted at rest; none where it is not.
    pub encryption: Option<EncryptionOptions>,
    pub connections_max: usize,
    pub compressors: Vec<CompressorName>,
    pub log_path: Option<PathBuf>,
    pub log_append: bool,
    pub log_format: Option<LogFormat>,
    pub log_rotate: LogRotate,
    pub quiet: bool,
    /// Commands are held against the roles of their client's user.
    pub is_authorization_enabled: bool,
    /// Somebody has asked for that, or for the opposite.
    pub is_authorization_said: bool,
    pub slow_ms: i64,
    /// The share of the slow operations that are logged and profiled.
    pub slow_op_sample_rate: f64,
    /// Where traces are sent; none are made without.
    pub otlp_endpoint: Option<Endpoint>,
    pub pid_path: Option<PathBuf>,
    /// The server goes on in the background once it serves.
    pub is_forked: bool,
    /// Options that were taken without an effect.
    pub notices: Vec<Notice>,
    pub parameters: Vec<(String, String)>,
    /// The configuration file that was read, for getCmdLineOpts.
    pub file: Option<PathBuf>,
    /// The arguments as given, for getCmdLineOpts.
    pub arguments: Vec<String>,
}

/// The identity of a server that is a set of one.
#[derive(Debug, Clone)]
pub struct SetOptions {
    pub name: String,
    /// The address that clients are told; without it each is told the one that it connected to.
    pub advertised: Option<Address>,
}

impl Config {
    /// Whether a write can be made to survive power loss: not where the engine's file itself may be damaged by one.
    pub fn can_promise_durability(&self) -> bool {
        self.mdbx_sync != Some(MdbxSync::UtterlyNoSync)
    }

    /// Reads the configuration file, if one is named, and lays the command line over it.
    pub fn new(face: Face, line: Serve, arguments: Vec<String>) -> Result<Config, BadOptions> {
        let ConfigFile {
            flags: file,
            mut notices,
        } = match &line.config {
            Some(path) => ConfigFile::read(path)?,
            None => ConfigFile::default(),
        };
        notices.extend(line.other.notices()?);
        let parameters = parameters(&file, &line)?;
        let replica_set = replica_set(
            line.repl_set.or(file.repl_set),
            line.advertise.or(file.advertise),
        )?;
        let port = line.port.or(file.port).unwrap_or(PORT_DEFAULT);
        let addresses = match (line.bind_ip, line.bind_ip_all) {
            (Some(addresses), _) => addresses,
            (None, true) => every_address(line.ipv6 || file.ipv6).into(),
            (None, false) if file.bind_ip_all => every_address(line.ipv6 || file.ipv6).into(),
            (None, false) => file.bind_ip.unwrap_or_else(|| "127.0.0.1".into()),
        };
        let (addresses, named) = parse_addresses(&addresses)?;
        let is_local = addresses
            .iter()
            .any(|address| reaches_this_machine(address));
        let unix_sockets = line.unix_sockets.over(file.unix_sockets);
        let unix_sockets = unix_sockets.sockets(named, is_local, port)?;
        let key_file = line.key_file.or(file.key_file);
        if let Some(path) = &key_file {
            std::fs::File::open(path)
                .map_err(|error| BadOptions(format!("keyFile: {}: {error}", path.display())))?;
        }
        let is_authorization_enabled =
            !line.noauth && (line.auth || file.auth || key_file.is_some());
        let is_authorization_said = is_authorization_enabled || line.noauth || file.noauth;
        let admin_port = match line.admin_port.or(file.admin_port) {
            Some(text) => parse_admin_port(&text)?,
            None if face == Face::Mongod => AdminPort::Off,
            None => default_admin_port(port)?,
        };
        let admin_token = line.admin_token_file.or(file.admin_token_file);
        let admin_token = admin_token.map(|path| Token::read(&path)).transpose()?;
        let connections_max = line
            .max_conns
            .or(file.max_conns)
            .unwrap_or(CONNECTIONS_MAX_DEFAULT);
        if connections_max == 0 {
            return Err(BadOptions(
                "maxConns: at least one connection must be allowed".into(),
            ));
        }
        let engine = engine(
            line.engine.or(file.engine),
            line.storage_engine.or(file.storage_engine),
            &mut notices,
        )?;
        let cache_gb = line
            .wired_tiger_cache_size_gb
            .or(file.wired_tiger_cache_size_gb);
        let cache_bytes = cache_bytes(cache_gb, engine, &mut notices)?;
        let durability = line
            .durability
            .or(file.durability)
            .unwrap_or(Durability::Journaled);
        let mdbx_sync = mdbx_sync(line.mdbx_sync.or(file.mdbx_sync), engine, durability)?;
        if replica_set.is_some() && mdbx_sync == Some(MdbxSync::UtterlyNoSync) {
            return Err(BadOptions(
                "replSet: a set's writes are durable by default, which --mdbx-sync utterly-no-sync cannot promise".into(),
            ));
        }
        let tls = line.tls.over(file.tls).options()?;
        let audit = line.audit.over(file.audit).options()?;
        let encryption = line.encryption.over(file.encryption).options(engine)?;
        let log_path = line.logpath.or(file.logpath);
        let log_append = line.logappend || file.logappend;
        let log_rotate = line.log_rotate.or(file.log_rotate).unwrap_or_default();
        if log_rotate == LogRotate::Reopen && !log_append {
            return Err(BadOptions("logRotate: `reopen` needs --logappend".into()));
        }
        let is_forked = line.fork || file.fork;
        if is_forked && log_path.is_none() {
            return Err(BadOptions(
                "fork: the log needs a file: give --logpath".into(),
            ));
        }
        let is_audited_there =
            |audit: &AuditOptions| audit.destination == AuditDestination::Console;
        if is_forked && audit.as_ref().is_some_and(is_audited_there) {
            return Err(BadOptions(
                "fork: the audit log needs a file: give --auditDestination file".into(),
            ));
        }
        let slow_op_sample_rate = line
            .slow_op_sample_rate
            .or(file.slow_op_sample_rate)
            .unwrap_or(1.0);
        if !(0.0..=1.0).contains(&slow_op_sample_rate) {
            return Err(BadOptions(format!(
                "slowOpSampleRate: {slow_op_sample_rate} is not from 0 to 1"
            )));
        }
        let journal_archive = ArchiveSettings::new(
            line.journal_archive.or(file.journal_archive),
            line.journal_archive_hold_mb
                .or(file.journal_archive_hold_mb),
            engine,
        )?;
        let default_directory = match face {
            Face::Quarry => "data",
            Face::Mongod => MONGOD_DATA_DIRECTORY,
        };
        Ok(Config {
            face,
            replica_set,
            tls,
            audit,
            encryption,
            data_directory: line
                .dbpath
                .or(file.dbpath)
                .unwrap_or_else(|| PathBuf::from(default_directory)),
            engine,
            cache_bytes,
            durability,
            mdbx_sync,
            journal: JournalSettings::new(
                line.journal_retention_mb
                    .or(line.oplog_size)
                    .or(file.journal_retention_mb)
                    .or(file.oplog_size),
                line.journal_retention_hours
                    .or(line.oplog_min_retention_hours)
                    .or(file.journal_retention_hours)
                    .or(file.oplog_min_retention_hours),
                line.journal_compress_above_kb
                    .or(file.journal_compress_above_kb),
            )?,
            journal_archive,
            addresses,
            port,
            unix_sockets,
            admin_port,
            admin_token,
            console: line.console.or(file.console),
            connections_max,
            compressors: match line
                .network_message_compressors
                .or(file.network_message_compressors)
            {
                Some(names) => parse_compressors(&names)?,
                None => COMPRESSORS_DEFAULT.to_vec(),
            },
            log_path,
            log_append,
            log_format: line.log_format.or(file.log_format).or(match face {
                Face::Quarry => None,
                Face::Mongod => Some(LogFormat::Json),
            }),
            log_rotate,
            quiet: line.quiet || file.quiet,
            is_authorization_enabled,
            is_authorization_said,
            slow_ms: line.slowms.or(file.slowms).unwrap_or(SLOW_MS_DEFAULT),
            slow_op_sample_rate,
            otlp_endpoint: line
                .otlp_endpoint
                .or(file.otlp_endpoint)
                .map(|url| Endpoint::parse(&url))
                .transpose()
                .map_err(|why| BadOptions(format!("otlpEndpoint: {why}")))?,
            pid_path: line.pidfilepath.or(file.pidfilepath),
            is_forked,
            notices,
            parameters,
            file: line.config,
            arguments,
        })
    }
}

/// The parameters of the file, then those of the line: a later one of a name wins.
fn parameters(file: &Serve, line: &Serve) -> Result<Vec<(String, String)>, BadOptions> {
    let mut parameters = Vec::new();
    for flags in [file, line] {
        if let Some(ms) = flags.journal_commit_interval {
            parameters.push(("commitIntervalMs".to_owned(), ms.to_string()));
        }
        for given in &flags.set_parameter {
            let Some((name, value)) = given.split_once('=') else {
                return Err(BadOptions(format!(
                    "setParameter: `{given}` is not of the form name=value"
                )));
            };
            parameters.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(parameters)
}

/// The engine by its own name, or else by mongod's. WiredTiger stands for the default: who names it wants what a server
/// has by itself.
fn engine(
    given: Option<EngineName>,
    as_mongod: Option<String>,
    notices: &mut Vec<Notice>,
) -> Result<EngineName, BadOptions> {
    let by_default = EngineName::default();
    match (given, as_mongod.as_deref()) {
        (Some(engine), _) => Ok(engine),
        (None, None) => Ok(by_default),
        (None, Some("wiredTiger")) => {
            notices.push(Notice {
                option: "--storageEngine wiredTiger".into(),
                why: "the default engine of this server stands in for it",
            });
            Ok(by_default)
        }
        (None, Some(name)) => EngineName::parse(name).ok_or_else(|| {
            BadOptions(format!(
                "storageEngine: `{name}` is none of rocksdb, mdbx, memory, inMemory, wiredTiger"
            ))
        }),
    }
}

fn cache_bytes(
    gigabytes: Option<f64>,
    engine: EngineName,
    notices: &mut Vec<Notice>,
) -> Result<Option<usize>, BadOptions> {
    let Some(gigabytes) = gigabytes else {
        return Ok(None);
    };
    if !CACHE_GB.contains(&gigabytes) {
        return Err(BadOptions(format!(
            "wiredTigerCacheSizeGB: {gigabytes} is not from {} to {}",
            CACHE_GB.start(),
            CACHE_GB.end()
        )));
    }
    if engine != EngineName::Rocksdb {
        notices.push(Notice {
            option: "--wiredTigerCacheSizeGB".into(),
            why: "the engine has no cache of its own",
        });
    }
    Ok(Some((gigabytes * (1u64 << 30) as f64) as usize))
}

/// mongod's meaning of `--bind_ip_all`, and of `*` with IPv6.
fn every_address(with_ipv6: bool) -> &'static str {
    match with_ipv6 {
        true => "::,0.0.0.0",
        false => "0.0.0.0",
    }
}

fn replica_set(
    name: Option<String>,
    advertised: Option<String>,
) -> Result<Option<SetOptions>, BadOptions> {
    let Some(name) = name else {
        return match advertised {
            None => Ok(None),
            Some(_) => Err(BadOptions(
                "advertise: only a member of a set is called by an address; give --replSet".into(),
            )),
        };
    };
    // The name stands in connection strings, behind `replicaSet=`.
    if name.is_empty() || name.contains(['/', ',', '&', ' ', '\0']) {
        return Err(BadOptions(format!("replSet: `{name}` is no name of a set")));
    }
    let advertised = advertised.map(|address| Address::parse(&address));
    let advertised = advertised
        .transpose()
        .map_err(|why| BadOptions(format!("advertise: {why}")))?;
    Ok(Some(SetOptions { name, advertised }))
}

fn mdbx_sync(
    given: Option<MdbxSync>,
    engine: EngineName,
    durability: Durability,
) -> Result<Option<MdbxSync>, BadOptions> {
    match (engine, given) {
        (EngineName::Mdbx, Some(MdbxSync::UtterlyNoSync))
            if durability != Durability::Relaxed =>
        {
            Err(BadOptions(
                "mdbx-sync: utterly-no-sync may leave a damaged file after a power loss and needs --durability relaxed"
                    .into(),
            ))
        }
        (EngineName::Mdbx, given) => Ok(Some(given.unwrap_or(MdbxSync::SafeNoSync))),
        (_, Some(_)) => Err(BadOptions(format!(
            "mdbx-sync: the engine is `{}`",
            engine.as_str()
        ))),
        (_, None) => Ok(None),
    }
}

fn parse_admin_port(text: &str) -> Result<AdminPort, BadOptions> {
    // YAML 1.1 reads a bare `off` as false.
    if text == "off" || text == "false" {
        return Ok(AdminPort::Off);
    }
    let port = text
        .parse()
        .map_err(|_| BadOptions(format!("adminPort: `{text}` is neither a port nor `off`")))?;
    Ok(AdminPort::On(port))
}

fn default_admin_port(port: u16) -> Result<AdminPort, BadOptions> {
    if port == 0 {
        return Ok(AdminPort::On(0));
    }
    let admin = port.checked_add(ADMIN_PORT_OFFSET).ok_or_else(|| {
        BadOptions(format!(
            "adminPort: port {port} leaves none for it {ADMIN_PORT_OFFSET} above; give --adminPort"
        ))
    })?;
    Ok(AdminPort::On(admin))
}

/// The addresses of the network, and the paths of sockets of the file system.
fn parse_addresses(text: &str) -> Result<(Vec<String>, Vec<PathBuf>), BadOptions> {
    let text = match text {
        "*" => every_address(true),
        text => text,
    };
    let mut addresses = Vec::new();
    let mut paths = Vec::new();
    for address in text.split(',').map(str::trim) {
        match address {
            "" => {
                return Err(BadOptions(format!(
                    "bind_ip: `{text}` names an empty address"
                )));
            }
            path if path.starts_with('/') => paths.push(PathBuf::from(path)),
            address => addresses.push(address.to_owned()),
        }
    }
    Ok((addresses, paths))
}

/// Whether clients of this machine reach who listens there without leaving it.
fn reaches_this_machine(address: &str) -> bool {
    let is_local = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    address == "localhost" || address.parse().is_ok_and(is_local)
}

fn parse_compressors(text: &str) -> Result<Vec<CompressorName>, BadOptions> {
    if text == "disabled" {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|name| CompressorName::parse(name.trim()))
        .collect()
}

impl Config {
    /// Whether clients of other machines can reach the server.
    pub fn listens_beyond_this_machine(&self) -> bool {
        let is_local = |address: &String| {
            address == "localhost"
                || address
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        };
        !self.addresses.iter().all(is_local)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, BadOptions> {
        let line = CommandLine::parse_from(["quarry", "serve"].iter().chain(arguments));
        let Command::Serve(serve) = line.command else {
            unreachable!("the line says `serve`")
        };
        Config::new(Face::Quarry, *serve, Vec::new())
    }

    #[test]
    fn a_sync_mode_is_for_libmdbx_and_the_worst_one_for_who_said_so() {
        let mdbx = |arguments: &[&str]| {
            let all = [&["--engine", "mdbx", "--mdbx-sync"], arguments].concat();
            parse(&all).map(|config| (config.mdbx_sync, config.can_promise_durability()))
        };
        assert_eq!(
            parse(&["--engine", "mdbx"]).unwrap().mdbx_sync,
            Some(MdbxSync::SafeNoSync)
        );
        assert_eq!(parse(&[]).unwrap().mdbx_sync, None);
        assert_eq!(mdbx(&["durable"]).unwrap(), (Some(MdbxSync::Durable), true));
        assert!(mdbx(&["utterly-no-sync"]).is_err());
        assert!(mdbx(&["utterly-no-sync", "--durability", "strict"]).is_err());
        let utterly = mdbx(&["utterly-no-sync", "--durability", "relaxed"]).unwrap();
        assert_eq!(utterly, (Some(MdbxSync::UtterlyNoSync), false));
        let error = parse(&["--engine", "memory", "--mdbx-sync", "durable"]).unwrap_err();
        assert_eq!(error.0, "mdbx-sync: the engine is `memory`");
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let path = std::env::temp_dir().join(format!("quarry-config-{}.yaml", std::process::id()));
        std::fs::write(&path, "net:\n  port: 4000\n  bindIp: 127.0.0.1,::1\nstorage:\n  engine: memory\nsetParameter:\n  cursorTimeoutMillis: 5000\n").unwrap();
        let file = path.to_str().unwrap();
        let config = parse(&["--config", file]).unwrap();
        assert_eq!(
            (config.port, config.engine, config.addresses.len()),
            (4000, EngineName::Memory, 2)
        );
        assert_eq!(config.admin_port, AdminPort::On(5000));
        assert_eq!(
            config.parameters,
            [("cursorTimeoutMillis".to_owned(), "5000".to_owned())]
        );
        let config = parse(&[
            "--config",
            file,
            "--port",
            "4001",
            "--engine",
            "mdbx",
            "--adminPort",
            "off",
        ])
        .unwrap();
        assert_eq!(
            (config.port, config.engine, config.admin_port),
            (4001, EngineName::Mdbx, AdminPort::Off)
        );
        std::fs::write(&path, "net:\n  prot: 4000\n").unwrap();
        assert!(parse(&["--config", file]).unwrap_err().0.contains("prot"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn authorization_is_asked_for_on_the_line_or_in_the_file() {
        assert!(!parse(&[]).unwrap().is_authorization_enabled);
        assert!(parse(&["--auth"]).unwrap().is_authorization_enabled);
        assert!(!parse(&[]).unwrap().is_authorization_said);
        assert!(parse(&["--noauth"]).unwrap().is_authorization_said);
        let path =
            std::env::temp_dir().join(format!("quarry-security-{}.yaml", std::process::id()));
        for (text, is_enabled) in [
            ("enabled", Some(true)),
            ("disabled", Some(false)),
            ("on", None),
        ] {
            std::fs::write(&path, format!("security:\n  authorization: {text}\n")).unwrap();
            let config = parse(&["--config", path.to_str().unwrap()]);
            assert_eq!(
                config.ok().map(|config| {
                    assert!(config.is_authorization_said);
                    config.is_authorization_enabled
                }),
                is_enabled
            );
        }
        std::fs::write(&path, "security:\n  keyFile: /nowhere/key\n").unwrap();
        assert!(parse(&["--config", path.to_str().unwrap()]).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(
            !parse(&["--bind_ip", "127.0.0.1,::1,localhost"])
                .unwrap()
                .listens_beyond_this_machine()
        );
        assert!(
            parse(&["--bind_ip", "127.0.0.1,0.0.0.0"])
                .unwrap()
                .listens_beyond_this_machine()
        );
    }

    #[test]
    fn encryption_is_asked_for_by_names_of_today_and_of_old() {
        let tls = |arguments: &[&str]| parse(arguments).map(|config| config.tls);
        assert_eq!(tls(&[]).unwrap(), None);
        assert_eq!(tls(&["--tlsMode", "disabled"]).unwrap(), None);
        let today = [
            "--tlsMode",
            "requireTLS",
            "--tlsCertificateKeyFile",
            "key.pem",
            "--tlsCAFile",
            "ca.pem",
            "--tlsCRLFile",
            "crl.pem",
            "--tlsAllowConnectionsWithoutCertificates",
        ];
        let options = tls(&today).unwrap().unwrap();
        assert!(options.is_required && options.takes_none && !options.takes_invalid);
        assert_eq!(options.versions().len(), 2);
        let of_old = [
            "--sslMode",
            "requireSSL",
            "--sslPEMKeyFile",
            "key.pem",
            "--sslCAFile",
            "ca.pem",
            "--sslCRLFile",
            "crl.pem",
            "--sslWeakCertificateValidation",
        ];
        assert_eq!(tls(&of_old).unwrap().unwrap(), options);
        let path = std::env::temp_dir().join(format!("quarry-tls-{}.yaml", std::process::id()));
        for text in [
            "net:\n  tls:\n    mode: requireTLS\n    certificateKeyFile: key.pem\n    CAFile: ca.pem\n    CRLFile: crl.pem\n    allowConnectionsWithoutCertificates: true\n",
            "net:\n  ssl:\n    mode: requireSSL\n    PEMKeyFile: key.pem\n    CAFile: ca.pem\n    CRLFile: crl.pem\n    weakCertificateValidation: true\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let config = parse(&["--config", path.to_str().unwrap()]).unwrap();
            assert_eq!(config.tls.as_ref(), Some(&options));
        }
        std::fs::remove_file(&path).unwrap();
        let refused = |arguments: &[&str]| tls(arguments).unwrap_err().0;
        assert!(refused(&["--tlsMode", "allowTLS"]).contains("--tlsCertificateKeyFile"));
        assert!(refused(&["--tlsCertificateKeyFile", "key.pem"]).contains("disabled"));
        let key = ["--tlsOnNormalPorts", "--tlsCertificateKeyFile", "key.pem"];
        let with = |more: &[&'static str]| [&key[..], more].concat();
        assert!(tls(&key).unwrap().unwrap().is_required);
        assert!(refused(&with(&["--tlsMode", "requireTLS"])).contains("tlsOnNormalPorts"));
        assert!(refused(&with(&["--tlsCRLFile", "crl.pem"])).contains("--tlsCAFile"));
        assert!(refused(&with(&["--tlsCertificateKeyFilePassword", "x"])).contains("openssl"));
        let without_1_2 = with(&["--tlsDisabledProtocols", "TLS1_0,TLS1_1,TLS1_2"]);
        assert_eq!(tls(&without_1_2).unwrap().unwrap().versions().len(), 1);
        assert!(refused(&with(&["--tlsDisabledProtocols", "TLS1_2,TLS1_3"])).contains("left"));
        assert!(refused(&with(&["--tlsDisabledProtocols", "SSLv3"])).contains("SSLv3"));
    }

    #[test]
    fn a_set_has_a_name_and_may_have_an_address() {
        let set = |arguments: &[&str]| {
            let set = parse(arguments).unwrap().replica_set.unwrap();
            (set.name, set.advertised.map(|address| address.to_string()))
        };
        assert_eq!(set(&["--replSet", "rs0"]), ("rs0".into(), None));
        assert_eq!(
            set(&["--replSet", "rs0", "--advertise", "DB.example"]),
            ("rs0".into(), Some("db.example:27017".into()))
        );
        assert!(parse(&[]).unwrap().replica_set.is_none());
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let refused = |arguments: &[&str]| parse(arguments).unwrap_err().0;
        assert!(refused(&["--advertise", "db:1"]).contains("--replSet"));
        assert!(refused(&["--replSet", "rs0", "--advertise", "a b"]).contains("advertise"));
        assert!(refused(&["--replSet", "rs0/a:1"]).contains("replSet"));
        assert!(
            parse(&["--port", "65000"])
                .unwrap_err()
                .0
                .contains("adminPort")
        );
        assert!(parse(&["--adminPort", "none"]).is_err());
        assert!(parse(&["--networkMessageCompressors", "lz4"]).is_err());
        assert!(parse(&["--setParameter", "loose"]).is_err());
        let refused = parse(&["--otlpEndpoint", "https://otel:4318"]).unwrap_err();
        assert!(refused.0.contains("otlpEndpoint") && refused.0.contains("TLS"));
    }
}
