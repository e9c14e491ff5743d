//! Ends of ranges over keys.
//!
//! Keys end by themselves, so the keys that begin with given values are exactly the keys that begin
//! with those values' bytes: a range that takes them in starts at the bytes and ends before their
//! successor, and one that leaves them out starts at it.

/// Turns `prefix` into the smallest bytes above every key that begins with it; `false`, and an empty
/// `prefix`, where there are none (it was empty or all 0xFF).
pub fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return true;
        }
        prefix.pop();
    }
    false
}

/// The smallest bytes above every key that begins with `prefix`; empty where there are none.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    successor(&mut end);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_is_above_every_extension() {
        for (prefix, end) in [
            (&[1, 2][..], &[1, 3][..]),
            (&[1, 0xFF], &[2]),
            (&[1, 0xFF, 0xFF], &[2]),
            (&[0xFF], &[]),
            (&[], &[]),
        ] {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}
