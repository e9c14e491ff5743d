//! The beginning of a long text, without the rest ever being made: what a client sends may be 48 MB, and its text several times
//! as long.

use std::fmt::{self, Display, Write};

/// The text of `shown`, or its first `bytes_max` bytes at most.
pub fn beginning_of(shown: &impl Display, bytes_max: usize) -> String {
    let mut text = Beginning {
        text: String::new(),
        bytes_max,
    };
    // It fails where the text is full, which ends the writing.
    let _ = write!(text, "{shown}");
    text.text
}

struct Beginning {
    text: String,
    bytes_max: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let left = self.bytes_max - self.text.len();
        if part.len() <= left {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..part.floor_char_boundary(left)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text without an end.
    struct Endless;

    impl Display for Endless {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                out.write_str("\u{e9}")?;
            }
        }
    }

    #[test]
    fn nothing_is_made_behind_the_beginning() {
        assert_eq!(beginning_of(&Endless, 5), "\u{e9}\u{e9}");
        assert_eq!(beginning_of(&"short", 5), "short");
        assert_eq!(beginning_of(&"longer", 5), "longe");
    }
}
