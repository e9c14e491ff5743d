//! The memory that the operation on this thread holds, counted against one bound: the documents between the
//! stages of a pipeline, the rows and groups that stages keep, and every value that an expression has made and not
//! yet given up, those of variables and of arguments among them.
//!
//! Whoever holds bytes holds a `Charge` for them, and dropping the charge gives them back; the counter is the
//! thread's. What a cursor holds between two batches is counted by an `Account` of its own, which its executor
//! enters while it runs, because the next batch may be made by another thread. The counter bounds memory and is not
//! exact: what is too small to matter is left out, and a buffer counts by what was written into it.
//!
//! All operations of the process share one budget (`memory_budget`), which a thread asks when it is to hold more than it was
//! granted last. A reply is counted while it is built, by whoever builds it, and stays so when its operation has ended, until it
//! has been sent.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::mem;

use quarry_bson::RawValue;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::bounds;
use crate::interrupts;
use crate::memory_budget::{BUDGET, FREE_BYTES, STEP_BYTES as GRANT_BYTES};

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

/// A document up to this size is there before it is counted; for a larger one the budget is asked first.
const LARGE_DOCUMENT_BYTES: usize = 512 << 10;

/// The end of a reply, behind its documents, takes less than this.
const REPLY_END_BYTES: usize = 16 << 10;

/// A buffer of large documents is doubled up to this: a batch is full then.
const DOUBLED_BYTES_MAX: usize = quarry_bson::DOCUMENT_BYTES_MAX + REPLY_END_BYTES;

thread_local! {
    static LEVEL: Level = const { Level::new() };
}

/// The count of a thread.
struct Level {
    held: Cell<usize>,
    /// So much may be held without asking. What is beyond `FREE_BYTES` was taken from the budget.
    granted: Cell<usize>,
    /// The part of `held` that is a reply under construction.
    reply: Cell<usize>,
    /// The bytes of the budget that a reply holds whose operation has ended.
    kept: Cell<usize>,
}

impl Level {
    const fn new() -> Level {
        Level {
            held: Cell::new(0),
            granted: Cell::new(FREE_BYTES),
            reply: Cell::new(0),
            kept: Cell::new(0),
        }
    }

    #[inline]
    fn add(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_add(bytes));
    }

    #[inline]
    fn remove(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// Has the budget grant what is held.
    #[cold]
    fn ask(&self) -> Result<()> {
        let held = self.held.get();
        if held > OPERATION_BYTES_MAX {
            return Err(exceeded());
        }
        let granted = self.granted.get();
        let wanted = held.next_multiple_of(GRANT_BYTES);
        BUDGET.take(wanted - granted, granted, interrupts::check_waiting)?;
        self.granted.set(wanted);
        Ok(())
    }

    /// Has the budget grant `wanted` bytes in all, if they are there.
    #[cold]
    fn try_grant(&self, wanted: usize) -> bool {
        let wanted = wanted.next_multiple_of(GRANT_BYTES);
        let is_granted =
            wanted <= OPERATION_BYTES_MAX && BUDGET.try_take(wanted - self.granted.get());
        if is_granted {
            self.granted.set(wanted);
        }
        is_granted
    }

    /// Gives back to the budget what is not needed for `bytes`.
    #[cold]
    fn shrink_to(&self, bytes: usize) {
        let wanted = bytes.next_multiple_of(GRANT_BYTES).max(FREE_BYTES);
        let granted = self.granted.get();
        if wanted < granted {
            BUDGET.give_back(granted - wanted);
            self.granted.set(wanted);
        }
    }
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
        LEVEL.with(|level| level.add(bytes));
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
        self.0 += bytes;
        LEVEL.with(|level| {
            level.add(bytes);
            match level.held.get() <= level.granted.get() {
                true => Ok(()),
                false => level.ask(),
            }
        })
    }

    /// Gives a part back.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.0);
        self.0 -= bytes;
        LEVEL.with(|level| level.remove(bytes));
    }

    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    #[inline]
    fn drop(&mut self) {
        if self.0 > 0 {
            LEVEL.with(|level| level.remove(self.0));
        }
    }
}

/// Bytes with their charge: a value that was built, a document between two stages.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub bytes: Vec<u8>,
    pub charge: Charge,
}

/// Fails when the operation holds more than it may, or than is left for it.
#[inline]
pub(crate) fn check() -> Result<()> {
    LEVEL.with(|level| match level.held.get() <= level.granted.get() {
        true => Ok(()),
        false => level.ask(),
    })
}

/// Asks for what a document is about to take, if it is a large one: who waits for the budget does not hold it already.
#[inline]
pub(crate) fn check_document(bytes: usize) -> Result<()> {
    match bytes <= LARGE_DOCUMENT_BYTES {
        true => Ok(()),
        false => check_large(bytes),
    }
}

/// Whether the operation may hold so many bytes more, which are there without waiting.
#[inline]
pub(crate) fn has_room(bytes: usize) -> bool {
    LEVEL.with(|level| {
        let wanted = level.held.get().saturating_add(bytes);
        wanted <= level.granted.get() || level.try_grant(wanted)
    })
}

/// Appends a document to what may be a reply. A large one makes no more room than it needs with what follows it: a buffer that is
/// doubled is held twice while it is copied.
#[inline]
pub(crate) fn append_document(out: &mut Vec<u8>, document: &[u8]) {
    if document.len() > LARGE_DOCUMENT_BYTES {
        make_room(out, document.len());
    }
    out.extend_from_slice(document);
}

#[cold]
fn make_room(out: &mut Vec<u8>, bytes: usize) {
    let wanted = out.len() + bytes + REPLY_END_BYTES;
    if wanted > out.capacity() {
        let doubled = (2 * out.capacity()).min(DOUBLED_BYTES_MAX);
        out.reserve_exact(wanted.max(doubled) - out.len());
    }
}

/// A large document is held twice on its way: where it was read, and in the reply or the next stage's hands.
#[cold]
fn check_large(bytes: usize) -> Result<()> {
    let _held = Charge::of(2 * bytes);
    check()
}

/// Counts the reply that this thread's operation builds, as long as it is now. Fails where nothing is left for it.
pub fn check_reply(bytes: usize) -> Result<()> {
    LEVEL.with(|level| {
        level.remove(level.reply.replace(bytes));
        level.add(bytes);
        match level.held.get() <= level.granted.get() {
            true => Ok(()),
            false => level.ask(),
        }
    })
}

/// Counts a copy of a large reply of this thread, which is there already and waits with it for the client.
pub fn keep_copy(bytes: usize) {
    LEVEL.with(|level| {
        let kept = level.kept.get();
        if kept > 0 {
            BUDGET.keep_copy(bytes);
            level.kept.set(kept + bytes);
        }
    });
}

/// The reply of the last operation on this thread has been sent, or will not be. Says whether its buffer is a large one that
/// others wait for.
#[inline]
pub fn forget_reply() -> bool {
    LEVEL.with(|level| level.kept.get() > 0 && give_back_reply(level))
}

#[cold]
fn give_back_reply(level: &Level) -> bool {
    let is_wanted = BUDGET.is_wanted();
    BUDGET.give_back_reply(level.kept.replace(0));
    is_wanted
}

#[cold]
fn exceeded() -> Error {
    let text = format!("the operation would hold more than {OPERATION_BYTES_MAX} bytes in memory");
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

/// A new operation begins on this thread, or one has ended: nothing is held, but for a large reply that is to be sent.
#[inline]
pub(crate) fn forget_all() {
    LEVEL.with(|level| {
        level.held.set(0);
        match level.granted.get() > FREE_BYTES {
            true => end(level),
            // It was counted, and refused or small: the next operation's reply begins anew.
            false => level.reply.set(0),
        }
    });
}

#[cold]
fn end(level: &Level) {
    level.shrink_to(level.reply.replace(0));
    let kept = level.granted.replace(FREE_BYTES) - FREE_BYTES;
    BUDGET.keep_for_reply(kept);
    let before = level.kept.replace(kept);
    if before > 0 {
        BUDGET.give_back_reply(before);
    }
}

/// The count of what a cursor holds, kept between its batches.
#[derive(Debug)]
pub(crate) struct Account {
    held: usize,
    granted: usize,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            held: 0,
            granted: FREE_BYTES,
        }
    }
}

impl Account {
    /// Counts on from what the account holds; what the thread held meanwhile is put back by [`Account::leave`].
    #[inline]
    pub fn enter(&mut self) -> Outer {
        LEVEL.with(|level| Outer {
            held: level.held.replace(self.held),
            // Nobody gives it back twice, also where a panic comes before `leave`: then `outer` does.
            granted: level
                .granted
                .replace(mem::replace(&mut self.granted, FREE_BYTES)),
        })
    }

    #[inline]
    pub fn leave(&mut self, outer: Outer) {
        LEVEL.with(|level| {
            self.held = level.held.replace(outer.held);
            self.granted = level.granted.replace(outer.granted);
        });
        // Nothing is left to be restored.
        mem::forget(outer);
    }

    /// Gives back to the budget what is held no longer. Called within the account, where its cursor is put aside.
    #[inline]
    pub fn shrink(&self) {
        LEVEL.with(|level| {
            if level.granted.get() > FREE_BYTES {
                level.shrink_to(level.held.get());
            }
        });
    }
}

impl Drop for Account {
    #[inline]
    fn drop(&mut self) {
        if self.granted > FREE_BYTES {
            BUDGET.give_back(self.granted - FREE_BYTES);
        }
    }
}

/// The count of the thread when it entered an account. Dropped by a panic, in place of `Account::leave`, it restores that count, and
/// gives back to the budget what the account had.
#[must_use = "the account is left with it"]
pub(crate) struct Outer {
    held: usize,
    granted: usize,
}

impl Drop for Outer {
    #[cold]
    fn drop(&mut self) {
        LEVEL.with(|level| {
            level.held.set(self.held);
            let granted = level.granted.replace(self.granted);
            BUDGET.give_back(granted.saturating_sub(FREE_BYTES));
        });
    }
}

#[cfg(test)]
fn held() -> usize {
    LEVEL.with(|level| level.held.get())
}
