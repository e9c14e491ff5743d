//! Best of repeated, interleaved samples.

use std::time::Instant;

use crate::cases::Case;

pub struct Measured {
    pub name: String,
    pub bytes: usize,
    pub ours_ns: f64,
    pub peer_ns: Option<f64>,
}

/// Samples of each side.
const ROUNDS: usize = 40;
/// Time that one sample should take.
const SAMPLE_NS: f64 = 1_500_000.0;

pub fn run(case: &mut Case) -> Measured {
    let ours_calls = calls_a_sample(&mut *case.ours);
    let peer_calls = case.peer.as_mut().map(|peer| calls_a_sample(&mut **peer));
    let mut measured = Measured {
        name: case.name.clone(),
        bytes: case.bytes,
        ours_ns: f64::MAX,
        peer_ns: None,
    };
    for _ in 0..ROUNDS {
        measured.ours_ns = measured.ours_ns.min(sample(&mut *case.ours, ours_calls));
        if let (Some(peer), Some(calls)) = (case.peer.as_mut(), peer_calls) {
            let ns = sample(&mut **peer, calls);
            measured.peer_ns = Some(measured.peer_ns.map_or(ns, |best| best.min(ns)));
        }
    }
    measured
}

fn calls_a_sample(call: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while calls < 1 << 24 && sample(call, calls) * f64::from(calls) < SAMPLE_NS / 4.0 {
        calls *= 2;
    }
    (SAMPLE_NS / sample(call, calls)).clamp(1.0, f64::from(1 << 24)) as u32
}

/// Nanoseconds a call.
fn sample(call: &mut dyn FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}
