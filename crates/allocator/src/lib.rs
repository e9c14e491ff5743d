//! The free pages that jemalloc keeps of the process, and how it is told to give them to the kernel.
//!
//! jemalloc keeps pages that were freed for some seconds, because they are likely to be wanted again. They are memory of the
//! process all the same: whoever bounds that has to know how much it is, and to take it back when the bound is near.
//!
//! It is a crate of its own because jemalloc's controls are called here, in `ffi.rs`, and nowhere else, and because whoever links it
//! has jemalloc for its malloc: of the server only the binaries.
#![warn(missing_docs)]

mod ffi;

/// The bytes of pages that are free and that the kernel does not have back yet, which takes some microseconds to learn. None where
/// jemalloc does not say.
pub fn kept_bytes() -> Option<usize> {
    ffi::renew_figures()?;
    let pages = ffi::dirty_pages()?.checked_add(ffi::muzzy_pages()?)?;
    pages.checked_mul(ffi::page_bytes()?)
}

/// Gives the kernel all pages that are free.
pub fn purge() {
    ffi::purge();
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 20;

    #[test]
    fn what_is_freed_is_kept_until_it_is_given_back() {
        purge();
        let before = kept_bytes().unwrap();
        let written = vec![1_u8; BYTES];
        assert_eq!(written[BYTES - 1], 1);
        assert!(kept_bytes().unwrap() < before + BYTES / 2);
        drop(written);
        assert!(kept_bytes().unwrap() >= before + BYTES / 2);
        purge();
        assert!(kept_bytes().unwrap() < before + BYTES / 2);
    }
}
