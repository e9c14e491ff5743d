//! The manifest of a backup: what it is of, and each file as a list of chunks. docs/formats/backup.md describes the text.
//!
//! Keeps true: a manifest is whole or refused, by a checksum over all of its lines; a name in it stays within the directory that is
//! restored.

use std::fmt::Write as _;
use std::path::{Component, Path};

use sha2::{Digest, Sha256};

use crate::backup::steps::steps;

/// The first line, with the version of the format.
const FIRST_LINE: &str = "quarry backup 1";

/// The bytes of a chunk; the last one of a file may have fewer.
pub const CHUNK_BYTES: usize = 4 << 20;

/// One backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its name in the repository: the time at which it was begun, and random digits.
    pub id: String,
    /// The version of Quarry that made it.
    pub version: String,
    pub engine: String,
    /// Milliseconds since 1970 at which the copy was made.
    pub made_unix_ms: u64,
    /// The last log position of the copy.
    pub lsn: u64,
    /// The copy has every write with this cluster time or an earlier one.
    pub cluster_time: u64,
    pub files: Vec<BackedUpFile>,
}

/// One file of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackedUpFile {
    /// The path within the data directory.
    pub name: String,
    pub bytes: u64,
    /// In order, `CHUNK_BYTES` each but for the last.
    pub chunks: Vec<ChunkName>,
}

/// The SHA-256 of a chunk's bytes, which is its name in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkName(pub [u8; 32]);

impl ChunkName {
    pub fn of(bytes: &[u8]) -> ChunkName {
        let mut digest = Sha256::new();
        steps(bytes).for_each(|step| digest.update(step));
        ChunkName(digest.finalize().into())
    }

    /// Reads 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<ChunkName> {
        let digits = text.as_bytes();
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut name = [0; 32];
        if digits.len() != 2 * name.len() {
            return None;
        }
        for (byte, pair) in name.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(ChunkName(name))
    }
}

impl std::fmt::Display for ChunkName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl Manifest {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The text as it stands in the repository.
    pub fn write(&self) -> String {
        let (seconds, count) = (self.cluster_time >> 32, self.cluster_time as u32);
        let mut text = format!(
            "{FIRST_LINE}\nid {}\nversion {}\nengine {}\nmade {}\nlsn {}\nclusterTime {seconds} {count}\nchunkBytes {CHUNK_BYTES}\n",
            self.id, self.version, self.engine, self.made_unix_ms, self.lsn,
        );
        for file in &self.files {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "file {} {}", file.bytes, file.name);
            for chunk in &file.chunks {
                let _ = writeln!(text, "chunk {chunk}");
            }
        }
        let end = ChunkName::of(text.as_bytes());
        let _ = writeln!(text, "end {end}");
        text
    }

    /// Reads a manifest; otherwise why it is none.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let body_bytes = text
            .rfind("end ")
            .filter(|&at| at == 0 || text[..at].ends_with('\n'));
        let body = &text[..body_bytes.ok_or("it is cut short")?];
        let end = text[body.len()..]
            .strip_prefix("end ")
            .and_then(|end| end.strip_suffix('\n'));
        if end.and_then(ChunkName::parse) != Some(ChunkName::of(body.as_bytes())) {
            return Err("it fails its checksum".into());
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("it is of another version".into());
        }
        let mut field = |name: &str| {
            let line = lines.next().unwrap_or_default();
            let value = line
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(' '));
            value
                .map(str::to_owned)
                .ok_or(format!("it has no `{name}` in its place"))
        };
        let mut manifest = Manifest {
            id: field("id")?,
            version: field("version")?,
            engine: field("engine")?,
            made_unix_ms: number(&field("made")?)?,
            lsn: number(&field("lsn")?)?,
            ..Manifest::default()
        };
        let cluster_time = field("clusterTime")?;
        let (seconds, count) = cluster_time
            .split_once(' ')
            .ok_or("its clusterTime has one part")?;
        let (seconds, count) = (number(seconds)?, number(count)?);
        if seconds.max(count) > u64::from(u32::MAX) {
            return Err("its clusterTime is too large".into());
        }
        manifest.cluster_time = seconds << 32 | count;
        if number(&field("chunkBytes")?)? != CHUNK_BYTES as u64 {
            return Err("its chunks have another length".into());
        }
        for line in lines {
            manifest.add_line(line)?;
        }
        manifest.files.iter().try_for_each(check)?;
        Ok(manifest)
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (kind, self.files.last_mut()) {
            ("file", _) => {
                let (bytes, name) = rest.split_once(' ').ok_or("a file has no name")?;
                self.files.push(BackedUpFile {
                    name: name.to_owned(),
                    bytes: number(bytes)?,
                    chunks: Vec::new(),
                });
                Ok(())
            }
            ("chunk", Some(file)) => {
                file.chunks
                    .push(ChunkName::parse(rest).ok_or("a chunk has no name")?);
                Ok(())
            }
            _ => Err(format!("it has a line `{kind}`")),
        }
    }
}

/// The name of a file stays within the directory; its chunks make up its length.
fn check(file: &BackedUpFile) -> Result<(), String> {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    if file.name.is_empty() || !Path::new(&file.name).components().all(is_normal) {
        return Err(format!("`{}` is no name of a file", file.name));
    }
    if file.bytes.div_ceil(CHUNK_BYTES as u64) != file.chunks.len() as u64 {
        return Err(format!(
            "`{}` has another number of chunks than its length",
            file.name
        ));
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let chunks = vec![ChunkName::of(b"one"), ChunkName::of(b"two")];
        let file = |name: &str, bytes, chunks| BackedUpFile {
            name: name.into(),
            bytes,
            chunks,
        };
        Manifest {
            id: "20260102T030405Z-0a1b".into(),
            version: "0.1.0".into(),
            engine: "rocksdb".into(),
            made_unix_ms: 1_767_323_045_000,
            lsn: 7,
            cluster_time: 9 << 32 | 4,
            files: vec![
                file("rocksdb/CURRENT", CHUNK_BYTES as u64 + 1, chunks),
                file("rocksdb/name with spaces", 0, Vec::new()),
            ],
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        assert_eq!(Manifest::parse(&manifest().write()), Ok(manifest()));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let text = manifest().write();
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            if let Ok(changed) = String::from_utf8(changed) {
                assert!(Manifest::parse(&changed).is_err(), "byte {at}");
            }
            assert!(Manifest::parse(&text[..at]).is_err(), "cut at {at}");
        }
    }

    /// A manifest that somebody wrote: its checksum is right, and what it says is not.
    fn refused(change: impl Fn(&mut Manifest)) -> String {
        let mut bad = manifest();
        change(&mut bad);
        Manifest::parse(&bad.write()).unwrap_err()
    }

    #[test]
    fn names_that_lead_out_of_the_directory_are_refused() {
        for name in ["../up", "/etc/passwd", "rocksdb/../../up", "", "."] {
            let error = refused(|bad| bad.files[0].name = name.into());
            assert!(error.contains("no name of a file"), "{name}: {error}");
        }
        let error = refused(|bad| bad.files[0].bytes = 1);
        assert!(error.contains("another number of chunks"), "{error}");
        let error = refused(|bad| bad.files[0].name = "a\nfile 0 b".into());
        assert!(!error.is_empty());
    }
}
