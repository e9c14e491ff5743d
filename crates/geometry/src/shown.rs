//! Values in texts of refusals: the beginning of a long one alone, because a geometry may have sixteen million bytes.

use std::fmt::{self, Display, Write};

/// The bytes of a value that a text shows at most.
const SHOWN_BYTES_MAX: usize = 1024;

/// Shows the beginning of what it holds, and `...` behind it where that is not all.
#[derive(Debug, Clone, Copy)]
pub struct Shown<T>(pub T);

/// Passes text on until there is no more room.
struct Bounded<'f, 'o> {
    out: &'f mut fmt::Formatter<'o>,
    left: usize,
}

impl Write for Bounded<'_, '_> {
    /// Fails where the text was cut, which ends the formatting.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            return self.out.write_str(text);
        }
        self.out
            .write_str(&text[..text.floor_char_boundary(self.left)])?;
        self.out.write_str("...")?;
        Err(fmt::Error)
    }
}

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bounded = Bounded {
            out,
            left: SHOWN_BYTES_MAX,
        };
        // An error says that the text was cut, which is meant.
        let _ = write!(bounded, "{}", self.0);
        Ok(())
    }
}
