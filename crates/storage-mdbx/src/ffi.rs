//! libmdbx's C interface made safe: an environment, its transactions and cursors.
//!
//! The rules kept here: a transaction lives within its environment (an `Arc`, or a borrow, beside
//! it), a cursor within its transaction (a borrow), bytes within the transaction that found them (a
//! borrow of it). The environment is opened with `MDBX_NOSTICKYTHREADS`, which frees transactions
//! from the thread that began them; none is used by two threads at once because none is `Sync`.
//! There is one write transaction at a time: [`Env`]'s owner holds a lock over it.

#![allow(unsafe_code)]

mod cursor;
mod recovery;
mod transaction;
mod value;

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
};

use mdbx_sys::MDBX_env;
use quarry_storage::{Error, KEY_BYTES_MAX, Result};

use self::value::check;
pub(crate) use self::{
    cursor::{Entry, Move, ReadCursor},
    transaction::{ReadTxn, WriteTxn},
};
use crate::{Options, SyncMode};

/// Bytes of a page; it fixes the longest key at [`KEY_BYTES_MAX`].
pub(crate) const PAGE_BYTES: usize = 4_096;
const FILE_MODE: mdbx_sys::mdbx_mode_t = 0o600;
/// libmdbx's unnamed table, the only one used.
const MAIN_TABLE: mdbx_sys::MDBX_dbi = 1;
/// A threshold of unsynced bytes that is never reached, so that libmdbx makes no steady point by itself: with no threshold at
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

/// Figures of the environment, from `mdbx_env_info_ex`.
pub(crate) struct EnvInfo {
    /// The newest commit is one that the file is sure to hold.
    pub(crate) is_steady: bool,
    pub(crate) file_bytes: u64,
    pub(crate) unsynced_bytes: u64,
}

impl Env {
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Self> {
        let env = Self::create(options)?;
        let path = path_of(directory)?;
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

    /// Created and configured, not yet open.
    fn create(options: &Options) -> Result<Self> {
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

    /// Writes the last commit into a new file; there it is a steady point. The file is not synced.
    pub(crate) fn copy_to(&self, file: &Path) -> Result<()> {
        let path = path_of(file)?;
        // SAFETY: the environment is open, and needs no thread of its own for the transaction that this call begins and ends;
        // `path` ends in NUL and outlives the call.
        let code = unsafe {
            mdbx_sys::mdbx_env_copy(self.as_ptr(), path.as_ptr(), mdbx_sys::MDBX_CP_DONT_FLUSH)
        };
        check(&format!("copy into `{}`", file.display()), code)
    }

    /// Writes the file's dirty pages without making a steady point.
    pub(crate) fn sync_pages(&self) -> Result<()> {
        let synced = rustix::fs::fdatasync(self.file()?);
        synced.map_err(|error| Error::from(std::io::Error::from(error)))
    }

    pub(crate) fn info(&self) -> Result<EnvInfo> {
        let info = self.raw_info()?;
        Ok(EnvInfo {
            is_steady: has_steady_head(&info),
            file_bytes: info.mi_geo.current,
            unsynced_bytes: info.mi_unsync_volume,
        })
    }

    fn raw_info(&self) -> Result<mdbx_sys::MDBX_envinfo> {
        // SAFETY: the struct is plain numbers, for which zero is a value.
        let mut info: mdbx_sys::MDBX_envinfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<mdbx_sys::MDBX_envinfo>();
        // SAFETY: the environment is open; `info` is writable for `bytes` bytes; no transaction is given.
        let code =
            unsafe { mdbx_sys::mdbx_env_info_ex(self.as_ptr(), ptr::null(), &raw mut info, bytes) };
        check("ask the environment", code)?;
        Ok(info)
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

fn sync_flags(mode: SyncMode) -> mdbx_sys::MDBX_env_flags_t {
    match mode {
        SyncMode::Durable => mdbx_sys::MDBX_SYNC_DURABLE,
        SyncMode::NoMetaSync => mdbx_sys::MDBX_NOMETASYNC,
        SyncMode::SafeNoSync => mdbx_sys::MDBX_SAFE_NOSYNC,
        SyncMode::UtterlyNoSync => mdbx_sys::MDBX_UTTERLY_NOSYNC,
    }
}

fn path_of(directory: &Path) -> Result<CString> {
    CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| Error::Io("a directory's name holds a NUL byte".into()))
}

/// Whether the newest meta page is a steady point.
fn has_steady_head(info: &mdbx_sys::MDBX_envinfo) -> bool {
    let mut newest = (0..3).filter(|&at| info.mi_meta_txnid[at] == info.mi_recent_txnid);
    newest.any(|at| is_steady_sign(info.mi_meta_sign[at]))
}

/// The sign of a steady point; weak meta pages carry 0 or 1.
fn is_steady_sign(sign: u64) -> bool {
    sign > 1
}

/// Syncs of an environment that fail until they are mended.
#[cfg(test)]
pub(crate) struct BrokenSyncs<'e> {
    env: &'e Env,
    file: std::os::fd::OwnedFd,
}

#[cfg(test)]
impl Env {
    /// Puts a pipe, which cannot be synced, where the file's descriptor is.
    pub(crate) fn break_syncs(&self) -> BrokenSyncs<'_> {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let file = rustix::io::dup(self.file().unwrap()).unwrap();
        self.put_in_place_of_the_file(&pipe);
        BrokenSyncs { env: self, file }
    }

    fn put_in_place_of_the_file(&self, other: &std::os::fd::OwnedFd) {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        let place = self.file().unwrap().as_raw_fd();
        // SAFETY: libmdbx owns the descriptor and closes it later: this owner of it is never dropped.
        let mut place = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(place) });
        rustix::io::dup2(other, &mut place).unwrap();
    }
}

#[cfg(test)]
impl BrokenSyncs<'_> {
    pub(crate) fn mend(self) {
        self.env.put_in_place_of_the_file(&self.file);
    }
}
