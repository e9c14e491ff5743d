//! Panics of a library as errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Does the work; a panic is an error with its message, and nothing is printed of it. What the work has touched is not to be used after one.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                before(info);
            }
        }));
    });
    let was_caught = IS_CAUGHT.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    done.map_err(|said| {
        let text = said.downcast_ref::<&str>().copied();
        let text = text.or_else(|| said.downcast_ref::<String>().map(String::as_str));
        format!(
            "it cannot be read: {}",
            text.unwrap_or("the library gave up")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(caught(|| 1), Ok(1));
        let none: Vec<u8> = Vec::new();
        assert!(
            caught(|| none[none.len()])
                .unwrap_err()
                .contains("index out of bounds")
        );
        assert!(!IS_CAUGHT.get());
    }
}
