//! How far something is that takes long: a line on a terminal that is written over, nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BETWEEN_LINES: Duration = Duration::from_millis(200);
const MB: f64 = 1e6;

/// Bytes done of bytes to do.
pub struct Progress {
    what: &'static str,
    total_bytes: u64,
    done_bytes: u64,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub fn new(what: &'static str, total_bytes: u64) -> Progress {
        Progress {
            what,
            total_bytes,
            done_bytes: 0,
            begun: Instant::now(),
            shown: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub fn add(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        let is_due = self
            .shown
            .is_none_or(|shown| shown.elapsed() >= BETWEEN_LINES);
        if self.is_terminal && is_due {
            self.shown = Some(Instant::now());
            eprint!("\r{}\x1b[K", self.line());
            let _ = std::io::stderr().flush();
        }
    }

    /// The bytes done a second since the beginning.
    pub fn bytes_a_second(&self) -> f64 {
        self.done_bytes as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    fn line(&self) -> String {
        let rate = self.bytes_a_second();
        let left = self.total_bytes.saturating_sub(self.done_bytes) as f64;
        format!(
            "{}: {:.0} of {:.0} MB, {:.0} MB/s, {:.0} s left",
            self.what,
            self.done_bytes as f64 / MB,
            self.total_bytes as f64 / MB,
            rate / MB,
            left / rate.max(1.0),
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
