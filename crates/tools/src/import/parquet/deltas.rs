//! Lengths that are written as differences, counted before the library reads them.
//!
//! The library makes room for as many lengths as such a page says it has, and of DELTA_BYTE_ARRAY it writes out what each value shares with the one
//! before, so that a few bytes stand for any number of them:
//!
//! ```text
//! DELTA_LENGTH_BYTE_ARRAY  lengths | values
//! DELTA_BYTE_ARRAY         lengths of what is shared | lengths of what is not | what is not shared
//! lengths                  values of a block | miniblocks of a block | count | first length, then blocks
//! block                    least difference | bits of a difference, a byte for each miniblock | miniblocks, of the differences beyond the least
//! ```

use parquet::basic::Encoding;

/// The bytes that the library makes room for with each length.
const LENGTH_BYTES: u64 = 4;

type Result<T> = std::result::Result<T, String>;

/// Counts the bytes that the library makes of the values besides the page, for the encodings above. A page that has more lengths than `values_max` is refused.
pub fn values_bytes(encoding: Encoding, values: &[u8], values_max: u32) -> Result<u64> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            let lengths = Lengths::begin(values, values_max)?;
            Ok(lengths.count * LENGTH_BYTES)
        }
        Encoding::DELTA_BYTE_ARRAY => {
            let shared = Lengths::begin(values, values_max)?;
            let (shared_bytes, rest) = shared.sum()?;
            let others = Lengths::begin(rest, values_max)?;
            Ok(shared_bytes + (shared.count + others.count) * LENGTH_BYTES)
        }
        _ => Ok(0),
    }
}

/// Lengths of which the head has been read.
struct Lengths<'b> {
    count: u64,
    first: i32,
    miniblocks: usize,
    /// The values of a miniblock.
    values: usize,
    blocks: &'b [u8],
}

impl<'b> Lengths<'b> {
    fn begin(bytes: &'b [u8], count_max: u32) -> Result<Lengths<'b>> {
        let mut bytes = bytes;
        let block = varint(&mut bytes)?;
        let miniblocks = varint(&mut bytes)?;
        let count = varint(&mut bytes)?;
        let first = zigzag(&mut bytes)?;
        if count > u64::from(count_max) {
            return Err(format!("a page of {count_max} values has {count} lengths"));
        }
        let values = block.checked_div(miniblocks).unwrap_or(0);
        if values == 0 || values % 32 != 0 {
            return Err(format!("{miniblocks} miniblocks of {block} values"));
        }
        Ok(Lengths {
            count,
            first,
            miniblocks: usize::try_from(miniblocks).map_err(|_| too_early())?,
            values: usize::try_from(values).map_err(|_| too_early())?,
            blocks: bytes,
        })
    }

    /// The sum of the lengths, and what stands behind them.
    fn sum(&self) -> Result<(u64, &'b [u8])> {
        let mut bytes = self.blocks;
        let mut left = usize::try_from(self.count).map_err(|_| too_early())?;
        if left == 0 {
            return Ok((0, bytes));
        }
        let mut length = self.first;
        let mut sum = whole(length)?;
        left -= 1;
        while left > 0 {
            let least = zigzag(&mut bytes)?;
            for width in take(&mut bytes, self.miniblocks)? {
                if left == 0 {
                    break;
                }
                let width = usize::from(*width);
                if width > 32 {
                    return Err(format!("differences of {width} bits"));
                }
                // Behind the last value, a miniblock is filled up.
                let packed_bytes = self.values.checked_mul(width).ok_or_else(too_early)? / 8;
                let packed = take(&mut bytes, packed_bytes)?;
                let values = self.values.min(left);
                for difference in differences(packed, width).take(values) {
                    length = length.wrapping_add(least).wrapping_add(difference);
                    sum += whole(length)?;
                }
                left -= values;
            }
        }
        Ok((sum, bytes))
    }
}

/// Numbers of so many bits each, from the lowest bit of the first byte on; zeros without an end where they have no bits.
fn differences(packed: &[u8], width: usize) -> impl Iterator<Item = i32> {
    let mut bytes = packed.iter();
    let (mut held, mut held_bits) = (0u64, 0);
    std::iter::repeat_with(move || {
        while held_bits < width {
            held |= u64::from(bytes.next().copied().unwrap_or(0)) << held_bits;
            held_bits += 8;
        }
        let difference = held & ((1 << width) - 1);
        held >>= width;
        held_bits -= width;
        difference as u32 as i32
    })
}

fn whole(length: i32) -> Result<u64> {
    u64::try_from(length).map_err(|_| format!("a length is {length}"))
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or_else(too_early)?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number does not end".to_owned())
}

fn zigzag(bytes: &mut &[u8]) -> Result<i32> {
    let number = varint(bytes)?;
    let number = (number >> 1) as i64 ^ -((number & 1) as i64);
    i32::try_from(number).map_err(|_| format!("a length of {number}"))
}

fn too_early() -> String {
    "a page ends in its lengths".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTE_ARRAY: Encoding = Encoding::DELTA_BYTE_ARRAY;

    /// Lengths of a block of 128 values in 4 miniblocks: the first, and differences of three bits.
    fn lengths(first: u8, differences: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 0x01, 4, differences.len() as u8 + 1, first << 1];
        if !differences.is_empty() {
            bytes.extend([0, 3, 0, 0, 0]);
            let mut packed = 0u128;
            for (place, difference) in differences.iter().enumerate() {
                packed |= u128::from(*difference) << (place * 3);
            }
            bytes.extend(&packed.to_le_bytes()[..12]);
        }
        bytes
    }

    #[test]
    fn lengths_are_added_up() {
        // 0, 7, 7, 8 shared bytes.
        let page = [lengths(0, &[7, 0, 1]), lengths(9, &[0, 0, 0])].concat();
        assert_eq!(values_bytes(BYTE_ARRAY, &page, 4), Ok(22 + 8 * 4));
        let page = [lengths(0, &[]), lengths(9, &[])].concat();
        assert_eq!(values_bytes(BYTE_ARRAY, &page, 1), Ok(8));
        let lengths = lengths(0, &[7, 0, 1]);
        let length_bytes = values_bytes(Encoding::DELTA_LENGTH_BYTE_ARRAY, &lengths, 4);
        assert_eq!(length_bytes, Ok(16));
        assert_eq!(values_bytes(Encoding::PLAIN, b"", 4), Ok(0));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let page = [lengths(0, &[7, 0, 1]), lengths(9, &[0, 0, 0])].concat();
        let said = values_bytes(BYTE_ARRAY, &page, 3).unwrap_err();
        assert_eq!(said, "a page of 3 values has 4 lengths");
        for cut in 0..page.len() - 17 {
            assert!(values_bytes(BYTE_ARRAY, &page[..cut], 4).is_err(), "{cut}");
        }
        for bytes in [
            &[0x80, 0x01, 0, 1, 0][..],
            &[0x40, 4, 1, 0],
            &[0x80, 0x01, 4, 1, 1],
            &[0x80, 0x01, 4, 2, 0, 0, 33, 0, 0, 0],
            &[0x80, 0x01, 4, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
        ] {
            assert!(values_bytes(BYTE_ARRAY, bytes, 9).is_err(), "{bytes:?}");
        }
    }
}
