//! The configuration: the command line over the configuration file over the defaults.
//!
//! Names follow mongod where it has the option. An option that Quarry does not have is refused, never ignored: a
//! server that silently runs without what was asked of it is worse than one that does not start.

mod command_line;
mod file;
mod journal_settings;
mod tls;
mod values;

use std::path::PathBuf;

use crate::observe::traces::Endpoint;
use crate::replication::address::Address;

pub use command_line::{Command, CommandLine, JournalCommand, JournalPlace, Serve, Top};
pub use journal_settings::JournalSettings;
pub use tls::TlsOptions;
pub use values::{
    AdminPort, Authorization, BadOptions, CompressorName, Durability, EngineName, LogFormat,
    MdbxSync, Token,
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

/// Everything that the server needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Config {
    pub data_directory: PathBuf,
    /// The set that the server is the only member of; a standalone has none.
    pub replica_set: Option<SetOptions>,
    pub engine: EngineName,
    pub durability: Durability,
    /// The sync mode of libmdbx; another engine has none.
    pub mdbx_sync: Option<MdbxSync>,
    pub journal: JournalSettings,
    pub addresses: Vec<String>,
    pub port: u16,
    pub admin_port: AdminPort,
    /// Opens the admin port of a server with access control.
    pub admin_token: Option<Token>,
    /// How connections are encrypted; none where they are not.
    pub tls: Option<TlsOptions>,
    pub connections_max: usize,
    pub compressors: Vec<CompressorName>,
    pub log_path: Option<PathBuf>,
    pub log_append: bool,
    pub log_format: Option<LogFormat>,
    pub quiet: bool,
    /// Commands are held against the roles of their client's user.
    pub is_authorization_enabled: bool,
    pub slow_ms: i64,
    /// Where traces are sent; none are made without.
    pub otlp_endpoint: Option<Endpoint>,
    pub pid_path: Option<PathBuf>,
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
    pub fn new(line: Serve, arguments: Vec<String>) -> Result<Config, BadOptions> {
        let file = match &line.config {
            Some(path) => file::ConfigFile::read(path)?,
            None => file::ConfigFile::default(),
        };
        let mut parameters = file.parameters();
        for given in &line.set_parameter {
            let Some((name, value)) = given.split_once('=') else {
                return Err(BadOptions(format!(
                    "setParameter: `{given}` is not of the form name=value"
                )));
            };
            parameters.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let replica_set = replica_set(
            line.repl_set.or(file.replication.repl_set_name),
            line.advertise.or(file.replication.advertise),
        )?;
        let port = line.port.or(file.net.port).unwrap_or(PORT_DEFAULT);
        let addresses = line
            .bind_ip
            .or(file.net.bind_ip)
            .unwrap_or_else(|| "127.0.0.1".into());
        let is_authorization_enabled =
            line.auth || file.security.authorization == Some(Authorization::Enabled);
        let admin_port = match line
            .admin_port
            .or(file.net.admin_port.map(|given| given.text()))
        {
            Some(text) => parse_admin_port(&text)?,
            None => default_admin_port(port)?,
        };
        let admin_token = line.admin_token_file.or(file.net.admin_token_file);
        let admin_token = admin_token.map(|path| Token::read(&path)).transpose()?;
        let connections_max = line
            .max_conns
            .or(file.net.max_incoming_connections)
            .unwrap_or(CONNECTIONS_MAX_DEFAULT);
        if connections_max == 0 {
            return Err(BadOptions(
                "maxConns: at least one connection must be allowed".into(),
            ));
        }
        let engine = line
            .engine
            .or(file.storage.engine)
            .unwrap_or(EngineName::Rocksdb);
        let durability = line
            .durability
            .or(file.storage.durability)
            .unwrap_or(Durability::Journaled);
        let mdbx_sync = mdbx_sync(
            line.mdbx_sync.or(file.storage.mdbx_sync),
            engine,
            durability,
        )?;
        if replica_set.is_some() && mdbx_sync == Some(MdbxSync::UtterlyNoSync) {
            return Err(BadOptions(
                "replSet: a set's writes are durable by default, which --mdbx-sync utterly-no-sync cannot promise".into(),
            ));
        }
        let tls = line.tls.over(file.net.tls).options()?;
        Ok(Config {
            replica_set,
            tls,
            data_directory: line
                .dbpath
                .or(file.storage.db_path)
                .unwrap_or_else(|| PathBuf::from("data")),
            engine,
            durability,
            mdbx_sync,
            journal: JournalSettings::new(
                line.journal_retention_mb
                    .or(file.storage.journal_retention_mb),
                line.journal_retention_hours
                    .or(file.storage.journal_retention_hours),
                line.journal_compress_above_kb
                    .or(file.storage.journal_compress_above_kb),
            )?,
            addresses: parse_addresses(&addresses)?,
            port,
            admin_port,
            admin_token,
            connections_max,
            compressors: match line
                .network_message_compressors
                .or(file.net.compression.compressors)
            {
                Some(names) => parse_compressors(&names)?,
                None => COMPRESSORS_DEFAULT.to_vec(),
            },
            log_path: line.logpath.or(file.system_log.path),
            log_append: line.logappend || file.system_log.log_append.unwrap_or(false),
            log_format: line.log_format.or(file.system_log.format),
            quiet: line.quiet || file.system_log.quiet.unwrap_or(false),
            is_authorization_enabled,
            slow_ms: line
                .slowms
                .or(file.operation_profiling.slow_op_threshold_ms)
                .unwrap_or(SLOW_MS_DEFAULT),
            otlp_endpoint: line
                .otlp_endpoint
                .or(file.tracing.otlp_endpoint)
                .map(|url| Endpoint::parse(&url))
                .transpose()
                .map_err(|why| BadOptions(format!("otlpEndpoint: {why}")))?,
            pid_path: line.pidfilepath.or(file.process_management.pid_file_path),
            parameters,
            file: line.config,
            arguments,
        })
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
    if text == "off" {
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

fn parse_addresses(text: &str) -> Result<Vec<String>, BadOptions> {
    let addresses: Vec<String> = text
        .split(',')
        .map(|address| address.trim().to_owned())
        .collect();
    if addresses.iter().any(String::is_empty) {
        return Err(BadOptions(format!(
            "bind_ip: `{text}` names an empty address"
        )));
    }
    if let Some(path) = addresses.iter().find(|address| address.starts_with('/')) {
        return Err(BadOptions(format!(
            "bind_ip: `{path}`: Unix domain sockets are not supported yet"
        )));
    }
    Ok(addresses)
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
                    .parse::<std::net::IpAddr>()
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
        Config::new(*serve, Vec::new())
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
                config.ok().map(|config| config.is_authorization_enabled),
                is_enabled
            );
        }
        std::fs::write(&path, "security:\n  keyFile: /etc/key\n").unwrap();
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
