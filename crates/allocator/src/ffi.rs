//! jemalloc's `mallctl` made safe: a few names, each read as the type that it has or called without a value.
//!
//! The rules kept here: a name ends with a zero byte; what is read has the size that jemalloc says it has; nothing is written but
//! the epoch, whose value jemalloc ignores.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr;

use tikv_jemalloc_sys::mallctl;

/// The figures that are read next are those of now.
pub fn renew_figures() -> Option<()> {
    let mut epoch = 1_u64;
    let bytes = size_of::<u64>();
    // SAFETY: jemalloc reads the new epoch, a `u64` that lives on this stack, and writes nothing.
    let code = unsafe {
        mallctl(
            c"epoch".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut epoch).cast::<c_void>(),
            bytes,
        )
    };
    (code == 0).then_some(())
}

/// The bytes of a page.
pub fn page_bytes() -> Option<usize> {
    read(c"arenas.page")
}

/// The free pages that stand as they were left. 4096 stands for all arenas.
pub fn dirty_pages() -> Option<usize> {
    read(c"stats.arenas.4096.pdirty")
}

/// The free pages that the kernel may take, and has not taken.
pub fn muzzy_pages() -> Option<usize> {
    read(c"stats.arenas.4096.pmuzzy")
}

/// Gives the free pages of all arenas to the kernel.
pub fn purge() {
    // SAFETY: the name ends with a zero byte, and jemalloc takes and gives no value for it.
    let _ = unsafe {
        mallctl(
            c"arena.4096.purge".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    };
}

fn read(name: &CStr) -> Option<usize> {
    let (mut value, mut bytes) = (0_usize, size_of::<usize>());
    // SAFETY: jemalloc writes at most `bytes` bytes to the value and the size that it has to `bytes`; both live on this stack.
    let code = unsafe {
        mallctl(
            name.as_ptr(),
            (&raw mut value).cast::<c_void>(),
            &raw mut bytes,
            ptr::null_mut(),
            0,
        )
    };
    (code == 0 && bytes == size_of::<usize>()).then_some(value)
}
