//! libmdbx's result codes as errors.
//!
//! Negative codes are libmdbx's own, positive ones the operating system's.

use quarry_storage::Error;

/// Makes an error of libmdbx's code and its text.
pub(crate) fn from_code(code: i32, text: String) -> Error {
    match code {
        mdbx_sys::MDBX_MAP_FULL
        | mdbx_sys::MDBX_UNABLE_EXTEND_MAPSIZE
        | libc::ENOSPC
        | libc::EDQUOT => Error::NoSpace(text),
        mdbx_sys::MDBX_CORRUPTED
        | mdbx_sys::MDBX_PAGE_NOTFOUND
        | mdbx_sys::MDBX_INVALID
        | mdbx_sys::MDBX_CURSOR_FULL
        | mdbx_sys::MDBX_PAGE_FULL
        | mdbx_sys::MDBX_WANNA_RECOVERY => Error::Corruption(text),
        mdbx_sys::MDBX_VERSION_MISMATCH | mdbx_sys::MDBX_INCOMPATIBLE => Error::Incompatible(text),
        mdbx_sys::MDBX_BUSY | mdbx_sys::MDBX_DUPLICATED_LCK | libc::EAGAIN => Error::Locked(text),
        mdbx_sys::MDBX_READERS_FULL => Error::Stalled(text),
        code if code > 0 => Error::Io(text),
        _ => Error::Engine(text),
    }
}
