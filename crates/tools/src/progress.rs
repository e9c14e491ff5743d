//! How far something is that takes long: a line on a terminal that is written over, nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const BETWEEN_LINES: Duration = Duration::from_millis(200);
const MB: f64 = 1e6;
/// Characters of the bar.
const BAR_LEN: usize = 20;

/// Work done of work to do, counted by any number of threads.
pub struct Progress {
    what: String,
    unit: Unit,
    total: Option<u64>,
    begun: Instant,
    is_terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: u64,
    documents: u64,
    shown: Option<Instant>,
}

/// The measure of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Documents,
}

impl Progress {
    /// Counts bytes; the total may be unknown.
    pub fn of_bytes(what: impl Into<String>, total: Option<u64>) -> Progress {
        Progress::new(what.into(), Unit::Bytes, total)
    }

    /// Counts documents; the total may be unknown.
    pub fn of_documents(what: impl Into<String>, total: Option<u64>) -> Progress {
        Progress::new(what.into(), Unit::Documents, total)
    }

    fn new(what: String, unit: Unit, total: Option<u64>) -> Progress {
        Progress {
            what,
            unit,
            total,
            begun: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            state: Mutex::default(),
        }
    }

    /// Counts work that is done: bytes and documents, of which one is the unit.
    pub fn add(&self, bytes: u64, documents: u64) {
        let mut state = self.state();
        state.done += match self.unit {
            Unit::Bytes => bytes,
            Unit::Documents => documents,
        };
        state.documents += documents;
        let is_due = state
            .shown
            .is_none_or(|shown| shown.elapsed() >= BETWEEN_LINES);
        if self.is_terminal && is_due {
            state.shown = Some(Instant::now());
            eprint!("\r{}\x1b[K", self.line(&state, self.begun.elapsed()));
            let _ = std::io::stderr().flush();
        }
    }

    /// Units done a second since the beginning.
    pub fn rate(&self) -> f64 {
        let done = self.state().done;
        done as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A count is whole at any moment, whoever panicked.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn line(&self, state: &State, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let rate = state.done as f64 / seconds;
        let shown = |units: f64| match self.unit {
            Unit::Bytes => format!("{:.0} MB", units / MB),
            Unit::Documents => format!("{units:.0} documents"),
        };
        let mut line = format!("{}: ", self.what);
        match self.total.filter(|total| *total > 0) {
            Some(total) => {
                let share = (state.done as f64 / total as f64).min(1.0);
                let full = (share * BAR_LEN as f64) as usize;
                let bar = "#".repeat(full) + &"-".repeat(BAR_LEN - full);
                let left = total.saturating_sub(state.done) as f64 / rate.max(1e-9);
                line += &format!(
                    "[{bar}] {:.0} %, {} of {}, {}/s, {} left",
                    share * 100.0,
                    shown(state.done as f64),
                    shown(total as f64),
                    shown(rate),
                    time(left)
                );
            }
            None => line += &format!("{}, {}/s", shown(state.done as f64), shown(rate)),
        }
        if self.unit == Unit::Bytes && state.documents > 0 {
            line += &format!(", {} documents", state.documents);
        }
        line
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", (seconds / 3600.0).min(9999.0)),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.state().shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_remaining_time() {
        let progress = Progress::of_bytes("import", Some(100_000_000));
        let state = State {
            done: 25_000_000,
            documents: 1000,
            shown: None,
        };
        assert_eq!(
            progress.line(&state, Duration::from_secs(5)),
            "import: [#####---------------] 25 %, 25 MB of 100 MB, 5 MB/s, 15 s left, 1000 documents"
        );
        let unknown = Progress::of_documents("dump", None);
        let state = State {
            done: 30,
            documents: 30,
            shown: None,
        };
        assert_eq!(
            unknown.line(&state, Duration::from_secs(3)),
            "dump: 30 documents, 10 documents/s"
        );
    }
}
