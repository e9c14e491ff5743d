//! The command line, in mongod's spelling.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser};
use clap::{Args, Parser, Subcommand};

use super::audit::AuditSettings;
use super::encryption::{EncryptionSettings, KeyFileOption};
use super::options::OtherFlags;
use super::tls::TlsSettings;
use super::unix_sockets::UnixSocketSettings;
use super::values::{ConsoleMode, Durability, EngineName, LogFormat, LogRotate, MdbxSync};
use crate::backup::address::Address;

/// The heading of flags that are there because mongod has them.
const AS_MONGOD: &str = "As mongod has them";

#[derive(Debug, Parser)]
#[command(
    name = "quarry",
    version,
    about = "A document database that speaks the MongoDB wire protocol"
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a data directory to MongoDB clients
    Serve(Box<Serve>),
    /// Be called as mongod is: its defaults, its log lines and `--version`. A link named `mongod` to the binary does the same
    Mongod(Box<Serve>),
    /// Look at the journal of a data directory that no server uses, or cut it
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Make users in a data directory that no server uses
    #[command(subcommand)]
    User(UserCommand),
    /// Back up a running server into a repository, and look after what is there
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Look after the archive that a server keeps of its journal
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Make a data directory of a backup, and with an archive of the journal as it was at any moment since
    Restore(Restore),
    /// Lock an encrypted data directory, which no server uses, with another key; its data is not written again
    RotateKey(RotateKey),
    /// Write databases of a running server into files, in the formats of mongodump
    Dump(Box<quarry_tools::dump::Dump>),
    /// Insert what a dump has into a running server
    RestoreDump(Box<quarry_tools::restore_dump::RestoreDump>),
    #[cfg_attr(
        feature = "parquet",
        doc = "Insert a file of JSON, CSV, TSV or Parquet into a running server"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Insert a file of JSON, CSV or TSV into a running server"
    )]
    Import(Box<quarry_tools::import::Import>),
    #[cfg_attr(
        feature = "parquet",
        doc = "Write a collection of a running server as JSON, CSV or Parquet"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Write a collection of a running server as JSON or CSV"
    )]
    Export(Box<quarry_tools::export::Export>),
    /// Copy a live deployment into another one, and follow its changes
    Migrate(Box<quarry_tools::migrate::Migrate>),
    /// Watch a running server: rates, quantiles and phases by kind of operation, live
    Top(Top),
    /// Print what a shell needs to complete this program's flags
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// The subcommands of `quarry user`.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Make a user; its password is the first line of the standard input or of a file
    Add(AddUser),
}

/// The flags of `quarry user add`.
#[derive(Debug, Args)]
pub struct AddUser {
    /// The user, of the database `admin` where none is named
    #[arg(value_name = "NAME[@DATABASE]")]
    pub name: String,
    /// A role of the user, of the database `admin` where none is named; may be given more than once
    #[arg(long = "role", value_name = "ROLE[@DATABASE]", default_value = "root")]
    pub roles: Vec<String>,
    /// Data directory; made when it is missing
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    pub dbpath: PathBuf,
    /// Storage engine of the data directory [default: rocksdb]
    #[arg(long, value_enum)]
    pub engine: Option<EngineName>,
    /// File whose first line is the password
    #[arg(long = "passwordFile", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    #[command(flatten)]
    pub key: KeyFileOption,
}

/// How a client of a server logs in and encrypts.
#[derive(Debug, Default, Args)]
pub struct LoginOptions {
    /// User to log in as, of the database `admin` where none is named
    #[arg(long, value_name = "NAME[@DATABASE]")]
    pub user: Option<String>,
    /// File whose first line is the user's password; without it the standard input
    #[arg(long = "passwordFile", value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Encrypt the connection
    #[arg(long)]
    pub tls: bool,
    /// File with the authorities that may have signed the server's certificate; without it those of this machine
    #[arg(long = "tlsCAFile", value_name = "FILE", requires = "tls")]
    pub tls_ca_file: Option<PathBuf>,
    /// File with the client's own certificate and its key
    #[arg(long = "tlsCertificateKeyFile", value_name = "FILE", requires = "tls")]
    pub tls_certificate_key_file: Option<PathBuf>,
}

/// Reads the address of a repository: of a directory or an object store.
fn address() -> ValueParser {
    PathBufValueParser::new().map(Address::of).into()
}

/// Reads an age such as `90m`, `12h`, `30d` or `8w`.
fn age(text: &str) -> Result<Duration, String> {
    let unit_seconds = match text.as_bytes().last() {
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        Some(b'd') => 24 * 60 * 60,
        Some(b'w') => 7 * 24 * 60 * 60,
        _ => return Err("an age is a number and a unit: 90m, 12h, 30d or 8w".into()),
    };
    let count: u32 = (text[..text.len() - 1].parse()).map_err(|error| format!("{error}"))?;
    Ok(Duration::from_secs(u64::from(count) * unit_seconds))
}

/// A repository that is there.
#[derive(Debug, Args)]
pub struct RepositoryFlags {
    /// The repository, a directory or a store as in s3://BUCKET/PREFIX
    #[arg(long = "from", value_name = "REPOSITORY", value_parser = address())]
    pub address: Address,
    /// File with the repository's key, if it is encrypted
    #[arg(long = "backupKeyFile", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// The subcommands of `quarry backup`.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Copy the data of a running server, on the server's machine; what the last backup has is not copied again
    Create(CreateBackup),
    /// List the backups of a repository
    List {
        #[command(flatten)]
        from: RepositoryFlags,
    },
    /// Read every byte of a backup, or of all, and check it
    Verify {
        #[command(flatten)]
        from: RepositoryFlags,
        /// The backup; all without it
        id: Option<String>,
    },
    /// Remove backups, and what only they needed
    Remove {
        #[command(flatten)]
        from: RepositoryFlags,
        /// The backups
        #[arg(required_unless_present_any = ["keep", "keep_within"])]
        ids: Vec<String>,
        /// Instead: all but this many, the latest ones
        #[arg(long, value_name = "COUNT", conflicts_with = "ids", value_parser = clap::value_parser!(u32).range(1..))]
        keep: Option<u32>,
        /// Instead: those that are older than this, such as 12h, 30d or 8w, but for the latest one, or the latest --keep COUNT
        #[arg(long = "keep-within", value_name = "AGE", conflicts_with = "ids", value_parser = age)]
        keep_within: Option<Duration>,
    },
    /// Lock an encrypted repository with another key; backups are not written again
    RotateKey {
        /// The repository, a directory or a store as in s3://BUCKET/PREFIX
        #[arg(long, value_name = "REPOSITORY", value_parser = address())]
        from: Address,
        /// File with the key that the repository is locked with now
        #[arg(long = "backupKeyFile", value_name = "FILE")]
        key_file: PathBuf,
        /// File with the key that takes its place: base64 of 32 bytes, which only its owner may read
        #[arg(long = "newKeyFile", value_name = "FILE")]
        new_key_file: PathBuf,
    },
}

/// The flags of `quarry backup create`.
#[derive(Debug, Args)]
pub struct CreateBackup {
    /// The repository: a directory, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX with credentials in the environment; made when it is missing
    #[arg(long, value_name = "REPOSITORY", value_parser = address())]
    pub to: Address,
    /// Encrypt a new repository with the key in this file, or open one that is encrypted: base64 of 32 bytes, which only its owner may read
    #[arg(long = "backupKeyFile", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Data directory of the server, whose port is found there
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    pub dbpath: PathBuf,
    /// The server's host, if it does not listen on this address
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    #[command(flatten)]
    pub login: LoginOptions,
    /// Read at most this many MB a second
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Read what an object store has already, and send again what is damaged there; in a directory that is always done
    #[arg(long)]
    pub reread: bool,
}

/// The flags of `quarry restore`.
#[derive(Debug, Args)]
pub struct Restore {
    #[command(flatten)]
    pub from: RepositoryFlags,
    /// The backup; the latest without it
    #[arg(long)]
    pub id: Option<String>,
    /// Data directory to make; it may be there, but empty
    #[arg(long, value_name = "DIRECTORY")]
    pub dbpath: PathBuf,
    #[command(flatten)]
    pub moment: RestoreMoment,
    #[command(flatten)]
    pub part: RestorePart,
}

/// The part that `quarry restore` takes out of the whole, and where it goes; without one it is all, in the data directory.
#[derive(Debug, Default, Args)]
pub struct RestorePart {
    #[command(flatten)]
    pub selection: quarry_tools::SelectionFlags,
    /// Copy collections into this running server, under their other names if --nsFrom and --nsTo give any, and remove the data directory again
    #[arg(long, value_name = "URI")]
    pub into: Option<String>,
    /// File whose first line is the password of that server's user; `-` is the standard input
    #[arg(long = "intoPasswordFile", value_name = "FILE", requires = "into")]
    pub into_password_file: Option<PathBuf>,
    /// Remove each collection from that server first
    #[arg(long, requires = "into")]
    pub drop: bool,
    #[command(flatten)]
    pub key: KeyFileOption,
}

/// The moment that `quarry restore` goes on to behind the backup; without one it is that of the backup.
#[derive(Debug, Default, Args)]
pub struct RestoreMoment {
    /// The archive of the journal
    #[arg(long = "journalArchive", value_name = "DIRECTORY", requires = "moment")]
    pub archive: Option<PathBuf>,
    /// Everything up to this wall time, such as 2026-11-28T12:00:00.123Z, or `latest`: all that the archive has
    #[arg(
        long,
        value_name = "TIME|latest",
        requires = "archive",
        group = "moment"
    )]
    pub to: Option<String>,
    /// Everything up to this record of the journal
    #[arg(
        long = "to-lsn",
        value_name = "LSN",
        requires = "archive",
        group = "moment"
    )]
    pub to_lsn: Option<u64>,
    /// Everything up to this cluster time, which a driver has of a reply as operationTime: seconds since 1970 and a counter
    #[arg(
        long = "to-timestamp",
        value_name = "SECONDS,COUNT",
        requires = "archive",
        group = "moment"
    )]
    pub to_timestamp: Option<String>,
    /// The line of the archive, where a restore has made several [default: the latest]
    #[arg(long, value_name = "LINE", requires = "archive")]
    pub line: Option<String>,
}

/// The subcommands of `quarry archive`.
#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Show what the archive has, where something is missing, and to which moments data can be restored
    List {
        #[command(flatten)]
        place: ArchivePlace,
        /// The repository of the backups that data would be restored from
        #[arg(long, value_name = "REPOSITORY", value_parser = address())]
        from: Option<Address>,
        /// File with that repository's key, if it is encrypted
        #[arg(long = "backupKeyFile", value_name = "FILE", requires = "from")]
        key_file: Option<PathBuf>,
    },
    /// Read every byte of the archive and check it
    Verify {
        #[command(flatten)]
        place: ArchivePlace,
    },
    /// Remove what no backup of the repository needs, beside a server that goes on writing the archive
    Remove {
        #[command(flatten)]
        place: ArchivePlace,
        #[command(flatten)]
        from: RepositoryFlags,
    },
    /// Have a running server bring its archive up to everything that was acknowledged
    Flush(FlushArchive),
}

/// Where an archive is.
#[derive(Debug, Args)]
pub struct ArchivePlace {
    /// The archive
    #[arg(long = "journalArchive", value_name = "DIRECTORY")]
    pub archive: PathBuf,
}

/// The flags of `quarry archive flush`.
#[derive(Debug, Args)]
pub struct FlushArchive {
    /// Data directory of the server, whose port is found there
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    pub dbpath: PathBuf,
    /// The server's host, if it does not listen on this address
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    #[command(flatten)]
    pub login: LoginOptions,
}

/// The flags of `quarry rotate-key`.
#[derive(Debug, Args)]
pub struct RotateKey {
    /// Data directory
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    pub dbpath: PathBuf,
    /// File with the key that the directory is locked with now
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: PathBuf,
    /// File with the key that takes its place: base64 of 32 bytes, which only its owner may read
    #[arg(long = "newKeyFile", value_name = "FILE")]
    pub new_key_file: PathBuf,
}

/// The flags of `quarry top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The server's host
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The server's port
    #[arg(long, default_value_t = 27017)]
    pub port: u16,
    #[command(flatten)]
    pub login: LoginOptions,
    /// Seconds between two pictures
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Print one picture and end
    #[arg(long)]
    pub once: bool,
}

/// The subcommands of `quarry journal`.
#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Read every record of every segment and check the whole chain; changes nothing
    Verify {
        #[command(flatten)]
        place: JournalPlace,
    },
    /// List the groups of the log, and their records on request; changes nothing
    Dump {
        #[command(flatten)]
        place: JournalPlace,
        /// Begin with the group that holds this LSN
        #[arg(long, value_name = "LSN", default_value_t = 1)]
        from: u64,
        /// End after this many groups
        #[arg(long, value_name = "GROUPS")]
        limit: Option<u64>,
        /// Show each record: its LSN, its length and its bytes in hexadecimal
        #[arg(long)]
        records: bool,
    },
    /// Give up every record behind an LSN, for good: the way past damage that refuses a start
    ///
    /// What is given up stays in the engine if the engine already has it: the next start then records a gap in the
    /// log. Run `verify` and `dump` first, and keep a copy of the directory.
    Truncate {
        #[command(flatten)]
        place: JournalPlace,
        /// The last LSN that is kept; a group must end there
        #[arg(long, value_name = "LSN")]
        after: u64,
        /// Cut before a missing segment, and give up those behind it, too; start the server first, which mends such a
        /// gap if it can
        #[arg(long)]
        over_gap: bool,
    },
    /// Begin a new journal behind what the engine holds durably: the way past a journal that is lost, or damaged beyond its end
    ///
    /// What only the old journal had is given up, and no change stream goes on from before. The engine's data is read as a
    /// whole first, and refused where it is not complete by itself. The old journal stays beside, as `journal.lost-NUMBER`.
    Renew {
        #[command(flatten)]
        place: JournalPlace,
        /// Storage engine of the data directory [default: the one whose data it holds]
        #[arg(long, value_enum)]
        engine: Option<EngineName>,
        /// Do it; without this flag the command says what would be lost, and changes nothing
        #[arg(long)]
        accept_loss: bool,
    },
}

/// Where the journal is.
#[derive(Debug, Args)]
pub struct JournalPlace {
    /// Data directory; the journal is in `journal` under it
    #[arg(long, value_name = "DIRECTORY", default_value = "data")]
    pub dbpath: PathBuf,
    #[command(flatten)]
    pub key: KeyFileOption,
}

/// The flags of `quarry serve`, which are those of `quarry mongod` too.
#[derive(Debug, Default, Args)]
pub struct Serve {
    /// Directory of the data; made when it is missing [default: data]. As mongod: it must be there [default: /data/db]
    #[arg(long, value_name = "DIRECTORY")]
    pub dbpath: Option<PathBuf>,
    /// Port to listen on; 0 takes a free one [default: 27017]
    #[arg(long)]
    pub port: Option<u16>,
    /// Addresses to listen on, and paths of sockets of the file system, separated by commas [default: 127.0.0.1]
    #[arg(long = "bind_ip", value_name = "ADDRESSES")]
    pub bind_ip: Option<String>,
    /// Configuration file in the layout of mongod.conf
    #[arg(long, short = 'f', value_name = "FILE.yaml")]
    pub config: Option<PathBuf>,
    /// Log to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    pub logpath: Option<PathBuf>,
    /// Append to an existing log file instead of moving it aside
    #[arg(long)]
    pub logappend: bool,
    /// Leave out the lines about connections
    #[arg(long)]
    pub quiet: bool,
    /// Set a server parameter; may be given more than once
    #[arg(long = "setParameter", value_name = "NAME=VALUE")]
    pub set_parameter: Vec<String>,
    /// Hold commands against the roles of their client's user; without it everybody may do everything
    #[arg(long)]
    pub auth: bool,
    #[command(flatten)]
    pub unix_sockets: UnixSocketSettings,
    #[command(flatten)]
    pub tls: TlsSettings,
    #[command(flatten)]
    pub audit: AuditSettings,
    #[command(flatten)]
    pub encryption: EncryptionSettings,
    /// Be a replica set of one member by this name, which initiates itself
    #[arg(long = "replSet", value_name = "NAME")]
    pub repl_set: Option<String>,
    /// The address that clients of the set are told [default: the one that each connected to]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub advertise: Option<String>,
    /// Storage engine [default: rocksdb]. mdbx is for data that fits in memory and is mostly read: indexes over random
    /// values make it write some 60 times the data, and its pages carry no checksums
    #[arg(long, value_enum)]
    pub engine: Option<EngineName>,
    /// Which writes survive what [default: journaled]
    #[arg(long, value_enum)]
    pub durability: Option<Durability>,
    /// The parts that libmdbx syncs at a commit; for the engine mdbx alone [default: safe-no-sync]
    #[arg(long = "mdbx-sync", value_enum, value_name = "MODE")]
    pub mdbx_sync: Option<MdbxSync>,
    /// Megabytes that the journal takes at most with what it keeps though no checkpoint needs it any more [default: 5 % of
    /// the free disk, at most 8192; no bound if only the hours are given]
    #[arg(long = "journalRetentionMB", value_name = "MB")]
    pub journal_retention_mb: Option<u64>,
    /// Hours that journal segments are kept after their last write though no checkpoint needs them any more: so long after
    /// an event a change stream can resume behind it [default: 24]
    #[arg(long = "journalRetentionHours", value_name = "HOURS")]
    pub journal_retention_hours: Option<f64>,
    /// Compress groups of writes above so many kilobytes in the journal [default: none is]
    #[arg(long = "journalCompressAboveKB", value_name = "KB")]
    pub journal_compress_above_kb: Option<u64>,
    /// Directory into which everything durable of the journal is copied, each second: with a backup the data can be restored to
    /// any moment. Not within the data directory, and best on another disk
    #[arg(long = "journalArchive", value_name = "DIRECTORY")]
    pub journal_archive: Option<PathBuf>,
    /// Megabytes of full journal segments that wait for the archive at most; beyond it the oldest are freed without, and the
    /// archive has a gap [default: 4096]
    #[arg(long = "journalArchiveHoldMB", value_name = "MB")]
    pub journal_archive_hold_mb: Option<u64>,
    /// Port of the admin HTTP server, 0 for a free one, or `off` [default: port + 1000]
    #[arg(long = "adminPort", value_name = "PORT|off")]
    pub admin_port: Option<String>,
    /// File with the token that opens the admin port of a server with access control, beside its users
    #[arg(long = "adminTokenFile", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Powers of the console on the admin port, beside showing figures [default: ro, but without --auth for browsers on this
    /// machine alone]
    #[arg(long, value_enum)]
    pub console: Option<ConsoleMode>,
    /// Form of the log lines [default: human on a terminal, else json]
    #[arg(long = "logFormat", value_enum)]
    pub log_format: Option<LogFormat>,
    /// Connections served at once [default: 20000]
    #[arg(long = "maxConns", value_name = "COUNT")]
    pub max_conns: Option<usize>,
    /// Compressors offered to clients: snappy, zstd, zlib, or `disabled` [default: snappy,zstd,zlib]
    #[arg(long = "networkMessageCompressors", value_name = "NAMES")]
    pub network_message_compressors: Option<String>,
    /// Operations slower than this are logged [default: 100]
    #[arg(long, value_name = "MILLISECONDS", allow_negative_numbers = true)]
    pub slowms: Option<i64>,
    /// Send traces to this OTLP collector, http://host:port[/v1/traces]; their share is the parameter traceSampleRate
    #[arg(long = "otlpEndpoint", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Write the process id to this file
    #[arg(long, value_name = "FILE")]
    pub pidfilepath: Option<PathBuf>,
    /// Go on in the background once clients can connect; needs --logpath
    #[arg(long, help_heading = AS_MONGOD)]
    pub fork: bool,
    /// Stop the server that uses the data directory, and wait until it has stopped
    #[arg(long, help_heading = AS_MONGOD)]
    pub shutdown: bool,
    /// Listen on every IPv4 address, and with --ipv6 on every IPv6 address
    #[arg(long = "bind_ip_all", conflicts_with = "bind_ip", help_heading = AS_MONGOD)]
    pub bind_ip_all: bool,
    /// Have --bind_ip_all mean IPv6, too; addresses that are named are listened on without it
    #[arg(long, help_heading = AS_MONGOD)]
    pub ipv6: bool,
    /// Leave access control off, whatever the file says
    #[arg(long, conflicts_with = "auth", help_heading = AS_MONGOD)]
    pub noauth: bool,
    /// As --auth; a set has no other member that would authenticate itself with the key
    #[arg(long = "keyFile", value_name = "FILE", help_heading = AS_MONGOD)]
    pub key_file: Option<PathBuf>,
    /// Storage engine by mongod's name: `inMemory` is the engine `memory`, `wiredTiger` the default one
    #[arg(long = "storageEngine", value_name = "NAME", help_heading = AS_MONGOD)]
    pub storage_engine: Option<String>,
    /// Gigabytes of the engine's cache of blocks; of the engine rocksdb alone [default: 0.5]
    #[arg(long = "wiredTigerCacheSizeGB", value_name = "GB", help_heading = AS_MONGOD)]
    pub wired_tiger_cache_size_gb: Option<f64>,
    /// The parameter commitIntervalMs
    #[arg(long = "journalCommitInterval", value_name = "MILLISECONDS", help_heading = AS_MONGOD)]
    pub journal_commit_interval: Option<u64>,
    /// As --journalRetentionMB
    #[arg(long = "oplogSize", value_name = "MB", help_heading = AS_MONGOD)]
    pub oplog_size: Option<u64>,
    /// As --journalRetentionHours
    #[arg(long = "oplogMinRetentionHours", value_name = "HOURS", help_heading = AS_MONGOD)]
    pub oplog_min_retention_hours: Option<f64>,
    /// The share of the slow operations that are logged and profiled, from 0 to 1 [default: 1]
    #[arg(long = "slowOpSampleRate", value_name = "SHARE", help_heading = AS_MONGOD)]
    pub slow_op_sample_rate: Option<f64>,
    /// How SIGUSR1 and the command logRotate begin a new log: by moving the file aside, or by opening it again after somebody
    /// else has moved it
    /// [default: rename]
    #[arg(long = "logRotate", value_enum, value_name = "HOW", help_heading = AS_MONGOD)]
    pub log_rotate: Option<LogRotate>,
    #[command(flatten)]
    pub other: OtherFlags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        let day = Duration::from_secs(86_400);
        assert_eq!(age("30d"), Ok(day * 30));
        assert_eq!(age("24h"), Ok(day));
        assert_eq!(age("1440m"), Ok(day));
        assert_eq!(age("2w"), Ok(day * 14));
        for wrong in [
            "",
            "d",
            "30",
            "-1d",
            "1.5d",
            "3 d",
            "5s",
            "99999999999d",
            "1ü",
        ] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
