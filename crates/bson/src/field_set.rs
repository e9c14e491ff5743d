//! A set of dotted paths, compiled once, that one pass over a document finds.
//!
//! Names and paths become a tree; a walk goes down only where a path leads, and each level ends as soon as all
//! of its names have been seen. A name is compared by its first eight bytes, which finding its end has loaded
//! anyway; a bit filter over them turns away almost every other name. When one name has been found the next is
//! guessed from the document before, so that documents of one shape cost one comparison a field. The guess is
//! a hint: whatever it says, the first element of a name is the one found.
//!
//! Paths mean what `RawDocument::get_path` means: a number picks an array's element, arrays are not spread.

mod hunt;
mod level;

use std::collections::HashMap;

use crate::{DEPTH_MAX, ElementType, RawDocument, RawElement, document::split_path};
use hunt::{Hunt, Stop};
use level::{Level, NAMES_MAX, Name};

/// The paths wanted of many documents. Sharing one among threads costs nothing; its hints are atomic.
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
        let mut crowd = Crowd::default();
        for path in paths {
            set.insert(path.as_bytes(), &mut crowd);
        }
        set
    }

    /// The number of slots: of paths given.
    pub fn len(&self) -> usize {
        self.slots
    }

    /// Whether no paths were given.
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

    fn insert<'p>(&mut self, path: &'p [u8], crowd: &mut Crowd<'p>) {
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
            let (at, name) = self.place(level, part, crowd);
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
                            self.levels[at].names[name].leads_on(below);
                            below
                        }
                    };
                    rest = after;
                }
            }
        }
    }

    /// Finds or makes the entry of a name at a level or its continuations.
    fn place<'p>(&mut self, level: usize, name: &'p [u8], crowd: &mut Crowd<'p>) -> (usize, usize) {
        let names = &self.levels[level].names;
        if let Some(found) = names.iter().position(|n| n.is_named(name)) {
            return (level, found);
        }
        if names.len() < NAMES_MAX {
            self.levels[level].push(name);
            return (level, self.levels[level].names.len() - 1);
        }
        if let Some(place) = crowd.places.get(&(level, name)) {
            return *place;
        }
        let mut at = crowd.last.get(&level).copied().unwrap_or(level);
        if self.levels[at].names.len() == NAMES_MAX {
            let more = self.levels.len();
            self.levels.push(Level::default());
            self.levels[at].more = Some(more);
            crowd.last.insert(level, more);
            at = more;
        }
        self.levels[at].push(name);
        let place = (at, self.levels[at].names.len() - 1);
        crowd.places.insert((level, name), place);
        place
    }

    #[inline(never)]
    fn walk<'a>(&self, at: usize, document: &'a [u8], slots: &mut [Option<RawElement<'a>>]) {
        let mut level = &self.levels[at];
        loop {
            if let Some(hunt) = Hunt::begin(level, document) {
                let hunt = hunt.follow(slots);
                if !hunt.is_over() {
                    self.search(hunt, slots);
                }
            }
            let Some(more) = level.more else { return };
            level = &self.levels[more];
        }
    }

    /// Goes on where elements have not come as they did in the last document.
    #[inline(never)]
    fn search<'a>(&self, mut hunt: Hunt<'_, 'a>, slots: &mut [Option<RawElement<'a>>]) {
        while !hunt.is_over() {
            match hunt.seek(slots) {
                Stop::End => break,
                Stop::Run => hunt = hunt.follow(slots),
                Stop::Branch(name, element) => self.fill(name, element, slots),
            }
        }
    }

    /// Fills all that a name leads to: its own slot, the slots of that path where it was given again, and those of paths through it.
    fn fill<'a>(&self, name: &Name, element: RawElement<'a>, slots: &mut [Option<RawElement<'a>>]) {
        if let Some(slot) = slots.get_mut(name.slot) {
            *slot = Some(element);
        }
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

/// The levels with continuations by name, kept while compiling, so that many names cost no search through all of them.
#[derive(Default)]
struct Crowd<'p> {
    /// Where a name of a level is, if it is in one of its continuations.
    places: HashMap<(usize, &'p [u8]), (usize, usize)>,
    /// The last continuation of a level.
    last: HashMap<usize, usize>,
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

    #[test]
    fn a_great_many_names_cost_neither_their_square_nor_the_stack() {
        let names: Vec<String> = (0..300_000).map(|i| format!("f{i}.x")).collect();
        let set = FieldSet::new(names.iter().chain(&names).map(String::as_str));
        let mut slots = vec![None; set.len()];
        let document = doc! { "f299999": { "x": 7 } };
        set.extract(document.as_raw(), &mut slots);
        let found: Vec<usize> = (0..set.len()).filter(|&i| slots[i].is_some()).collect();
        assert_eq!(found, [299_999, 599_999]);
    }
}
