//! Looks through a history of list appends for what strong snapshot isolation rules out.
//!
//! The final list of a key tells the order of its versions. From it follow the dependencies between transactions: one
//! writes behind another (ww), reads what another has written (wr), or reads what another writes behind (rw). One that
//! began after another had ended comes behind it as well. Under snapshot isolation every cycle of dependencies has two rw
//! in a row (Fekete et al., "Making Snapshot Isolation Serializable"): any other cycle is G0, G1c, G-single or
//! a read of the past (`cycle`). That write skew is such a cycle with two rw in a row, and allowed, is a test.
//!
//! What was given up has read a snapshot, too, so that its reads are held to the same rules, as if it had only read. What has an
//! unknown outcome is committed if any of its values is in the lists; then all of them must be.

use std::collections::{BTreeMap, BTreeSet};

use crate::cycle::{Graph, Kind};
use crate::history::{Action, History, Key, Outcome, Recorded};

/// Tells the anomalies of a history; there are none in one that is isolated.
pub fn check(history: &History) -> Vec<String> {
    let mut checker = Checker::new(history);
    checker.check_lists();
    for number in 0..history.done.len() {
        checker.check_reads(number);
    }
    checker.follow_versions();
    checker.follow_time();
    if let Some(cycle) = checker.graph.find_cycle() {
        checker.found.push(cycle.describe(&history.done));
    }
    checker.found
}

/// Who has appended a value.
struct Writer<'h> {
    number: usize,
    key: &'h Key,
    /// It has appended another one to the same list behind it.
    is_followed: bool,
}

struct Checker<'h> {
    history: &'h History,
    writers: BTreeMap<i64, Writer<'h>>,
    /// Whether each in the history counts as committed.
    is_committed: Vec<bool>,
    graph: Graph,
    found: Vec<String>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h History) -> Checker<'h> {
        let mut found = Vec::new();
        let mut writers: BTreeMap<i64, Writer<'h>> = BTreeMap::new();
        for (number, done) in history.done.iter().enumerate() {
            let mut last: BTreeMap<&Key, i64> = BTreeMap::new();
            for (key, value) in appends(done) {
                if let Some(before) = last.insert(key, value)
                    && let Some(before) = writers.get_mut(&before)
                {
                    before.is_followed = true;
                }
                let writer = Writer {
                    number,
                    key,
                    is_followed: false,
                };
                if writers.insert(value, writer).is_some() {
                    found.push(format!("{value} was appended by two clients"));
                }
            }
        }
        let in_lists: BTreeSet<i64> = history.lists.values().flatten().copied().collect();
        let counts_as_committed = |done: &Recorded| match done.outcome {
            Outcome::Committed => true,
            Outcome::GivenUp => false,
            Outcome::Unknown => appends(done).any(|(_, value)| in_lists.contains(&value)),
        };
        Checker {
            history,
            is_committed: history.done.iter().map(counts_as_committed).collect(),
            graph: Graph::new(history.done.len()),
            writers,
            found,
        }
    }

    /// Every committed append is in its list once, and nothing else.
    fn check_lists(&mut self) {
        let mut times: BTreeMap<(&Key, i64), usize> = BTreeMap::new();
        for (key, list) in &self.history.lists {
            for value in list {
                *times.entry((key, *value)).or_default() += 1;
            }
        }
        for (value, writer) in &self.writers {
            let times = times.remove(&(writer.key, *value)).unwrap_or(0);
            let outcome = self.history.done[writer.number].outcome;
            let what = match (self.is_committed[writer.number], times) {
                (true, 1) | (false, 0) => continue,
                (true, 0) if outcome == Outcome::Unknown => {
                    "is lost while others of its transaction are there".to_owned()
                }
                (true, 0) => "is lost".to_owned(),
                (true, _) => format!("is there {times} times"),
                (false, _) => "is there and was given up".to_owned(),
            };
            let (key, number) = (writer.key, writer.number);
            (self.found).push(format!("{value} of {number} {what} ({key})"));
        }
        for (key, value) in times.into_keys() {
            (self.found).push(format!(
                "{value} is in {key}, and nobody has appended it there"
            ));
        }
    }

    /// Each list that one of the history has read must be a version of the list, and its own appends behind it.
    fn check_reads(&mut self, number: usize) {
        let history = self.history;
        let mut own: BTreeMap<&Key, Vec<i64>> = BTreeMap::new();
        for action in &history.done[number].actions {
            match action {
                Action::Append(key, value) => own.entry(key).or_default().push(*value),
                Action::Read(key, list) => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    match list.strip_suffix(own) {
                        Some(version) => self.check_read(number, key, version),
                        None => (self.found).push(format!(
                            "{number} does not read its own {own:?} in {list:?} ({key})"
                        )),
                    }
                }
            }
        }
    }

    /// Follows from one read, without the reader's own appends.
    fn check_read(&mut self, number: usize, key: &Key, version: &[i64]) {
        let all = self.history.lists.get(key).map_or(&[][..], Vec::as_slice);
        if !all.starts_with(version) {
            let given_up = version.iter().find(|value| {
                let writer = self.writers.get(value);
                writer.is_none_or(|writer| !self.is_committed[writer.number])
            });
            self.found.push(match given_up {
                Some(value) => format!("{number} reads {value}, which was given up ({key})"),
                None => format!("{number} reads {version:?}, no version of {all:?} ({key})"),
            });
            return;
        }
        let last = version.last().and_then(|last| self.writers.get(last));
        if let Some(writer) = last.filter(|writer| writer.number != number) {
            if writer.is_followed {
                let amid = writer.number;
                (self.found).push(format!("{number} reads {version:?} amid {amid} ({key})"));
            }
            self.graph.add(writer.number, number, Kind::WriteRead);
        }
        let next = all.get(version.len());
        if let Some(writer) = next.and_then(|next| self.writers.get(next))
            && writer.number != number
        {
            self.graph.add(number, writer.number, Kind::ReadWrite);
        }
    }

    fn follow_versions(&mut self) {
        for list in self.history.lists.values() {
            for pair in list.windows(2) {
                if let (Some(before), Some(behind)) =
                    (self.writers.get(&pair[0]), self.writers.get(&pair[1]))
                    && before.number != behind.number
                {
                    (self.graph).add(before.number, behind.number, Kind::WriteWrite);
                }
            }
        }
    }

    fn follow_time(&mut self) {
        let done = &self.history.done;
        let mut by_end: Vec<usize> = (0..done.len()).collect();
        by_end.sort_by_key(|&number| done[number].ended);
        self.graph.follow_ends(&by_end);
        for (number, one) in done.iter().enumerate() {
            let before = by_end.partition_point(|&earlier| done[earlier].ended < one.begun);
            if let Some(last) = before.checked_sub(1) {
                self.graph.add_behind_end(last, number);
            }
        }
    }
}

fn appends(done: &Recorded) -> impl Iterator<Item = (&Key, i64)> {
    done.actions.iter().filter_map(|action| match action {
        Action::Append(key, value) => Some((key, *value)),
        Action::Read(..) => None,
    })
}
