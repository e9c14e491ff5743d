//! Small numbers for the labels that are kept apart, and their texts.
//!
//! Each core knows the numbers it has met, so that an operation of no combination that its core adds up looks into a
//! table of its own core. Only a label that the core meets for the first time takes the lock here. The table is bounded: once it is full, further labels are
//! "other", most of them without a look at the table, until the least used ones are forgotten.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Without a label.
pub(crate) const NONE: u32 = 0;
/// A label that is not kept apart.
pub(crate) const OTHER: u32 = 1;
const FIRST: u32 = 2;
/// While the table is full, a core looks into it at one of so many labels that it does not know.
const MISSES_A_LOOK: u32 = 16;

pub(crate) struct Interner {
    labels_max: usize,
    names: Mutex<Names>,
    /// Moves when a number is taken back: what cores know is then old.
    epoch: AtomicU64,
    is_full: AtomicBool,
}

struct Names {
    ids: FxHashMap<u64, u32>,
    texts: FxHashMap<u32, (u64, Box<str>)>,
    next: u32,
}

/// The labels that one core has met.
#[derive(Default)]
pub(crate) struct Known {
    ids: FxHashMap<u64, u32>,
    epoch: u64,
    misses: u32,
}

impl Interner {
    pub fn new(labels_max: usize) -> Interner {
        Interner {
            labels_max,
            names: Mutex::new(Names {
                ids: FxHashMap::default(),
                texts: FxHashMap::default(),
                next: FIRST,
            }),
            epoch: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// The number of a label, whose hash is 0 for none.
    pub fn id(&self, known: &mut Known, hash: u64, text: impl FnOnce() -> String) -> u32 {
        if hash == 0 {
            return NONE;
        }
        let epoch = self.epoch.load(Relaxed);
        if known.epoch != epoch {
            let names = self.names.lock();
            known.ids.retain(|_, id| names.texts.contains_key(id));
            known.epoch = epoch;
        }
        if let Some(id) = known.ids.get(&hash) {
            return *id;
        }
        self.meet(known, hash, text)
    }

    #[cold]
    fn meet(&self, known: &mut Known, hash: u64, text: impl FnOnce() -> String) -> u32 {
        known.misses = known.misses.wrapping_add(1);
        if self.is_full.load(Relaxed) && !known.misses.is_multiple_of(MISSES_A_LOOK) {
            return OTHER;
        }
        let mut names = self.names.lock();
        let id = match names.ids.get(&hash) {
            Some(id) => *id,
            None if names.ids.len() >= self.labels_max => return OTHER,
            None => {
                let id = names.next;
                names.next = names.next.checked_add(1).unwrap_or(FIRST);
                names.ids.insert(hash, id);
                names.texts.insert(id, (hash, text().into()));
                self.note_fullness(&names);
                id
            }
        };
        known.ids.insert(hash, id);
        id
    }

    /// Takes numbers back: their labels begin anew when they are met again.
    pub fn forget(&self, ids: &[u32]) {
        let mut names = self.names.lock();
        for id in ids {
            if let Some((hash, _)) = names.texts.remove(id) {
                names.ids.remove(&hash);
            }
        }
        self.note_fullness(&names);
        self.epoch.fetch_add(1, Relaxed);
    }

    fn note_fullness(&self, names: &Names) {
        let is_full = names.ids.len() >= self.labels_max;
        self.is_full.store(is_full, Relaxed);
    }

    pub fn id_of_hash(&self, hash: u64) -> Option<u32> {
        self.names.lock().ids.get(&hash).copied()
    }

    /// 0 for the number of no label; none for a number that is not a label's own.
    pub fn hash_of_id(&self, id: u32) -> Option<u64> {
        if id == NONE {
            return Some(0);
        }
        self.names.lock().texts.get(&id).map(|(hash, _)| *hash)
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    pub fn text(&self, id: u32) -> Option<String> {
        self.names
            .lock()
            .texts
            .get(&id)
            .map(|(_, text)| text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_takes_new_labels_once_old_ones_are_forgotten() {
        let interner = Interner::new(2);
        let (mut core, mut other_core) = (Known::default(), Known::default());
        let id = |known: &mut Known, hash| interner.id(known, hash, || "text".to_owned());
        let a = id(&mut core, 10);
        assert_eq!(id(&mut other_core, 10), a);
        assert!(!interner.is_full());
        let b = id(&mut core, 11);
        assert!(a >= FIRST && b >= FIRST && a != b);
        assert!(interner.is_full());
        assert_eq!(id(&mut core, 12), OTHER);
        // A core that has not met a label finds it even in a full table, after a few operations.
        assert!((0..MISSES_A_LOOK).any(|_| id(&mut other_core, 11) == b));
        interner.forget(&[a]);
        let c = id(&mut core, 12);
        assert!(c >= FIRST && c != a);
        assert_eq!(id(&mut core, 11), b);
        assert_eq!(interner.text(c).as_deref(), Some("text"));
        assert_eq!(interner.text(a), None);
        assert_eq!(id(&mut core, 0), NONE);
    }
}
