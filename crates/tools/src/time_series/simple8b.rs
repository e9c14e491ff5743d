//! Words of 64 bits, each with whole numbers of one width: what is left of a column's values when the differences between neighbours are taken.
//!
//! ```text
//! bits 0 to 3   selector: the width of a slot, from which the number of slots follows
//!               1 .. 14   1 2 3 4 5 6 7 8 10 12 15 20 30 60 bits
//!               15        the number before, again: (bits 4 to 7 + 1) * 120 times
//! bits 4 to 7   with selectors 7 and 8 only: 0, or the width of a number whose zeros at the end are counted
//!               7, 1 .. 9     2 3 4 5 7 10 14 24 52 bits behind 4 bits of count
//!               8, 1 .. 7     4 5 7 10 14 24 52 bits behind 4 bits of count, in fours
//!               8, 8 .. 13    4 6 9 13 23 51 bits behind 5 bits of count, in fours
//! rest          slots, the first in the lowest bits; one of ones alone has no number
//! ```

/// The bytes of a word.
pub const WORD_BYTES: usize = 8;
const WORD_BITS: u32 = 64;
const SELECTOR_BITS: u32 = 4;
const REPEAT: u64 = 15;
const REPEATED_AT_ONCE: usize = 120;
/// The most numbers that a word stands for.
pub const NUMBERS_MAX: usize = 16 * REPEATED_AT_ONCE;

const WIDTHS: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60];
const WIDTHS_BEHIND_ZEROS: [u32; 9] = [2, 3, 4, 5, 7, 10, 14, 24, 52];
const WIDTHS_BEHIND_FOURS: [u32; 7] = [4, 5, 7, 10, 14, 24, 52];
const WIDTHS_BEHIND_MANY_FOURS: [u32; 6] = [4, 6, 9, 13, 23, 51];

/// The division of a word into slots.
struct Slots {
    /// The bits before the first.
    from: u32,
    width: u32,
    count_bits: u32,
    /// The zeros that a count of one stands for.
    zeros: u32,
}

impl Slots {
    /// The slots of a word by its selector, and by the bits behind it; none where there are no such.
    fn of(selector: u64, extension: u64) -> Option<Slots> {
        let has_extension = matches!(selector, 7 | 8);
        let at = |widths: &[u32], number: u64| {
            let index = usize::try_from(number.checked_sub(1)?).ok()?;
            widths.get(index).copied()
        };
        let (width, count_bits, zeros) = match (selector, extension) {
            (7, 1..) => (at(&WIDTHS_BEHIND_ZEROS, extension)?, 4, 1),
            (8, 1..=7) => (at(&WIDTHS_BEHIND_FOURS, extension)?, 4, 4),
            (8, 8..) => (at(&WIDTHS_BEHIND_MANY_FOURS, extension - 7)?, 5, 4),
            _ => (at(&WIDTHS, selector)?, 0, 0),
        };
        Some(Slots {
            from: if has_extension { 2 } else { 1 } * SELECTOR_BITS,
            width: width + count_bits,
            count_bits,
            zeros,
        })
    }

    /// The number of a slot; none where it has none.
    fn number(&self, slot: u64) -> Option<u128> {
        let ones = ones(self.width);
        let zeros = (slot & ones_of(self.count_bits)) * u64::from(self.zeros);
        let number = u128::from(slot >> self.count_bits);
        (slot != ones).then(|| number << zeros)
    }
}

fn ones(width: u32) -> u64 {
    u64::MAX >> (WORD_BITS - width)
}

fn ones_of(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Appends the numbers of a word, with None for each that is missing. `last` is the number before the word, and then the last of it; false where
/// the word cannot be.
pub fn unpack(word: u64, last: &mut Option<u128>, out: &mut Vec<Option<u128>>) -> bool {
    let selector = word & ones_of(SELECTOR_BITS);
    let extension = word >> SELECTOR_BITS & ones_of(SELECTOR_BITS);
    if selector == REPEAT {
        let times = (usize::from(extension as u8) + 1) * REPEATED_AT_ONCE;
        out.resize(out.len() + times, *last);
        return true;
    }
    let Some(slots) = Slots::of(selector, extension) else {
        return false;
    };
    let mut at = slots.from;
    while at + slots.width <= WORD_BITS {
        *last = slots.number(word >> at & ones(slots.width));
        out.push(*last);
        at += slots.width;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(word: u64, last: Option<u128>) -> Vec<Option<u128>> {
        let (mut last, mut out) = (last, Vec::new());
        assert!(unpack(word, &mut last, &mut out));
        out
    }

    #[test]
    fn a_word_of_one_number() {
        assert_eq!(numbers(0xE, None), [Some(0)]);
        assert_eq!(numbers(0xFFFF_FFFF_FFFF_FFFE, Some(1)), [None]);
        assert_eq!(numbers(12_345 << 4 | 14, None), [Some(12_345)]);
    }

    #[test]
    fn each_selector_has_its_slots() {
        let lens = [60, 30, 20, 15, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1];
        for (selector, len) in (1..).zip(lens) {
            assert_eq!(numbers(selector, None), vec![Some(0); len], "{selector}");
        }
        // Four slots of 15 bits: 1, none, 2, 32766.
        let word = 11 | 1 << 4 | 0x7FFF << 19 | 2 << 34 | 0x7FFE << 49;
        assert_eq!(numbers(word, None), [Some(1), None, Some(2), Some(0x7FFE)]);
        // Seven slots of 8 bits stand behind four bits of nothing.
        let word = 8 | 0x11_22_33_44_55_66_77 << 8;
        let expected = [0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11].map(Some);
        assert_eq!(numbers(word, None), expected);
    }

    #[test]
    fn zeros_at_the_end_are_counted() {
        let lens = [9, 8, 7, 6, 5, 4, 3, 2, 1];
        for (extension, len) in (1..).zip(lens) {
            assert_eq!(numbers(7 | extension << 4, None).len(), len);
        }
        for (extension, len) in (1..).zip([7, 6, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1]) {
            assert_eq!(numbers(8 | extension << 4, None).len(), len);
        }
        // 52 bits with the number 3, behind a count of 10.
        assert_eq!(
            numbers(7 | 9 << 4 | 10 << 8 | 3 << 12, None),
            [Some(3 << 10)]
        );
        // 51 bits with the number 3, behind a count of 31 fours.
        assert_eq!(
            numbers(8 | 13 << 4 | 31 << 8 | 3 << 13, None),
            [Some(3 << 124)]
        );
        assert_eq!(
            numbers(8 | 7 << 4 | 15 << 8 | 1 << 12, None),
            [Some(1 << 60)]
        );
        assert_eq!(numbers(u64::MAX << 8 | 7 | 9 << 4, None), [None]);
    }

    #[test]
    fn the_number_before_is_repeated() {
        assert_eq!(numbers(15, Some(7)), vec![Some(7); 120]);
        assert_eq!(numbers(15 | 15 << 4, None), vec![None; NUMBERS_MAX]);
        let mut last = Some(9);
        let mut out = Vec::new();
        assert!(unpack(12 | 1 << 4 | 5 << 44, &mut last, &mut out));
        assert!(unpack(15 | 1 << 4, &mut last, &mut out));
        assert_eq!(out[..3], [Some(1), Some(0), Some(5)]);
        assert_eq!(out[3..], vec![Some(5); 240]);
    }

    #[test]
    fn words_that_cannot_be_are_refused() {
        for word in [0, 7 | 10 << 4, 7 | 15 << 4, 8 | 14 << 4, 8 | 15 << 4] {
            assert!(!unpack(word, &mut None, &mut Vec::new()), "{word}");
        }
    }
}
