//! The memory that the operation on this thread holds, counted against one bound: the documents between the
//! stages of a pipeline, the rows and groups that stages keep, and every value that an expression has made and not
//! yet given up, those of variables and of arguments among them.
//!
//! Whoever holds bytes holds a `Charge` for them, and dropping the charge gives them back; the counter is the
//! thread's. What a cursor holds between two batches is counted by an `Account` of its own, which its executor
//! enters while it runs, because the next batch may be made by another thread. The counter bounds memory and is not
//! exact: what is too small to matter is left out, and a buffer counts by what was written into it.

#[cfg(test)]
mod tests;

use std::cell::Cell;

use quarry_bson::RawValue;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::bounds;
use crate::interrupts;

/// The memory that one operation may hold. MongoDB bounds each stage by 100 MB (`MEMORY_BYTES_MAX` here) and has no bound for
/// all; this one leaves room for two such stages, or for one and the largest values on their way through.
/// Tests cross it with less.
pub const OPERATION_BYTES_MAX: usize = if cfg!(test) {
    4 * 1024 * 1024
} else {
    256 * 1024 * 1024
};

/// Values up to this size are not charged: an expression holds few of them at a time.
const BYTES_FREE: usize = 256;

/// The first step in which a growing value is charged.
const STEP_BYTES: usize = 4096;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that are held until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge(usize);

impl Charge {
    /// Charges without looking at the bound: for a value that is there already. [`check`] looks later.
    #[inline]
    pub fn of(bytes: usize) -> Charge {
        if bytes <= BYTES_FREE {
            return Charge(0);
        }
        HELD.set(HELD.get().saturating_add(bytes));
        Charge(bytes)
    }

    /// Charges a value under construction, which is so many bytes long or about to be, in steps that double. Fails where
    /// it outgrows `VALUE_BYTES_MAX` or all that is held outgrows its bound. Counts the work of writing, too.
    #[inline]
    pub fn cover(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.0 {
            return Ok(());
        }
        self.cover_more(bytes)
    }

    #[cold]
    fn cover_more(&mut self, bytes: usize) -> Result<()> {
        bounds::check_bytes(bytes)?;
        let wanted = bytes.max(self.0 * 2).max(STEP_BYTES);
        interrupts::work_on_bytes(bytes)?;
        self.grow(wanted - self.0)
    }

    /// Charges more, for a table or a list.
    #[inline]
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        HELD.set(HELD.get().saturating_add(bytes));
        self.0 += bytes;
        check()
    }

    /// Gives a part back.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.0);
        self.0 -= bytes;
        HELD.set(HELD.get().saturating_sub(bytes));
    }

    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if self.0 > 0 {
            HELD.set(HELD.get().saturating_sub(self.0));
        }
    }
}

/// Bytes with their charge: a value that was built, a document between two stages.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub bytes: Vec<u8>,
    pub charge: Charge,
}

/// Fails when the operation holds more than it may.
#[inline]
pub(crate) fn check() -> Result<()> {
    if HELD.get() <= OPERATION_BYTES_MAX {
        Ok(())
    } else {
        Err(exceeded())
    }
}

#[cold]
fn exceeded() -> Error {
    let text = format!(
        "the operation would hold more than {OPERATION_BYTES_MAX} bytes in memory, and spilling to disk is not supported"
    );
    Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, text)
}

/// The bytes that a value takes in a document, without its type and its name.
#[inline]
pub(crate) fn bytes_of(value: RawValue<'_>) -> usize {
    match value {
        RawValue::Document(document) => document.len_bytes(),
        RawValue::Array(array) => array.as_bytes().len(),
        RawValue::String(text) | RawValue::Symbol(text) | RawValue::JavaScript(text) => {
            text.as_bytes().len()
        }
        RawValue::Binary(binary) => binary.bytes.len(),
        RawValue::Regex(regex) => regex.pattern.as_bytes().len() + regex.options.as_bytes().len(),
        RawValue::DbPointer(pointer) => pointer.namespace.as_bytes().len() + SCALAR_BYTES_MAX,
        RawValue::JavaScriptWithScope(code) => code.code.as_bytes().len() + code.scope.len_bytes(),
        RawValue::Double(_)
        | RawValue::Undefined
        | RawValue::ObjectId(_)
        | RawValue::Boolean(_)
        | RawValue::DateTime(_)
        | RawValue::Null
        | RawValue::Int32(_)
        | RawValue::Timestamp(_)
        | RawValue::Int64(_)
        | RawValue::Decimal128(_)
        | RawValue::MinKey
        | RawValue::MaxKey => SCALAR_BYTES_MAX,
    }
}

const SCALAR_BYTES_MAX: usize = 16;

/// A new operation begins on this thread, or one has ended: nothing is held.
pub(crate) fn forget_all() {
    HELD.set(0);
}

/// The count of what a cursor holds, kept between its batches.
#[derive(Debug, Default)]
pub(crate) struct Account(usize);

impl Account {
    /// Counts on from what the account holds; what the thread held meanwhile is put back by [`Account::leave`].
    pub fn enter(&mut self) -> Outer {
        Outer(HELD.replace(self.0))
    }

    pub fn leave(&mut self, outer: Outer) {
        self.0 = HELD.replace(outer.0);
    }
}

/// The count of the thread when it entered an account.
#[must_use = "the account is left with it"]
pub(crate) struct Outer(usize);
