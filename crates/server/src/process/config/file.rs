//! The configuration file: YAML in the layout of mongod.conf. Every key is known or the start is refused.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::tls::TlsSettings;
use super::values::{Authorization, BadOptions, Durability, EngineName, LogFormat, MdbxSync};

/// A configuration file larger than this is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ConfigFile {
    pub storage: Storage,
    pub net: Net,
    pub system_log: SystemLog,
    pub operation_profiling: OperationProfiling,
    pub process_management: ProcessManagement,
    pub tracing: Tracing,
    pub replication: Replication,
    pub security: Security,
    set_parameter: BTreeMap<String, Scalar>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Storage {
    pub db_path: Option<PathBuf>,
    pub engine: Option<EngineName>,
    pub durability: Option<Durability>,
    pub mdbx_sync: Option<MdbxSync>,
    #[serde(rename = "journalRetentionMB")]
    pub journal_retention_mb: Option<u64>,
    pub journal_retention_hours: Option<f64>,
    #[serde(rename = "journalCompressAboveKB")]
    pub journal_compress_above_kb: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Net {
    pub port: Option<u16>,
    pub bind_ip: Option<String>,
    pub admin_port: Option<Scalar>,
    pub admin_token_file: Option<PathBuf>,
    pub max_incoming_connections: Option<usize>,
    pub compression: Compression,
    #[serde(alias = "ssl")]
    pub tls: TlsSettings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Compression {
    pub compressors: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SystemLog {
    destination: Option<Destination>,
    pub path: Option<PathBuf>,
    pub log_append: Option<bool>,
    pub quiet: Option<bool>,
    pub format: Option<LogFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Destination {
    File,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct OperationProfiling {
    pub slow_op_threshold_ms: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Tracing {
    pub otlp_endpoint: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ProcessManagement {
    pub pid_file_path: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Replication {
    pub repl_set_name: Option<String>,
    pub advertise: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Security {
    pub authorization: Option<Authorization>,
}

/// A YAML scalar where either a number or a text may stand.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    pub fn text(&self) -> String {
        match self {
            // YAML 1.1 reads `off` as false.
            Scalar::Boolean(false) => "off".into(),
            Scalar::Boolean(true) => "on".into(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Float(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }

    fn parameter(&self) -> String {
        match self {
            Scalar::Boolean(value) => value.to_string(),
            other => other.text(),
        }
    }
}

impl ConfigFile {
    pub fn read(path: &Path) -> Result<ConfigFile, BadOptions> {
        let bad = |why: String| BadOptions(format!("config: {}: {why}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
        let mut text = String::new();
        // A device has no size to ask for.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| bad(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let why = format!("the file has more than {FILE_BYTES_MAX} bytes");
            return Err(bad(why));
        }
        if text.trim().is_empty() {
            return Ok(ConfigFile::default());
        }
        let file: ConfigFile =
            serde_saphyr::from_str(&text).map_err(|error| bad(one_line(&error.to_string())))?;
        if file.system_log.destination == Some(Destination::File) && file.system_log.path.is_none()
        {
            return Err(bad(
                "systemLog.destination is `file` and systemLog.path is missing".into(),
            ));
        }
        Ok(file)
    }

    pub fn parameters(&self) -> Vec<(String, String)> {
        self.set_parameter
            .iter()
            .map(|(name, value)| (name.clone(), value.parameter()))
            .collect()
    }
}

/// The parser's message with its source excerpt folded into one line.
fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
