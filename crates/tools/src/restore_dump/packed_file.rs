//! A file of a dump, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::server;

const READ_BYTES: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// How it is known whether a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// By the ending of its name: a file of documents may begin with the bytes of a compressed one.
    ByName,
    /// By its first bytes, which are those of no archive.
    ByContent,
}

/// Opens a file, or the standard input for `-`, and unpacks it if it is compressed. The bytes are known only of a file that is not.
pub fn open(path: &Path, packing: Packing) -> Result<(Box<dyn Read>, Option<u64>)> {
    let failed = Error::file(path);
    let (reader, bytes): (Box<dyn Read>, _) = match server::is_standard_input(path) {
        true => (Box::new(io::stdin()), None),
        false => {
            let file = File::open(path).map_err(&failed)?;
            let metadata = file.metadata().map_err(&failed)?;
            (Box::new(file), Some(metadata.len()))
        }
    };
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    let is_compressed = match packing {
        Packing::ByName => path.extension().is_some_and(|ending| ending == "gz"),
        Packing::ByContent => reader.fill_buf().map_err(&failed)?.starts_with(&GZIP_MAGIC),
    };
    Ok(match is_compressed {
        true => (Box::new(MultiGzDecoder::new(reader)), None),
        false => (Box::new(reader), bytes),
    })
}
