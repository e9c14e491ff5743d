//! The dependencies of a history, and a cycle among them that snapshot isolation rules out.
//!
//! Each one of the history stands for two nodes: come to by rw, or otherwise; from the first of them no rw goes on, so that no
//! path has two rw in a row. That one began after others had ended is told by a node for each end, which follow each other in
//! time: two edges for each of the history and one for each end, where pairs would be as many as their square.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::history::Recorded;

/// Why one comes behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    WriteWrite,
    WriteRead,
    ReadWrite,
    /// It began after the other had ended.
    Time,
}

pub struct Graph {
    /// The transactions of the history; the nodes of ends stand behind their nodes.
    len: usize,
    edges: Vec<Vec<Edge>>,
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    kind: Kind,
}

/// A cycle: each of the history with how the next one comes behind it.
pub struct Cycle(Vec<(usize, Kind)>);

impl Graph {
    pub fn new(len: usize) -> Graph {
        Graph {
            len,
            edges: vec![Vec::new(); len * 3],
        }
    }

    /// Two of the history, the second of which comes behind the first.
    pub fn add(&mut self, before: usize, behind: usize, kind: Kind) {
        let to = behind * 2 + usize::from(kind == Kind::ReadWrite);
        if kind != Kind::ReadWrite {
            self.edges[before * 2 + 1].push(Edge { to, kind });
        }
        self.edges[before * 2].push(Edge { to, kind });
    }

    /// Names all of the history in the order of their ends.
    pub fn follow_ends(&mut self, by_end: &[usize]) {
        assert_eq!(by_end.len(), self.len);
        let kind = Kind::Time;
        for (place, &number) in by_end.iter().enumerate() {
            let to = self.len * 2 + place;
            self.edges[number * 2].push(Edge { to, kind });
            self.edges[number * 2 + 1].push(Edge { to, kind });
            if place + 1 < self.len {
                self.edges[to].push(Edge { to: to + 1, kind });
            }
        }
    }

    /// One of the history began after the end at `place` of that order.
    pub fn add_behind_end(&mut self, place: usize, number: usize) {
        let (to, kind) = (number * 2, Kind::Time);
        self.edges[self.len * 2 + place].push(Edge { to, kind });
    }

    /// A cycle without two rw in a row.
    pub fn find_cycle(&self) -> Option<Cycle> {
        let start = self.node_of_a_cycle()?;
        Some(self.shortest_through(start))
    }

    /// Takes nodes without a predecessor away until there are none; what is left holds a cycle, or stands behind one, so that
    /// a walk from predecessor to predecessor comes around in one.
    fn node_of_a_cycle(&self) -> Option<usize> {
        let mut before = vec![0usize; self.edges.len()];
        for edge in self.edges.iter().flatten() {
            before[edge.to] += 1;
        }
        let mut free: Vec<usize> = (0..before.len())
            .filter(|&node| before[node] == 0)
            .collect();
        while let Some(node) = free.pop() {
            for edge in &self.edges[node] {
                before[edge.to] -= 1;
                if before[edge.to] == 0 {
                    free.push(edge.to);
                }
            }
        }
        let mut predecessor = vec![usize::MAX; before.len()];
        for (node, edges) in self.edges.iter().enumerate() {
            for edge in edges
                .iter()
                .filter(|edge| before[node] > 0 && before[edge.to] > 0)
            {
                predecessor[edge.to] = node;
            }
        }
        let mut node = before.iter().position(|&count| count > 0)?;
        for _ in 0..before.len() {
            node = predecessor[node];
        }
        Some(node)
    }

    /// The cycle through a node with the fewest edges.
    fn shortest_through(&self, start: usize) -> Cycle {
        let mut came: Vec<Option<(usize, Kind)>> = vec![None; self.edges.len()];
        let mut next = VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for edge in &self.edges[node] {
                if came[edge.to].is_none() {
                    came[edge.to] = Some((node, edge.kind));
                    next.push_back(edge.to);
                }
            }
            if came[start].is_some() {
                break;
            }
        }
        let mut steps = Vec::new();
        let mut node = start;
        loop {
            let (before, kind) = came[node].expect("the node is on a cycle");
            // Nodes of ends are passed over: what led to them goes on in time.
            if before < self.len * 2 {
                steps.push((before / 2, kind));
            }
            node = before;
            if node == start {
                break;
            }
        }
        steps.reverse();
        Cycle(steps)
    }
}

impl Cycle {
    /// The anomaly's name by Adya's and Elle's words.
    fn name(&self) -> &'static str {
        let count = |wanted: Kind| self.0.iter().filter(|(_, kind)| *kind == wanted).count();
        let is_of_time = count(Kind::Time) > 0;
        match (count(Kind::ReadWrite), count(Kind::WriteRead)) {
            (0, 0) if is_of_time => "G0 against time",
            (0, 0) => "G0",
            (0, _) if is_of_time => "G1c against time",
            (0, _) => "G1c",
            (1, _) if is_of_time => "a read of the past",
            (1, _) => "G-single",
            _ => "G-nonadjacent",
        }
    }

    /// The cycle in a line, and what each in it did.
    pub fn describe(&self, done: &[Recorded]) -> String {
        let mut text = format!("a cycle, {}:", self.name());
        for (number, kind) in &self.0 {
            let behind = match kind {
                Kind::WriteWrite => "ww",
                Kind::WriteRead => "wr",
                Kind::ReadWrite => "rw",
                Kind::Time => "time",
            };
            let _ = write!(text, " {number} -{behind}->");
        }
        let _ = write!(text, " {}", self.0[0].0);
        for (number, _) in &self.0 {
            let _ = write!(text, "\n  {number}: {:?}", done[*number]);
        }
        text
    }
}
