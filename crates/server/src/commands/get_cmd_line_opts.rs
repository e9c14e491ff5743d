//! `getCmdLineOpts`: how the server was started: the arguments as given, and what came of them.

use quarry_bson::{Document, DocumentBuilder, extjson};

use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::Result;
use crate::dispatch::privilege::{Action, On, Requires, need};
use crate::process::config::{AuditDestination, AuditFormat, AuditOptions, Config};

pub static COMMAND: Command = Command {
    is_admin_only: true,
    ..Command::new(
        "getCmdLineOpts",
        "shows how the server was started",
        Requires::Each(&[need(Action::GetCmdLineOpts, On::Cluster)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let config = &invocation.server.config;
    let mut arguments = reply.array("argv");
    for argument in &config.arguments {
        arguments.push(argument.as_str());
    }
    arguments.finish();
    let mut parsed = reply.document("parsed");
    append_options(config, &mut parsed);
    parsed.finish();
    Ok(())
}

/// The options in the layout of a configuration file, for the audit log.
pub fn options_document(config: &Config) -> Document {
    Document::build(|parsed| append_options(config, parsed))
}

fn append_options(config: &Config, parsed: &mut DocumentBuilder<'_>) {
    if let Some(file) = &config.file {
        parsed.append("config", &*file.to_string_lossy());
    }
    let mut net = parsed.document("net");
    let named = config.unix_sockets.named.iter();
    let named = named.map(|path| path.to_string_lossy().into_owned());
    let addresses: Vec<String> = config.addresses.iter().cloned().chain(named).collect();
    net.append("bindIp", addresses.join(",").as_str());
    net.append("port", i32::from(config.port));
    let mut unix = net.document("unixDomainSocket");
    unix.append("enabled", config.unix_sockets.of_port.is_some());
    let mode = format!("{:04o}", config.unix_sockets.mode);
    unix.append("filePermissions", mode.as_str());
    unix.finish();
    net.append(
        "maxIncomingConnections",
        i64::try_from(config.connections_max).unwrap_or(i64::MAX),
    );
    if let Some(options) = &config.tls {
        let mut tls = net.document("tls");
        tls.append("mode", options.mode.as_str());
        let files = [
            ("certificateKeyFile", Some(&options.certificate_key_file)),
            ("CAFile", options.ca_file.as_ref()),
            ("CRLFile", options.crl_file.as_ref()),
        ];
        for (name, path) in files {
            if let Some(path) = path {
                tls.append(name, &*path.to_string_lossy());
            }
        }
        for (name, is_on) in [
            ("allowConnectionsWithoutCertificates", options.takes_none),
            ("allowInvalidCertificates", options.takes_invalid),
        ] {
            if is_on {
                tls.append(name, true);
            }
        }
        tls.finish();
    }
    net.finish();
    if let Some(set) = &config.replica_set {
        let mut replication = parsed.document("replication");
        replication.append("replSet", set.name.as_str());
        if let Some(address) = &set.advertised {
            replication.append("advertise", address.as_str());
        }
        replication.finish();
    }
    append_storage(config, parsed);
    if let Some(options) = &config.encryption {
        let mut security = parsed.document("security");
        security.append("enableEncryption", true);
        security.append("encryptionKeyFile", &*options.key_file.to_string_lossy());
        security.finish();
    }
    if let Some(path) = &config.log_path {
        let mut log = parsed.document("systemLog");
        log.append("destination", "file");
        log.append("path", &*path.to_string_lossy());
        log.finish();
    }
    if !config.parameters.is_empty() {
        let mut parameters = parsed.document("setParameter");
        for (name, value) in &config.parameters {
            parameters.append(name, value.as_str());
        }
        parameters.finish();
    }
    if let Some(options) = &config.audit {
        append_audit(options, parsed);
    }
}

fn append_storage(config: &Config, parsed: &mut DocumentBuilder<'_>) {
    let mut storage = parsed.document("storage");
    storage.append("dbPath", &*config.data_directory.to_string_lossy());
    storage.append("engine", config.engine.as_str());
    storage.append("durability", config.durability.as_str());
    if let Some(mode) = config.mdbx_sync {
        storage.append("mdbxSync", mode.as_str());
    }
    let journal = &config.journal;
    if let Some(mb) = journal.retention_mb {
        storage.append("journalRetentionMB", i64::try_from(mb).unwrap_or(i64::MAX));
    }
    if let Some(hours) = journal.retention_hours {
        storage.append("journalRetentionHours", hours);
    }
    if let Some(bytes) = journal.compress_above_bytes {
        storage.append("journalCompressAboveKB", (bytes >> 10) as i64);
    }
    let archive = &config.journal_archive;
    if let (Some(path), Some(hold_bytes)) = (&archive.path, archive.hold_bytes()) {
        storage.append("journalArchive", &*path.to_string_lossy());
        storage.append("journalArchiveHoldMB", (hold_bytes >> 20) as i64);
    }
    storage.finish();
}

fn append_audit(options: &AuditOptions, parsed: &mut DocumentBuilder<'_>) {
    let mut audit = parsed.document("auditLog");
    match &options.destination {
        AuditDestination::Console => {
            audit.append("destination", "console");
        }
        AuditDestination::File(path) => {
            audit.append("destination", "file");
            audit.append("path", &*path.to_string_lossy());
        }
    }
    let format = match options.format {
        AuditFormat::Json => "JSON",
        AuditFormat::Bson => "BSON",
    };
    audit.append("format", format);
    if let Some(filter) = &options.filter {
        audit.append("filter", extjson::relaxed(filter.as_raw()).as_str());
    }
    audit.finish();
}
