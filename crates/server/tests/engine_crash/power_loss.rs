//! Power loss, as it strikes the unsynced part of a journal and of libmdbx's file.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use quarry_journal::RealFiles;
use quarry_journal::inspect::{self, DumpedGroup};

use crate::history::Random;

const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;
const MDBX_FILE: &str = "mdbx.dat";

/// One group that was not synced.
struct Group {
    segment: String,
    offset: u64,
    bytes: usize,
}

/// Drops, tears, scatters or reorders what lies behind `durable_lsn`, or lets all of it arrive.
pub fn damage(journal: &Path, durable_lsn: u64, random: &mut Random) {
    let groups = unsynced(journal, durable_lsn);
    let total: usize = groups.iter().map(|group| group.bytes).sum();
    match random.below(5) {
        0 => {}
        1 => tear(journal, &groups, 0),
        2 => tear(journal, &groups, random.below(total as u64 + 1) as usize),
        3 => scatter(journal, &groups, random),
        _ => {
            for group in &groups {
                if random.one_in(2) {
                    zero(journal, group, 0, group.bytes);
                }
            }
        }
    }
}

/// The first record that the journal has room for and the last one that it holds. The first is unknown where the journal
/// holds no record and its segment does not begin an incarnation; the last is 0 where there is none.
pub fn extent(journal: &Path) -> (Option<u64>, u64) {
    let files = RealFiles::open(journal).unwrap();
    let verified = inspect::verify(&files).unwrap();
    let stated = verified
        .segments
        .first()
        .map_or(0, |segment| segment.header.first_lsn);
    let first = [stated, verified.first_lsn]
        .into_iter()
        .find(|lsn| *lsn != 0);
    (first, verified.last_lsn)
}

fn unsynced(journal: &Path, durable_lsn: u64) -> Vec<Group> {
    let mut groups = Vec::new();
    read(journal, |group| {
        if group.header.first_lsn > durable_lsn {
            groups.push(Group {
                segment: group.segment.to_owned(),
                offset: group.offset,
                bytes: group.header.group_bytes() as usize,
            });
        }
    });
    groups
}

fn read(journal: &Path, mut visit: impl FnMut(&DumpedGroup<'_>)) {
    let files = RealFiles::open(journal).unwrap();
    inspect::dump(&files, 0, &mut |group| {
        visit(group);
        ControlFlow::Continue(())
    })
    .unwrap();
}

/// Keeps so many of the unsynced bytes, at byte granularity.
fn tear(journal: &Path, groups: &[Group], mut kept: usize) {
    for group in groups {
        let here = kept.min(group.bytes);
        zero(journal, group, here, group.bytes);
        kept -= here;
    }
}

fn scatter(journal: &Path, groups: &[Group], random: &mut Random) {
    for group in groups {
        let mut from = 0;
        while from < group.bytes {
            let next_sector = (group.offset as usize + from) / SECTOR_BYTES + 1;
            let to = (next_sector * SECTOR_BYTES - group.offset as usize).min(group.bytes);
            if random.one_in(2) {
                zero(journal, group, from, to);
            }
            from = to;
        }
    }
}

/// Segments are written with zeros before they are used: these bytes never arrived.
fn zero(journal: &Path, group: &Group, from: usize, to: usize) {
    let file = fs::File::options()
        .write(true)
        .open(journal.join(&group.segment))
        .unwrap();
    let zeros = vec![0; to - from];
    file.write_all_at(&zeros, group.offset + from as u64)
        .unwrap();
}

/// libmdbx's file after a power loss, or with pages that the system could not write and forgot: those written since the steady
/// point of `steady` arrived or did not, each by itself, the meta pages too.
pub fn mix_pages(steady: &Path, now: &Path, mixed: &Path, random: &mut Random) {
    let before = fs::read(steady.join(MDBX_FILE)).unwrap();
    let mut bytes = fs::read(now.join(MDBX_FILE)).unwrap();
    for (number, page) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
        let at = number * PAGE_BYTES;
        if random.one_in(2) {
            match before.get(at..at + page.len()) {
                Some(old) => page.copy_from_slice(old),
                None => page.fill(0),
            }
        }
    }
    fs::write(mixed.join(MDBX_FILE), bytes).unwrap();
}
