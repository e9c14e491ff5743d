//! The bare loops: libmdbx's C interface with nothing between.
//!
//! The environment has the engine's own geometry and flags, so that both sides do the same work.

#![allow(unsafe_code)]

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path, ptr, time::Instant};

use mdbx_sys::{MDBX_cursor, MDBX_env, MDBX_txn, MDBX_val};
use quarry_storage_mdbx::{Options, SyncMode};

const MAIN_TABLE: mdbx_sys::MDBX_dbi = 1;
const PAGE_BYTES: isize = 4_096;
const NEVER_SYNC_BYTES: u64 = 1 << 42;

type Entries = [(String, String)];

/// Seconds for one transaction of `mdbx_put`.
pub fn put_round(sync_mode: SyncMode, entries: &Entries) -> f64 {
    round(sync_mode, |txn| {
        for (key, value) in entries {
            let (key, mut value) = (val(key), val(value));
            // SAFETY: the transaction is live, both values are valid for the call.
            let code = unsafe {
                mdbx_sys::mdbx_put(
                    txn,
                    MAIN_TABLE,
                    &raw const key,
                    &raw mut value,
                    mdbx_sys::MDBX_UPSERT,
                )
            };
            assert_eq!(code, 0);
        }
    })
}

/// Seconds for one transaction of `mdbx_cursor_put`.
pub fn cursor_round(sync_mode: SyncMode, entries: &Entries) -> f64 {
    round(sync_mode, |txn| {
        // SAFETY: the context is libmdbx's to ignore.
        let cursor: *mut MDBX_cursor = unsafe { mdbx_sys::mdbx_cursor_create(ptr::null_mut()) };
        // SAFETY: the transaction and the cursor are live.
        assert_eq!(
            unsafe { mdbx_sys::mdbx_cursor_bind(txn, cursor, MAIN_TABLE) },
            0
        );
        for (key, value) in entries {
            let (key, mut value) = (val(key), val(value));
            // SAFETY: the cursor is bound to a live transaction, both values are valid for the call.
            let code = unsafe {
                mdbx_sys::mdbx_cursor_put(
                    cursor,
                    &raw const key,
                    &raw mut value,
                    mdbx_sys::MDBX_UPSERT,
                )
            };
            assert_eq!(code, 0);
        }
        // SAFETY: the cursor is live and used no more.
        unsafe { mdbx_sys::mdbx_cursor_close(cursor) };
    })
}

fn round(sync_mode: SyncMode, puts: impl FnOnce(*mut MDBX_txn)) -> f64 {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let env = open(directory.path(), sync_mode);
    let start = Instant::now();
    let mut txn = ptr::null_mut();
    // SAFETY: the environment is open, `txn` is a place for one pointer.
    let code = unsafe {
        mdbx_sys::mdbx_txn_begin_ex(
            env,
            ptr::null_mut(),
            mdbx_sys::MDBX_TXN_READWRITE,
            &raw mut txn,
            ptr::null_mut(),
        )
    };
    assert_eq!(code, 0);
    puts(txn);
    // SAFETY: the transaction is live and used no more.
    assert_eq!(
        unsafe { mdbx_sys::mdbx_txn_commit_ex(txn, ptr::null_mut()) },
        0
    );
    let seconds = start.elapsed().as_secs_f64();
    // SAFETY: the environment is open, its transaction is over.
    assert_eq!(unsafe { mdbx_sys::mdbx_env_close_ex(env, true) }, 0);
    seconds
}

fn open(directory: &Path, sync_mode: SyncMode) -> *mut MDBX_env {
    let options = Options::default();
    let mut env = ptr::null_mut();
    // SAFETY: `env` is a place for one pointer.
    assert_eq!(unsafe { mdbx_sys::mdbx_env_create(&raw mut env) }, 0);
    let (size_max, growth) = (
        options.size_bytes_max as isize,
        options.growth_bytes as isize,
    );
    // SAFETY: the environment is created and not yet open.
    let code = unsafe {
        mdbx_sys::mdbx_env_set_geometry(env, -1, -1, size_max, growth, 2 * growth, PAGE_BYTES)
    };
    assert_eq!(code, 0);
    let path =
        CString::new(directory.as_os_str().as_bytes()).expect("a temporary path holds no NUL");
    let mode = match sync_mode {
        SyncMode::Durable => mdbx_sys::MDBX_SYNC_DURABLE,
        SyncMode::NoMetaSync => mdbx_sys::MDBX_NOMETASYNC,
        SyncMode::SafeNoSync => mdbx_sys::MDBX_SAFE_NOSYNC,
        SyncMode::UtterlyNoSync => mdbx_sys::MDBX_UTTERLY_NOSYNC,
    };
    let flags = mdbx_sys::MDBX_NOSTICKYTHREADS
        | mdbx_sys::MDBX_EXCLUSIVE
        | mdbx_sys::MDBX_LIFORECLAIM
        | mode;
    // SAFETY: the environment is created and not yet open; the path ends in NUL.
    assert_eq!(
        unsafe { mdbx_sys::mdbx_env_open(env, path.as_ptr(), flags, 0o600) },
        0
    );
    // SAFETY: the environment is open.
    let code = unsafe {
        mdbx_sys::mdbx_env_set_option(env, mdbx_sys::MDBX_opt_sync_bytes, NEVER_SYNC_BYTES)
    };
    assert_eq!(code, 0);
    env
}

fn val(text: &str) -> MDBX_val {
    MDBX_val {
        iov_base: text.as_ptr().cast_mut().cast(),
        iov_len: text.len(),
    }
}
