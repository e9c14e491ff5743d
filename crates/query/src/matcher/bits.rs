//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear`, `$bitsAnyClear`: bit positions of whole numbers (two's
//! complement, the sign continuing for ever) and of binary values (zeroes continuing for ever).

use quarry_bson::{ElementType, RawValue};

use super::type_set::{NUMBERS, type_bit};
use super::value_test::ValueTest;
use crate::error::{Error, Result};
use crate::interrupts;
use crate::sorter::sort_in_steps;

/// More positions than any mask in use; an array of positions may repeat and name far bits.
const POSITIONS_MAX: usize = 1 << 20;

/// The question that a bit test asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitsTest {
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAnySet`.
    AnySet,
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAnyClear`.
    AnyClear,
}

/// A bit test over numbers and binary data.
#[derive(Debug)]
pub(super) struct BitsPredicate {
    test: BitsTest,
    positions: Vec<u32>,
    /// The positions as a mask for numbers, those from 63 on being the sign.
    mask: u64,
}

impl BitsPredicate {
    /// Parses the operand of the operator `name`: positions, a mask, or binary data.
    pub fn parse(name: &str, test: BitsTest, operand: RawValue<'_>) -> Result<BitsPredicate> {
        let positions = match operand {
            RawValue::Array(list) => listed_positions(name, list.iter())?,
            RawValue::Binary(binary) => binary_positions(name, binary.bytes)?,
            number if number.is_number() => number_positions(name, number)?,
            other => {
                let found = other.element_type().alias();
                let text =
                    format!("{name} takes an Array, a number, or a BinData but received: {found}");
                return Err(Error::bad_value(text));
            }
        };
        let mask = positions
            .iter()
            .fold(0, |mask, position| mask | 1 << (*position).min(63));
        Ok(BitsPredicate {
            test,
            positions,
            mask,
        })
    }

    fn matches_number(&self, bits: u64) -> bool {
        match self.test {
            BitsTest::AllSet => bits & self.mask == self.mask,
            BitsTest::AnySet => bits & self.mask != 0,
            BitsTest::AllClear => bits & self.mask == 0,
            BitsTest::AnyClear => bits & self.mask != self.mask,
        }
    }

    fn matches_bytes(&self, bytes: &[u8]) -> bool {
        let is_set = |position: &u32| {
            let byte = bytes.get((position / 8) as usize).copied().unwrap_or(0);
            byte >> (position % 8) & 1 == 1
        };
        match self.test {
            BitsTest::AllSet => self.positions.iter().all(is_set),
            BitsTest::AnySet => self.positions.iter().any(is_set),
            BitsTest::AllClear => !self.positions.iter().any(is_set),
            BitsTest::AnyClear => !self.positions.iter().all(is_set),
        }
    }
}

impl ValueTest for BitsPredicate {
    /// A value that has no bits does not pass.
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        Ok(match value {
            RawValue::Binary(binary) => self.matches_bytes(binary.bytes),
            number if number.is_number() => number
                .as_i64_exact()
                .is_some_and(|bits| self.matches_number(bits as u64)),
            _ => false,
        })
    }

    fn units(&self, _: RawValue<'_>) -> usize {
        self.positions.len()
    }

    fn kept_types(&self) -> Option<u32> {
        Some(NUMBERS | type_bit(ElementType::Binary))
    }
}

fn listed_positions<'a>(name: &str, list: impl Iterator<Item = RawValue<'a>>) -> Result<Vec<u32>> {
    let mut positions = Vec::new();
    for member in list {
        let position = member
            .as_i64_exact()
            .and_then(|position| u32::try_from(position).ok());
        let Some(position) = position else {
            let text = format!("bit positions must be integers >= 0, but found {member} in {name}");
            return Err(Error::bad_value(text));
        };
        interrupts::work(1)?;
        positions.push(position);
    }
    sort_in_steps(&mut positions, u32::cmp)?;
    positions.dedup();
    Ok(positions)
}

fn binary_positions(name: &str, bytes: &[u8]) -> Result<Vec<u32>> {
    if bytes.len() * 8 > POSITIONS_MAX {
        return Err(Error::bad_value(format!(
            "the bit mask of {name} is longer than {} bytes",
            POSITIONS_MAX / 8
        )));
    }
    let is_set = |position: &u32| bytes[(position / 8) as usize] >> (position % 8) & 1 == 1;
    Ok((0..bytes.len() as u32 * 8).filter(is_set).collect())
}

fn number_positions(name: &str, number: RawValue<'_>) -> Result<Vec<u32>> {
    let Some(bits) = number.as_i64_exact() else {
        return Err(Error::failed_to_parse(format!(
            "Expected an integer: {name}: {number}"
        )));
    };
    if bits < 0 {
        return Err(Error::failed_to_parse(format!(
            "Expected a non-negative number in: {name}: {number}"
        )));
    }
    Ok((0..63)
        .filter(|position| bits >> position & 1 == 1)
        .collect())
}
