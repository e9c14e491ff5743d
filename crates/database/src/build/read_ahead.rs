//! A second thread of an index build, which gathers the next piece while the first one commits the last.
//!
//! It works only while nobody else commits (`pace`), and needs a second processor. It holds no collection: a piece
//! whose collection is another when the build holds it is gathered again. Its snapshot may lack what is committed
//! while the piece waits, as that of any piece may (`piece`).
//!
//! Leaves out capped collections, whose records go without a lock.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};

use quarry_storage::KeyRange;
use quarry_timing::{Phase, phase};

use crate::build::pace::{Offers, PieceBounds};
use crate::build::piece::{Piece, Source};
use crate::catalog::collection::Collection;
use crate::error::Result;

/// The thread, which begins with the first piece that is asked for and ends when this is dropped.
pub(super) struct ReadAhead<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    source: Source<'env>,
    thread: Option<Asked<'env>>,
    /// A piece was asked for that nobody has taken.
    is_asked: bool,
}

/// The ends of what goes to the thread and comes from it.
struct Asked<'env> {
    ask: Sender<(KeyRange, PieceBounds)>,
    /// None where the piece came to nothing; whoever gathers it again is told why.
    pieces: Receiver<Option<Piece<'env>>>,
}

impl<'scope, 'env> ReadAhead<'scope, 'env> {
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        source: Source<'env>,
    ) -> ReadAhead<'scope, 'env> {
        ReadAhead {
            scope,
            source,
            thread: None,
            is_asked: false,
        }
    }

    /// Has the first piece in `range` gathered.
    pub fn ask(&mut self, range: &KeyRange, bounds: PieceBounds) {
        debug_assert!(!self.is_asked, "one piece is ahead at most");
        if self.thread.is_none() {
            self.thread = self.begin();
        }
        if let Some(thread) = &self.thread {
            self.is_asked = thread.ask.send((range.clone(), bounds)).is_ok();
        }
    }

    /// The piece that was asked for; none if none was, or if it came to nothing.
    pub fn take(&mut self) -> Option<Piece<'env>> {
        if !std::mem::take(&mut self.is_asked) {
            return None;
        }
        let _wait = phase(Phase::EngineScan);
        self.thread.as_ref()?.pieces.recv().ok()?
    }

    fn begin(&self) -> Option<Asked<'env>> {
        let processors = thread::available_parallelism();
        if processors.map_or(1, usize::from) < 2 {
            return None;
        }
        let ((ask, asked), (ready, pieces)) = (channel(), channel());
        let source = self.source;
        let gather = move || gather_what_is_asked(source, &asked, &ready);
        let named = thread::Builder::new().name("build".into());
        named.spawn_scoped(self.scope, gather).ok()?;
        Some(Asked { ask, pieces })
    }
}

fn gather_what_is_asked<'env>(
    source: Source<'env>,
    asked: &Receiver<(KeyRange, PieceBounds)>,
    ready: &Sender<Option<Piece<'env>>>,
) {
    let mut offers = Offers::begin();
    while let Ok((range, bounds)) = asked.recv() {
        let piece = gather(source, &range, bounds, &mut offers);
        if ready.send(piece.ok().flatten()).is_err() {
            break;
        }
    }
}

fn gather<'env>(
    source: Source<'env>,
    range: &KeyRange,
    bounds: PieceBounds,
    offers: &mut Offers,
) -> Result<Option<Piece<'env>>> {
    // Before the catalog is asked: what it names is not reclaimed from here on.
    let _epoch = source.parts.reads.enter_to_write();
    let named = source.parts.catalog.get(source.namespace)?;
    // Another collection may have the name by now.
    let is_it = |found: &Arc<Collection>| range.start.starts_with(found.prefix.as_bytes());
    let Some(collection) = named.filter(is_it) else {
        return Ok(None);
    };
    Piece::gather(source, &collection, range, bounds, Some(offers)).map(Some)
}
