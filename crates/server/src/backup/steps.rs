//! Bytes in steps of a tenth of a millisecond of work, before each of which a copy offers its processor to whoever is ready to run.
//!
//! A thread of the server that wakes on a processor on which a copy works may wait for the kernel's tick, up to four milliseconds, even where
//! the copy has the lowest priority. An offer that nobody takes costs half a microsecond.

use std::io::{self, Read};
use std::thread;

/// The bytes that are read, hashed or written in about a tenth of a millisecond.
const STEP_BYTES: usize = 128 << 10;

/// The bytes in steps.
pub fn steps(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(STEP_BYTES).inspect(|_| thread::yield_now())
}

/// Reads `bytes_max` bytes in steps, or what there is, and appends them; how many there were.
pub fn read(from: &mut impl Read, bytes_max: usize, to: &mut Vec<u8>) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes_max {
        thread::yield_now();
        let wanted = STEP_BYTES.min(bytes_max - read);
        let found = Read::take(&mut *from, wanted as u64).read_to_end(to)?;
        read += found;
        if found < wanted {
            break;
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_all_of_the_bytes_and_no_more_than_were_asked_for() {
        let bytes: Vec<u8> = (0..2 * STEP_BYTES + 3).map(|at| at as u8).collect();
        assert_eq!(steps(&bytes).count(), 3);
        assert_eq!(steps(&bytes).collect::<Vec<_>>().concat(), bytes);
        for (asked, found) in [
            (0, 0),
            (5, 5),
            (STEP_BYTES, STEP_BYTES),
            (bytes.len(), bytes.len()),
            (usize::MAX, bytes.len()),
        ] {
            let mut read_bytes = b"before".to_vec();
            assert_eq!(read(&mut &*bytes, asked, &mut read_bytes).unwrap(), found);
            assert_eq!(read_bytes, [&b"before"[..], &bytes[..found]].concat());
        }
    }
}
