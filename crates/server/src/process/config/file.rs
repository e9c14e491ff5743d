//! The configuration file: YAML in the layout of mongod.conf. Every key is known or the start is refused.
//!
//! A file is a tree whose leaves are options: `net: {port: 4000}` is the option `net.port`. Each leaf becomes the flag that
//! the table of options names, so that a value means in a file what it means on the command line.

use std::fmt;
use std::io::Read;
use std::path::Path;

use clap::{Args, FromArgMatches};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::command_line::Serve;
use super::options::{self, Notice, OptionRow, Takes};
use super::values::BadOptions;

/// A configuration file larger than this is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file, read: the flags that it stands for, and what was taken of it without an effect.
#[derive(Debug, Default)]
pub struct ConfigFile {
    pub flags: Serve,
    pub notices: Vec<Notice>,
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
        ConfigFile::parse(&text).map_err(bad)
    }

    fn parse(text: &str) -> Result<ConfigFile, String> {
        // Nothing but comments is no document.
        let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_blank) {
            return Ok(ConfigFile::default());
        }
        let tree: Spanned<Node> =
            serde_saphyr::from_str(text).map_err(|error| unreadable(text, &error))?;
        if !matches!(tree.value, Node::Map(_) | Node::Nothing) {
            return Err("the file is no mapping of keys to values".into());
        }
        let mut leaves = Vec::new();
        flatten(String::new(), tree, &mut leaves);
        let mut notices = Vec::new();
        let mut flags = Vec::new();
        for leaf in &leaves {
            let wrong = |why: String| leaf.wrong(text, &why);
            flags.push(leaf.flag(&mut notices).map_err(wrong)?);
        }
        let is_to_file = |leaf: &Leaf| leaf.key == "systemLog.destination";
        let has_path = leaves.iter().any(|leaf| leaf.key == "systemLog.path");
        if let Some(leaf) = leaves.iter().find(|leaf| is_to_file(leaf))
            && !has_path
        {
            return Err(leaf.wrong(text, "systemLog.path is missing: to which file?"));
        }
        let all: Vec<&String> = flags.iter().flatten().collect();
        match parse_flags(&all) {
            Ok(flags) => Ok(ConfigFile { flags, notices }),
            Err(error) => Err(blame(text, &leaves, &flags, &error)),
        }
    }
}

/// The leaf whose flag is wrong by itself, and what is wrong with it.
fn blame(text: &str, leaves: &[Leaf], flags: &[Option<String>], all: &clap::Error) -> String {
    for (leaf, flag) in leaves.iter().zip(flags) {
        if let Some(flag) = flag
            && let Err(error) = parse_flags(&[flag])
        {
            return leaf.wrong(text, &first_paragraph(&error));
        }
    }
    first_paragraph(all)
}

fn parse_flags(flags: &[&String]) -> Result<Serve, clap::Error> {
    let bare = clap::Command::new("file")
        .no_binary_name(true)
        .disable_help_flag(true);
    let matches = Serve::augment_args(bare).try_get_matches_from(flags)?;
    Serve::from_arg_matches(&matches)
}

/// The command line parser's message, without its advice, in one line.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// The value behind a key.
#[derive(Debug)]
enum Node {
    Nothing,
    /// A value, as text.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// One option of the file.
#[derive(Debug)]
struct Leaf {
    key: String,
    /// None where nothing stands behind the key, as behind a section whose lines are all comments.
    text: Option<String>,
    line: u64,
}

/// The leaves below a key. The depth is what the parser lets through.
fn flatten(key: String, node: Spanned<Node>, leaves: &mut Vec<Leaf>) {
    let line = node.referenced.line();
    let text = match node.value {
        Node::Map(entries) => {
            for (name, below) in entries {
                let key = match key.as_str() {
                    "" => name,
                    above => format!("{above}.{name}"),
                };
                flatten(key, below, leaves);
            }
            return;
        }
        Node::Nothing if key.is_empty() => return,
        Node::Nothing => None,
        Node::Text(text) => Some(text),
        Node::List(items) => Some(items.iter().map(Node::text).collect::<Vec<_>>().join(",")),
    };
    leaves.push(Leaf { key, text, line });
}

impl Leaf {
    /// The flag that it is; none if it asks for nothing.
    fn flag(&self, notices: &mut Vec<Notice>) -> Result<Option<String>, String> {
        let Some(row) = options::by_key(&self.key) else {
            return match self.text {
                None if options::is_section(&self.key) => Ok(None),
                Some(_) if options::is_section(&self.key) => {
                    Err("keys stand below it, and no value behind it".into())
                }
                _ => Err("the key is not known".into()),
            };
        };
        let Some(text) = &self.text else {
            return Ok(None);
        };
        if row.takes == Takes::Nothing {
            match text.as_str() {
                "true" => {}
                "false" => return Ok(None),
                _ => return Err(format!("`{text}` is neither true nor false")),
            }
        }
        if let Some(why) = row.judge(text)? {
            notices.push(Notice {
                option: self.key.clone(),
                why,
            });
        }
        match row.is_served() {
            true => self.served(row, text),
            false => Ok(None),
        }
    }

    fn served(&self, row: &OptionRow, text: &str) -> Result<Option<String>, String> {
        let flag = match (row.key, row.flag) {
            ("setParameter.*", _) => {
                let name = &self.key["setParameter.".len()..];
                format!("--setParameter={name}={text}")
            }
            ("security.authorization", _) => match text {
                "enabled" => "--auth".into(),
                "disabled" => "--noauth".into(),
                _ => return Err(format!("`{text}` is neither `enabled` nor `disabled`")),
            },
            ("net.unixDomainSocket.enabled", _) => match text {
                "true" => return Ok(None),
                "false" => "--nounixsocket".into(),
                _ => return Err(format!("`{text}` is neither true nor false")),
            },
            ("systemLog.destination", _) => match text {
                "file" => return Ok(None),
                _ => return Err(format!("the log cannot go to `{text}`; `file` is served")),
            },
            ("replication.replSet", _) => format!("--replSet={text}"),
            (_, flag) if row.takes == Takes::Nothing => format!("--{flag}"),
            (_, flag) => format!("--{flag}={text}"),
        };
        Ok(Some(flag))
    }

    /// Says what is wrong, with the line of the file where it stands.
    fn wrong(&self, text: &str, why: &str) -> String {
        at_line(text, self.line, &format!("{}: {why}", self.key))
    }
}

/// Says what is wrong with a line of the file, and shows the line.
fn at_line(text: &str, number: u64, why: &str) -> String {
    let shown = usize::try_from(number).unwrap_or(0).checked_sub(1);
    match shown.and_then(|index| text.lines().nth(index)) {
        Some(line) => format!("line {number}: {why}\n{number:5} | {line}"),
        None => why.to_owned(),
    }
}

/// Says why the text is no YAML, in the parser's words without its advice to who calls it.
fn unreadable(text: &str, error: &serde_saphyr::Error) -> String {
    let number = error.location().map_or(0, |location| location.line());
    let said = error.to_string();
    let said = said.lines().next().unwrap_or_default();
    let why = said.strip_prefix("error: ").unwrap_or(said);
    let why = match why.split_once(": ") {
        Some((place, why)) if place.starts_with("line ") => why,
        _ => why,
    };
    let advice = [", set DuplicateKeyPolicy", "; use Option"].map(|advice| why.find(advice));
    let end = advice.into_iter().flatten().min().unwrap_or(why.len());
    at_line(text, number, &why[..end])
}

impl Node {
    fn text(&self) -> String {
        match self {
            Node::Nothing => String::new(),
            Node::Text(text) => text.clone(),
            Node::List(items) => items.iter().map(Node::text).collect::<Vec<_>>().join(","),
            Node::Map(entries) => {
                let shown = entries
                    .iter()
                    .map(|(key, node)| format!("{key}: {}", node.value.text()));
                format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a mapping")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::config::options::OPTIONS;
    use crate::process::config::{Config, Face};

    /// As the packages of MongoDB 6.0 and of 8.0 for Debian ship it, without their comments.
    const DEBIAN: &str = "storage:\n  dbPath: /var/lib/mongodb\n  journal:\n    enabled: true\n#  engine:\n\nsystemLog:\n  \
        destination: file\n  logAppend: true\n  path: /var/log/mongodb/mongod.log\n\nnet:\n  port: 27017\n  bindIp: 127.0.0.1\n\n\
        processManagement:\n  timeZoneInfo: /usr/share/zoneinfo\n\n#security:\n\n#operationProfiling:\n\nreplication:\n";

    fn refused(text: &str) -> String {
        ConfigFile::parse(text)
            .map(|file| format!("{file:?}"))
            .unwrap_err()
    }

    #[test]
    fn debians_file_of_mongod_is_taken_as_it_is() {
        let file = ConfigFile::parse(DEBIAN).unwrap();
        let options: Vec<&str> = file
            .notices
            .iter()
            .map(|notice| notice.option.as_str())
            .collect();
        assert_eq!(
            options,
            ["storage.journal.enabled", "processManagement.timeZoneInfo"]
        );
        let config = Config::new(Face::Mongod, file.flags, Vec::new()).unwrap();
        assert_eq!(config.data_directory, Path::new("/var/lib/mongodb"));
        assert_eq!(
            config.log_path.as_deref(),
            Some(Path::new("/var/log/mongodb/mongod.log"))
        );
        assert!(config.log_append);
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let text = "net:\n  port: 27017\n  prot: 1\n";
        assert_eq!(
            refused(text),
            "line 3: net.prot: the key is not known\n    3 |   prot: 1"
        );
        let why = refused("net:\n  port: seventy\n");
        assert!(
            why.starts_with("line 2: net.port: invalid value 'seventy'"),
            "{why}"
        );
        let why = refused("security:\n  redactClientLogData: true\n");
        assert!(
            why.starts_with("line 2: security.redactClientLogData: slow operations"),
            "{why}"
        );
        let why = refused("net:\n  port: 1\n bindIp: x\n");
        assert!(
            why.contains("line 3") && why.contains("bindIp: x") && why.lines().count() > 1,
            "{why}"
        );
        assert_eq!(
            refused("net:\n  port: 1\n  port: 2\n"),
            "line 3: duplicate mapping key: port\n    3 |   port: 2"
        );
        let why = refused("net:\n\tport: 1\n");
        assert!(
            why.starts_with("line 2: tabs") && why.ends_with("\n    2 | \tport: 1"),
            "{why}"
        );
        assert!(refused("net: 5\n").contains("net: keys stand below it"));
        let why = refused("systemLog:\n  destination: syslog\n");
        assert!(why.contains("syslog"), "{why}");
        let why = refused("systemLog:\n  destination: file\n");
        assert!(
            why.starts_with("line 2: systemLog.destination: systemLog.path is missing"),
            "{why}"
        );
        assert!(refused("secure:\n").contains("secure: the key is not known"));
        assert!(refused("just a text").contains("mapping"));
    }

    #[test]
    fn dotted_keys_lists_and_sections_without_lines_are_read() {
        let file =
            ConfigFile::parse("net.port: 4000\nsecurity:\nnet:\n  bindIp: [127.0.0.1, '::1']\n")
                .unwrap();
        assert_eq!(
            (file.flags.port, file.flags.bind_ip.as_deref()),
            (Some(4000), Some("127.0.0.1,::1"))
        );
        for nothing in ["", "# only\n  # this\n", "---\n"] {
            assert!(
                ConfigFile::parse(nothing).unwrap().notices.is_empty(),
                "{nothing:?}"
            );
        }
        let file = ConfigFile::parse(
            "setParameter:\n  cursorTimeoutMillis: 5\n  quiet: true\nnet:\n  adminPort: off\n",
        )
        .unwrap();
        assert_eq!(
            file.flags.set_parameter,
            ["cursorTimeoutMillis=5", "quiet=true"]
        );
        assert!(["off", "false"].contains(&file.flags.admin_port.as_deref().unwrap()));
    }

    /// A value that the option has not by default.
    fn sample(row: &OptionRow) -> &'static str {
        match row.key {
            "net.port" | "net.maxIncomingConnections" => "4711",
            "net.adminPort" => "4712",
            "net.bindIp" => "10.0.0.1",
            "net.unixDomainSocket.enabled" => "false",
            "net.compression.compressors" => "zlib",
            "security.authorization" => "enabled",
            "storage.engine" => "memory",
            "storage.durability" => "strict",
            "storage.mdbxSync" => "durable",
            "systemLog.format" => "human",
            "systemLog.logRotate" => "reopen",
            "operationProfiling.slowOpSampleRate" => "0.5",
            "tracing.otlpEndpoint" => "http://otel:4318",
            "replication.advertise" => "db:27017",
            "security.keyFile" => "/dev/null",
            "auditLog.destination" => "console",
            "auditLog.format" => "BSON",
            "auditLog.filter" => "'{\"a\": 1}'",
            "net.adminTokenFile" => "/proc/self/cmdline",
            "net.console" => "rw",
            "net.tls.mode" => "requireTLS",
            "net.ssl.mode" => "requireSSL",
            "net.tls.disabledProtocols" | "net.ssl.disabledProtocols" => "TLS1_2",
            _ if row.takes == Takes::Nothing => "true",
            _ => "7",
        }
    }

    /// Keys that are read with another: alone they ask for nothing, or are refused.
    fn with(row: &OptionRow) -> &'static str {
        match row.key {
            "systemLog.destination" => "systemLog.path: x\n",
            "systemLog.logRotate" => "systemLog.logAppend: true\n",
            "processManagement.fork" => "systemLog.path: x\n",
            "net.ipv6" => "net.bindIpAll: true\n",
            "net.tls.mode" | "net.ssl.mode" | "net.ssl.sslOnNormalPorts" => {
                "net.tls.certificateKeyFile: k\nnet.tls.CAFile: c\n"
            }
            "net.tls.certificateKeyFile" => "net.ssl.mode: allowSSL\n",
            "net.ssl.PEMKeyFile" => "net.tls.mode: allowTLS\n",
            "net.tls.CRLFile" | "net.ssl.CRLFile" => {
                "net.tls.mode: allowTLS\nnet.tls.certificateKeyFile: k\nnet.tls.CAFile: c\n"
            }
            key if key.starts_with("net.tls.") || key.starts_with("net.ssl.") => {
                "net.tls.mode: allowTLS\nnet.tls.certificateKeyFile: k\n"
            }
            "storage.mdbxSync" => "storage.engine: mdbx\n",
            "auditLog.path" => "auditLog.destination: file\n",
            "auditLog.format" => "auditLog.destination: file\nauditLog.path: x\n",
            "auditLog.filter" => "auditLog.destination: console\n",
            "replication.advertise" => "replication.replSetName: rs0\n",
            "security.enableEncryption" => {
                "storage.engine: memory\nsecurity.encryptionKeyFile: k\n"
            }
            "security.encryptionKeyFile" => {
                "storage.engine: memory\nsecurity.enableEncryption: true\n"
            }
            "storage.journalArchiveHoldMB" => "storage.journalArchive: a\n",
            _ => "",
        }
    }

    /// Nothing that a file asks for is read and then forgotten.
    #[test]
    fn every_served_key_changes_what_the_server_is_started_with() {
        // A key that is read with another may be refused alone: that is a change, too.
        let config = |text: &str| {
            let flags = ConfigFile::parse(text)?.flags;
            let config = Config::new(Face::Quarry, flags, Vec::new());
            config
                .map(|config| format!("{config:?}"))
                .map_err(|why| why.0)
        };
        for row in OPTIONS
            .iter()
            .filter(|row| row.is_served() && !row.key.is_empty())
        {
            // It only names what `systemLog.path` does.
            if row.key == "systemLog.destination" {
                continue;
            }
            let key = row.key.replace(".*", ".slowOpThresholdMs");
            let line = format!("{}{key}: {}\n", with(row), sample(row));
            let with_it = config(&line).unwrap_or_else(|why| panic!("{line}{why}"));
            assert_ne!(Ok(with_it), config(with(row)), "{line}");
        }
    }

    #[test]
    fn every_key_is_served_taken_with_a_warning_or_refused_by_name() {
        for row in OPTIONS
            .iter()
            .filter(|row| !row.is_served() && !row.key.is_empty())
        {
            let key = row.key.replace(".*", ".name");
            let value = if row.takes == Takes::Nothing {
                "true"
            } else {
                "other"
            };
            match ConfigFile::parse(&format!("{key}: {value}\n")) {
                Ok(file) => assert_eq!(file.notices.len(), 1, "{key}"),
                Err(why) => assert!(why.starts_with(&format!("line 1: {key}: ")), "{why}"),
            }
        }
    }
}
