//! The operation that runs on this thread, and the pace at which its work looks whether it is to end.
//!
//! Every loop over what a client sent or stored counts its work here, in units of about ten nanoseconds: a step over
//! an element is one, a document handed from stage to stage some dozens, bytes that are copied one for each
//! `BYTES_A_UNIT`. Only when `WORK_BETWEEN_LOOKS` units are used up is the clock read, so that counting costs about a
//! nanosecond, and an operation that was killed, has run out of time or has lost its client ends within a few
//! milliseconds whatever it is doing. An ending is kept until the operation is over: code that cannot return an error
//! stops its loop when `is_over` says so, and the next `work` of its caller returns the error.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use quarry_bson::{RawArray, RawDocument, RawValue};
use quarry_database::{Operation, check_running};

use crate::Collation;
use crate::error::{Error, Result};
use crate::memory;
use crate::turns;

/// About half a millisecond. A look costs some fifty nanoseconds, and one in sixteen asks the kernel for the client.
const WORK_BETWEEN_LOOKS: u32 = 10_000;

/// Looks for one piece of work at most: by then the kernel has been asked.
const LOOKS_MAX: usize = 16;

/// The bytes that are copied or compared one by one in ten nanoseconds.
const BYTES_A_UNIT: usize = 64;

/// The bytes that are passed over in ten nanoseconds in search of a field among small ones.
const SEARCHED_BYTES_A_UNIT: usize = 16;

/// The bytes that are compared in ten nanoseconds in a value that is made of small ones.
const NESTED_BYTES_A_UNIT: usize = 8;

thread_local! {
    /// Why the operation is to end, once it is.
    static ENDING: RefCell<Option<Error>> = const { RefCell::new(None) };
    /// Whether `ENDING` says why: two looks at this one are all that most operations need.
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
    /// Units of work before the next look.
    static LEFT: Cell<u32> = const { Cell::new(WORK_BETWEEN_LOOKS) };
}

/// Until it is dropped, long work on this thread ends when the operation is killed, runs out of time or has lost its
/// client, and what it holds is counted from nothing.
#[must_use = "the operation is forgotten where it is dropped"]
pub struct InterruptGuard {
    _of_the_layers_below: quarry_database::OperationGuard,
}

/// Like `run_as`, for an operation that holds nothing that others wait for: if it turns out to be a long one, it takes turns with
/// others (`turns`).
pub fn run_in_turns(operation: Arc<Operation>) -> InterruptGuard {
    let guard = run_as(operation);
    turns::begin();
    guard
}

/// Makes the operation the one whose interrupts this thread looks at, until the guard is dropped.
pub fn run_as(operation: Arc<Operation>) -> InterruptGuard {
    begin();
    InterruptGuard {
        _of_the_layers_below: quarry_database::run_as(operation),
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        begin();
    }
}

/// Nothing was done and nothing is held.
fn begin() {
    memory::forget_all();
    turns::end();
    LEFT.set(WORK_BETWEEN_LOOKS);
    if IS_ENDING.replace(false) {
        ENDING.set(None);
    }
}

/// Counts work that was done or is about to be done. Fails when the operation is to end; without one nothing ends.
#[inline]
pub(crate) fn work(units: usize) -> Result<()> {
    match count(units) {
        true => Ok(()),
        false => check_often(units),
    }
}

/// Looks as often as work that comes in one piece would have been looked at in small ones, so that the kernel is asked for the client
/// when its turn has come.
#[cold]
fn check_often(units: usize) -> Result<()> {
    let looks = units / WORK_BETWEEN_LOOKS as usize;
    (0..=looks.min(LOOKS_MAX)).try_for_each(|_| check())
}

/// Counts the work of copying or comparing so many bytes.
#[inline]
pub(crate) fn work_on_bytes(bytes: usize) -> Result<()> {
    work(units_of_bytes(bytes))
}

/// Like `work`, for loops that cannot return an error: they stop, and their caller's next `work` says why.
#[inline]
pub(crate) fn is_over(units: usize) -> bool {
    !count(units) && check().is_err()
}

/// The element at a position. The walk there is counted before it begins.
pub(crate) fn element_at(array: RawArray<'_>, index: usize) -> Result<Option<RawValue<'_>>> {
    /// Its type, its name of at least one digit, and no value.
    const ELEMENT_BYTES_MIN: usize = 3;
    work(index.min(array.as_bytes().len() / ELEMENT_BYTES_MIN))?;
    Ok(array.get(index))
}

#[inline]
pub(crate) fn units_of_bytes(bytes: usize) -> usize {
    1 + bytes / BYTES_A_UNIT
}

/// The work of looking for a field of a document from its beginning.
#[inline]
pub(crate) fn units_of_search(document: RawDocument<'_>) -> usize {
    1 + document.len_bytes() / SEARCHED_BYTES_A_UNIT
}

/// The work of comparing or hashing a value.
#[inline]
pub(crate) fn units_of(value: RawValue<'_>) -> usize {
    match value {
        RawValue::Document(document) => 1 + document.len_bytes() / NESTED_BYTES_A_UNIT,
        RawValue::Array(array) => 1 + array.as_bytes().len() / NESTED_BYTES_A_UNIT,
        flat => units_of_bytes(memory::bytes_of(flat)),
    }
}

/// False when it is time for a look, which then is due with every call until it was taken.
#[inline]
fn count(units: usize) -> bool {
    let left = LEFT.get() as usize;
    if units < left {
        LEFT.set((left - units) as u32);
        return true;
    }
    false
}

/// Looks. Once the operation is to end each call says so, and so does each `work`. A long operation may wait here for its turn.
#[cold]
pub(crate) fn check() -> Result<()> {
    LEFT.set(WORK_BETWEEN_LOOKS);
    check_and(|| turns::look(goes_on))
}

/// Like `check`, for an operation that waits already.
#[cold]
pub(crate) fn check_waiting() -> Result<()> {
    check_and(|| Ok(()))
}

fn goes_on() -> Result<()> {
    Ok(check_running()?)
}

fn check_and(then: impl FnOnce() -> Result<()>) -> Result<()> {
    ENDING.with_borrow_mut(|ending| {
        if ending.is_none() {
            *ending = goes_on().and_then(|()| then()).err();
        }
        match ending {
            None => Ok(()),
            Some(ending) => {
                LEFT.set(0);
                IS_ENDING.set(true);
                Err(ending.clone())
            }
        }
    })
}

/// How many times the work of comparing bytes it is to make sort keys of them by the rules of a language: some 22 ns a byte. Comparing
/// takes half of that at most.
const UNITS_OF_RULES: usize = 128;

/// The work of what is so much work where strings are compared byte by byte.
#[inline]
pub(crate) fn units_collated(collation: &Collation, units: usize) -> usize {
    match collation.is_simple() {
        true => units,
        false => units.saturating_mul(UNITS_OF_RULES),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::Value;

    use super::*;

    #[test]
    fn a_walk_to_an_element_ends_when_the_operation_does() {
        const LAST: i32 = 2 * WORK_BETWEEN_LOOKS as i32;
        let array: Value = (0..=LAST).map(Value::from).collect();
        let RawValue::Array(array) = array.as_raw() else {
            panic!("an array")
        };
        let operation = Arc::new(Operation::new(None));
        let _running = run_as(Arc::clone(&operation));
        let last = element_at(array, LAST as usize).unwrap();
        assert_eq!(last, Some(RawValue::Int32(LAST)));
        operation.kill();
        assert!(element_at(array, LAST as usize).is_err());
    }
}
