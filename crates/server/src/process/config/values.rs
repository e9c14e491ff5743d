//! The values that an option can have, wherever it is given.

use std::fmt;
use std::io::Read;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineName {
    Rocksdb,
    Mdbx,
    Memory,
}

impl Default for EngineName {
    /// The first one that this build has.
    fn default() -> EngineName {
        if cfg!(feature = "rocksdb") {
            EngineName::Rocksdb
        } else if cfg!(feature = "mdbx") {
            EngineName::Mdbx
        } else {
            EngineName::Memory
        }
    }
}

impl EngineName {
    /// The engine of that name, or of one that mongod has for such an engine.
    pub fn parse(name: &str) -> Option<EngineName> {
        match name {
            "rocksdb" => Some(EngineName::Rocksdb),
            "mdbx" => Some(EngineName::Mdbx),
            "memory" | "inMemory" | "ephemeralForTest" => Some(EngineName::Memory),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::Rocksdb => "rocksdb",
            EngineName::Mdbx => "mdbx",
            EngineName::Memory => "memory",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// {w: 1} survives a killed process, and a power loss takes at most the writes since the last background sync, which
    /// runs every commitIntervalMs (100); {j: true} and {w: "majority"} survive power loss
    Journaled,
    /// every acknowledged write survives power loss
    Strict,
    /// as journaled, without the background sync: only {j: true}, {w: "majority"} and checkpoints sync
    Relaxed,
}

impl Durability {
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Journaled => "journaled",
            Durability::Strict => "strict",
            Durability::Relaxed => "relaxed",
        }
    }
}

/// The parts that libmdbx syncs at a commit. The journal gives back what the engine lost, as long as the file is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MdbxSync {
    /// data and meta page: a power loss leaves the file as of the last commit; the journal is synced before each
    Durable,
    /// data, and the meta page with the next commit: a power loss leaves the last commit or the one before
    NoMetaSync,
    /// nothing: a power loss leaves the last checkpoint, and the journal gives back the rest
    SafeNoSync,
    /// nothing, and checkpoints are overwritten: a power loss may damage the file beyond repair. Needs `--durability
    /// relaxed`, and refuses {j: true} and {w: "majority"}
    UtterlyNoSync,
}

impl MdbxSync {
    pub fn as_str(self) -> &'static str {
        match self {
            MdbxSync::Durable => "durable",
            MdbxSync::NoMetaSync => "no-meta-sync",
            MdbxSync::SafeNoSync => "safe-no-sync",
            MdbxSync::UtterlyNoSync => "utterly-no-sync",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Human,
    Json,
}

/// How the log is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogRotate {
    /// the file is moved aside, under a name with the time
    #[default]
    Rename,
    /// the file is opened again, because somebody else has moved it; needs --logappend
    Reopen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminPort {
    Off,
    /// 0 takes a free one.
    On(u16),
}

/// The powers of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ConsoleMode {
    /// nothing: there is no page, and the admin port serves figures for monitoring alone
    Off,
    /// show data, and end operations
    Ro,
    /// also change documents and indexes
    Rw,
}

/// A secret that stands in a file of its own.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Shorter ones are found by trying.
    const BYTES_MIN: usize = 16;
    const BYTES_MAX: usize = 4096;

    /// Reads the file's only line.
    pub fn read(path: &Path) -> Result<Token, BadOptions> {
        let bad = |why: String| BadOptions(format!("adminTokenFile: {}: {why}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
        let mut text = String::new();
        let read = file
            .take(Token::BYTES_MAX as u64 + 1)
            .read_to_string(&mut text);
        read.map_err(|error| bad(error.to_string()))?;
        let text = text.trim();
        if !(Token::BYTES_MIN..=Token::BYTES_MAX).contains(&text.len()) {
            let (least, most) = (Token::BYTES_MIN, Token::BYTES_MAX);
            return Err(bad(format!("a token has {least} to {most} bytes")));
        }
        Ok(Token(text.to_owned()))
    }

    /// The secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Shows nothing of it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressorName {
    Snappy,
    Zlib,
    Zstd,
}

impl CompressorName {
    pub fn as_str(self) -> &'static str {
        match self {
            CompressorName::Snappy => "snappy",
            CompressorName::Zlib => "zlib",
            CompressorName::Zstd => "zstd",
        }
    }

    pub fn parse(name: &str) -> Result<CompressorName, BadOptions> {
        match name {
            "snappy" => Ok(CompressorName::Snappy),
            "zlib" => Ok(CompressorName::Zlib),
            "zstd" => Ok(CompressorName::Zstd),
            _ => Err(BadOptions(format!(
                "compressor `{name}` is not one of snappy, zlib, zstd"
            ))),
        }
    }
}

/// Options that cannot be started with: one line, and below it that of the file where it is a file's.
#[derive(Debug)]
pub struct BadOptions(pub String);

impl fmt::Display for BadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOptions {}
