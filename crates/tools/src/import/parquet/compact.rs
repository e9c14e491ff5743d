//! Thrift's compact protocol, in which the footer of a Parquet file and the heads of its pages are written: a walk over the bytes, before the library reads them.
//!
//! The library believes a field's number and not the type that stands before it, and passes over a list of Booleans without taking their bytes. A walk
//! that went by the types alone could be led past what the library then finds. So the fields that the library knows are held against `Shape`s, and a
//! list of Booleans, which no such structure has, is refused.

/// Structures within structures.
const NESTING_MAX: usize = 64;
/// Elements of a list, as many as parquet-cpp reads: the library makes room for all of them before it reads the first.
const ELEMENTS_MAX: u64 = 1_000_000;

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

pub type Result<T> = std::result::Result<T, String>;

/// The fields of a structure that the library knows, by their numbers.
pub type Shape = &'static [(i64, Known)];

/// The type that the library takes a field for.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    Boolean,
    Byte,
    /// A whole number of 16, 32 or 64 bits, which are written alike.
    Number,
    Double,
    Binary,
    Numbers,
    Structure(Shape),
    Structures(Shape),
}

/// A field of a structure, as it is told to the one who walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: i64,
    /// A number itself, or the length of bytes.
    pub number: i64,
}

/// Bytes of the compact protocol that are left.
pub struct Compact<'b>(pub &'b [u8]);

impl Compact<'_> {
    /// Walks over a structure, and tells its numbers and the lengths of its bytes.
    pub fn structure(&mut self, shape: Shape, found: &mut dyn FnMut(Found)) -> Result<()> {
        self.fields(shape, 0, found)
    }

    fn fields(&mut self, shape: Shape, depth: usize, found: &mut dyn FnMut(Found)) -> Result<()> {
        if depth > NESTING_MAX {
            return Err("it is nested too deep".to_owned());
        }
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            let Some((_, known)) = shape.iter().find(|(known, _)| *known == id) else {
                self.skip(kind, depth + 1)?;
                continue;
            };
            match (known, kind) {
                (Known::Boolean, kind::TRUE | kind::FALSE) => {}
                (Known::Byte, kind::BYTE) => {
                    self.take(1)?;
                }
                (Known::Number, kind::I16 | kind::I32 | kind::I64) => {
                    let number = self.zigzag()?;
                    found(Found { id, number });
                }
                (Known::Double, kind::DOUBLE) => {
                    self.take(8)?;
                }
                (Known::Binary, kind::BINARY) => {
                    let number = self.binary()? as i64;
                    found(Found { id, number });
                }
                (Known::Structure(inner), kind::STRUCT) => {
                    self.fields(inner, depth + 1, &mut |_| {})?;
                }
                (Known::Numbers, kind::LIST) => self.numbers()?,
                (Known::Structures(inner), kind::LIST) => {
                    for _ in 0..self.structures()? {
                        self.fields(inner, depth + 1, &mut |_| {})?;
                    }
                }
                _ => return Err(format!("a field {id} is of the type {kind}")),
            }
        }
        Ok(())
    }

    /// Begins a list of structures, and gives their number.
    pub fn structures(&mut self) -> Result<usize> {
        match self.list()? {
            (0, _) => Ok(0),
            (count, kind::STRUCT) => Ok(count),
            (_, kind) => Err(format!("a list of structures has the type {kind}")),
        }
    }

    /// Begins the next field of a structure if it is the list of that number.
    pub fn is_list(&mut self, number: i64) -> Result<bool> {
        let mut id = number - 1;
        let kind = self.field(&mut id)?;
        Ok(kind == Some(kind::LIST) && id == number)
    }

    /// Walks over the first field of a structure; whether it is a number that is the field 1.
    pub fn is_first_number(&mut self) -> Result<bool> {
        let mut id = 0;
        let kind = self.field(&mut id)?;
        let is_number = matches!(kind, Some(kind::I16 | kind::I32 | kind::I64)) && id == 1;
        if is_number {
            self.varint()?;
        }
        Ok(is_number)
    }

    fn numbers(&mut self) -> Result<()> {
        let (count, kind) = self.list()?;
        let are_numbers = matches!(kind, kind::I16 | kind::I32 | kind::I64);
        if count > 0 && !are_numbers {
            return Err(format!("a list of numbers has the type {kind}"));
        }
        for _ in 0..count {
            self.varint()?;
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<()> {
        self.0 = self.0.get(count..).ok_or_else(too_early)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.0.first().ok_or_else(too_early)?;
        self.take(1)?;
        Ok(byte)
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

    /// Passes over bytes, and gives their number.
    fn binary(&mut self) -> Result<usize> {
        let length = usize::try_from(self.varint()?).map_err(|_| too_early())?;
        self.take(length)?;
        Ok(length)
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
            delta => *id + i64::from(delta),
        };
        // The library would cut it.
        match i16::try_from(*id) {
            Ok(_) => Ok(Some(kind)),
            Err(_) => Err(format!("a field has the number {id}")),
        }
    }

    /// The number and the type of a list's elements, each of which takes a byte or more.
    fn list(&mut self) -> Result<(usize, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        if count > (self.0.len() as u64).min(ELEMENTS_MAX) {
            return Err(format!("a list of {count} elements does not fit"));
        }
        Ok((count as usize, head & 0x0F))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<()> {
        if depth > NESTING_MAX {
            return Err("it is nested too deep".to_owned());
        }
        match kind {
            kind::TRUE | kind::FALSE => Ok(()),
            kind::BYTE => self.take(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(|_| ()),
            kind::DOUBLE => self.take(8),
            kind::BINARY => self.binary().map(|_| ()),
            kind::LIST | kind::SET => {
                let (count, kind) = self.list()?;
                self.skip_elements(count as u64, &[kind], depth)
            }
            kind::MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                self.skip_elements(count, &[kinds >> 4, kinds & 0x0F], depth)
            }
            kind::STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            kind => Err(format!("the type {kind} is not known")),
        }
    }

    fn skip_elements(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<()> {
        for _ in 0..count {
            for kind in kinds {
                if matches!(*kind, kind::TRUE | kind::FALSE) {
                    return Err("it has a list of Booleans".to_owned());
                }
                self.skip(*kind, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn too_early() -> String {
    "it ends too early".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: Shape = &[(1, Known::Binary)];
    const SHAPE: Shape = &[(1, Known::Number), (2, Known::Structures(INNER))];

    fn walk(bytes: &[u8]) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        Compact(bytes).structure(SHAPE, &mut |found| all.push(found))?;
        Ok(all)
    }

    #[test]
    fn a_structure_tells_its_numbers() {
        let bytes = [0x15, 5, 0x19, 0x1C, 0x18, 1, b'x', 0, 0];
        assert_eq!(walk(&bytes), Ok(vec![Found { id: 1, number: -3 }]));
        for cut in 0..bytes.len() {
            assert!(walk(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_the_library_would_read_otherwise_is_refused() {
        for (bytes, said) in [
            (&[0x18, 1, b'x', 0][..], "a field 1 is of the type 8"),
            (&[0x15, 2, 0x19, 0x15, 2, 0], "a list of structures"),
            (&[0x05, 0x82, 0x80, 0x08, 2, 0], "a field has the number"),
            (&[0x79, 0x21, 1, 1, 0], "list of Booleans"),
            (&[0x79, 0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], "does not fit"),
            (
                &[
                    0x15, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                ],
                "does not end",
            ),
            (&[0x7C; 1000], "too deep"),
            (&[0x3D, 0], "the type 13 is not known"),
        ] {
            let error = walk(bytes).unwrap_err();
            assert!(error.contains(said), "{error}, not {said}");
        }
    }
}
