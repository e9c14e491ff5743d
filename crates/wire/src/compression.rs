//! OP_COMPRESSED: another message, packed.
//!
//! The size that a message claims to unpack to is checked against the largest message before a byte is
//! allocated for it, and against what came out afterwards.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::error::{Error, Result};
use crate::header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, OpCode};

/// Behind the header: the operation inside, the size it unpacks to, the compressor.
const PRELUDE_BYTES: usize = 9;

/// The algorithms that OP_COMPRESSED can pack a message with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// The bytes as they are.
    Noop,
    /// Snappy's raw format.
    Snappy,
    /// zlib's format.
    Zlib,
    /// Zstandard's format.
    Zstd,
}

impl Compressor {
    /// In the order in which the server prefers them; `Noop` is never negotiated.
    pub const ALL: [Self; 4] = [Self::Snappy, Self::Zstd, Self::Zlib, Self::Noop];

    /// The number in OP_COMPRESSED.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Noop => 0,
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
        }
    }

    /// The compressor of that number in OP_COMPRESSED.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|compressor| compressor.id() == id)
    }

    /// The name in `hello`'s `compression` field.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// The compressor of that name in `hello`'s `compression` field.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|compressor| compressor.name() == name)
    }

    fn wrong_size(self, size: usize) -> Error {
        self.error(format!("does not unpack to the {size} bytes it claims"))
    }

    fn error(self, what: impl Into<String>) -> Error {
        Error::Compression {
            compressor: self.name(),
            what: what.into(),
        }
    }
}

/// Appends `message`, a whole one, to `out` as an OP_COMPRESSED. The reply to a message that came packed
/// goes packed the same way.
///
/// # Errors
/// The library fails, or what is given is no message.
pub fn compress(message: &[u8], compressor: Compressor, out: &mut Vec<u8>) -> Result<()> {
    let Some((header, body)) = message.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Error::malformed(message.len(), "a header of 16 bytes"));
    };
    let mut header = Header::parse(header)?;
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    out.extend_from_slice(&header.op_code.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.push(compressor.id());
    pack(body, compressor, out)?;
    header.op_code = OpCode::Compressed.number();
    header.message_bytes = out.len() - start;
    out[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Ok(())
}

fn pack(body: &[u8], compressor: Compressor, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    match compressor {
        Compressor::Noop => out.extend_from_slice(body),
        Compressor::Snappy => {
            out.resize(start + snap::raw::max_compress_len(body.len()), 0);
            let bytes = snap::raw::Encoder::new()
                .compress(body, &mut out[start..])
                .map_err(|error| compressor.error(error.to_string()))?;
            out.truncate(start + bytes);
        }
        Compressor::Zlib => deflate(body, out)?,
        Compressor::Zstd => {
            out.resize(start + zstd::zstd_safe::compress_bound(body.len()), 0);
            let bytes = zstd::bulk::compress_to_buffer(
                body,
                &mut out[start..],
                zstd::DEFAULT_COMPRESSION_LEVEL,
            )
            .map_err(|error| compressor.error(error.to_string()))?;
            out.truncate(start + bytes);
        }
    }
    Ok(())
}

fn deflate(body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    /// Room beyond half the body's size: what packs well is done in one round, the rest in three.
    const SPARE_BYTES: usize = 4096;
    let mut stream = Compress::new(Compression::default(), true);
    loop {
        out.reserve(body.len() / 2 + SPARE_BYTES);
        let rest = &body[stream.total_in() as usize..];
        let status = stream
            .compress_vec(rest, out, FlushCompress::Finish)
            .map_err(|error| Compressor::Zlib.error(error.to_string()))?;
        if status == Status::StreamEnd {
            return Ok(());
        }
    }
}

/// How many bytes a message begins with that tell its size, packed and unpacked.
pub const FRAME_BYTES: usize = HEADER_BYTES + PRELUDE_BYTES;

/// The size that a compressed message claims to unpack to, its header included, from how it begins; 0 where the claim is
/// beyond what is unpacked, which [`crate::parse`] refuses.
#[must_use]
pub fn unpacked_bytes(frame: &[u8; FRAME_BYTES]) -> usize {
    let at = HEADER_BYTES + 4;
    let length = i32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    usize::try_from(length)
        .ok()
        .filter(|&size| size <= MESSAGE_BYTES_MAX - HEADER_BYTES)
        .map_or(0, |size| HEADER_BYTES + size)
}

/// Unpacks `message` into `scratch`, with a header in front as if it had come unpacked, so that offsets
/// and checksums mean the same. Returns the operation inside and the compressor.
pub(crate) fn unpack(
    message: &[u8],
    header: &Header,
    scratch: &mut Vec<u8>,
) -> Result<(i32, Compressor)> {
    let Some((prelude, packed)) = message[HEADER_BYTES..].split_first_chunk::<PRELUDE_BYTES>()
    else {
        return Err(Error::malformed(
            message.len(),
            "the prelude of OP_COMPRESSED",
        ));
    };
    let [o0, o1, o2, o3, s0, s1, s2, s3, id] = *prelude;
    let op_code = i32::from_le_bytes([o0, o1, o2, o3]);
    if op_code == OpCode::Compressed.number() {
        return Err(Error::malformed(
            HEADER_BYTES,
            "an operation that is not itself compressed",
        ));
    }
    let length = i32::from_le_bytes([s0, s1, s2, s3]);
    let size = usize::try_from(length)
        .ok()
        .filter(|&size| size <= MESSAGE_BYTES_MAX - HEADER_BYTES)
        .ok_or(Error::Length {
            offset: HEADER_BYTES + 4,
            length: i64::from(length),
            expected: "an uncompressed size of at most 47999984 bytes",
        })?;
    let compressor = Compressor::from_id(id).ok_or(Error::Compressor(id))?;
    let inner = Header {
        message_bytes: HEADER_BYTES + size,
        op_code,
        ..*header
    };
    scratch.clear();
    scratch.extend_from_slice(&inner.to_bytes());
    unpack_body(packed, compressor, size, scratch)?;
    Ok((op_code, compressor))
}

/// Appends exactly `size` bytes to `out`, or fails.
fn unpack_body(
    packed: &[u8],
    compressor: Compressor,
    size: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    match compressor {
        Compressor::Noop => out.extend_from_slice(packed),
        Compressor::Snappy => {
            let error = |error: snap::Error| compressor.error(error.to_string());
            if snap::raw::decompress_len(packed).map_err(error)? != size {
                return Err(compressor.wrong_size(size));
            }
            out.resize(start + size, 0);
            snap::raw::Decoder::new()
                .decompress(packed, &mut out[start..])
                .map_err(error)?;
        }
        Compressor::Zlib => {
            // Room for one byte more shows a stream that is longer than it says.
            out.resize(start + size + 1, 0);
            let mut inflate = Decompress::new(true);
            let status = inflate
                .decompress(packed, &mut out[start..], FlushDecompress::Finish)
                .map_err(|error| compressor.error(error.to_string()))?;
            if status != Status::StreamEnd || inflate.total_in() != packed.len() as u64 {
                return Err(compressor.error("the stream does not end with the message"));
            }
            out.truncate(start + inflate.total_out() as usize);
        }
        Compressor::Zstd => {
            out.resize(start + size, 0);
            let bytes = zstd::bulk::decompress_to_buffer(packed, &mut out[start..])
                .map_err(|error| compressor.error(error.to_string()))?;
            out.truncate(start + bytes);
        }
    }
    if out.len() - start != size {
        return Err(compressor.wrong_size(size));
    }
    Ok(())
}
