//! Times as they stand in replies, in the profiler's documents and in log lines. Times are microseconds.

use quarry_bson::DocumentBuilder;
use quarry_timing::{Breakdown, Distribution, OperationKind, Times, Work};

use crate::sessions::transaction_tags;

/// The upper half of the tags of transactions, which is that of no kind of operation.
const TRANSACTION: u64 = u32::MAX as u64;

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// An operation, with its number; one of the server's own has no kind.
    Operation(Option<OperationKind>, u32),
    /// A transaction, with the number that `transaction_tags` gave it.
    Transaction(u32),
}

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
/// it did. A transaction is shown as `lockHolder: {lsid, txnNumber, op: "transaction"}`, for no operation of it need run.
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
        append_lock_holder(&mut waits, LockHolder::of(holder));
    }
    if let Some(stall) = stall {
        waits.append("stall", stall.as_str());
    }
    waits.finish();
}

fn append_lock_holder(waits: &mut DocumentBuilder<'_>, holder: LockHolder) {
    let mut shown = waits.document("lockHolder");
    match holder {
        LockHolder::Operation(kind, opid) => {
            shown.append("opid", i64::from(opid));
            shown.append("op", kind.map_or("internal", OperationKind::name));
        }
        LockHolder::Transaction(number) => {
            if let Some((lsid, txn_number)) = transaction_tags::find(number) {
                lsid.append("lsid", &mut shown);
                shown.append("txnNumber", txn_number);
            }
            shown.append("op", "transaction");
        }
    }
    shown.finish();
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

/// The name among those that hold locks of all operations of a transaction.
pub fn tag_of_transaction(number: u32) -> u64 {
    TRANSACTION << 32 | u64::from(number)
}

impl LockHolder {
    /// The holder with that tag.
    pub fn of(tag: u64) -> LockHolder {
        let (upper, number) = (tag >> 32, tag as u32);
        if upper == TRANSACTION {
            return LockHolder::Transaction(number);
        }
        let kind = upper.checked_sub(1);
        let kind = kind.and_then(|kind| OperationKind::ALL.get(kind as usize).copied());
        LockHolder::Operation(kind, number)
    }
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
            let holder = LockHolder::Operation(Some(kind), 0x7fff_ffff);
            assert_eq!(LockHolder::of(tag(kind, 0x7fff_ffff)), holder);
        }
        assert_eq!(LockHolder::of(0), LockHolder::Operation(None, 0));
        let holder = LockHolder::of(tag_of_transaction(u32::MAX));
        assert_eq!(holder, LockHolder::Transaction(u32::MAX));
    }
}
