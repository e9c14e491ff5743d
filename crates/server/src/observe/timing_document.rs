//! Times as they stand in replies, in the profiler's documents and in log lines. Times are microseconds.

use quarry_bson::DocumentBuilder;
use quarry_timing::{Breakdown, Distribution, OperationKind, Times, Work};

/// Writes where one operation's time went:
/// `{wallMicros, phases: {read: 1.5, ...}, unattributedMicros, work: {...}, waits: {...}}`.
pub fn append_breakdown(out: &mut DocumentBuilder<'_>, breakdown: &Breakdown) {
    out.append("wallMicros", micros(breakdown.wall_ns));
    append_phases(out, breakdown);
    out.append("unattributedMicros", micros(breakdown.unattributed_ns));
    append_work(out, breakdown);
    append_waits(out, breakdown);
}

pub fn append_phases(out: &mut DocumentBuilder<'_>, breakdown: &Breakdown) {
    let mut phases = out.document("phases");
    for (phase, ns) in breakdown.entered() {
        phases.append(phase.name(), micros(ns));
    }
    phases.finish();
}

/// The amounts that are not zero.
pub fn append_work(out: &mut DocumentBuilder<'_>, breakdown: &Breakdown) {
    let mut work = out.document("work");
    for counted in Work::ALL {
        let amount = breakdown.work(counted);
        if counted.is_amount() && amount > 0 {
            work.append(counted.name(), signed(amount));
        }
    }
    work.finish();
}

/// Whom the operation waited for: `{group, groupWriters, sync, checkpoint, lockHolder: {opid, op}, stall}`, as far as
/// it did.
pub fn append_waits(out: &mut DocumentBuilder<'_>, breakdown: &Breakdown) {
    let named = |work: Work| Some(breakdown.work(work)).filter(|number| *number > 0);
    let (group, sync, holder) = (
        named(Work::Group),
        named(Work::Sync),
        named(Work::LockHolder),
    );
    let stall = quarry_timing::stall_cause_text(breakdown.work(Work::StallCause));
    if group.or(sync).or(holder).is_none() && stall.is_none() {
        return;
    }
    let mut waits = out.document("waits");
    if let Some(group) = group {
        waits.append("group", signed(group));
        waits.append("groupWriters", signed(breakdown.work(Work::GroupWriters)));
    }
    if let Some(sync) = sync {
        waits.append("sync", signed(sync));
    }
    if let Some(checkpoint) = named(Work::Checkpoint) {
        waits.append("checkpoint", signed(checkpoint));
    }
    if let Some(holder) = holder {
        let (kind, opid) = split_tag(holder);
        let mut shown = waits.document("lockHolder");
        shown.append("opid", i64::from(opid));
        shown.append("op", kind.map_or("internal", OperationKind::name));
        shown.finish();
    }
    if let Some(stall) = stall {
        waits.append("stall", stall.as_str());
    }
    waits.finish();
}

/// Writes a set of operations: `{wall: {...}, <phase>: {...}, unattributed: {...}}`.
pub fn append_times(out: &mut DocumentBuilder<'_>, times: &Times) {
    append_distribution(out, "wall", &times.wall);
    for phase in &times.phases {
        append_distribution(out, phase.phase.name(), &phase.time);
    }
    append_distribution(out, "unattributed", &times.unattributed);
}

pub fn append_distribution(out: &mut DocumentBuilder<'_>, name: &str, times: &Distribution) {
    let mut figures = out.document(name);
    figures.append("count", signed(times.count()));
    figures.append("totalMicros", micros(times.sum_ns()));
    figures.append("meanMicros", times.mean_us());
    figures.append("p50Micros", times.quantile_us(0.5));
    figures.append("p90Micros", times.quantile_us(0.9));
    figures.append("p99Micros", times.quantile_us(0.99));
    figures.append("p999Micros", times.quantile_us(0.999));
    figures.append("maxMicros", times.max_us());
    figures.finish();
}

/// The sums of what a set of operations did.
pub fn append_times_work(out: &mut DocumentBuilder<'_>, times: &Times) {
    let mut work = out.document("work");
    for (counted, amount) in times.work() {
        work.append(counted.name(), signed(amount));
    }
    work.finish();
}

/// An operation's name among those that hold locks: its kind and its number.
pub fn tag(kind: OperationKind, opid: u32) -> u64 {
    (kind as u64 + 1) << 32 | u64::from(opid)
}

/// The kind, unless the server itself was at work, and the number.
pub fn split_tag(tag: u64) -> (Option<OperationKind>, u32) {
    let kind = (tag >> 32)
        .checked_sub(1)
        .and_then(|kind| OperationKind::ALL.get(kind as usize).copied());
    (kind, tag as u32)
}

pub fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// BSON has no unsigned numbers.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_kind_and_number() {
        for kind in OperationKind::ALL {
            assert_eq!(split_tag(tag(kind, 0x7fff_ffff)), (Some(kind), 0x7fff_ffff));
        }
        assert_eq!(split_tag(0).0, None);
    }
}
