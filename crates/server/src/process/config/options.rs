//! Every option there is: those of mongod 8.0, as flags and as keys of its configuration file, and Quarry's own.
//!
//! A row says what becomes of an option. One that is served is a flag of `Serve` under the same name, and its key in a file is
//! read as that flag. The others are known all the same: a server that is started the way a mongod was either does what was
//! asked, or says by name what it does not do. One that changes neither an answer nor a promise is taken with a warning;
//! one that would is refused, with the reason. `docs/options.md` is made from this table.

use clap::{Arg, ArgAction, ArgMatches};

use super::values::BadOptions;

/// The value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing as a flag, `true` or `false` as a key.
    Nothing,
    Value,
    /// A value behind `=`, or nothing: `--verbose`, `--verbose=vv`.
    OptionalValue,
}

/// The fate of an option.
#[derive(Debug, Clone, Copy)]
pub enum Standing {
    /// It does what it does in mongod.
    Served,
    /// Quarry's own; mongod has none of the name.
    Own,
    /// It is taken with a warning that gives this reason.
    Harmless(&'static str),
    /// It refuses the start, for this reason.
    Refused(&'static str),
    /// It is taken with a warning with one of these values, and refuses the start with any other.
    Only {
        values: &'static [&'static str],
        harmless: &'static str,
        refused: &'static str,
    },
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The flag without its dashes; empty for an option that only a file can give.
    pub flag: &'static str,
    /// The dotted key in a file; empty for an option that only a command line can give. `.*` at its end stands for all
    /// keys below.
    pub key: &'static str,
    pub takes: Takes,
    pub standing: Standing,
}

impl OptionRow {
    /// The name by which a user who gave it on the line or in a file knows it.
    pub fn name(&self) -> String {
        match (self.flag, self.key) {
            ("", key) => key.to_owned(),
            (flag, _) => format!("--{flag}"),
        }
    }

    pub fn is_served(&self) -> bool {
        matches!(self.standing, Standing::Served | Standing::Own)
    }

    /// Says what becomes of the option when it was given with this value: the reason of the warning, none if there is
    /// nothing to say.
    pub fn judge(&self, value: &str) -> Result<Option<&'static str>, &'static str> {
        match self.standing {
            Standing::Served | Standing::Own => Ok(None),
            Standing::Harmless(why) => Ok(Some(why)),
            Standing::Refused(why) => Err(why),
            Standing::Only {
                values,
                harmless,
                refused,
            } => match values.contains(&value) {
                true => Ok(Some(harmless)),
                false => Err(refused),
            },
        }
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.flag).long(self.flag).hide(true);
        match self.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::Value => arg.action(ArgAction::Append).allow_hyphen_values(true),
            Takes::OptionalValue => arg
                .action(ArgAction::Append)
                .num_args(0..=1)
                .default_missing_value("v")
                .require_equals(true),
        }
    }
}

/// `-v`, `-vv` and so on, which mongod has beside `--verbose`.
const SHORT_VERBOSE: &str = "v";

/// The row of a flag.
pub fn by_flag(flag: &str) -> Option<&'static OptionRow> {
    OPTIONS
        .iter()
        .find(|row| !row.flag.is_empty() && row.flag == flag)
}

/// The row of a key.
pub fn by_key(key: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| match row.key.strip_suffix(".*") {
        Some(above) => key
            .strip_prefix(above)
            .is_some_and(|rest| rest.starts_with('.')),
        None => !row.key.is_empty() && row.key == key,
    })
}

/// Whether keys are known below this one.
pub fn is_section(key: &str) -> bool {
    OPTIONS.iter().any(|row| {
        row.key
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

/// An option that was taken without an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub option: String,
    pub why: &'static str,
}

/// The flags of mongod on a command line that `Serve` has not got.
#[derive(Debug, Clone, Default)]
pub struct OtherFlags(Vec<(&'static OptionRow, String)>);

impl OtherFlags {
    /// The warnings that they come to, or the refusal.
    pub fn notices(&self) -> Result<Vec<Notice>, BadOptions> {
        let mut notices = Vec::new();
        for (row, value) in &self.0 {
            match row.judge(value) {
                Ok(None) => {}
                Ok(Some(why)) => notices.push(Notice {
                    option: row.name(),
                    why,
                }),
                Err(why) => return Err(BadOptions(format!("{}: {why}", row.name()))),
            }
        }
        Ok(notices)
    }

    fn rows() -> impl Iterator<Item = &'static OptionRow> {
        OPTIONS
            .iter()
            .filter(|row| !row.flag.is_empty() && !row.is_served())
    }
}

impl clap::FromArgMatches for OtherFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for row in OtherFlags::rows() {
            if row.takes == Takes::Nothing {
                if matches.get_flag(row.flag) {
                    given.push((row, "true".to_owned()));
                }
            } else if let Some(values) = matches.get_many::<String>(row.flag) {
                given.extend(values.map(|value| (row, value.clone())));
            }
        }
        if matches.get_count(SHORT_VERBOSE) > 0
            && let Some(row) = by_flag("verbose")
        {
            given.push((row, "v".to_owned()));
        }
        Ok(OtherFlags(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OtherFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for OtherFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let short = Arg::new(SHORT_VERBOSE)
            .short('v')
            .action(ArgAction::Count)
            .hide(true);
        OtherFlags::rows().fold(command.arg(short), |command, row| command.arg(row.arg()))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        OtherFlags::augment_args(command)
    }
}

use Takes::{Nothing, OptionalValue, Value};

const fn served(flag: &'static str, key: &'static str, takes: Takes) -> OptionRow {
    OptionRow {
        flag,
        key,
        takes,
        standing: Standing::Served,
    }
}

const fn own(flag: &'static str, key: &'static str, takes: Takes) -> OptionRow {
    OptionRow {
        flag,
        key,
        takes,
        standing: Standing::Own,
    }
}

const fn harmless(
    flag: &'static str,
    key: &'static str,
    takes: Takes,
    why: &'static str,
) -> OptionRow {
    OptionRow {
        flag,
        key,
        takes,
        standing: Standing::Harmless(why),
    }
}

const fn refused(
    flag: &'static str,
    key: &'static str,
    takes: Takes,
    why: &'static str,
) -> OptionRow {
    OptionRow {
        flag,
        key,
        takes,
        standing: Standing::Refused(why),
    }
}

const fn only(
    flag: &'static str,
    key: &'static str,
    values: &'static [&'static str],
    harmless: &'static str,
    refused: &'static str,
) -> OptionRow {
    OptionRow {
        flag,
        key,
        takes: Value,
        standing: Standing::Only {
            values,
            harmless,
            refused,
        },
    }
}

const NO_SCRIPTING: &str = "there is no JavaScript in the server";
const NO_VERBOSITY: &str = "the log has one level; `--slowms` and `profile` show operations";
const NO_WIREDTIGER: &str = "the storage engine is not WiredTiger";
const ONE_KEYSPACE: &str = "all collections and indexes share the engine's files";
const NO_SHARDING: &str = "sharding is not supported";
const PLAIN_KEY: &str = "encrypted keys are not supported; write the key without a password (openssl pkey) and let only the server read it";
const NO_CLUSTER_TLS: &str = "a set has one member, which connects to no other";
const OTHER_SYSTEMS: &str = "it is for macOS and Windows";
const ONE_MEMBER: &str = "a set has one member, and no other authenticates itself to it";
const WINDOWS: &str = "it is for Windows";
const AUDIT_PLAIN: &str = "the audit log is neither compressed nor encrypted";
const NO_KMIP: &str = "no key server is asked: the key is in the file of `--encryptionKeyFile`";
const NO_LDAP: &str = "LDAP is not supported";
const NO_KERBEROS: &str = "Kerberos and saslauthd are not supported";
const NO_SNMP: &str = "SNMP is not supported; the admin port serves `/metrics`";
const NO_FREE_MONITORING: &str = "the service does not exist any more";
const NO_EXPANSION: &str = "values from programs or from the network are not supported in a file";

/// Every option, in the order of mongod's manual; Quarry's own at the end.
#[rustfmt::skip]
pub static OPTIONS: &[OptionRow] = &[
    // Core.
    served("config", "", Value),
    only("configExpand", "", &["none"], "it is the default", NO_EXPANSION),
    refused("outputConfig", "", Nothing, "the command `getCmdLineOpts` shows the options of a running server"),
    refused("sysinfo", "", Nothing, "the command `hostInfo` shows the machine of a running server"),
    served("shutdown", "", Nothing),
    harmless("verbose", "systemLog.verbosity", OptionalValue, NO_VERBOSITY),
    harmless("", "systemLog.component.*", Value, NO_VERBOSITY),
    served("quiet", "systemLog.quiet", Nothing),
    harmless("traceExceptions", "systemLog.traceAllExceptions", Nothing, NO_VERBOSITY),
    served("logpath", "systemLog.path", Value),
    served("logappend", "systemLog.logAppend", Nothing),
    served("logRotate", "systemLog.logRotate", Value),
    served("", "systemLog.destination", Value),
    refused("syslog", "", Nothing, "give `--logpath`, or let systemd take the standard output"),
    refused("syslogFacility", "systemLog.syslogFacility", Value, "the log does not go to syslog"),
    only("timeStampFormat", "systemLog.timeStampFormat", &["iso8601-utc", "iso8601-local"],
        "times are in UTC",
        "it is `iso8601-utc` or `iso8601-local`",
    ),
    served("port", "net.port", Value),
    served("bind_ip", "net.bindIp", Value),
    served("bind_ip_all", "net.bindIpAll", Nothing),
    served("ipv6", "net.ipv6", Nothing),
    harmless("listenBacklog", "net.listenBacklog", Value, "the system's bound is taken"),
    served("maxConns", "net.maxIncomingConnections", Value),
    refused("maxConnsOverride", "net.maxIncomingConnectionsOverride", Value, "every connection counts"),
    harmless("objcheck", "", Nothing, "what clients send is always checked"),
    refused("noobjcheck", "", Nothing, "what clients send is always checked"),
    only("", "net.wireObjectCheck", &["true"], "what clients send is always checked", "what clients send is always checked"),
    served("nounixsocket", "", Nothing),
    served("", "net.unixDomainSocket.enabled", Value),
    served("unixSocketPrefix", "net.unixDomainSocket.pathPrefix", Value),
    served("filePermissions", "net.unixDomainSocket.filePermissions", Value),
    served("networkMessageCompressors", "net.compression.compressors", Value),
    served("setParameter", "setParameter.*", Value),
    served("fork", "processManagement.fork", Nothing),
    served("pidfilepath", "processManagement.pidFilePath", Value),
    harmless("timeZoneInfo", "processManagement.timeZoneInfo", Value, "the time zones are those of the binary"),
    refused("", "processManagement.windowsService.*", Value, WINDOWS),
    refused("install", "", Nothing, WINDOWS),
    refused("remove", "", Nothing, WINDOWS),
    refused("reinstall", "", Nothing, WINDOWS),
    refused("serviceName", "", Value, WINDOWS),
    refused("serviceDisplayName", "", Value, WINDOWS),
    refused("serviceDescription", "", Value, WINDOWS),
    refused("serviceUser", "", Value, WINDOWS),
    refused("servicePassword", "", Value, WINDOWS),
    // Security.
    served("auth", "", Nothing),
    served("noauth", "", Nothing),
    served("", "security.authorization", Value),
    served("keyFile", "security.keyFile", Value),
    only("clusterAuthMode", "security.clusterAuthMode", &["keyFile"], ONE_MEMBER, ONE_MEMBER),
    harmless("clusterIpSourceAllowlist", "security.clusterIpSourceAllowlist", Value, ONE_MEMBER),
    harmless("clusterIpSourceWhitelist", "security.clusterIpSourceWhitelist", Value, ONE_MEMBER),
    refused("transitionToAuth", "security.transitionToAuth", Nothing, "access control is either on or off"),
    harmless("noscripting", "", Nothing, NO_SCRIPTING),
    only("", "security.javascriptEnabled", &["false", "true"], NO_SCRIPTING, "it is `true` or `false`"),
    refused("redactClientLogData", "security.redactClientLogData", Nothing,
        "slow operations are logged with their values; `--slowms` above any operation's time keeps them out",
    ),
    refused("", "security.sasl.*", Value, NO_KERBEROS),
    // TLS, and its names of before 4.2.
    served("tlsMode", "net.tls.mode", Value),
    served("tlsOnNormalPorts", "", Nothing),
    served("tlsCertificateKeyFile", "net.tls.certificateKeyFile", Value),
    refused("tlsCertificateKeyFilePassword", "net.tls.certificateKeyFilePassword", Value, PLAIN_KEY),
    served("tlsCAFile", "net.tls.CAFile", Value),
    served("tlsCRLFile", "net.tls.CRLFile", Value),
    served("tlsAllowConnectionsWithoutCertificates", "net.tls.allowConnectionsWithoutCertificates", Nothing),
    served("tlsAllowInvalidCertificates", "net.tls.allowInvalidCertificates", Nothing),
    served("tlsDisabledProtocols", "net.tls.disabledProtocols", Value),
    harmless("tlsAllowInvalidHostnames", "net.tls.allowInvalidHostnames", Nothing, "the server connects to no other"),
    refused("tlsClusterFile", "net.tls.clusterFile", Value, NO_CLUSTER_TLS),
    refused("tlsClusterPassword", "net.tls.clusterPassword", Value, NO_CLUSTER_TLS),
    refused("tlsClusterCAFile", "net.tls.clusterCAFile", Value, NO_CLUSTER_TLS),
    refused("tlsClusterAuthX509Attributes", "net.tls.clusterAuthX509.attributes", Value, NO_CLUSTER_TLS),
    refused("tlsClusterAuthX509ExtensionValue", "net.tls.clusterAuthX509.extensionValue", Value, NO_CLUSTER_TLS),
    refused("tlsCertificateSelector", "net.tls.certificateSelector", Value, OTHER_SYSTEMS),
    refused("tlsClusterCertificateSelector", "net.tls.clusterCertificateSelector", Value, OTHER_SYSTEMS),
    refused("tlsFIPSMode", "net.tls.FIPSMode", Nothing, "the library for TLS is not one that FIPS 140 knows"),
    refused("tlsLogVersions", "net.tls.logVersions", Value, "the log does not tell a connection's version of TLS"),
    served("sslMode", "net.ssl.mode", Value),
    served("sslOnNormalPorts", "net.ssl.sslOnNormalPorts", Nothing),
    served("sslPEMKeyFile", "net.ssl.PEMKeyFile", Value),
    refused("sslPEMKeyPassword", "net.ssl.PEMKeyPassword", Value, PLAIN_KEY),
    served("sslCAFile", "net.ssl.CAFile", Value),
    served("sslCRLFile", "net.ssl.CRLFile", Value),
    served("sslAllowConnectionsWithoutCertificates", "net.ssl.allowConnectionsWithoutCertificates", Nothing),
    served("sslWeakCertificateValidation", "net.ssl.weakCertificateValidation", Nothing),
    served("sslAllowInvalidCertificates", "net.ssl.allowInvalidCertificates", Nothing),
    served("sslDisabledProtocols", "net.ssl.disabledProtocols", Value),
    harmless("sslAllowInvalidHostnames", "net.ssl.allowInvalidHostnames", Nothing, "the server connects to no other"),
    refused("sslClusterFile", "net.ssl.clusterFile", Value, NO_CLUSTER_TLS),
    refused("sslClusterPassword", "net.ssl.clusterPassword", Value, NO_CLUSTER_TLS),
    refused("sslClusterCAFile", "net.ssl.clusterCAFile", Value, NO_CLUSTER_TLS),
    refused("sslFIPSMode", "net.ssl.FIPSMode", Nothing, "the library for TLS is not one that FIPS 140 knows"),
    // LDAP.
    refused("ldapServers", "security.ldap.servers", Value, NO_LDAP),
    refused("ldapTransportSecurity", "security.ldap.transportSecurity", Value, NO_LDAP),
    refused("ldapBindWithOSDefaults", "security.ldap.bind.useOSDefaults", Value, NO_LDAP),
    refused("ldapBindMethod", "security.ldap.bind.method", Value, NO_LDAP),
    refused("ldapBindSaslMechanisms", "security.ldap.bind.saslMechanisms", Value, NO_LDAP),
    refused("ldapTimeoutMS", "security.ldap.timeoutMS", Value, NO_LDAP),
    refused("ldapRetryCount", "security.ldap.retryCount", Value, NO_LDAP),
    refused("ldapQueryUser", "security.ldap.bind.queryUser", Value, NO_LDAP),
    refused("ldapQueryPassword", "security.ldap.bind.queryPassword", Value, NO_LDAP),
    refused("ldapUserToDNMapping", "security.ldap.userToDNMapping", Value, NO_LDAP),
    refused("ldapAuthzQueryTemplate", "security.ldap.authz.queryTemplate", Value, NO_LDAP),
    refused("ldapValidateLDAPServerConfig", "security.ldap.validateLDAPServerConfig", Value, NO_LDAP),
    // Storage.
    served("dbpath", "storage.dbPath", Value),
    served("storageEngine", "storage.engine", Value),
    harmless("directoryperdb", "storage.directoryPerDB", Nothing, ONE_KEYSPACE),
    harmless("syncdelay", "storage.syncPeriodSecs", Value, "checkpoints are made when they are needed"),
    served("journalCommitInterval", "storage.journal.commitIntervalMs", Value),
    harmless("journal", "", Nothing, "there is always a journal"),
    refused("nojournal", "", Nothing, "there is always a journal; `--durability relaxed` syncs it least"),
    only("", "storage.journal.enabled", &["true"],
        "there is always a journal",
        "there is always a journal; `storage.durability: relaxed` syncs it least",
    ),
    harmless("upgrade", "", Nothing, "a format of before is read as it is"),
    refused("repair", "", Nothing, "the command `validate` checks, and `quarry journal` looks at the journal"),
    refused("restore", "", Nothing, "it is for files of MongoDB"),
    refused("queryableBackupMode", "storage.queryableBackupMode", Nothing, "it is for files of MongoDB"),
    served("wiredTigerCacheSizeGB", "storage.wiredTiger.engineConfig.cacheSizeGB", Value),
    refused("wiredTigerCacheSizePct", "storage.wiredTiger.engineConfig.cacheSizePct", Value, "give the size itself with `--wiredTigerCacheSizeGB`"),
    harmless("wiredTigerJournalCompressor", "storage.wiredTiger.engineConfig.journalCompressor", Value, NO_WIREDTIGER),
    harmless("wiredTigerDirectoryForIndexes", "storage.wiredTiger.engineConfig.directoryForIndexes", Nothing, ONE_KEYSPACE),
    harmless("wiredTigerMaxCacheOverflowFileSizeGB", "storage.wiredTiger.engineConfig.maxCacheOverflowFileSizeGB", Value, NO_WIREDTIGER),
    harmless("zstdDefaultCompressionLevel", "storage.wiredTiger.engineConfig.zstdCompressionLevel", Value, NO_WIREDTIGER),
    harmless("wiredTigerStatisticsLogDelaySecs", "storage.wiredTiger.engineConfig.statisticsLogDelaySecs", Value, NO_WIREDTIGER),
    harmless("wiredTigerEngineConfigString", "storage.wiredTiger.engineConfig.configString", Value, NO_WIREDTIGER),
    harmless("wiredTigerCollectionBlockCompressor", "storage.wiredTiger.collectionConfig.blockCompressor", Value, NO_WIREDTIGER),
    harmless("wiredTigerCollectionConfigString", "storage.wiredTiger.collectionConfig.configString", Value, NO_WIREDTIGER),
    harmless("wiredTigerIndexPrefixCompression", "storage.wiredTiger.indexConfig.prefixCompression", Value, NO_WIREDTIGER),
    harmless("wiredTigerIndexConfigString", "storage.wiredTiger.indexConfig.configString", Value, NO_WIREDTIGER),
    refused("inMemorySizeGB", "storage.inMemory.engineConfig.inMemorySizeGB", Value, "the engine in memory has no bound"),
    refused("notablescan", "", Nothing, "plans that scan a collection cannot be forbidden"),
    // Replication and sharding.
    served("replSet", "replication.replSetName", Value),
    served("", "replication.replSet", Value),
    served("oplogSize", "replication.oplogSizeMB", Value),
    served("oplogMinRetentionHours", "storage.oplogMinRetentionHours", Value),
    only("enableMajorityReadConcern", "replication.enableMajorityReadConcern", &["true", "1"], "it is always on", "it is always on"),
    refused("configsvr", "", Nothing, NO_SHARDING),
    refused("shardsvr", "", Nothing, NO_SHARDING),
    refused("", "sharding.*", Value, NO_SHARDING),
    // Profiler.
    only("profile", "operationProfiling.mode", &["0", "off", "false"],
        "it is the default",
        "the profiler is turned on for each database by the command `profile`",
    ),
    served("slowms", "operationProfiling.slowOpThresholdMs", Value),
    served("slowOpSampleRate", "operationProfiling.slowOpSampleRate", Value),
    refused("profileFilter", "operationProfiling.filter", Value, "the command `profile` sets the filter of each database"),
    // MongoDB Enterprise: audit, SNMP, encryption at rest.
    refused("auditCompressionMode", "auditLog.compressionMode", Value, AUDIT_PLAIN),
    served("auditDestination", "auditLog.destination", Value),
    refused("auditEncryptionKeyUID", "auditLog.auditEncryptionKeyIdentifier", Value, AUDIT_PLAIN),
    served("auditFormat", "auditLog.format", Value),
    refused("auditLocalKeyFile", "auditLog.localAuditKeyFile", Value, AUDIT_PLAIN),
    served("auditPath", "auditLog.path", Value),
    served("auditFilter", "auditLog.filter", Value),
    only("auditSchema", "auditLog.schema", &["mongo"], "it is the default", "events have MongoDB's shape alone"),
    refused("auditRuntimeConfiguration", "auditLog.runtimeConfiguration", Value, "the filter of the audit log is fixed at the start"),
    refused("snmp-subagent", "snmp.subagent", Nothing, NO_SNMP),
    refused("snmp-master", "snmp.master", Nothing, NO_SNMP),
    harmless("snmp-disabled", "snmp.disabled", Nothing, NO_SNMP),
    only("enableFreeMonitoring", "cloud.monitoring.free.state", &["off", "false"], NO_FREE_MONITORING, NO_FREE_MONITORING),
    refused("freeMonitoringTag", "cloud.monitoring.free.tags", Value, NO_FREE_MONITORING),
    served("enableEncryption", "security.enableEncryption", Nothing),
    only("encryptionCipherMode", "security.encryptionCipherMode", &["AES256-GCM"], "it is the only one", "data is encrypted with AES256-GCM"),
    served("encryptionKeyFile", "security.encryptionKeyFile", Value),
    refused("kmipKeyIdentifier", "security.kmip.keyIdentifier", Value, NO_KMIP),
    refused("kmipRotateMasterKey", "security.kmip.rotateMasterKey", Value, NO_KMIP),
    refused("kmipServerName", "security.kmip.serverName", Value, NO_KMIP),
    refused("kmipPort", "security.kmip.port", Value, NO_KMIP),
    refused("kmipConnectRetries", "security.kmip.connectRetries", Value, NO_KMIP),
    refused("kmipConnectTimeoutMS", "security.kmip.connectTimeoutMS", Value, NO_KMIP),
    refused("kmipClientCertificateSelector", "security.kmip.clientCertificateSelector", Value, NO_KMIP),
    refused("kmipClientCertificateFile", "security.kmip.clientCertificateFile", Value, NO_KMIP),
    refused("kmipClientCertificatePassword", "security.kmip.clientCertificatePassword", Value, NO_KMIP),
    refused("kmipServerCAFile", "security.kmip.serverCAFile", Value, NO_KMIP),
    refused("kmipActivateKeys", "security.kmip.activateKeys", Value, NO_KMIP),
    refused("kmipKeyStatePollingSeconds", "security.kmip.keyStatePollingSeconds", Value, NO_KMIP),
    refused("kmipUseLegacyProtocol", "security.kmip.useLegacyProtocol", Value, NO_KMIP),
    refused("eseDatabaseKeyRollover", "", Nothing, "a data directory has one key, which `quarry rotate-key` locks with another one"),
    // Quarry's own.
    own("engine", "", Value),
    own("durability", "storage.durability", Value),
    own("mdbx-sync", "storage.mdbxSync", Value),
    own("journalRetentionMB", "storage.journalRetentionMB", Value),
    own("journalRetentionHours", "storage.journalRetentionHours", Value),
    own("journalCompressAboveKB", "storage.journalCompressAboveKB", Value),
    own("journalArchive", "storage.journalArchive", Value),
    own("journalArchiveHoldMB", "storage.journalArchiveHoldMB", Value),
    own("adminPort", "net.adminPort", Value),
    own("adminTokenFile", "net.adminTokenFile", Value),
    own("console", "net.console", Value),
    own("logFormat", "systemLog.format", Value),
    own("otlpEndpoint", "tracing.otlpEndpoint", Value),
    own("advertise", "replication.advertise", Value),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use clap::Args;

    use super::*;
    use crate::process::config::Serve;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    /// Set to write the document anew.
    const WRITE: &str = "QUARRY_WRITE_DOCS";

    fn command() -> clap::Command {
        Serve::augment_args(clap::Command::new("serve"))
    }

    #[test]
    fn every_flag_of_the_server_has_a_row_and_every_served_row_a_flag() {
        let command = command();
        let flags: BTreeSet<&str> = command
            .get_arguments()
            .flat_map(|argument| {
                argument
                    .get_long()
                    .into_iter()
                    .chain(argument.get_all_aliases().into_iter().flatten())
            })
            .collect();
        let rows = OPTIONS
            .iter()
            .map(|row| row.flag)
            .filter(|flag| !flag.is_empty());
        assert_eq!(flags, rows.collect());
        for argument in command.get_arguments() {
            let Some(row) = argument.get_long().and_then(by_flag) else {
                assert_eq!(argument.get_id(), SHORT_VERBOSE);
                continue;
            };
            let takes_values = argument.get_action().takes_values();
            assert_eq!(takes_values, row.takes != Nothing, "{}", row.flag);
        }
    }

    #[test]
    fn names_and_keys_are_told_apart() {
        for names in [
            OPTIONS.iter().map(|row| row.flag).collect::<Vec<_>>(),
            OPTIONS.iter().map(|row| row.key).collect(),
        ] {
            let mut names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        assert_eq!(
            by_key("systemLog.component.query.verbosity").unwrap().key,
            "systemLog.component.*"
        );
        assert!(by_key("systemLog.component").is_none() && is_section("systemLog.component"));
        assert!(!is_section("systemLo") && !is_section("net.port"));
    }

    /// The table as people read it.
    fn document() -> String {
        let mut text = String::from(HEAD);
        for row in OPTIONS {
            let flag = match row.flag {
                "" => String::new(),
                flag => format!("`--{flag}`"),
            };
            let key = match row.key {
                "" => String::new(),
                key => format!("`{key}`"),
            };
            let what = match row.standing {
                Standing::Served => "served".to_owned(),
                Standing::Own => "Quarry's own".to_owned(),
                Standing::Harmless(why) => format!("taken with a warning: {why}"),
                Standing::Refused(why) => format!("refused: {why}"),
                Standing::Only {
                    values,
                    harmless,
                    refused,
                } => {
                    let values: Vec<String> =
                        values.iter().map(|value| format!("`{value}`")).collect();
                    format!(
                        "{}: taken with a warning: {harmless}; any other: refused: {refused}",
                        values.join(", ")
                    )
                }
            };
            let _ = writeln!(text, "| {flag} | {key} | {what} |");
        }
        text
    }

    const HEAD: &str = "# Options\n\n\
        Every flag and every key of the configuration file that mongod 8.0 has is known to `quarry serve` and `quarry mongod`. One that\n\
        changes neither an answer nor a promise is taken with a warning in the log; any other that is not served refuses the start,\n\
        by name and with the reason. `quarry serve --help` says what each served flag does.\n\n\
        A file is YAML in the layout of mongod.conf, named with `--config`; the command line wins over it. What is not known\n\
        refuses the start with the line of the file where it stands.\n\n\
        A test holds this table against the program (`crates/server/src/process/config/options.rs`).\n\n\
        | flag | key | |\n|---|---|---|\n";

    #[test]
    fn the_document_shows_the_table() {
        let wanted = document();
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(DOCUMENT, &wanted).unwrap();
        }
        let shown = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
        assert!(
            shown == wanted,
            "docs/options.md is not what the table says: run this test with {WRITE}=1"
        );
    }
}
