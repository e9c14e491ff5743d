//! A look at the footer of a Parquet file before the library reads it.
//!
//! The library builds a schema by calling itself for each level, and a stack that overflows ends the process without a word. So the schema's depth is
//! counted here, over the bytes of Thrift's compact protocol, in which the footer is written:
//!
//! ```text
//! ... footer | length of the footer, 4 bytes, little-endian | PAR1
//! FileMetaData   2: list of SchemaElement, in the order of a walk from the root
//! SchemaElement  5: how many of the elements behind are its children; none for a leaf
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8] = b"PAR1";
const TAIL_BYTES: u64 = 8;
const FOOTER_BYTES_MAX: u64 = 512 << 20;
/// Levels of a schema: an array takes two of them, a map as well, and documents nest to 100.
const LEVELS_MAX: usize = 400;
/// Structures within structures, of fields that are passed over.
const NESTING_MAX: usize = 64;
const SCHEMA: i64 = 2;
const CHILDREN: i64 = 5;

/// Types of the compact protocol.
mod kind {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
}

type Result<T> = std::result::Result<T, String>;

/// Looks whether the file is one of Parquet, and its schema one that can be read.
pub fn check(file: &File) -> Result<()> {
    let io = |error: std::io::Error| error.to_string();
    let bytes = file.metadata().map_err(io)?.len();
    let is_short = bytes < TAIL_BYTES + MAGIC.len() as u64;
    if is_short {
        return Err("this is no file of Parquet: it is too short".to_owned());
    }
    let mut tail = [0; TAIL_BYTES as usize];
    file.read_exact_at(&mut tail, bytes - TAIL_BYTES)
        .map_err(io)?;
    let (length, magic) = tail.split_at(4);
    if magic == b"PARE" {
        return Err("the footer is encrypted, which is not read".to_owned());
    }
    if magic != MAGIC {
        return Err(
            "this is no file of Parquet, or its end is missing: it does not end with PAR1"
                .to_owned(),
        );
    }
    let length = length
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    if length > (bytes - TAIL_BYTES).min(FOOTER_BYTES_MAX) {
        return Err(format!(
            "a footer of {length} bytes does not fit in the file"
        ));
    }
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, bytes - TAIL_BYTES - length)
        .map_err(io)?;
    check_schema(&footer).map_err(|what| format!("the footer: {what}"))
}

fn check_schema(footer: &[u8]) -> Result<()> {
    let mut bytes = Compact(footer);
    let mut id = 0;
    while let Some(kind) = bytes.field(&mut id)? {
        if id == SCHEMA && kind == kind::LIST {
            bytes.schema()?;
        } else {
            bytes.skip(kind, 0)?;
        }
    }
    Ok(())
}

/// Bytes of the compact protocol that are left.
struct Compact<'b>(&'b [u8]);

impl<'b> Compact<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        if count > self.0.len() {
            return Err("it ends too early".to_owned());
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number does not end".to_owned())
    }

    fn zigzag(&mut self) -> Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Begins the next field of a structure: its type, and its number in `id`, which has that of the field before.
    fn field(&mut self, id: &mut i64) -> Result<Option<u8>> {
        let head = self.byte()?;
        let (delta, kind) = (head >> 4, head & 0x0F);
        if kind == kind::STOP {
            return Ok(None);
        }
        *id = match delta {
            0 => self.zigzag()?,
            delta => id.saturating_add(i64::from(delta)),
        };
        Ok(Some(kind))
    }

    /// The number and the type of a list's elements, each of which takes a byte or more.
    fn list(&mut self) -> Result<(usize, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        if count > self.0.len() as u64 {
            return Err("a list has more elements than bytes".to_owned());
        }
        Ok((count as usize, head & 0x0F))
    }

    /// Reads the elements of the schema, and counts how deep they stand.
    fn schema(&mut self) -> Result<()> {
        let (count, kind) = self.list()?;
        if kind != kind::STRUCT {
            return Err("the schema is no list of elements".to_owned());
        }
        // How many children are still to come of each element above.
        let mut above: Vec<i64> = Vec::new();
        for _ in 0..count {
            if let Some(parent) = above.last_mut() {
                *parent -= 1;
            }
            let children = self.children()?;
            if children > 0 {
                above.push(children);
            }
            if above.len() > LEVELS_MAX {
                return Err(format!("the schema is deeper than {LEVELS_MAX} levels"));
            }
            while above.last() == Some(&0) {
                above.pop();
            }
        }
        Ok(())
    }

    fn children(&mut self) -> Result<i64> {
        let (mut id, mut children) = (0, 0);
        while let Some(kind) = self.field(&mut id)? {
            if id == CHILDREN && kind == kind::I32 {
                children = self.zigzag()?;
            } else {
                self.skip(kind, 0)?;
            }
        }
        Ok(children)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<()> {
        if depth > NESTING_MAX {
            return Err("it is nested too deep".to_owned());
        }
        match kind {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => {
                self.take(1)?;
            }
            kind::I16 | kind::I32 | kind::I64 => {
                self.varint()?;
            }
            kind::DOUBLE => {
                self.take(8)?;
            }
            kind::BINARY => {
                let length = self.varint()?;
                self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
            }
            kind::LIST | kind::SET => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    self.skip_element(kind, depth + 1)?;
                }
            }
            kind::MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                for _ in 0..count {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0x0F, depth + 1)?;
                }
            }
            kind::STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            kind => return Err(format!("the type {kind} is not known")),
        }
        Ok(())
    }

    /// Passes over an element of a list or map, where a boolean takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<()> {
        match kind {
            kind::TRUE | kind::FALSE => self.take(1).map(|_| ()),
            kind => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer whose schema has so many levels, of an element each.
    fn footer(levels: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x02, 0x19];
        bytes.push(0xF0 | kind::STRUCT);
        let mut count = levels as u64;
        while count >= 0x80 {
            bytes.push(count as u8 | 0x80);
            count >>= 7;
        }
        bytes.push(count as u8);
        for level in 0..levels {
            let children = if level + 1 < levels { 2 } else { 0 };
            bytes.extend([0x48, 1, b'a', 0x15, children, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_schema_that_is_too_deep_is_refused() {
        assert_eq!(check_schema(&footer(300)), Ok(()));
        assert!(
            check_schema(&footer(1_000_000))
                .unwrap_err()
                .contains("deeper than 400")
        );
    }

    #[test]
    fn a_footer_that_ends_early_or_counts_too_far_is_refused() {
        let whole = footer(10);
        for cut in 0..whole.len() {
            assert!(check_schema(&whole[..cut]).is_err(), "{cut}");
        }
        let list = [0x29, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert!(check_schema(&list).unwrap_err().contains("more elements"));
        let nested = [0x1C; 1000];
        assert!(check_schema(&nested).unwrap_err().contains("too deep"));
    }
}
