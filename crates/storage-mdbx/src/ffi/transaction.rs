//! Transactions: how one begins and ends, and a single get.

use std::{
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::Arc,
};

use mdbx_sys::MDBX_txn;
use quarry_storage::{Error, Result};

use super::{
    Env, MAIN_TABLE, PAGE_BYTES,
    cursor::{RawCursor, ReadCursor, WriteCursor},
    value::{check, to_slice, to_val},
};

impl Env {
    /// Begins the one write transaction.
    pub(crate) fn begin_write(&self) -> Result<WriteTxn<'_>> {
        let txn = self.begin(mdbx_sys::MDBX_TXN_READWRITE)?;
        Ok(WriteTxn {
            txn: Txn(txn),
            _env: PhantomData,
        })
    }

    fn begin(&self, flags: mdbx_sys::MDBX_txn_flags_t) -> Result<NonNull<MDBX_txn>> {
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is open; `txn` is a place for one pointer; no parent, no context.
        let code = unsafe {
            mdbx_sys::mdbx_txn_begin_ex(
                self.as_ptr(),
                ptr::null_mut(),
                flags,
                &raw mut txn,
                ptr::null_mut(),
            )
        };
        check("begin a transaction", code)?;
        NonNull::new(txn).ok_or_else(|| Error::Engine("libmdbx made no transaction".into()))
    }
}

/// The pages that a commit retires while it notes which pages it has retired: of a tree of three levels, and of what it takes out there
/// of former commits.
const GC_PAGES_A_COMMIT: u64 = 6;

/// A live transaction, which aborts when dropped.
pub(super) struct Txn(NonNull<MDBX_txn>);

impl Txn {
    pub(super) fn as_ptr(&self) -> *mut MDBX_txn {
        self.0.as_ptr()
    }

    /// The figures of the transaction, without a look at the readers.
    fn info(&self) -> Result<mdbx_sys::MDBX_txn_info> {
        // SAFETY: the struct is plain numbers, for which zero is a value.
        let mut info: mdbx_sys::MDBX_txn_info = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is live; `info` is a place for its figures.
        let code = unsafe { mdbx_sys::mdbx_txn_info(self.as_ptr(), &raw mut info, false) };
        check("ask a transaction", code)?;
        Ok(info)
    }

    fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let key = to_val(key);
        let mut value = to_val(&[]);
        // SAFETY: the transaction is live; both values are valid for the call.
        let code = unsafe {
            mdbx_sys::mdbx_get(self.as_ptr(), MAIN_TABLE, &raw const key, &raw mut value)
        };
        if code == mdbx_sys::MDBX_NOTFOUND {
            return Ok(None);
        }
        check("get a value", code)?;
        // SAFETY: libmdbx pointed `value` at bytes of the map that stay until the transaction ends
        // or writes; the result borrows it.
        Ok(Some(unsafe { to_slice(&value) }))
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // SAFETY: the pointer is live; a committed transaction forgets its `Txn` instead.
        unsafe { mdbx_sys::mdbx_txn_abort_ex(self.as_ptr(), ptr::null_mut()) };
    }
}

/// A read transaction that may be reset and renewed, so that its slot and memory are reused.
pub(crate) struct ReadTxn {
    txn: Txn,
    env: Arc<Env>,
}

// SAFETY: under `MDBX_NOSTICKYTHREADS` a read transaction may move between threads; `ReadTxn` is
// not `Sync`, so no two use it at once.
unsafe impl Send for ReadTxn {}

impl ReadTxn {
    pub(crate) fn begin(env: &Arc<Env>) -> Result<Self> {
        let txn = Txn(env.begin(mdbx_sys::MDBX_TXN_RDONLY)?);
        Ok(Self {
            txn,
            env: Arc::clone(env),
        })
    }

    /// Lets go of the snapshot and keeps the handle.
    pub(crate) fn reset(&mut self) -> Result<()> {
        // SAFETY: the transaction is live and read-only; cursors borrow it and are gone.
        check("reset a transaction", unsafe {
            mdbx_sys::mdbx_txn_reset(self.txn.as_ptr())
        })
    }

    /// Takes the latest snapshot after a reset.
    pub(crate) fn renew(&mut self) -> Result<()> {
        // SAFETY: the transaction was reset.
        check("renew a transaction", unsafe {
            mdbx_sys::mdbx_txn_renew(self.txn.as_ptr())
        })
    }

    /// Another read transaction on the same commit.
    pub(crate) fn share(&mut self) -> Result<Self> {
        let mut txn = ptr::null_mut();
        // SAFETY: the transaction is live, and `&mut self` keeps every other use of it away for the call; `txn` is a place
        // for one pointer, null, so that a new transaction is made; no context.
        let code =
            unsafe { mdbx_sys::mdbx_txn_clone(self.txn.as_ptr(), &raw mut txn, ptr::null_mut()) };
        check("share a transaction", code)?;
        let txn = NonNull::new(txn);
        let txn = txn.ok_or_else(|| Error::Engine("libmdbx made no transaction".into()))?;
        Ok(Self {
            txn: Txn(txn),
            env: Arc::clone(&self.env),
        })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.txn.get(key)
    }

    pub(crate) fn cursor(&self) -> Result<ReadCursor<'_>> {
        RawCursor::bind(&self.txn).map(ReadCursor)
    }

    /// The bytes of the pages that commits have retired since its own, which it keeps.
    #[cfg(test)]
    pub(crate) fn retained_bytes(&self) -> Result<u64> {
        Ok(self.txn.info()?.txn_space_retired)
    }

    /// Roughly the bytes that keys from `start` to `end` (empty: the last) take in pages.
    pub(crate) fn estimate_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64> {
        // SAFETY: the struct is plain numbers, for which zero is a value.
        let mut stat: mdbx_sys::MDBX_stat = unsafe { std::mem::zeroed() };
        let bytes = size_of::<mdbx_sys::MDBX_stat>();
        let txn = self.txn.as_ptr();
        // SAFETY: the transaction is live; `stat` is writable for `bytes` bytes.
        let code = unsafe { mdbx_sys::mdbx_dbi_stat(txn, MAIN_TABLE, &raw mut stat, bytes) };
        check("ask the table", code)?;
        if stat.ms_entries == 0 {
            return Ok(0);
        }
        let (start, end_key) = (to_val(start), to_val(end));
        let start_or_first = if start.iov_len == 0 {
            ptr::null()
        } else {
            &raw const start
        };
        let end_or_last = if end.is_empty() {
            ptr::null()
        } else {
            &raw const end_key
        };
        let mut entries = 0;
        // SAFETY: the transaction is live; keys are valid for the call or null, which stands for
        // the first and the last; `entries` is a place for one number.
        let code = unsafe {
            mdbx_sys::mdbx_estimate_range(
                txn,
                MAIN_TABLE,
                start_or_first,
                ptr::null(),
                end_or_last,
                ptr::null(),
                &raw mut entries,
            )
        };
        check("estimate a range", code)?;
        let pages = stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
        let entry_bytes = (pages as f64) * (PAGE_BYTES as f64) / (stat.ms_entries as f64);
        Ok((entries.max(0) as f64 * entry_bytes) as u64)
    }
}

/// The write transaction; aborts unless committed.
pub(crate) struct WriteTxn<'e> {
    txn: Txn,
    _env: PhantomData<&'e Env>,
}

impl WriteTxn<'_> {
    pub(crate) fn cursor(&self) -> Result<WriteCursor<'_>> {
        RawCursor::bind(&self.txn).map(WriteCursor)
    }

    /// Commits. Returns the bytes of the pages that the latest state has no more and that older readers keep: about as many, and
    /// not fewer.
    pub(crate) fn commit(self) -> Result<u64> {
        let retired_bytes = self.retired_bytes()?;
        let Self { txn, .. } = self;
        let raw = txn.as_ptr();
        std::mem::forget(txn);
        // SAFETY: the transaction is live, its cursors are gone, and whatever the outcome libmdbx
        // frees it here; the guard that would abort it was forgotten above.
        let code = unsafe { mdbx_sys::mdbx_txn_commit_ex(raw, ptr::null_mut()) };
        if code == mdbx_sys::MDBX_RESULT_TRUE {
            return Err(Error::Engine(
                "libmdbx aborted the transaction in its commit".into(),
            ));
        }
        check("commit", code)?;
        Ok(retired_bytes + GC_PAGES_A_COMMIT * PAGE_BYTES as u64)
    }

    /// The bytes of the pages that it has replaced so far.
    fn retired_bytes(&self) -> Result<u64> {
        Ok(self.txn.info()?.txn_space_retired)
    }
}
