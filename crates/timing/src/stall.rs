//! The causes of stalls, by number: an operation notes the number, a reader asks for the text.
//!
//! Engines have a handful of causes; should one make up new texts, those beyond a bound share a number.

use std::sync::{Mutex, PoisonError};

const CAUSES_MAX: usize = 32;

static CAUSES: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());

/// The number of a cause, never 0.
pub fn stall_cause(text: &str) -> u64 {
    let mut causes = CAUSES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = causes.iter().position(|cause| **cause == *text);
    let place = known.unwrap_or_else(|| {
        if causes.len() < CAUSES_MAX {
            causes.push(text.into());
        }
        causes.len() - 1
    });
    place as u64 + 1
}

/// The text of a cause.
#[must_use]
pub fn stall_cause_text(number: u64) -> Option<String> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    let causes = CAUSES.lock().unwrap_or_else(PoisonError::into_inner);
    causes.get(place).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_keeps_its_number_and_there_are_not_many() {
        let first = stall_cause("level 0 is full");
        for number in 0..2 * CAUSES_MAX {
            assert!(stall_cause(&format!("cause {number}")) as usize <= CAUSES_MAX);
        }
        assert_eq!(stall_cause("level 0 is full"), first);
        assert_eq!(stall_cause_text(first).as_deref(), Some("level 0 is full"));
        assert_eq!(stall_cause_text(0), None);
    }
}
