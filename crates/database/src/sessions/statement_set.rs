//! A set of statement ids, as ranges: the statements of a command mostly follow each other.

use smallvec::SmallVec;

/// Statement ids, as ordered ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementSet {
    /// The first and the last id of each range.
    ranges: SmallVec<[(u32, u32); 1]>,
}

impl StatementSet {
    /// Adds an id. Cheap behind the last one, where ids mostly come.
    pub fn insert(&mut self, id: u32) {
        // The first range that begins behind the id.
        let behind = match self.ranges.last() {
            Some((first, _)) if *first <= id => self.ranges.len(),
            _ => self.ranges.partition_point(|(first, _)| *first <= id),
        };
        if let Some(before) = behind.checked_sub(1) {
            let last = self.ranges[before].1;
            if id <= last {
                return;
            }
            if id == last + 1 {
                self.ranges[before].1 = id;
                self.join(before);
                return;
            }
        }
        self.ranges.insert(behind, (id, id));
        self.join(behind);
    }

    /// Adds a range behind all others; none if it touches or overlaps the last one, as a damaged record could say.
    pub(crate) fn push_range(&mut self, first: u32, last: u32) -> Option<()> {
        let is_behind = match self.ranges.last() {
            Some((_, before)) => first.checked_sub(1)? > *before,
            None => true,
        };
        (is_behind && first <= last).then(|| self.ranges.push((first, last)))
    }

    /// Takes an id out, if it is there.
    pub fn remove(&mut self, id: u32) {
        let behind = self.ranges.partition_point(|(first, _)| *first <= id);
        let Some(at) = behind.checked_sub(1) else {
            return;
        };
        let (first, last) = self.ranges[at];
        if id > last {
            return;
        }
        match (id == first, id == last) {
            (true, true) => drop(self.ranges.remove(at)),
            (true, false) => self.ranges[at].0 = id + 1,
            (false, true) => self.ranges[at].1 = id - 1,
            (false, false) => {
                self.ranges[at].1 = id - 1;
                self.ranges.insert(at + 1, (id + 1, last));
            }
        }
    }

    /// Adds all ids of another set.
    pub fn extend(&mut self, other: &StatementSet) {
        if self.is_empty() {
            self.ranges.clone_from(&other.ranges);
            return;
        }
        for id in other.iter() {
            self.insert(id);
        }
    }

    /// Whether the id is in the set.
    pub fn contains(&self, id: u32) -> bool {
        let behind = self.ranges.partition_point(|(first, _)| *first <= id);
        let before = behind.checked_sub(1).map(|at| self.ranges[at]);
        before.is_some_and(|(_, last)| id <= last)
    }

    /// Whether there is no id.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes all ids out.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The ids in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The ranges in their order, each with its first and last id.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Joins the range at `at` with the next one, if they touch.
    fn join(&mut self, at: usize) {
        if let Some((next, last)) = self.ranges.get(at + 1).copied()
            && next == self.ranges[at].1 + 1
        {
            self.ranges[at].1 = last;
            self.ranges.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_set_of_ranges_holds_what_a_set_of_ids_holds() {
        let mut model = BTreeSet::new();
        let mut set = StatementSet::default();
        let mut random = 7u32;
        for _ in 0..4000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = (random >> 8) % 61;
            if random >> 31 == 0 {
                set.insert(id);
                model.insert(id);
            } else {
                set.remove(id);
                model.remove(&id);
            }
            assert!(set.iter().eq(model.iter().copied()));
            assert_eq!(set.contains(id), model.contains(&id));
            let touches = |pair: &[(u32, u32)]| pair[0].1 + 1 >= pair[1].0;
            assert!(!set.ranges().windows(2).any(touches), "{set:?}");
        }
    }

    #[test]
    fn the_highest_id_has_no_next_one() {
        let mut set = StatementSet::default();
        for id in [u32::MAX, 0, u32::MAX, u32::MAX - 1] {
            set.insert(id);
        }
        assert_eq!(set.ranges(), [(0, 0), (u32::MAX - 1, u32::MAX)]);
    }
}
