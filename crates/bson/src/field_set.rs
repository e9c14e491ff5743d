//! A set of dotted paths, compiled once, that one pass over a document finds.
//!
//! Names and paths become a tree; a walk goes down only where a path leads, and each level ends as soon as all
//! of its names have been seen. A name is compared by its first eight bytes, which finding its end has loaded
//! anyway; a bit filter over them turns away almost every other name. When one name has been found the next is
//! guessed from the document before, so that documents of one shape cost one comparison a field. The guess is
//! a hint: whatever it says, the first element of a name is the one found.
//!
//! Paths mean what `RawDocument::get_path` means: a number picks an array's element, arrays are not spread.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::{
    DEPTH_MAX, ElementType, RawDocument, RawElement,
    document::split_path,
    element::Step,
    layout::{self, NameLens},
};

/// Names of one level that one walk looks for; a level with more walks again.
const NAMES_MAX: usize = 64;

/// No name: the start of a document.
const NO_NAME: usize = usize::MAX;

/// Beyond any slice of slots.
const NO_SLOT: usize = usize::MAX;

#[derive(Debug)]
pub struct FieldSet {
    levels: Vec<Level>,
    slots: usize,
}

impl FieldSet {
    /// Compiles paths; the path's position in `paths` is its slot.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut set = Self {
            levels: vec![Level::default()],
            slots: 0,
        };
        for path in paths {
            set.insert(path.as_bytes());
        }
        set
    }

    /// The number of slots: of paths given.
    pub fn len(&self) -> usize {
        self.slots
    }

    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// Fills a slot for each path with the first element that it leads to, or `None`. `slots` shorter than
    /// `len` loses the paths beyond.
    #[inline]
    pub fn extract<'a>(&self, document: RawDocument<'a>, slots: &mut [Option<RawElement<'a>>]) {
        slots.fill(None);
        if self.slots > 0 {
            self.walk(0, document.as_bytes(), slots);
        }
    }

    fn insert(&mut self, path: &[u8]) {
        let slot = self.slots;
        self.slots += 1;
        // A name cannot hold NUL, and such a path leads nowhere; as a key it would look like a shorter name. A
        // path longer than documents are deep leads nowhere either, and a walk must not follow it down.
        if path.contains(&0) || path.split(|b| *b == b'.').count() > DEPTH_MAX {
            return;
        }
        let (mut level, mut rest) = (0, path);
        loop {
            let (part, after) = split_path(rest);
            let (at, name) = self.place(level, part);
            match after {
                None => {
                    self.levels[at].names[name].fills(slot);
                    return;
                }
                Some(after) => {
                    level = match self.levels[at].names[name].below {
                        Some(below) => below,
                        None => {
                            self.levels.push(Level::default());
                            let below = self.levels.len() - 1;
                            self.levels[at].names[name].below = Some(below);
                            self.levels[at].names[name].has_more = true;
                            below
                        }
                    };
                    rest = after;
                }
            }
        }
    }

    /// Finds or makes the entry of a name at a level or its continuations.
    fn place(&mut self, level: usize, name: &[u8]) -> (usize, usize) {
        let mut at = level;
        loop {
            if let Some(found) = self.levels[at].names.iter().position(|n| *n.name == *name) {
                return (at, found);
            }
            match self.levels[at].more {
                Some(more) => at = more,
                None if self.levels[at].names.len() < NAMES_MAX => break,
                None => {
                    self.levels.push(Level::default());
                    self.levels[at].more = Some(self.levels.len() - 1);
                }
            }
        }
        self.levels[at].push(name);
        (at, self.levels[at].names.len() - 1)
    }

    fn walk<'a>(&self, at: usize, document: &'a [u8], slots: &mut [Option<RawElement<'a>>]) {
        let level = &self.levels[at];
        let mut missing = level.all();
        // The name expected next and, for keeping the hints, the one found before.
        let mut guess = level.first.load(Relaxed) as usize;
        let mut before = NO_NAME;
        let Some(mut expected) = level.names.get(guess) else {
            return;
        };
        let mut rest = document.get(4..).unwrap_or_default();
        let mut lens = NameLens::new();
        while let Some(step) = Step::read(rest, &mut lens) {
            rest = step.rest;
            if !expected.is(&step) {
                let Some(found) = level.find(&step, missing) else {
                    continue;
                };
                level.remember(before, found);
                guess = found;
                expected = &level.names[found];
            }
            let bit = 1 << guess;
            if missing & bit == 0 {
                continue;
            }
            missing ^= bit;
            if let Some(slot) = slots.get_mut(expected.slot) {
                *slot = Some(step.element());
            }
            if expected.has_more {
                self.fill_more(expected, step.element(), slots);
            }
            if missing == 0 {
                break;
            }
            before = guess;
            let next = expected.next.load(Relaxed) as usize;
            if let Some(name) = level.names.get(next) {
                (guess, expected) = (next, name);
            }
        }
        if let Some(more) = level.more {
            self.walk(more, document, slots);
        }
    }

    /// What a name leads to besides its own slot: the same path given again, and paths through it.
    fn fill_more<'a>(
        &self,
        name: &Name,
        element: RawElement<'a>,
        slots: &mut [Option<RawElement<'a>>],
    ) {
        for slot in &name.more_slots {
            if let Some(slot) = slots.get_mut(*slot) {
                *slot = Some(element);
            }
        }
        if let Some(below) = name.below
            && let ElementType::Document | ElementType::Array = element.element_type()
        {
            self.walk(below, element.value_bytes(), slots);
        }
    }
}

/// The names wanted at one place of the tree.
#[derive(Debug, Default)]
struct Level {
    names: Vec<Name>,
    /// A bit for each wanted key's hash.
    filter: u64,
    /// The name that the last document had first.
    first: AtomicU8,
    /// A further level for the same documents, where one mask of found names is too small.
    more: Option<usize>,
}

#[derive(Debug)]
struct Name {
    key: u64,
    name: Box<[u8]>,
    /// `NO_SLOT` where only longer paths go through this name.
    slot: usize,
    /// Slots of the same path given again.
    more_slots: Vec<usize>,
    below: Option<usize>,
    /// Whether there are more slots or a level below.
    has_more: bool,
    /// The wanted name that followed this one in the last document.
    next: AtomicU8,
}

impl Level {
    fn push(&mut self, name: &[u8]) {
        let key = layout::name_key(name);
        self.filter |= 1 << key_hash(key);
        let next = AtomicU8::new(self.names.len() as u8 + 1);
        self.names.push(Name {
            key,
            name: name.into(),
            slot: NO_SLOT,
            more_slots: Vec::new(),
            below: None,
            has_more: false,
            next,
        });
    }

    fn all(&self) -> u64 {
        u64::MAX
            .checked_shr(64 - self.names.len() as u32)
            .unwrap_or(0)
    }

    /// The wanted and missing name that this element has.
    #[inline(always)]
    fn find(&self, step: &Step<'_>, missing: u64) -> Option<usize> {
        if self.filter >> key_hash(step.key) & 1 == 0 {
            return None;
        }
        self.search(step, missing)
    }

    #[inline(never)]
    fn search(&self, step: &Step<'_>, missing: u64) -> Option<usize> {
        let mut left = missing;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            if self.names.get(at).is_some_and(|n| n.is(step)) {
                return Some(at);
            }
            left &= left - 1;
        }
        None
    }

    /// Notes that `found` came after `before`.
    #[inline(never)]
    fn remember(&self, before: usize, found: usize) {
        let hint = self
            .names
            .get(before)
            .map_or(&self.first, |name| &name.next);
        hint.store(found as u8, Relaxed);
    }
}

impl Name {
    fn fills(&mut self, slot: usize) {
        if self.slot == NO_SLOT {
            self.slot = slot;
        } else {
            self.more_slots.push(slot);
            self.has_more = true;
        }
    }

    #[inline(always)]
    fn is(&self, step: &Step<'_>) -> bool {
        // Below eight bytes the key holds the whole name and its end.
        self.key == step.key
            && (step.name_len < 8 || step.bytes.get(1..1 + step.name_len) == Some(&*self.name))
    }
}

/// Six bits of a key.
#[inline(always)]
fn key_hash(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, doc};

    fn extracted(set: &FieldSet, document: &Document) -> Vec<String> {
        let mut slots = vec![None; set.len()];
        set.extract(document.as_raw(), &mut slots);
        slots
            .iter()
            .map(|s| s.map_or("-".to_owned(), |e: RawElement<'_>| e.value().to_string()))
            .collect()
    }

    #[test]
    fn names_and_paths_fill_their_slots() {
        let set = FieldSet::new([
            "b",
            "a.x",
            "a",
            "missing",
            "l.1",
            "a.y.z",
            "a_rather_long_name",
            "b",
            "b.c",
        ]);
        let document = doc! { "a": { "x": 1, "y": { "z": "deep" } }, "a_rather_long_name": 2, "b": true, "l": [7, 8], "a_rather_long_nam": 3 };
        for _ in 0..3 {
            let found = extracted(&set, &document);
            assert_eq!(
                found,
                [
                    "true",
                    "1",
                    "{ x: 1, y: { z: 'deep' } }",
                    "-",
                    "8",
                    "'deep'",
                    "2",
                    "true",
                    "-"
                ]
            );
        }
        assert_eq!(extracted(&set, &doc! {}), ["-"; 9]);
        assert_eq!(extracted(&FieldSet::new([]), &document), [""; 0]);
    }

    #[test]
    fn a_path_with_nul_leads_nowhere() {
        let document = doc! { "a": 1, "b": 2 };
        let set = FieldSet::new(["a\0", "b"]);
        assert_eq!(extracted(&set, &document), ["-", "2"]);
        assert_eq!(extracted(&FieldSet::new(["a\0"]), &document), ["-"]);
        assert!(document.get("a\0").is_none());

        let long = vec!["a"; 1_000_000].join(".");
        assert_eq!(
            extracted(&FieldSet::new([long.as_str(), "b"]), &document),
            ["-", "2"]
        );
        assert!(document.clone().set_path(&long, 1).is_err());
    }

    #[test]
    fn a_wrong_hint_changes_nothing() {
        let set = FieldSet::new(["a", "b", "c"]);
        for document in [
            doc! { "a": 1, "b": 2, "c": 3 },
            doc! { "c": 3, "a": 1, "b": 2, "c": 4 },
            doc! { "b": 2, "b": 5, "x": 1, "a": 1, "c": 3, "a": 9 },
        ] {
            for _ in 0..2 {
                assert_eq!(extracted(&set, &document), ["1", "2", "3"], "{document}");
            }
        }
    }

    #[test]
    fn the_walk_ends_when_all_is_found() {
        let mut bytes = doc! { "a": 1, "b": 2 }.into_bytes();
        let b = bytes.len() - 8;
        assert_eq!(bytes[b..b + 3], [0x10, b'b', 0]);
        bytes[b] = 0x77;
        let mut slots = [None];
        FieldSet::new(["a"]).extract(RawDocument::new(&bytes).unwrap(), &mut slots);
        assert!(slots[0].is_some());
        FieldSet::new(["b"]).extract(RawDocument::new(&bytes).unwrap(), &mut slots);
        assert!(slots[0].is_none());
    }

    #[test]
    fn more_names_than_one_mask_holds() {
        let names: Vec<String> = (0..200).map(|i| format!("f{i}")).collect();
        let document = Document::build(|d| {
            for (i, name) in names.iter().enumerate().rev() {
                d.append(name, i as i32);
            }
        });
        let set = FieldSet::new(names.iter().map(String::as_str));
        let wanted: Vec<String> = (0..200).map(|i| i.to_string()).collect();
        assert_eq!(extracted(&set, &document), wanted);
    }
}
