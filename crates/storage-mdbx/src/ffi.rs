//! libmdbx's C interface made safe: an environment, its transactions and cursors.
//!
//! The rules kept here: a transaction lives within its environment (an `Arc`, or a borrow, beside
//! it), a cursor within its transaction (a borrow), bytes within the transaction that found them (a
//! borrow of it). The environment is opened with `MDBX_NOSTICKYTHREADS`, which frees transactions
//! from the thread that began them; none is used by two threads at once because none is `Sync`.
//! There is one write transaction at a time: [`Env`]'s owner holds a lock over it.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    marker::PhantomData,
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
    path::Path,
    ptr::{self, NonNull},
    sync::Arc,
};

use mdbx_sys::{MDBX_cursor, MDBX_env, MDBX_txn, MDBX_val};
use quarry_storage::{Error, KEY_BYTES_MAX, Result};

use crate::{Options, SyncMode, failure::from_code};

/// Bytes of a page; it fixes the longest key at [`KEY_BYTES_MAX`].
pub(crate) const PAGE_BYTES: usize = 4_096;
const FILE_MODE: mdbx_sys::mdbx_mode_t = 0o600;
/// libmdbx's unnamed table, the only one used.
const MAIN_TABLE: mdbx_sys::MDBX_dbi = 1;
/// So many unsynced bytes that libmdbx never makes a steady point by itself: with no threshold at
/// all it makes one whenever the file would have to grow, behind the journal's back.
const NEVER_SYNC_BYTES: u64 = 1 << 42;

/// Nor does the file shrink by itself, which takes a steady point as well.
const NEVER_SHRINK: isize = 0;

/// An open environment; closed without a sync when the last owner goes.
pub(crate) struct Env {
    env: NonNull<MDBX_env>,
}

// SAFETY: libmdbx documents an environment as usable from all threads of a process.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

/// What the environment says about itself.
pub(crate) struct EnvInfo {
    pub(crate) is_steady: bool,
    pub(crate) file_bytes: u64,
    pub(crate) unsynced_bytes: u64,
}

impl Env {
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Self> {
        // SAFETY: no logger is given, so libmdbx keeps its own, which from here on speaks only before
        // it ends the process.
        unsafe {
            mdbx_sys::mdbx_setup_debug(
                mdbx_sys::MDBX_LOG_FATAL,
                mdbx_sys::MDBX_DBG_DONTCHANGE,
                None,
            )
        };
        let mut env = ptr::null_mut();
        // SAFETY: `env` is a place for one pointer, which libmdbx fills in on success.
        check("create an environment", unsafe {
            mdbx_sys::mdbx_env_create(&raw mut env)
        })?;
        let env =
            NonNull::new(env).ok_or_else(|| Error::Engine("libmdbx made no environment".into()))?;
        let env = Self { env };
        env.configure(options)?;
        let path = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| Error::Io("a directory's name holds a NUL byte".into()))?;
        let flags = mdbx_sys::MDBX_NOSTICKYTHREADS
            | mdbx_sys::MDBX_EXCLUSIVE
            | mdbx_sys::MDBX_LIFORECLAIM
            | sync_flags(options.sync_mode);
        // SAFETY: the environment is created and not yet open; `path` ends in NUL and outlives the call.
        let code =
            unsafe { mdbx_sys::mdbx_env_open(env.as_ptr(), path.as_ptr(), flags, FILE_MODE) };
        check(&format!("open `{}`", directory.display()), code)?;
        env.set_option(mdbx_sys::MDBX_opt_sync_bytes, NEVER_SYNC_BYTES)?;
        env.set_option(mdbx_sys::MDBX_opt_sync_period, 0)?;
        env.check_key_limit()?;
        Ok(env)
    }

    fn configure(&self, options: &Options) -> Result<()> {
        self.set_option(
            mdbx_sys::MDBX_opt_max_readers,
            u64::from(options.readers_max),
        )?;
        let size_max = options.size_bytes_max as isize;
        let growth = options.growth_bytes as isize;
        // SAFETY: the environment is created and not yet open; sizes are plain numbers that
        // libmdbx checks.
        let code = unsafe {
            mdbx_sys::mdbx_env_set_geometry(
                self.as_ptr(),
                -1,
                -1,
                size_max,
                growth,
                NEVER_SHRINK,
                PAGE_BYTES as isize,
            )
        };
        check("set the geometry", code)
    }

    fn set_option(&self, option: mdbx_sys::MDBX_option_t, value: u64) -> Result<()> {
        // SAFETY: the environment is created; the option is one of libmdbx's own numbers.
        check("set an option", unsafe {
            mdbx_sys::mdbx_env_set_option(self.as_ptr(), option, value)
        })
    }

    /// A file made with another page size would take shorter or longer keys.
    fn check_key_limit(&self) -> Result<()> {
        // SAFETY: the environment is open.
        let key_bytes = unsafe {
            mdbx_sys::mdbx_env_get_maxkeysize_ex(self.as_ptr(), mdbx_sys::MDBX_DB_DEFAULTS)
        };
        if key_bytes >= KEY_BYTES_MAX as i32 {
            return Ok(());
        }
        Err(Error::Incompatible(format!(
            "the file takes keys of {key_bytes} bytes, {KEY_BYTES_MAX} are needed"
        )))
    }

    /// Makes everything committed durable: a steady point.
    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        let code = unsafe { mdbx_sys::mdbx_env_sync_ex(self.as_ptr(), true, false) };
        if code == mdbx_sys::MDBX_RESULT_TRUE {
            return Ok(());
        }
        check("make a steady point", code)
    }

    /// Writes the file's dirty pages without making a steady point.
    pub(crate) fn sync_pages(&self) -> Result<()> {
        let mut fd = -1;
        // SAFETY: the environment is open; `fd` is a place for one descriptor.
        check("find the file", unsafe {
            mdbx_sys::mdbx_env_get_fd(self.as_ptr(), &raw mut fd)
        })?;
        // SAFETY: libmdbx keeps the descriptor open as long as the environment, which `self` borrows.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::fs::fdatasync(file).map_err(|error| Error::from(std::io::Error::from(error)))
    }

    pub(crate) fn info(&self) -> Result<EnvInfo> {
        // SAFETY: the struct is plain numbers, for which zero is a value.
        let mut info: mdbx_sys::MDBX_envinfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<mdbx_sys::MDBX_envinfo>();
        // SAFETY: the environment is open; `info` is writable for `bytes` bytes; no transaction is given.
        let code =
            unsafe { mdbx_sys::mdbx_env_info_ex(self.as_ptr(), ptr::null(), &raw mut info, bytes) };
        check("ask the environment", code)?;
        Ok(EnvInfo {
            is_steady: info.mi_unsync_volume == 0 && has_steady_meta(&info),
            file_bytes: info.mi_geo.current,
            unsynced_bytes: info.mi_unsync_volume,
        })
    }

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

    fn as_ptr(&self) -> *mut MDBX_env {
        self.env.as_ptr()
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: the pointer is live and every transaction is gone: each owns or borrows this.
        unsafe { mdbx_sys::mdbx_env_close_ex(self.as_ptr(), true) };
    }
}

/// A live transaction, which aborts when dropped.
struct Txn(NonNull<MDBX_txn>);

impl Txn {
    fn as_ptr(&self) -> *mut MDBX_txn {
        self.0.as_ptr()
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
    _env: Arc<Env>,
}

// SAFETY: under `MDBX_NOSTICKYTHREADS` a read transaction may move between threads; `ReadTxn` is
// not `Sync`, so no two use it at once.
unsafe impl Send for ReadTxn {}

impl ReadTxn {
    pub(crate) fn begin(env: &Arc<Env>) -> Result<Self> {
        let txn = Txn(env.begin(mdbx_sys::MDBX_TXN_RDONLY)?);
        Ok(Self {
            txn,
            _env: Arc::clone(env),
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

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.txn.get(key)
    }

    pub(crate) fn cursor(&self) -> Result<ReadCursor<'_>> {
        RawCursor::bind(&self.txn).map(ReadCursor)
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

    pub(crate) fn commit(self) -> Result<()> {
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
        check("commit", code)
    }
}

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
struct RawCursor<'t> {
    cursor: NonNull<MDBX_cursor>,
    _txn: PhantomData<&'t Txn>,
}

impl<'t> RawCursor<'t> {
    fn bind(txn: &'t Txn) -> Result<Self> {
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
pub(crate) struct ReadCursor<'t>(RawCursor<'t>);

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
pub(crate) struct WriteCursor<'t>(RawCursor<'t>);

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

fn sync_flags(mode: SyncMode) -> mdbx_sys::MDBX_env_flags_t {
    match mode {
        SyncMode::Durable => mdbx_sys::MDBX_SYNC_DURABLE,
        SyncMode::NoMetaSync => mdbx_sys::MDBX_NOMETASYNC,
        SyncMode::SafeNoSync => mdbx_sys::MDBX_SAFE_NOSYNC,
        SyncMode::UtterlyNoSync => mdbx_sys::MDBX_UTTERLY_NOSYNC,
    }
}

/// Whether the newest meta page carries the sign of a steady point: weak ones carry 0 or 1.
fn has_steady_meta(info: &mdbx_sys::MDBX_envinfo) -> bool {
    let newest = (0..3).filter(|&at| info.mi_meta_txnid[at] == info.mi_recent_txnid);
    newest.map(|at| info.mi_meta_sign[at]).any(|sign| sign > 1)
}

fn to_val(bytes: &[u8]) -> MDBX_val {
    MDBX_val {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// # Safety
///
/// libmdbx filled `val` in, and its bytes stay unchanged for `'a`.
unsafe fn to_slice<'a>(val: &MDBX_val) -> &'a [u8] {
    if val.iov_len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for pointer, length and lifetime.
    unsafe { std::slice::from_raw_parts(val.iov_base.cast(), val.iov_len) }
}

#[inline]
fn check(what: &str, code: i32) -> Result<()> {
    if code == mdbx_sys::MDBX_SUCCESS {
        Ok(())
    } else {
        Err(failed(what, code))
    }
}

#[cold]
fn failed(what: &str, code: i32) -> Error {
    const TEXT_BYTES: usize = 512;
    let mut text = [0 as libc::c_char; TEXT_BYTES];
    // SAFETY: `text` is writable for its length; the result is `text` or a constant, or null.
    let message = unsafe { mdbx_sys::mdbx_strerror_r(code, text.as_mut_ptr(), TEXT_BYTES) };
    let message = if message.is_null() {
        "unknown".into()
    } else {
        // SAFETY: libmdbx ends its messages in NUL, within the buffer or a constant.
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    from_code(
        code,
        format!("libmdbx could not {what}: {message} ({code})"),
    )
}
