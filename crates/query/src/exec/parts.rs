//! The parts of a range of keys that several threads read: who reads which of them, and the rows that wait for their turn.
//!
//! Parts are handed out in the order of the keys, each only when somebody comes for it, and stand in a queue until the first thread has
//! come to them. It takes what is at the head of the queue: the rows of a part that a helper reads, or a part that was left
//! for it, whose documents it reads itself. A part that a helper is still reading when the first thread comes to it ends there: the
//! helper gives the rest back, which the first thread reads, and goes on with a part further ahead. So no thread ever waits for more than one
//! piece, and the rows that wait are bounded: whoever is too far ahead gives the rest of its part back, and waits until some are taken.
//!
//! Keeps true: the parts in the queue are neighbours, from where the first thread stands to where the frontier is; the documents of each
//! are in rows once, or read by the first thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_database::{CollectionSnapshot, KeyRange, ThreadWork};

use super::key_line::KeyLine;
use crate::error::Result;
use crate::pipeline::GroupRows;

/// The bytes of rows that may wait, beside those of one piece for each helper: whoever hands in more gives the rest of its part back.
pub(super) const WAITING_BYTES_MAX: usize = 8 << 20;
/// Who waits looks as often whether it is to end.
const WAIT: Duration = Duration::from_millis(5);

/// Rows of some documents, and how many of these were looked at and matched.
pub(super) struct Piece {
    pub rows: GroupRows,
    pub docs_examined: u64,
    pub returned: u64,
}

/// The parts of one range.
pub(super) struct Parts {
    line: KeyLine,
    end: Vec<u8>,
    part_documents: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The parts that were handed out and not taken yet, in the order of their keys.
    queue: VecDeque<Queued>,
    /// The number of the first one in the queue.
    first_number: u64,
    /// Where the next part begins; none once all are handed out, and while somebody looks where that part ends.
    frontier: Option<Vec<u8>>,
    is_claiming: bool,
    /// How long on the line a part is, as the ones before it tell.
    distance: u128,
    /// About how many documents are in parts that nobody has read yet.
    left: u64,
    held_bytes: usize,
    helpers: usize,
    /// The first thread wants no more.
    is_over: bool,
    /// A helper has panicked.
    is_broken: bool,
    /// The work that helpers have asked of the engine.
    work: ThreadWork,
}

enum Queued {
    /// Left for the first thread.
    Free(KeyRange),
    /// Read by a helper.
    Taken(Taken),
}

#[derive(Default)]
struct Taken {
    pieces: VecDeque<Piece>,
    /// The first thread waits for it.
    is_wanted: bool,
    is_done: bool,
    /// The keys that the helper has not read when it was done.
    rest: Option<KeyRange>,
}

/// A part that a helper is to read.
pub(super) struct Claimed {
    pub number: u64,
    pub range: KeyRange,
}

/// The next thing that the first thread does.
pub(super) enum Next {
    /// It reads these keys, which are a part.
    Read(KeyRange),
    /// It reads these keys, which a helper has left of a part.
    ReadRest(KeyRange),
    /// Like `Read`, and nobody reads anything beside it any more.
    ReadAlone(KeyRange),
    /// It takes these rows.
    Take(Piece),
    /// Everything was read.
    End,
}

impl Parts {
    /// The parts of the rest of a range from `frontier` on, which is a key of the line. About so many documents are `left`, and
    /// `part_documents` is what a part is to have.
    pub fn new(
        line: KeyLine,
        (frontier, end): (Vec<u8>, Vec<u8>),
        distance: u128,
        (left, part_documents): (u64, u64),
        helpers: usize,
    ) -> Parts {
        Parts {
            line,
            end,
            part_documents,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                first_number: 0,
                frontier: Some(frontier),
                is_claiming: false,
                distance,
                left,
                held_bytes: 0,
                helpers,
                is_over: false,
                is_broken: false,
                work: ThreadWork::default(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, WAIT);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
    }

    /// The next part for a helper, which waits while too many rows wait. None where there are no more, or `goes_on` says no.
    pub fn claim(
        &self,
        snapshot: &CollectionSnapshot,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<Claimed>> {
        let mut state = self.lock();
        loop {
            if state.is_over || (state.frontier.is_none() && !state.is_claiming) {
                return Ok(None);
            }
            // So far below the bound a part of common rows is read to its end.
            if !state.is_claiming && state.held_bytes <= WAITING_BYTES_MAX / 2 {
                break;
            }
            drop(state);
            if !goes_on() {
                return Ok(None);
            }
            state = self.wait(self.lock());
        }
        // The first thread is not to come to an end of the queue, unless it has rows enough to take.
        let is_free = |part: &Queued| matches!(part, Queued::Free(_));
        let leaves_one =
            !state.queue.iter().any(is_free) && state.held_bytes <= WAITING_BYTES_MAX / 4;
        let (mut state, parts) = self.advance(state, snapshot, 1 + usize::from(leaves_one))?;
        let mut parts = parts.into_iter();
        let mut range = parts.next();
        if let Some(next) = parts.next() {
            state.queue.extend(range.replace(next).map(Queued::Free));
        }
        let claimed = range.map(|range| {
            let number = state.first_number + state.queue.len() as u64;
            state.queue.push_back(Queued::Taken(Taken::default()));
            Claimed { number, range }
        });
        drop(state);
        self.changed.notify_all();
        Ok(claimed)
    }

    /// Moves the frontier over so many parts, which are returned; fewer where the end comes before. The keys are looked for without the
    /// lock.
    fn advance<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        snapshot: &CollectionSnapshot,
        count: usize,
    ) -> Result<(MutexGuard<'s, State>, Vec<KeyRange>)> {
        let Some(mut from) = state.frontier.take() else {
            return Ok((state, Vec::new()));
        };
        let (learnt, parts_left) = (state.distance, state.left / self.part_documents.max(1));
        state.is_claiming = true;
        drop(state);
        let (mut parts, mut frontier, mut failed) = (Vec::with_capacity(count), None, None);
        for _ in 0..count {
            // Keys may be denser from here on than they were: numbers that take a byte more are. No part has more than its share of what is
            // left of the line.
            let distance = learnt.min(self.line.part(&from, parts_left));
            let ends_at = self.line.key_beyond(snapshot, &from, distance);
            match ends_at {
                Ok(Some(key)) => {
                    parts.push(KeyRange::new(from, key.clone()));
                    (from, frontier) = (key.clone(), Some(key));
                }
                Ok(None) => {
                    parts.push(KeyRange::new(from, self.end.clone()));
                    frontier = None;
                    break;
                }
                Err(error) => {
                    (frontier, failed) = (Some(from), Some(error));
                    break;
                }
            }
        }
        let mut state = self.lock();
        state.is_claiming = false;
        state.frontier = frontier;
        match failed {
            // A part that was found before it stays with whoever asks for it.
            Some(error) if parts.is_empty() => {
                drop(state);
                self.changed.notify_all();
                Err(error)
            }
            _ => Ok((state, parts)),
        }
    }

    /// Hands in rows of a part. Says whether the helper goes on with it.
    pub fn hand_in(&self, number: u64, piece: Piece) -> bool {
        let mut state = self.lock();
        state.held_bytes += piece.rows.held_bytes();
        let is_enough = state.is_over || state.held_bytes > WAITING_BYTES_MAX;
        let Some(part) = state.taken(number) else {
            return false;
        };
        part.pieces.push_back(piece);
        let goes_on = !part.is_wanted && !is_enough;
        drop(state);
        self.changed.notify_all();
        goes_on
    }

    /// The helper has done what it does of a part: all of it, or all but `rest`.
    pub fn finish(&self, number: u64, documents: u64, rest: Option<KeyRange>, work: ThreadWork) {
        let mut state = self.lock();
        state.work.add(work);
        state.left = state.left.saturating_sub(documents);
        if rest.is_none() || documents > self.part_documents {
            state.learn(documents, self.part_documents);
        }
        if let Some(part) = state.taken(number) {
            part.is_done = true;
            part.rest = rest;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The first thread has read so many documents of a part by itself.
    pub fn learn(&self, documents: u64) {
        let mut state = self.lock();
        state.left = state.left.saturating_sub(documents);
        state.learn(documents, self.part_documents);
    }

    /// A helper has ended.
    pub fn leave(&self, has_panicked: bool) {
        let mut state = self.lock();
        state.helpers -= 1;
        state.is_broken |= has_panicked;
        drop(state);
        self.changed.notify_all();
    }

    /// Has the helpers end.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Takes what the helpers have asked of the engine.
    pub fn take_work(&self) -> ThreadWork {
        std::mem::take(&mut self.lock().work)
    }

    /// Says what the first thread does next. Where it waits for a helper, it asks `check` now and then. None where a helper has panicked.
    pub fn next(
        &self,
        snapshot: &CollectionSnapshot,
        check: impl Fn() -> Result<()>,
    ) -> Result<Option<Next>> {
        let mut state = self.lock();
        loop {
            if state.is_broken {
                return Ok(None);
            }
            if let Some(next) = state.head() {
                drop(state);
                self.changed.notify_all();
                return Ok(Some(next));
            }
            if state.queue.is_empty() && !state.is_claiming {
                return self.read_next(state, snapshot).map(Some);
            }
            drop(state);
            check()?;
            state = self.wait(self.lock());
        }
    }

    /// The next part, for the first thread: no helper has one.
    fn read_next(
        &self,
        mut state: MutexGuard<'_, State>,
        snapshot: &CollectionSnapshot,
    ) -> Result<Next> {
        if state.helpers == 0 {
            let rest = state.frontier.take();
            return Ok(rest.map_or(Next::End, |from| {
                Next::ReadAlone(KeyRange::new(from, self.end.clone()))
            }));
        }
        let (state, parts) = self.advance(state, snapshot, 1)?;
        drop(state);
        self.changed.notify_all();
        Ok(parts.into_iter().next().map_or(Next::End, Next::Read))
    }
}

impl State {
    fn taken(&mut self, number: u64) -> Option<&mut Taken> {
        let place = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        match self.queue.get_mut(place) {
            Some(Queued::Taken(taken)) => Some(taken),
            _ => None,
        }
    }

    /// Takes what can be had of the head of the queue now.
    fn head(&mut self) -> Option<Next> {
        loop {
            match self.queue.front_mut()? {
                Queued::Free(range) => {
                    let range = std::mem::take(range);
                    self.pop();
                    return Some(Next::Read(range));
                }
                Queued::Taken(taken) => {
                    if let Some(piece) = taken.pieces.pop_front() {
                        self.held_bytes -= piece.rows.held_bytes();
                        return Some(Next::Take(piece));
                    }
                    if !taken.is_done {
                        taken.is_wanted = true;
                        return None;
                    }
                    let rest = taken.rest.take();
                    self.pop();
                    if let Some(rest) = rest {
                        return Some(Next::ReadRest(rest));
                    }
                }
            }
        }
    }

    fn pop(&mut self) {
        self.queue.pop_front();
        self.first_number += 1;
    }

    /// A part had so many documents: the next ones are longer or shorter where that was few or many.
    fn learn(&mut self, documents: u64, wanted: u64) {
        if documents < wanted / 2 {
            self.distance =
                self.distance
                    .saturating_mul(if documents < wanted / 8 { 4 } else { 2 });
        } else if documents > wanted * 2 {
            self.distance = (self.distance / if documents > wanted * 8 { 4 } else { 2 }).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};
    use quarry_database::{Database, Level, Namespace, Operation};

    use super::*;
    use crate::exec::{InsertRequest, insert};

    const DOCUMENTS: u64 = 20_000;
    const PART: u64 = 64;

    /// Documents with these numbers as their `_id`s.
    fn collection(numbers: impl Iterator<Item = i64>) -> (Database, Namespace) {
        let database = Database::open_in_memory().unwrap();
        let namespace = Namespace::parse("db.c").unwrap();
        let documents: Vec<Document> = numbers.map(|number| doc! { "_id": number }).collect();
        let documents: Vec<_> = documents.iter().map(Document::as_raw).collect();
        let request = InsertRequest::new(&namespace, &documents);
        let inserted = insert(
            (&database).into(),
            &Operation::default(),
            request,
            Level::Written,
        );
        assert!(inserted.unwrap().errors.is_empty());
        (database, namespace)
    }

    /// The parts of a whole collection, for one helper.
    fn parts(snapshot: &CollectionSnapshot) -> Parts {
        let prefix = &snapshot.collection.prefix;
        let whole = KeyRange::new(prefix.as_bytes(), prefix.end());
        let line = KeyLine::of(snapshot, &whole).unwrap().unwrap();
        let distance = line.part(line.first(), DOCUMENTS / PART);
        let keys = (line.first().to_vec(), whole.end);
        Parts::new(line, keys, distance, (DOCUMENTS, PART), 1)
    }

    /// The lengths of all parts, read one after the other.
    fn lengths(snapshot: &CollectionSnapshot) -> Vec<u64> {
        let parts = parts(snapshot);
        let mut lengths = Vec::new();
        loop {
            let (state, ranges) = parts.advance(parts.lock(), snapshot, 1).unwrap();
            drop(state);
            let Some(range) = ranges.into_iter().next() else {
                return lengths;
            };
            let mut cursor = snapshot.cursor(range).unwrap();
            cursor.first().unwrap();
            let mut length = 0;
            while cursor.valid() {
                length += 1;
                cursor.next().unwrap();
            }
            parts.learn(length);
            lengths.push(length);
        }
    }

    #[test]
    fn a_helper_that_is_too_far_ahead_gives_the_rest_of_its_part_back() {
        let (database, namespace) = collection(0..DOCUMENTS as i64);
        let snapshot = database.snapshot(&namespace).unwrap().unwrap();
        let parts = parts(&snapshot);
        let claimed = parts.claim(&snapshot, || true).unwrap().unwrap();
        let piece = || Piece {
            rows: GroupRows::of_bytes(WAITING_BYTES_MAX / 4),
            docs_examined: 1,
            returned: 1,
        };
        let mut handed_in = 1;
        while parts.hand_in(claimed.number, piece()) {
            handed_in += 1;
        }
        assert_eq!(handed_in, 4);
        let rest = Some(claimed.range);
        parts.finish(claimed.number, handed_in, rest, ThreadWork::default());
        // It waits before it has another one, which this one does for no time at all.
        assert!(parts.claim(&snapshot, || false).unwrap().is_none());
        let (mut taken, mut rests) = (0, 0);
        while rests == 0 {
            match parts.next(&snapshot, || Ok(())).unwrap().unwrap() {
                Next::Take(_) => taken += 1,
                Next::ReadRest(_) => rests += 1,
                Next::Read(_) | Next::ReadAlone(_) | Next::End => {}
            }
        }
        assert_eq!(taken, 4);
        assert!(parts.claim(&snapshot, || false).unwrap().is_some());
    }

    #[test]
    fn keys_that_become_denser_still_make_many_parts() {
        // Some have a byte, and nearly all have two.
        let (database, namespace) = collection(0..DOCUMENTS as i64);
        let snapshot = database.snapshot(&namespace).unwrap().unwrap();
        let lengths = lengths(&snapshot);
        assert_eq!(lengths.iter().sum::<u64>(), DOCUMENTS);
        let longest = lengths.iter().max().copied().unwrap_or_default();
        assert!(longest <= 8 * PART, "{lengths:?}");
    }
}
