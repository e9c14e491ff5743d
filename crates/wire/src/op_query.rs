//! OP_QUERY: the message that old clients, and new ones in their first packet, ask for `hello` with.

use quarry_bson::RawDocument;

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::header::HEADER_BYTES;

/// A legacy query. Only parsed here: which of them are answered is the server's matter.
#[derive(Clone, Copy, Debug)]
pub struct OpQuery<'a> {
    /// The flags as they came.
    pub flags: u32,
    /// `database.collection`, or `database.$cmd` for a command.
    pub namespace: &'a str,
    /// Documents to leave out at the beginning of the result.
    pub number_to_skip: i32,
    /// Documents that the first batch has at most; its sign and 0 have meanings of their own.
    pub number_to_return: i32,
    /// The filter, or the command.
    pub query: RawDocument<'a>,
    /// The fields to return, if they are named.
    pub projection: Option<RawDocument<'a>>,
}

impl<'a> OpQuery<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(message, HEADER_BYTES, message.len());
        let flags = cursor.u32("the flags of OP_QUERY")?;
        let namespace = cursor.text("a namespace")?;
        let number_to_skip = cursor.i32("the number of documents to skip")?;
        let number_to_return = cursor.i32("the number of documents to return")?;
        let query = cursor.document()?;
        let projection = if cursor.is_at_end() {
            None
        } else {
            Some(cursor.document()?)
        };
        if !cursor.is_at_end() {
            return Err(Error::malformed(
                cursor.position(),
                "the end of the message",
            ));
        }
        Ok(Self {
            flags,
            namespace,
            number_to_skip,
            number_to_return,
            query,
            projection,
        })
    }
}
