//! Looks through a history of list appends for what strong snapshot isolation rules out.
//!
//! The final list of a key tells the order of its versions. From it follow the dependencies between transactions: one
//! writes behind another (ww), reads what another has written (wr), or reads what another writes behind (rw). One that
//! began after another had ended comes behind it as well. Under snapshot isolation every cycle of dependencies has two rw
//! in a row (Fekete et al., "Making Snapshot Isolation Serializable"): any other cycle is G0, G1c, G-single or
//! a read of the past. That write skew is such a cycle with two rw in a row, and allowed, is a test here.

use std::collections::{BTreeMap, BTreeSet};

/// The transactions and statements of all clients, and the lists as they were in the end.
pub struct History {
    pub done: Vec<Recorded>,
    pub lists: BTreeMap<i32, Vec<i64>>,
}

/// A transaction, or a statement outside of one.
#[derive(Default)]
pub struct Recorded {
    pub actions: Vec<Action>,
    pub is_committed: bool,
    /// Before it began, and after it had ended, by one clock.
    pub begun: u64,
    pub ended: u64,
}

pub enum Action {
    /// Appends a value, which nobody else appends, to the list of a key.
    Append(i32, i64),
    /// Reads the list of a key.
    Read(i32, Vec<i64>),
}

/// Tells the anomalies of a history; there are none in one that is isolated.
pub fn check(history: &History) -> Vec<String> {
    let mut checker = Checker::new(history);
    checker.check_lists();
    for number in 0..history.done.len() {
        checker.check_reads(number);
    }
    checker.follow_versions();
    checker.follow_time();
    checker.find_cycle();
    checker.found
}

struct Checker<'h> {
    history: &'h History,
    /// Who has appended a value, and whether it has appended another one to the same list behind it.
    writers: BTreeMap<i64, (usize, bool)>,
    /// From one to another: by rw, or otherwise.
    edges: BTreeSet<(usize, usize, bool)>,
    found: Vec<String>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h History) -> Checker<'h> {
        let mut writers = BTreeMap::new();
        for (number, done) in history.done.iter().enumerate() {
            let mut last: BTreeMap<i32, i64> = BTreeMap::new();
            for action in &done.actions {
                let Action::Append(key, value) = action else {
                    continue;
                };
                if let Some(before) = last.insert(*key, *value) {
                    writers.insert(before, (number, true));
                }
                writers.insert(*value, (number, false));
            }
        }
        Checker {
            history,
            writers,
            edges: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    /// Every committed append is there once, and nothing else.
    fn check_lists(&mut self) {
        let mut times: BTreeMap<i64, usize> = BTreeMap::new();
        for value in self.history.lists.values().flatten() {
            *times.entry(*value).or_default() += 1;
        }
        for (value, (writer, _)) in &self.writers {
            let times = times.remove(value).unwrap_or(0);
            match (self.history.done[*writer].is_committed, times) {
                (true, 1) | (false, 0) => {}
                (true, 0) => self.found.push(format!("{value} is lost")),
                (true, _) => self.found.push(format!("{value} is there {times} times")),
                (false, _) => self
                    .found
                    .push(format!("{value} is there and was given up")),
            }
        }
    }

    /// Each list that one of the history has read must be a version of the list, and its own appends behind it.
    fn check_reads(&mut self, number: usize) {
        let history = self.history;
        let done = &history.done[number];
        let mut own: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for action in &done.actions {
            let (key, list) = match action {
                Action::Append(key, value) => {
                    own.entry(*key).or_default().push(*value);
                    continue;
                }
                Action::Read(key, list) => (key, list),
            };
            let own = own.get(key).map_or(&[][..], Vec::as_slice);
            let Some(version) = list.strip_suffix(own) else {
                (self.found).push(format!(
                    "{number} does not read its own {own:?} in {list:?}"
                ));
                continue;
            };
            let all = &history.lists[key];
            if !all.starts_with(version) {
                let given_up = version.iter().find(|value| {
                    let writer = self.writers.get(value);
                    writer.is_none_or(|(writer, _)| !history.done[*writer].is_committed)
                });
                self.found.push(match given_up {
                    Some(value) => format!("{number} reads {value}, which was given up"),
                    None => format!("{number} reads {version:?}, no version of {all:?}"),
                });
                continue;
            }
            if !done.is_committed {
                continue;
            }
            if let Some((writer, is_followed)) =
                version.last().and_then(|last| self.writers.get(last))
            {
                if *is_followed && *writer != number {
                    (self.found).push(format!("{number} reads {version:?} amid {writer}"));
                }
                self.edges.insert((*writer, number, false));
            }
            if let Some((writer, _)) = all
                .get(version.len())
                .and_then(|next| self.writers.get(next))
            {
                self.edges.insert((number, *writer, true));
            }
        }
    }

    fn follow_versions(&mut self) {
        for list in self.history.lists.values() {
            for pair in list.windows(2) {
                let writers = (self.writers.get(&pair[0]), self.writers.get(&pair[1]));
                if let (Some((before, _)), Some((behind, _))) = writers {
                    self.edges.insert((*before, *behind, false));
                }
            }
        }
    }

    fn follow_time(&mut self) {
        for (before, first) in self.history.done.iter().enumerate() {
            for (behind, second) in self.history.done.iter().enumerate() {
                let are_committed = first.is_committed && second.is_committed;
                if are_committed && first.ended < second.begun {
                    self.edges.insert((before, behind, false));
                }
            }
        }
    }

    /// Looks for a cycle without two rw in a row. Each one of the history stands for two nodes: come to by rw, or otherwise;
    /// from the first of them no rw goes on. Nodes without a predecessor are taken away until there are none; what is left
    /// holds a cycle.
    fn find_cycle(&mut self) {
        let nodes = self.history.done.len() * 2;
        let node = |number: usize, by_rw: bool| number * 2 + usize::from(by_rw);
        let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        let mut before = vec![0usize; nodes];
        for &(from, to, by_rw) in self.edges.iter().filter(|(from, to, _)| from != to) {
            for came_by_rw in [false, true] {
                if !(by_rw && came_by_rw) {
                    behind[node(from, came_by_rw)].push(node(to, by_rw));
                    before[node(to, by_rw)] += 1;
                }
            }
        }
        let mut free: Vec<usize> = (0..nodes).filter(|&node| before[node] == 0).collect();
        let mut taken = 0;
        while let Some(node) = free.pop() {
            taken += 1;
            for &next in &behind[node] {
                before[next] -= 1;
                if before[next] == 0 {
                    free.push(next);
                }
            }
        }
        if taken < nodes {
            let left: BTreeSet<usize> = (0..nodes)
                .filter(|&node| before[node] > 0)
                .map(|node| node / 2)
                .collect();
            self.found.push(format!("a cycle among or before {left:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(begun: u64, ended: u64, actions: Vec<Action>) -> Recorded {
        Recorded {
            actions,
            is_committed: true,
            begun,
            ended,
        }
    }

    fn found(done: Vec<Recorded>, lists: [&[i64]; 2]) -> Vec<String> {
        let lists = lists.map(<[i64]>::to_vec).into_iter();
        let lists = (0..).zip(lists).collect();
        check(&History { done, lists })
    }

    #[test]
    fn write_skew_is_no_anomaly() {
        let done = vec![
            recorded(0, 10, vec![Action::Read(0, vec![]), Action::Append(1, 1)]),
            recorded(1, 11, vec![Action::Read(1, vec![]), Action::Append(0, 2)]),
        ];
        assert_eq!(found(done, [&[2], &[1]]), Vec::<String>::new());
    }

    #[test]
    fn read_skew_lost_updates_and_old_reads_are_cycles() {
        let skew = vec![
            recorded(
                0,
                10,
                vec![Action::Read(0, vec![]), Action::Read(1, vec![2])],
            ),
            recorded(1, 9, vec![Action::Append(0, 1), Action::Append(1, 2)]),
        ];
        assert!(found(skew, [&[1], &[2]])[0].contains("cycle"));
        let lost = vec![
            recorded(0, 10, vec![Action::Read(0, vec![]), Action::Append(0, 1)]),
            recorded(1, 11, vec![Action::Read(0, vec![]), Action::Append(0, 2)]),
        ];
        assert!(found(lost, [&[1, 2], &[]])[0].contains("cycle"));
        let old = vec![
            recorded(0, 1, vec![Action::Append(0, 1)]),
            recorded(2, 3, vec![Action::Read(0, vec![])]),
        ];
        assert!(found(old, [&[1], &[]])[0].contains("cycle"));
    }

    #[test]
    fn reads_of_what_was_given_up_or_is_not_whole_are_told() {
        let mut given_up = recorded(0, 5, vec![Action::Append(0, 1)]);
        given_up.is_committed = false;
        let reads = recorded(1, 6, vec![Action::Read(0, vec![1])]);
        assert!(found(vec![given_up, reads], [&[], &[]])[0].contains("given up"));
        let twice = recorded(0, 5, vec![Action::Append(0, 1), Action::Append(0, 2)]);
        let reads = recorded(1, 6, vec![Action::Read(0, vec![1])]);
        assert!(found(vec![twice, reads], [&[1, 2], &[]])[0].contains("amid"));
    }
}
