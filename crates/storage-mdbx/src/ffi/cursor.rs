//! Cursors: moved and read within any transaction, written through within the write transaction.

use std::{
    marker::PhantomData,
    ptr::{self, NonNull},
};

use mdbx_sys::{MDBX_cursor, MDBX_val};
use quarry_storage::{Error, Result};

use super::{
    MAIN_TABLE,
    transaction::Txn,
    value::{check, to_slice, to_val},
};

/// Where a cursor is sent.
#[derive(Clone, Copy)]
pub(crate) enum Move<'k> {
    First,
    Last,
    Next,
    Prev,
    AtLeast(&'k [u8]),
    Above(&'k [u8]),
    AtMost(&'k [u8]),
    Below(&'k [u8]),
}

/// A key and its value.
pub(crate) type Entry<'b> = (&'b [u8], &'b [u8]);

/// A cursor within a transaction.
pub(super) struct RawCursor<'t> {
    cursor: NonNull<MDBX_cursor>,
    _txn: PhantomData<&'t Txn>,
}

impl<'t> RawCursor<'t> {
    pub(super) fn bind(txn: &'t Txn) -> Result<Self> {
        // SAFETY: the context is libmdbx's to ignore.
        let cursor = unsafe { mdbx_sys::mdbx_cursor_create(ptr::null_mut()) };
        let cursor =
            NonNull::new(cursor).ok_or_else(|| Error::Engine("libmdbx made no cursor".into()))?;
        let cursor = Self {
            cursor,
            _txn: PhantomData,
        };
        // SAFETY: the transaction is live and outlives the cursor, which borrows it.
        check("bind a cursor", unsafe {
            mdbx_sys::mdbx_cursor_bind(txn.as_ptr(), cursor.as_ptr(), MAIN_TABLE)
        })?;
        Ok(cursor)
    }

    /// Moves and gives the entry there; whoever owns the cursor knows how long its bytes last.
    fn go(&mut self, to: Move<'_>) -> Result<Option<(MDBX_val, MDBX_val)>> {
        let (op, key) = match to {
            Move::First => (mdbx_sys::MDBX_FIRST, &[][..]),
            Move::Last => (mdbx_sys::MDBX_LAST, &[][..]),
            Move::Next => (mdbx_sys::MDBX_NEXT, &[][..]),
            Move::Prev => (mdbx_sys::MDBX_PREV, &[][..]),
            Move::AtLeast(key) => (mdbx_sys::MDBX_SET_RANGE, key),
            Move::Above(key) => (mdbx_sys::MDBX_TO_KEY_GREATER_THAN, key),
            Move::AtMost(key) => (mdbx_sys::MDBX_TO_KEY_LESSER_OR_EQUAL, key),
            Move::Below(key) => (mdbx_sys::MDBX_TO_KEY_LESSER_THAN, key),
        };
        let mut key = to_val(key);
        let mut value = to_val(&[]);
        // SAFETY: the cursor is bound to a live transaction; both values are valid for the call.
        let code =
            unsafe { mdbx_sys::mdbx_cursor_get(self.as_ptr(), &raw mut key, &raw mut value, op) };
        match code {
            mdbx_sys::MDBX_NOTFOUND | mdbx_sys::MDBX_ENODATA => Ok(None),
            code => check("move a cursor", code).map(|()| Some((key, value))),
        }
    }

    fn as_ptr(&self) -> *mut MDBX_cursor {
        self.cursor.as_ptr()
    }
}

impl Drop for RawCursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer is live, and so is the transaction it is bound to.
        unsafe { mdbx_sys::mdbx_cursor_close(self.as_ptr()) };
    }
}

/// A cursor within a read transaction, whose bytes never change.
pub(crate) struct ReadCursor<'t>(pub(super) RawCursor<'t>);

impl<'t> ReadCursor<'t> {
    pub(crate) fn read(&mut self, to: Move<'_>) -> Result<Option<Entry<'t>>> {
        let Some((key, value)) = self.0.go(to)? else {
            return Ok(None);
        };
        // SAFETY: a read transaction's pages stay mapped and unchanged until it is reset or ends,
        // which needs a unique borrow of it while `'t` borrows it.
        let key = unsafe { to_slice(&key) };
        // SAFETY: as above.
        let value = unsafe { to_slice(&value) };
        Ok(Some((key, value)))
    }
}

/// A cursor within the write transaction. It is the only one of its transaction.
pub(crate) struct WriteCursor<'t>(pub(super) RawCursor<'t>);

impl WriteCursor<'_> {
    /// Moves; the bytes last until the cursor is used again.
    pub(crate) fn read(&mut self, to: Move<'_>) -> Result<Option<Entry<'_>>> {
        let Some((key, value)) = self.0.go(to)? else {
            return Ok(None);
        };
        // SAFETY: pages of the transaction stay until its next change, and every change goes
        // through a unique borrow of this cursor.
        let key = unsafe { to_slice(&key) };
        // SAFETY: as above.
        let value = unsafe { to_slice(&value) };
        Ok(Some((key, value)))
    }

    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = to_val(key);
        let mut value = to_val(value);
        // SAFETY: the cursor is bound to a live write transaction; libmdbx copies both values and
        // does not write through them without `MDBX_RESERVE`.
        let code = unsafe {
            mdbx_sys::mdbx_cursor_put(
                self.0.as_ptr(),
                &raw const key,
                &raw mut value,
                mdbx_sys::MDBX_UPSERT,
            )
        };
        check("put a value", code)
    }

    /// Deletes the entry of a key, if there is one.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut key = to_val(key);
        let mut value = to_val(&[]);
        // SAFETY: the cursor is bound to a live write transaction; both values are valid for the call.
        let code = unsafe {
            mdbx_sys::mdbx_cursor_get(
                self.0.as_ptr(),
                &raw mut key,
                &raw mut value,
                mdbx_sys::MDBX_SET,
            )
        };
        if code == mdbx_sys::MDBX_NOTFOUND {
            return Ok(());
        }
        check("find a key", code)?;
        self.delete_here()
    }

    /// Deletes the entry under the cursor.
    pub(crate) fn delete_here(&mut self) -> Result<()> {
        // SAFETY: the cursor is bound to a live write transaction.
        check("delete a value", unsafe {
            mdbx_sys::mdbx_cursor_del(self.0.as_ptr(), mdbx_sys::MDBX_UPSERT)
        })
    }
}
