//! A look at the footer of a Parquet file before the library reads it.
//!
//! The library builds a schema by calling itself for each level, and a stack that overflows ends the process without a word; and each column keeps the
//! names of all levels above it. So the schema's depth and the bytes of its paths are counted here:
//!
//! ```text
//! ... footer | length of the footer, 4 bytes, little-endian | PAR1
//! FileMetaData   1: version, 2: list of SchemaElement, in the order of a walk from the root
//! SchemaElement  4: name, 5: how many of the elements behind are its children; none for a leaf
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::compact::{Compact, Known, Result, Shape};

const MAGIC: &[u8] = b"PAR1";
const TAIL_BYTES: u64 = 8;
const FOOTER_BYTES_MAX: u64 = 512 << 20;
/// Levels of a schema: an array takes two of them, a map as well, and documents nest to 100.
const LEVELS_MAX: usize = 400;
/// The names of all columns, each with those of the levels above it.
const PATHS_BYTES_MAX: u64 = 256 << 20;
/// The bytes that a name takes besides its text.
const NAME_BYTES: u64 = 24;
const SCHEMA: i64 = 2;
const NAME: i64 = 4;
const CHILDREN: i64 = 5;

const EMPTY: Shape = &[];
const DECIMAL: Shape = &[(1, Known::Number), (2, Known::Number)];
const UNIT: Shape = &[
    (1, Known::Structure(EMPTY)),
    (2, Known::Structure(EMPTY)),
    (3, Known::Structure(EMPTY)),
];
const TIME: Shape = &[(1, Known::Boolean), (2, Known::Structure(UNIT))];
const INTEGER: Shape = &[(1, Known::Byte), (2, Known::Boolean)];
const VARIANT: Shape = &[(1, Known::Byte)];
const GEOMETRY: Shape = &[(1, Known::Binary), (2, Known::Number)];
const LOGICAL_TYPE: Shape = &[
    (1, Known::Structure(EMPTY)),
    (2, Known::Structure(EMPTY)),
    (3, Known::Structure(EMPTY)),
    (4, Known::Structure(EMPTY)),
    (5, Known::Structure(DECIMAL)),
    (6, Known::Structure(EMPTY)),
    (7, Known::Structure(TIME)),
    (8, Known::Structure(TIME)),
    (10, Known::Structure(INTEGER)),
    (11, Known::Structure(EMPTY)),
    (12, Known::Structure(EMPTY)),
    (13, Known::Structure(EMPTY)),
    (14, Known::Structure(EMPTY)),
    (15, Known::Structure(EMPTY)),
    (16, Known::Structure(VARIANT)),
    (17, Known::Structure(GEOMETRY)),
    (18, Known::Structure(GEOMETRY)),
    (19, Known::Structure(EMPTY)),
];
const ELEMENT: Shape = &[
    (1, Known::Number),
    (2, Known::Number),
    (3, Known::Number),
    (NAME, Known::Binary),
    (CHILDREN, Known::Number),
    (6, Known::Number),
    (7, Known::Number),
    (8, Known::Number),
    (9, Known::Number),
    (10, Known::Structure(LOGICAL_TYPE)),
];
const STATISTICS: Shape = &[
    (1, Known::Binary),
    (2, Known::Binary),
    (3, Known::Number),
    (4, Known::Number),
    (5, Known::Binary),
    (6, Known::Binary),
    (7, Known::Boolean),
    (8, Known::Boolean),
    (9, Known::Number),
];
const ENCODING_STATISTICS: Shape = &[(1, Known::Number), (2, Known::Number), (3, Known::Number)];
const SIZES: Shape = &[(1, Known::Number), (2, Known::Numbers), (3, Known::Numbers)];
const BOX: Shape = &[
    (1, Known::Double),
    (2, Known::Double),
    (3, Known::Double),
    (4, Known::Double),
    (5, Known::Double),
    (6, Known::Double),
    (7, Known::Double),
    (8, Known::Double),
];
const PLACES: Shape = &[(1, Known::Structure(BOX)), (2, Known::Numbers)];
const COLUMN: Shape = &[
    (1, Known::Number),
    (2, Known::Numbers),
    (4, Known::Number),
    (5, Known::Number),
    (6, Known::Number),
    (7, Known::Number),
    (9, Known::Number),
    (10, Known::Number),
    (11, Known::Number),
    (12, Known::Structure(STATISTICS)),
    (13, Known::Structures(ENCODING_STATISTICS)),
    (14, Known::Number),
    (15, Known::Number),
    (16, Known::Structure(SIZES)),
    (17, Known::Structure(PLACES)),
];
const CHUNK: Shape = &[
    (1, Known::Binary),
    (2, Known::Number),
    (3, Known::Structure(COLUMN)),
    (4, Known::Number),
    (5, Known::Number),
    (6, Known::Number),
    (7, Known::Number),
];
const SORTING: Shape = &[(1, Known::Number), (2, Known::Boolean), (3, Known::Boolean)];
const ROW_GROUP: Shape = &[
    (1, Known::Structures(CHUNK)),
    (2, Known::Number),
    (3, Known::Number),
    (4, Known::Structures(SORTING)),
    (5, Known::Number),
    (7, Known::Number),
];
const KEY_VALUE: Shape = &[(1, Known::Binary), (2, Known::Binary)];
const COLUMN_ORDER: Shape = &[
    (1, Known::Structure(EMPTY)),
    (2, Known::Structure(EMPTY)),
    (3, Known::Structure(EMPTY)),
];
const FILE: Shape = &[
    (1, Known::Number),
    (SCHEMA, Known::Structures(ELEMENT)),
    (3, Known::Number),
    (4, Known::Structures(ROW_GROUP)),
    (5, Known::Structures(KEY_VALUE)),
    (6, Known::Binary),
    (7, Known::Structures(COLUMN_ORDER)),
];

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
    check_footer(&footer).map_err(|what| format!("the footer: {what}"))
}

fn check_footer(footer: &[u8]) -> Result<()> {
    // The library reads the first schema that it meets, and passes over further ones.
    let mut bytes = Compact(footer);
    let begins_well = bytes.is_first_number()? && bytes.is_list(SCHEMA)?;
    if !begins_well {
        return Err("it does not begin with a version and a schema".to_owned());
    }
    check_schema(&mut bytes)?;
    Compact(footer).structure(FILE, &mut |_| {})
}

/// Counts how deep the elements of a schema stand, and what the paths of its columns take.
fn check_schema(bytes: &mut Compact<'_>) -> Result<()> {
    let mut above: Vec<Level> = Vec::new();
    let mut paths_bytes = 0u64;
    for _ in 0..bytes.structures()? {
        let (mut children, mut name_bytes) = (0, 0);
        bytes.structure(ELEMENT, &mut |found| match found.id {
            CHILDREN => children = found.number,
            NAME => name_bytes = found.number as u64,
            _ => {}
        })?;
        let children = i32::try_from(children)
            .map_err(|_| format!("a part of the schema has {children} parts"))?;
        let mut path_bytes = name_bytes + NAME_BYTES;
        if let Some(parent) = above.last_mut() {
            parent.children -= 1;
            path_bytes += parent.path_bytes;
        }
        if children > 0 {
            above.push(Level {
                children,
                path_bytes,
            });
        } else {
            paths_bytes = paths_bytes.saturating_add(path_bytes);
        }
        if above.len() > LEVELS_MAX {
            return Err(format!("the schema is deeper than {LEVELS_MAX} levels"));
        }
        if paths_bytes > PATHS_BYTES_MAX {
            return Err(format!(
                "the paths of the columns take more than {PATHS_BYTES_MAX} bytes"
            ));
        }
        while above.last().is_some_and(|level| level.children == 0) {
            above.pop();
        }
    }
    Ok(())
}

/// A part of the schema whose children come.
struct Level {
    /// How many of them are still to come.
    children: i32,
    /// The bytes that its path takes.
    path_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer whose schema has so many levels, of an element each with that name.
    fn footer(levels: usize, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x02, 0x19, 0xFC];
        varint(levels as u64, &mut bytes);
        for level in 0..levels {
            let children = if level + 1 < levels { 2 } else { 0 };
            bytes.push(0x48);
            varint(name.len() as u64, &mut bytes);
            bytes.extend(name);
            bytes.extend([0x15, children, 0]);
        }
        bytes.push(0);
        bytes
    }

    fn varint(mut number: u64, out: &mut Vec<u8>) {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    #[test]
    fn a_schema_that_is_too_deep_or_has_too_long_paths_is_refused() {
        assert_eq!(check_footer(&footer(300, b"a")), Ok(()));
        let error = check_footer(&footer(999_999, b"a")).unwrap_err();
        assert!(error.contains("deeper than 400"), "{error}");
        // A root with a long name, and many leaves under it.
        let mut wide = vec![0x15, 0x02, 0x19, 0xFC];
        varint(1001, &mut wide);
        wide.push(0x48);
        varint(1 << 19, &mut wide);
        wide.resize(wide.len() + (1 << 19), b'a');
        wide.extend([0x15, 0xD0, 0x0F, 0]);
        for _ in 0..1000 {
            wide.extend([0x48, 1, b'a', 0]);
        }
        wide.push(0);
        let error = check_footer(&wide).unwrap_err();
        assert!(error.contains("the paths of the columns"), "{error}");
    }

    #[test]
    fn a_footer_that_ends_early_or_begins_otherwise_is_refused() {
        let whole = footer(10, b"abc");
        for cut in 0..whole.len() {
            assert!(check_footer(&whole[..cut]).is_err(), "{cut}");
        }
        for bytes in [
            &[0][..],
            &[0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
            &[0x18, 2, 0, 0, 0],
            &[0x15, 2, 0x25, 2, 0],
        ] {
            let error = check_footer(bytes).unwrap_err();
            assert!(error.contains("does not begin with"), "{error}");
        }
    }
}
