//! One walk over a document for the names of one level.
//!
//! A walk is two loops, each small enough to run in registers: `follow` takes elements for as long as wanted
//! names come one upon another as they did in the last document; `seek` passes over elements that nobody wants
//! and takes the others one by one.

use super::level::{Level, Name};
use crate::{RawElement, element::Step, layout::NameLens};

pub(super) struct Hunt<'l, 'a> {
    level: &'l Level,
    /// A bit for each name not found yet.
    missing: u64,
    /// The name found last, for keeping the hints.
    before: Option<&'l Name>,
    expected: &'l Name,
    rest: &'a [u8],
}

/// Why `seek` has stopped.
pub(super) enum Stop<'l, 'a> {
    /// All names are found, or all elements seen.
    End,
    /// Two wanted elements stood side by side: `follow` may do better.
    Run,
    /// A name that leads to more than one slot.
    Branch(&'l Name, RawElement<'a>),
}

impl<'l, 'a> Hunt<'l, 'a> {
    /// `None` for a level without names.
    #[inline]
    pub fn begin(level: &'l Level, document: &'a [u8]) -> Option<Self> {
        Some(Self {
            level,
            missing: level.all,
            before: None,
            expected: level.first()?,
            rest: document.get(4..).unwrap_or_default(),
        })
    }

    #[inline]
    pub fn is_over(&self) -> bool {
        self.missing == 0
    }

    /// Fills slots for as long as each next element has the name expected.
    #[inline(always)]
    pub fn follow(self, slots: &mut [Option<RawElement<'a>>]) -> Self {
        let Self {
            level,
            mut missing,
            mut before,
            mut expected,
            mut rest,
        } = self;
        while let Some(step) = Step::read_named(rest, expected.sight.name_len, |name| {
            expected.sight.begins(name)
        }) && missing & expected.bit != 0
        {
            rest = step.rest;
            missing ^= expected.bit;
            if let Some(slot) = slots.get_mut(expected.slot) {
                *slot = Some(step.element());
            }
            before = Some(expected);
            match level.after(expected) {
                Some(next) if missing != 0 => expected = next,
                _ => break,
            }
        }
        Self {
            level,
            missing,
            before,
            expected,
            rest,
        }
    }

    /// Passes over elements that nobody wants, and fills the slots of those that somebody does.
    #[inline(never)]
    pub fn seek(&mut self, slots: &mut [Option<RawElement<'a>>]) -> Stop<'l, 'a> {
        let level = self.level;
        let mut lens = NameLens::new();
        // What was left behind the element found last.
        let mut left = usize::MAX;
        while self.missing != 0 {
            let Some(step) = Self::skip(level, &mut self.rest, &mut lens) else {
                break;
            };
            let Some(found) = self.wanted(&step) else {
                continue;
            };
            self.missing ^= found.bit;
            self.before = Some(found);
            self.expected = level.after(found).unwrap_or(found);
            if !found.is_plain {
                return Stop::Branch(found, step.element());
            }
            if let Some(slot) = slots.get_mut(found.slot) {
                *slot = Some(step.element());
            }
            if left == step.bytes.len() + step.rest.len() {
                return Stop::Run;
            }
            left = step.rest.len();
        }
        Stop::End
    }

    /// The next element whose name could be wanted.
    #[inline(always)]
    fn skip(level: &Level, rest: &mut &'a [u8], lens: &mut NameLens) -> Option<Step<'a>> {
        loop {
            let step = Step::read(rest, lens)?;
            *rest = step.rest;
            if level.may_want(step.key) {
                return Some(step);
            }
        }
    }

    /// The name of an element, if it is wanted and missing.
    #[inline(always)]
    fn wanted(&self, step: &Step<'a>) -> Option<&'l Name> {
        let name = step.name()?;
        if self.expected.is(step.key, name) {
            return (self.missing & self.expected.bit != 0).then_some(self.expected);
        }
        let found = self.level.search(step.key, name, self.missing)?;
        self.level.remember(self.before, found);
        Some(found)
    }
}
