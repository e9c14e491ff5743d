//! The pace of an index build: how large its pieces are, and when it offers its processor to others.
//!
//! A piece keeps its records locked while it is committed, and other commits wait for its own. So pieces are small while anybody
//! else commits. They grow while nobody does: what is done once a piece is done less often, and the engine finds the place of
//! a key next to that of its neighbour, of which a larger piece has more.
//!
//! A build that works without a pause would have its processor for a whole slice of the kernel, up to four milliseconds, in
//! which a thread of another client that wakes there waits. It offers the processor ten thousand times a second instead, where it
//! has no lock; an offer that nobody takes costs half a microsecond.

use std::thread;
use std::time::{Duration, Instant};

/// The bounds of a piece while others commit.
const DOCUMENTS: usize = 256;
const ENTRIES: usize = 2048;
/// Pieces grow once nobody else has committed beside this many, and double this often.
const QUIET_PIECES: u32 = 3;
const DOUBLINGS_MAX: u32 = 3;
/// The processor is offered again after so long.
const OFFERED_EVERY: Duration = Duration::from_micros(100);
/// The clock is read once for so many documents.
const DOCUMENTS_A_LOOK: u32 = 16;

/// A piece ends behind the document that reaches one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceBounds {
    pub documents: usize,
    pub entries: usize,
}

/// The pieces of a build so far, and who else commits beside them.
#[derive(Default)]
pub(super) struct Pace {
    /// The LSN up to which everything was applied when the build looked last, or that of its own last commit.
    seen: Option<u64>,
    /// Pieces in a row beside which nobody else has committed.
    quiet: u32,
}

impl Pace {
    /// The bounds of the next piece, where everything up to `applied` is applied.
    pub fn next_piece(&mut self, applied: u64) -> PieceBounds {
        self.quiet = match self.seen == Some(applied) {
            true => self.quiet.saturating_add(1),
            false => 0,
        };
        self.seen = Some(applied);
        bounds(self.quiet)
    }

    /// The build has committed a piece.
    pub fn committed(&mut self, lsn: u64) {
        self.seen = Some(lsn);
    }

    /// The bounds of the piece after the next one, if that may be made on another processor meanwhile: nobody else commits.
    pub fn piece_ahead(&self) -> Option<PieceBounds> {
        (self.quiet >= QUIET_PIECES).then(|| bounds(self.quiet.saturating_add(1)))
    }
}

fn bounds(quiet: u32) -> PieceBounds {
    let doublings = quiet.saturating_sub(QUIET_PIECES).min(DOUBLINGS_MAX);
    PieceBounds {
        documents: DOCUMENTS << doublings,
        entries: ENTRIES << doublings,
    }
}

/// The offers of one thread, which has no lock where it makes them.
pub(super) struct Offers {
    last: Instant,
    /// Documents since the last look at the clock.
    documents: u32,
}

impl Offers {
    pub fn begin() -> Offers {
        Offers {
            last: Instant::now(),
            documents: 0,
        }
    }

    /// Lets whoever is ready to run go first.
    pub fn offer(&mut self) {
        thread::yield_now();
        self.last = Instant::now();
    }

    /// A document was worked on.
    #[inline]
    pub fn step(&mut self) {
        self.documents += 1;
        if self.documents >= DOCUMENTS_A_LOOK {
            self.documents = 0;
            if self.last.elapsed() >= OFFERED_EVERY {
                self.offer();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_while_nobody_else_commits_and_are_small_again_at_once() {
        let mut pace = Pace::default();
        let mut lsn = 40;
        let mut ahead = None;
        let mut piece = |others: u64| {
            lsn += others;
            let bounds = pace.next_piece(lsn);
            assert_eq!(bounds.entries, bounds.documents * 8);
            if others == 0 && ahead.is_some() {
                assert_eq!(
                    ahead,
                    Some(bounds),
                    "what was made ahead has the same bounds"
                );
            }
            ahead = pace.piece_ahead();
            lsn += 1;
            pace.committed(lsn);
            bounds.documents
        };
        let quiet: Vec<usize> = (0..9).map(|_| piece(0)).collect();
        assert_eq!(quiet, [256, 256, 256, 256, 512, 1024, 2048, 2048, 2048]);
        assert_eq!(piece(1), 256);
        assert_eq!(piece(0), 256);
    }

    #[test]
    fn nothing_is_made_ahead_beside_others() {
        let mut pace = Pace::default();
        for lsn in 40..50 {
            pace.next_piece(lsn);
            assert_eq!(pace.piece_ahead(), None);
        }
        // A build that has nothing to commit is alone as well.
        let last = (0..7).map(|_| pace.next_piece(49).documents).last();
        assert_eq!(last, Some(2048));
        assert!(pace.piece_ahead().is_some());
    }
}
