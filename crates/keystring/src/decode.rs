//! Keys to values, and over keys without making values.

use quarry_bson::{DEPTH_MAX, ElementType, ObjectId, Timestamp, Value};

use crate::Direction;
use crate::error::{Error, Result};
use crate::number;
use crate::reader::Reader;
use crate::type_bits::{Tag, TypeBitsReader};
use crate::type_byte as byte;

/// Decodes as many values as there are `directions`. Bytes behind them (a record key) are left alone.
///
/// # Errors
/// Bytes or type bits that no encoder made.
pub fn decode(key: &[u8], type_bits: &[u8], directions: &[Direction]) -> Result<Vec<Value>> {
    let mut decoder = Decoder::new(key, type_bits);
    directions
        .iter()
        .map(|&direction| decoder.next(direction))
        .collect()
}

/// How many bytes of `key` the first `fields` values take: where a record key begins behind them.
/// Fields beyond `directions` are ascending.
///
/// # Errors
/// Bytes that no encoder made.
pub fn decode_prefix_len(key: &[u8], fields: usize, directions: &[Direction]) -> Result<usize> {
    let mut reader = Reader::new(key);
    for i in 0..fields {
        reader.set_direction(directions.get(i).copied().unwrap_or(Direction::Ascending));
        skip(&mut reader, 0)?;
    }
    Ok(reader.position())
}

/// How many bytes of `key` its first value takes.
///
/// # Errors
/// Bytes that no encoder made.
pub fn skip_value(key: &[u8], direction: Direction) -> Result<usize> {
    decode_prefix_len(key, 1, &[direction])
}

/// Decodes the values of a key one after the other.
pub struct Decoder<'a> {
    reader: Reader<'a>,
    types: TypeBitsReader<'a>,
}

impl<'a> Decoder<'a> {
    /// Begins at the first value of `key`, whose types stand in `type_bits`.
    #[must_use]
    pub fn new(key: &'a [u8], type_bits: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(key),
            types: TypeBitsReader::new(type_bits),
        }
    }

    /// Goes on with the values of another key, whose types stand in the same type bits behind those of the first key.
    pub fn go_on_in(&mut self, key: &'a [u8]) {
        self.reader = Reader::new(key);
    }

    /// How many bytes of the key the values so far took.
    #[must_use]
    pub fn position(&self) -> usize {
        self.reader.position()
    }

    /// Decodes the next value.
    ///
    /// # Errors
    /// Bytes or type bits that no encoder made.
    pub fn next(&mut self, direction: Direction) -> Result<Value> {
        let mut bytes = Vec::new();
        let element_type = self.append_next(direction, &mut bytes)?;
        Value::from_bytes(element_type, &bytes).map_err(|_| self.reader.error("a BSON value"))
    }

    /// Like `next`, but appends the bytes that the value has in a document to `out` and returns its type. Texts may hold what
    /// is no UTF-8, if they did in the key.
    ///
    /// # Errors
    /// Bytes or type bits that no encoder made.
    pub fn append_next(&mut self, direction: Direction, out: &mut Vec<u8>) -> Result<ElementType> {
        self.reader.set_direction(direction);
        self.value(out, 0)
    }

    /// Appends the bytes that the next value has in a document, and says their type.
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<ElementType> {
        let first = self.reader.byte()?;
        if number::is_number(first) {
            return self.number(first, out);
        }
        match first {
            byte::MIN_KEY => return Ok(ElementType::MinKey),
            byte::UNDEFINED => return Ok(ElementType::Undefined),
            byte::NULL => return Ok(ElementType::Null),
            byte::MAX_KEY => return Ok(ElementType::MaxKey),
            byte::STRING => {
                let element_type = match self.types.next()? {
                    None => ElementType::String,
                    Some(Tag::Symbol) => ElementType::Symbol,
                    Some(_) => return Err(self.foreign_tag()),
                };
                self.text(out)?;
                return Ok(element_type);
            }
            byte::DOCUMENT => {
                self.document(out, depth + 1)?;
                return Ok(ElementType::Document);
            }
            byte::ARRAY => {
                self.array(out, depth + 1)?;
                return Ok(ElementType::Array);
            }
            byte::BINARY => {
                let len = length(&mut self.reader)?;
                let subtype = self.reader.byte()?;
                out.extend_from_slice(&(len as u32).to_le_bytes());
                out.push(subtype);
                self.reader.take(len, out)?;
                return Ok(ElementType::Binary);
            }
            byte::OBJECT_ID => {
                self.reader.take(12, out)?;
                return Ok(ElementType::ObjectId);
            }
            byte::FALSE | byte::TRUE => {
                out.push(first - byte::FALSE);
                return Ok(ElementType::Boolean);
            }
            byte::DATE_TIME => {
                let ms = i64::from_be_bytes(self.reader.array()?) ^ i64::MIN;
                out.extend_from_slice(&ms.to_le_bytes());
                return Ok(ElementType::DateTime);
            }
            byte::TIMESTAMP => {
                let timestamp = Timestamp::from_u64(u64::from_be_bytes(self.reader.array()?));
                out.extend_from_slice(&timestamp.to_u64().to_le_bytes());
                return Ok(ElementType::Timestamp);
            }
            byte::REGEX => {
                self.reader.text(out)?;
                out.push(0);
                self.reader.text(out)?;
                out.push(0);
                return Ok(ElementType::Regex);
            }
            byte::DB_POINTER => {
                let len = length(&mut self.reader)?;
                let start = begin(out);
                self.reader.take(len, out)?;
                out.push(0);
                patch_text_length(out, start);
                let id = ObjectId::from_bytes(self.reader.array()?);
                out.extend_from_slice(&id.bytes());
                return Ok(ElementType::DbPointer);
            }
            byte::JAVASCRIPT => {
                self.text(out)?;
                return Ok(ElementType::JavaScript);
            }
            byte::JAVASCRIPT_WITH_SCOPE => {
                let start = begin(out);
                self.text(out)?;
                self.document(out, depth + 1)?;
                patch_length(out, start);
                return Ok(ElementType::JavaScriptWithScope);
            }
            _ => {}
        }
        Err(self.reader.error("a type byte before this"))
    }

    fn number(&mut self, first: u8, out: &mut Vec<u8>) -> Result<ElementType> {
        let tag = self.types.next()?;
        let number = number::read(&mut self.reader, first)?;
        let value = number::typed(number, tag).ok_or_else(|| self.foreign_tag())?;
        out.extend_from_slice(value.as_bytes());
        Ok(value.element_type())
    }

    /// A String as it stands in a document: length with the NUL, bytes, NUL.
    fn text(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let start = begin(out);
        self.reader.text(out)?;
        out.push(0);
        patch_text_length(out, start);
        Ok(())
    }

    fn document(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        self.check_depth(depth)?;
        let start = begin(out);
        while self.reader.byte()? != byte::END {
            let tag = out.len();
            out.push(0);
            self.reader.name(out)?;
            out.push(0);
            out[tag] = self.value(out, depth)? as u8;
        }
        out.push(0);
        patch_length(out, start);
        Ok(())
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        self.check_depth(depth)?;
        let start = begin(out);
        let mut index = 0u32;
        while self.reader.peek() != Some(byte::END) {
            let tag = out.len();
            out.push(0);
            out.extend_from_slice(index.to_string().as_bytes());
            out.push(0);
            out[tag] = self.value(out, depth)? as u8;
            index += 1;
        }
        self.reader.skip(1)?;
        out.push(0);
        patch_length(out, start);
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(self.reader.error("at most 200 documents within documents"));
        }
        Ok(())
    }

    fn foreign_tag(&self) -> Error {
        Error::TypeBits {
            offset: self.types.offset(),
            expected: "a tag that belongs to its value",
        }
    }
}

/// Room for a length; returns where it stands.
fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// A key is never longer than a message, and what it decodes to at most a few times that.
fn patch_length(out: &mut [u8], start: usize) {
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// A text's length does not count the length itself.
fn patch_text_length(out: &mut [u8], start: usize) {
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

fn length(reader: &mut Reader<'_>) -> Result<usize> {
    match reader.byte()? {
        0xFF => Ok(u32::from_be_bytes(reader.array()?) as usize),
        short => Ok(usize::from(short)),
    }
}

fn skip(reader: &mut Reader<'_>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(reader.error("at most 200 documents within documents"));
    }
    let first = reader.byte()?;
    if number::is_number(first) {
        return number::read(reader, first).map(drop);
    }
    match first {
        byte::MIN_KEY | byte::UNDEFINED | byte::NULL | byte::MAX_KEY | byte::FALSE | byte::TRUE => {
            Ok(())
        }
        byte::STRING | byte::JAVASCRIPT => reader.skip_text(),
        byte::OBJECT_ID => reader.skip(12),
        byte::DATE_TIME | byte::TIMESTAMP => reader.skip(8),
        byte::DOCUMENT => skip_fields(reader, depth),
        byte::ARRAY => {
            while reader.peek() != Some(byte::END) {
                skip(reader, depth + 1)?;
            }
            reader.skip(1)
        }
        byte::BINARY => {
            let len = length(reader)?;
            reader.skip(len.saturating_add(1))
        }
        byte::REGEX => {
            reader.skip_text()?;
            reader.skip_text()
        }
        byte::DB_POINTER => {
            let len = length(reader)?;
            reader.skip(len.saturating_add(12))
        }
        byte::JAVASCRIPT_WITH_SCOPE => {
            reader.skip_text()?;
            skip_fields(reader, depth)
        }
        _ => Err(reader.error("a type byte before this")),
    }
}

fn skip_fields(reader: &mut Reader<'_>, depth: usize) -> Result<()> {
    while reader.byte()? != byte::END {
        reader.skip_text()?;
        skip(reader, depth + 1)?;
    }
    Ok(())
}
