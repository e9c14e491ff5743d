//! Numbers of variable length, as values and records hold them: seven bits a byte, the lowest first, the top bit says that
//! more follow. The bytes come from a disk, so that every length is checked.

/// Appends a number.
#[inline]
pub(crate) fn write_u64(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length.
#[inline]
pub(crate) fn write_len(out: &mut Vec<u8>, len: usize) {
    write_u64(out, len as u64);
}

/// Appends a number that may be negative: small ones of either sign are short.
#[inline]
pub(crate) fn write_i64(out: &mut Vec<u8>, number: i64) {
    write_u64(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Reads a number that may be negative; returns it and what follows.
#[inline(always)]
pub(crate) fn read_i64(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (number, rest) = read_u64(bytes)?;
    Some((((number >> 1) as i64) ^ -((number & 1) as i64), rest))
}

/// Reads a number; returns it and what follows. Most numbers of a record have one byte or two, and each commit reads a
/// dozen of them.
#[inline(always)]
pub(crate) fn read_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [only, rest @ ..] if *only < 0x80 => Some((u64::from(*only), rest)),
        [low, high, rest @ ..] if *high < 0x80 => {
            Some((u64::from(low & 0x7F) | u64::from(*high) << 7, rest))
        }
        _ => read_long_u64(bytes),
    }
}

fn read_long_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7F) << (7 * i);
        if byte < 0x80 {
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}

/// Reads a length; returns it and what follows.
#[inline(always)]
pub(crate) fn read_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = read_u64(bytes)?;
    Some((usize::try_from(len).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_and_one_without_end_is_refused() {
        for number in [
            0,
            1,
            0x7F,
            0x80,
            0x3FFF,
            0x4000,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            write_u64(&mut bytes, number);
            bytes.push(7);
            assert_eq!(read_u64(&bytes), Some((number, &[7][..])));
            bytes.truncate(bytes.len() - 2);
            assert_eq!(read_u64(&bytes), None, "{number} is cut");
        }
        assert_eq!(read_u64(&[0xFF; 64]), None);
    }
}
