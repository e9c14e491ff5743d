//! Bytes and result codes on their way through the interface.

use std::ffi::CStr;

use mdbx_sys::MDBX_val;
use quarry_storage::{Error, Result};

use crate::failure::from_code;

pub(super) fn to_val(bytes: &[u8]) -> MDBX_val {
    MDBX_val {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// # Safety
///
/// libmdbx filled `val` in, and its bytes stay unchanged for `'a`.
pub(super) unsafe fn to_slice<'a>(val: &MDBX_val) -> &'a [u8] {
    if val.iov_len == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for pointer, length and lifetime.
    unsafe { std::slice::from_raw_parts(val.iov_base.cast(), val.iov_len) }
}

#[inline]
pub(super) fn check(what: &str, code: i32) -> Result<()> {
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
