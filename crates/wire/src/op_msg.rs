//! OP_MSG: flags, one body, and document sequences beside it.

use quarry_bson::RawDocument;
use smallvec::SmallVec;

use crate::Compressor;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::header::{HEADER_BYTES, Header, SEQUENCES_MAX};

pub(crate) const CHECKSUM_PRESENT: u32 = 1;
pub(crate) const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// A receiver must know the lower sixteen flags and may ignore the upper ones.
const REQUIRED: u32 = 0xFFFF;
pub(crate) const CHECKSUM_BYTES: usize = 4;

pub(crate) const SECTION_BODY: u8 = 0;
const SECTION_SEQUENCE: u8 = 1;

/// A command. All its documents are valid BSON, of any text.
#[derive(Clone, Debug)]
pub struct OpMsg<'a> {
    /// The sender's number for the message, which its reply names.
    pub request_id: i32,
    /// The command's document.
    pub body: RawDocument<'a>,
    /// The documents that came beside the body.
    pub sequences: SmallVec<[DocumentSequence<'a>; 1]>,
    /// The algorithm that the message was packed with, if it was. Its reply is packed with the same one.
    pub compressor: Option<Compressor>,
    /// A document of a sequence, or in the body, may nest deeper than what may be stored.
    pub has_deep_documents: bool,
    flags: u32,
}

/// A message of which the frame can be read and the content cannot. Its sender is told so, and may go on.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The reason, for the reply.
    pub error: Error,
    /// The sender waits for no reply.
    pub is_more_to_come: bool,
    /// The algorithm that the message was packed with, if it was.
    pub compressor: Option<Compressor>,
}

impl Refused {
    /// `message` as unpacked.
    pub(crate) fn new(message: &[u8], error: Error, compressor: Option<Compressor>) -> Self {
        let flags = message[HEADER_BYTES..].first_chunk();
        let flags = flags.copied().map_or(0, u32::from_le_bytes);
        Self {
            error,
            is_more_to_come: flags & MORE_TO_COME != 0,
            compressor,
        }
    }
}

impl<'a> OpMsg<'a> {
    /// Whether the sender waits for no reply.
    #[must_use]
    pub fn is_more_to_come(&self) -> bool {
        self.flags & MORE_TO_COME != 0
    }

    /// Whether the sender takes several replies to this one request.
    #[must_use]
    pub fn is_exhaust_allowed(&self) -> bool {
        self.flags & EXHAUST_ALLOWED != 0
    }

    /// Whether the sender checks sums: its reply should carry one.
    #[must_use]
    pub fn has_checksum(&self) -> bool {
        self.flags & CHECKSUM_PRESENT != 0
    }

    /// The document sequence named `identifier`.
    #[must_use]
    pub fn sequence(&self, identifier: &str) -> Option<DocumentSequence<'a>> {
        self.sequences
            .iter()
            .copied()
            .find(|sequence| sequence.identifier == identifier)
    }

    pub(crate) fn parse(
        message: &'a [u8],
        header: &Header,
        compressor: Option<Compressor>,
    ) -> Result<Self> {
        let mut cursor = Cursor::new(message, HEADER_BYTES, message.len());
        let flags = cursor.u32("the flags of OP_MSG")?;
        let unknown = flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME);
        if unknown != 0 {
            return Err(Error::Flags(unknown));
        }
        if flags & CHECKSUM_PRESENT != 0 {
            let end = verify_checksum(message)?;
            cursor = Cursor::new(message, cursor.position(), end);
        }
        let mut body = None;
        let mut has_deep_documents = false;
        let mut sequences = SmallVec::new();
        while !cursor.is_at_end() {
            let offset = cursor.position();
            match cursor.byte("the kind of a section")? {
                SECTION_BODY if body.is_some() => {
                    return Err(Error::malformed(offset, "one body section only"));
                }
                SECTION_BODY => body = Some(cursor.document()?),
                SECTION_SEQUENCE => {
                    let (sequence, is_deep) = DocumentSequence::parse(&mut cursor)?;
                    has_deep_documents |= is_deep;
                    push_sequence(&mut sequences, sequence, offset)?;
                }
                _ => return Err(Error::malformed(offset, "a section of kind 0 or 1")),
            }
        }
        let body = body.ok_or(Error::malformed(cursor.position(), "a body section"))?;
        if sequences
            .iter()
            .any(|sequence| body.contains(sequence.identifier))
        {
            return Err(Error::malformed(
                HEADER_BYTES,
                "a field either in the body or as a document sequence",
            ));
        }
        Ok(Self {
            request_id: header.request_id,
            body,
            sequences,
            compressor,
            has_deep_documents: has_deep_documents || cursor.has_deep_documents(),
            flags,
        })
    }
}

fn push_sequence<'a>(
    sequences: &mut SmallVec<[DocumentSequence<'a>; 1]>,
    sequence: DocumentSequence<'a>,
    offset: usize,
) -> Result<()> {
    if sequences
        .iter()
        .any(|other| other.identifier == sequence.identifier)
    {
        return Err(Error::malformed(
            offset,
            "document sequences of different names",
        ));
    }
    if sequences.len() == SEQUENCES_MAX {
        return Err(Error::TooManySequences);
    }
    sequences.push(sequence);
    Ok(())
}

/// Checks the last four bytes against all before them; returns where the sections end.
fn verify_checksum(message: &[u8]) -> Result<usize> {
    let Some((summed, &stored)) = message.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::malformed(message.len(), "a checksum"));
    };
    if summed.len() < HEADER_BYTES + 4 {
        return Err(Error::malformed(
            message.len(),
            "a checksum behind the flags",
        ));
    }
    let (stored, computed) = (u32::from_le_bytes(stored), crc32c::crc32c(summed));
    if stored != computed {
        return Err(Error::Checksum { stored, computed });
    }
    Ok(summed.len())
}

/// Documents one after the other under the name of the field that they stand for.
#[derive(Clone, Copy, Debug)]
pub struct DocumentSequence<'a> {
    /// The field of the command that the documents stand for.
    pub identifier: &'a str,
    bytes: &'a [u8],
    count: usize,
}

impl<'a> DocumentSequence<'a> {
    /// The documents in order; each was validated when the message was parsed.
    #[must_use]
    pub fn documents(&self) -> Documents<'a> {
        Documents {
            rest: self.bytes,
            left: self.count,
        }
    }

    /// How many documents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The documents as they stand in the message.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The sequence, and whether one of its documents nests deeper than what may be stored.
    fn parse(cursor: &mut Cursor<'a>) -> Result<(Self, bool)> {
        let offset = cursor.position();
        let expected = "the length of a section within the message";
        let length = cursor.i32(expected)?;
        // The length counts itself.
        let left = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(4))
            .ok_or(Error::Length {
                offset,
                length: i64::from(length),
                expected,
            })?;
        let mut section = cursor.section(left, offset, expected)?;
        let identifier = section.text("the name of a document sequence")?;
        let bytes = section.rest();
        let mut count = 0;
        while !section.is_at_end() {
            section.document()?;
            count += 1;
        }
        let sequence = Self {
            identifier,
            bytes,
            count,
        };
        Ok((sequence, section.has_deep_documents()))
    }
}

/// Walks the documents of a sequence.
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Documents<'a> {
    type Item = RawDocument<'a>;

    fn next(&mut self) -> Option<RawDocument<'a>> {
        let (document, rest) = RawDocument::split_first(self.rest)?;
        self.rest = rest;
        self.left = self.left.saturating_sub(1);
        Some(document)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Documents<'_> {}
