//! A walk through ranges of keys that goes on where it stopped, with one cursor for all of them.
//!
//! Keeps true: a key that was handed over is not handed over again, whatever was written meanwhile; no cursor is open
//! between two calls.

use quarry_database::{Cursor, KeyRange};

use super::node::{Flow, PlanContext};
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::exec::stored;

/// Ranges in key order, and the place of the walk in them.
pub struct RangeWalk {
    ranges: Vec<KeyRange>,
    is_reversed: bool,
    at: Place,
    marked: Place,
    /// Goes on at the end of a collection that grows.
    follows: bool,
}

/// Where a walk stands.
#[derive(Clone, Default)]
struct Place {
    /// Counts from the first range to be walked through.
    range: usize,
    /// Where in the range it stands; None at its beginning.
    last_key: Option<Vec<u8>>,
    is_done: bool,
}

/// Where a walk goes from a key.
pub enum Step {
    /// To the next one.
    Next,
    /// To the first one at or above these bytes; forwards only.
    Beyond(Vec<u8>),
    /// Nowhere: it ends for now.
    Stop,
}

impl From<Flow> for Step {
    #[inline]
    fn from(flow: Flow) -> Step {
        match flow {
            Flow::Continue => Step::Next,
            Flow::Stop => Step::Stop,
        }
    }
}

impl RangeWalk {
    /// A walk through ranges that ascend and share no key.
    pub fn new(ranges: Vec<KeyRange>, is_reversed: bool) -> RangeWalk {
        debug_assert!(
            ranges.is_sorted_by(|a, b| !a.end.is_empty() && a.end <= b.start),
            "ranges ascend and share no key"
        );
        RangeWalk {
            ranges,
            is_reversed,
            at: Place::default(),
            marked: Place::default(),
            follows: false,
        }
    }

    /// Has the walk know its place at the end, too, from which `resume` goes on.
    pub fn follow(&mut self) {
        self.follows = true;
    }

    pub fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// Whether one of the ranges holds the key.
    pub fn holds(&self, key: &[u8]) -> bool {
        hold(&self.ranges, key)
    }

    /// Whether it goes from the last key to the first.
    pub fn is_reversed(&self) -> bool {
        self.is_reversed
    }

    /// How explain names the direction.
    pub fn direction(&self) -> &'static str {
        match self.is_reversed {
            true => "backward",
            false => "forward",
        }
    }

    /// Whether it goes forwards through one range and ends with it, so that parts of the range can be walked through instead.
    pub fn is_splittable(&self) -> bool {
        self.ranges.len() == 1 && !self.is_reversed && !self.follows
    }

    /// The keys of its only range that it has not handed over; None at its end.
    pub fn rest(&self) -> Option<KeyRange> {
        let range = self.current_range().filter(|_| !self.at.is_done)?;
        let start = match &self.at.last_key {
            Some(last) => behind(last),
            None => range.start.clone(),
        };
        Some(KeyRange::new(start, range.end.clone()))
    }

    /// Whether it has come to its end without meeting a key.
    pub fn was_empty(&self) -> bool {
        self.at.is_done && self.at.last_key.is_none()
    }

    pub fn mark(&mut self) {
        self.marked.clone_from(&self.at);
    }

    pub fn rewind(&mut self) {
        self.at = std::mem::take(&mut self.marked);
    }

    /// Looks again behind the last key.
    pub fn resume(&mut self) {
        self.at.is_done = false;
        self.at.range = self.at.range.min(self.ranges.len().saturating_sub(1));
    }

    /// Hands over the cursor on each key until `each` stops it or there are no more; says whether there may be more.
    /// `keeps_place` has it fail where the key that it stopped at has gone.
    #[inline]
    pub fn walk(
        &mut self,
        context: &PlanContext<'_>,
        keeps_place: bool,
        mut each: impl FnMut(&dyn Cursor) -> Result<Flow>,
    ) -> Result<bool> {
        self.walk_steps(context, keeps_place, |cursor| each(cursor).map(Step::from))
    }

    /// Like `walk`, and `each` may pass over keys. The next key is looked at before a seek, which costs more.
    #[inline]
    pub fn walk_steps(
        &mut self,
        context: &PlanContext<'_>,
        keeps_place: bool,
        mut each: impl FnMut(&dyn Cursor) -> Result<Step>,
    ) -> Result<bool> {
        let Some(all) = self.outer_range() else {
            self.at.is_done = true;
            return Ok(false);
        };
        // One cursor for all ranges: making one costs more than moving it.
        let mut cursor = context.snapshot.cursor(all)?;
        // The cursor itself keeps to the only range.
        let is_only = self.ranges.len() == 1;
        let mut steps = 0;
        while !self.at.is_done {
            context.operation.step(&mut steps)?;
            let Some(range) = self.current_range() else {
                self.at.is_done = true;
                break;
            };
            self.enter(&mut *cursor, range, keeps_place)?;
            while cursor.valid() && (is_only || self.is_inside(cursor.key())) {
                debug_assert!(self.is_inside(cursor.key()), "a cursor keeps to its range");
                context.operation.step(&mut steps)?;
                let step = each(&*cursor)?;
                if matches!(step, Step::Stop) {
                    self.remember(cursor.key());
                    return Ok(true);
                }
                if self.follows {
                    self.remember(cursor.key());
                }
                match self.is_reversed {
                    true => stored(cursor.prev())?,
                    false => stored(cursor.next())?,
                }
                if let Step::Beyond(end) = step
                    && cursor.valid()
                    && cursor.key() < end.as_slice()
                {
                    debug_assert!(!self.is_reversed, "keys are passed over forwards");
                    stored(cursor.seek(&end))?;
                }
            }
            // A walk that follows keeps its place in the last range.
            if !self.follows || self.at.range + 1 < self.ranges.len() {
                self.at.last_key = None;
            }
            self.at.range += 1;
        }
        Ok(false)
    }

    /// Opens a cursor on the next key, for a walk through one range that somebody else moves; None at its end.
    pub fn open<'v>(&mut self, context: &PlanContext<'v>) -> Result<Option<Box<dyn Cursor + 'v>>> {
        let range = self.current_range().filter(|_| !self.at.is_done);
        let Some(range) = range.cloned() else {
            return Ok(None);
        };
        let mut cursor = context.snapshot.cursor(range.clone())?;
        self.enter(&mut *cursor, &range, false)?;
        let is_inside = self.check_inside(&*cursor);
        Ok(is_inside.then_some(cursor))
    }

    /// Moves a cursor that `open` gave to the next key; false, and the walk is done, if there is none in the range.
    pub fn step(&mut self, cursor: &mut dyn Cursor) -> Result<bool> {
        match self.is_reversed {
            true => stored(cursor.prev())?,
            false => stored(cursor.next())?,
        }
        Ok(self.check_inside(cursor))
    }

    fn check_inside(&mut self, cursor: &dyn Cursor) -> bool {
        self.at.is_done = !(cursor.valid() && self.is_inside(cursor.key()));
        !self.at.is_done
    }

    /// Hands over the one key that each range begins with, without a cursor.
    pub fn walk_keys(
        &mut self,
        context: &PlanContext<'_>,
        mut each: impl FnMut(&[u8]) -> Result<Flow>,
    ) -> Result<bool> {
        let mut steps = 0;
        loop {
            context.operation.step(&mut steps)?;
            let Some(range) = self.current_range() else {
                break;
            };
            let flow = each(&range.start)?;
            self.at.range += 1;
            if flow == Flow::Stop {
                return Ok(true);
            }
        }
        self.at.is_done = true;
        Ok(false)
    }

    /// From the first range to the last.
    fn outer_range(&self) -> Option<KeyRange> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        Some(KeyRange::new(first.start.clone(), last.end.clone()))
    }

    fn current_range(&self) -> Option<&KeyRange> {
        if self.is_reversed {
            let left = self.ranges.len().checked_sub(self.at.range + 1)?;
            Some(&self.ranges[left])
        } else {
            self.ranges.get(self.at.range)
        }
    }

    /// Whether the key belongs to the current range; the cursor comes from the side that the walk begins at.
    fn is_inside(&self, key: &[u8]) -> bool {
        self.current_range()
            .is_some_and(|range| match self.is_reversed {
                true => key >= range.start.as_slice(),
                false => range.end.is_empty() || key < range.end.as_slice(),
            })
    }

    /// Goes on behind this key when the walk is opened again.
    pub fn remember(&mut self, key: &[u8]) {
        let last = self.at.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
    }

    /// Goes to the first key of the range that was not handed over.
    fn enter(&self, cursor: &mut dyn Cursor, range: &KeyRange, keeps_place: bool) -> Result<()> {
        match (&self.at.last_key, self.is_reversed) {
            (None, false) => stored(cursor.seek(&range.start))?,
            (None, true) if range.end.is_empty() => stored(cursor.last())?,
            (None, true) => stored(cursor.seek_before(&range.end))?,
            (Some(last), is_reversed) => {
                if keeps_place {
                    check_place(cursor, last)?;
                }
                if is_reversed {
                    stored(cursor.seek_before(last))?;
                } else {
                    stored(cursor.seek(last))?;
                    if cursor.valid() && cursor.key() == last.as_slice() {
                        stored(cursor.next())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether one of these ranges, which ascend and share no key, holds the key.
pub fn hold(ranges: &[KeyRange], key: &[u8]) -> bool {
    let behind = ranges.partition_point(|range| range.start.as_slice() <= key);
    let last = behind.checked_sub(1).map(|at| &ranges[at]);
    last.is_some_and(|range| range.end.is_empty() || key < range.end.as_slice())
}

/// The least key above another one.
pub fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// Fails where the last key has gone. The oldest documents of a capped collection make room for new ones, and a reader that was
/// overtaken has to hear of it: what came behind its last key may be gone as well.
fn check_place(cursor: &mut dyn Cursor, last: &[u8]) -> Result<()> {
    stored(cursor.seek(last))?;
    if cursor.valid() && cursor.key() == last {
        return Ok(());
    }
    let text = "CollectionScan died due to position in capped collection being deleted";
    Err(crate::Error::new(ErrorCode::CAPPED_POSITION_LOST, text))
}
