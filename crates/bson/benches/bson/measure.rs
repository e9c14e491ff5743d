//! Best of repeated, interleaved samples.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{cases::Case, java::Java};

pub struct Measured {
    pub name: String,
    pub bytes: usize,
    pub ours_ns: f64,
    /// Each peer that has the operation, by name.
    pub peers_ns: Vec<(&'static str, f64)>,
    pub limit_ns: Option<f64>,
}

/// Samples of each side, in groups apart: a neighbour's burst of work lasts longer than a group.
const GROUPS: usize = 4;
const ROUNDS: usize = 10;
const APART: Duration = Duration::from_millis(100);
/// Time that one sample should take.
const SAMPLE_NS: f64 = 1_500_000.0;
/// Time that Java's compiler gets to warm to an operation.
const JAVA_WARM_NS: f64 = 1_000_000_000.0;
/// The part of a sample's calls that goes before it without counting.
const WARMING: u32 = 8;
const CALLS_MAX: u32 = 1 << 24;

const OURS: &str = "ours";
pub const CRATE: &str = "bson crate";
const LIMIT: &str = "limit";

pub fn run(case: &mut Case, java: Option<&mut Java>) -> Measured {
    let mut sides: Vec<Side<'_>> =
        vec![Side::new(OURS, |calls| Some(timed(&mut *case.ours, calls)))];
    if let Some(peer) = &mut case.peer {
        sides.push(Side::new(CRATE, |calls| Some(timed(&mut **peer, calls))));
    }
    if let Some(limit) = &mut case.limit {
        sides.push(Side::new(LIMIT, |calls| Some(timed(&mut **limit, calls))));
    }
    if let Some(java) = java {
        let name = case.name.clone();
        if warm(java, &name) {
            sides.push(Side::new(crate::java::NAME, move |calls| {
                java.sample(&name, calls)
            }));
        }
    }
    for side in &mut sides {
        side.calibrate();
    }
    for group in 0..GROUPS {
        if group > 0 {
            thread::sleep(APART);
        }
        for _ in 0..ROUNDS {
            sides.iter_mut().for_each(Side::sample);
        }
    }
    let best = |name| {
        let mut sides = sides.iter().filter(|side| side.name == name);
        sides.next().map(|side| side.best_ns)
    };
    let peers = [CRATE, crate::java::NAME];
    Measured {
        name: case.name.clone(),
        bytes: case.bytes,
        ours_ns: best(OURS).expect("ours was measured"),
        peers_ns: (peers.into_iter())
            .filter_map(|peer| Some((peer, best(peer)?)))
            .collect(),
        limit_ns: best(LIMIT),
    }
}

fn warm(java: &mut Java, name: &str) -> bool {
    let (mut spent, mut calls) = (0.0, 1);
    while spent < JAVA_WARM_NS {
        let Some(ns) = java.sample(name, calls) else {
            return false;
        };
        spent += ns.max(1.0);
        calls = (calls * 2).min(1 << 14);
    }
    true
}

/// One of those measured.
struct Side<'a> {
    name: &'static str,
    /// Nanoseconds that so many calls take.
    time: Box<dyn FnMut(u32) -> Option<f64> + 'a>,
    calls: u32,
    best_ns: f64,
}

impl<'a> Side<'a> {
    fn new(name: &'static str, time: impl FnMut(u32) -> Option<f64> + 'a) -> Self {
        Self {
            name,
            time: Box::new(time),
            calls: 1,
            best_ns: f64::MAX,
        }
    }

    fn calibrate(&mut self) {
        let mut ns = (self.time)(self.calls).unwrap_or(f64::MAX);
        while self.calls < CALLS_MAX && ns < SAMPLE_NS / 4.0 {
            self.calls *= 2;
            ns = (self.time)(self.calls).unwrap_or(f64::MAX);
        }
        self.calls =
            (f64::from(self.calls) * SAMPLE_NS / ns).clamp(1.0, f64::from(CALLS_MAX)) as u32;
    }

    /// Takes a sample, after some calls that do not count: the side before has left its own data in the caches.
    fn sample(&mut self) {
        (self.time)(self.calls.div_ceil(WARMING));
        if let Some(ns) = (self.time)(self.calls) {
            self.best_ns = self.best_ns.min(ns / f64::from(self.calls));
        }
    }
}

fn timed(call: &mut dyn FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_nanos() as f64
}
