//! How far a long piece of work of an operation has come, for those who list operations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A piece of work of which somebody knows how much it is.
#[derive(Debug)]
pub struct Progress {
    /// The work in MongoDB's words.
    pub name: &'static str,
    total: u64,
    done: AtomicU64,
}

impl Progress {
    pub(crate) fn new(name: &'static str, total: u64) -> Progress {
        Progress {
            name,
            total,
            done: AtomicU64::new(0),
        }
    }

    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Relaxed);
    }

    /// The steps that were taken. There may be more of them than were expected.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// The steps that were expected when the work began.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The work with so many steps done: `name: 46/50 92%`.
    pub fn text(&self, done: u64) -> String {
        let (name, total) = (self.name, self.total);
        match done.saturating_mul(100).checked_div(total) {
            Some(percent) => format!("{name}: {done}/{total} {percent}%"),
            None => format!("{name}: {done}/{total}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_mongodb_writes_it() {
        let progress = Progress::new("Index Build: scanning collection", 50);
        progress.advance(40);
        progress.advance(6);
        assert_eq!(
            progress.text(progress.done()),
            "Index Build: scanning collection: 46/50 92%"
        );
        assert_eq!(Progress::new("x", 0).text(0), "x: 0/0");
    }
}
