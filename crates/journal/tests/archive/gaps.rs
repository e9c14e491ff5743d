//! Gaps: moments in them are refused, both sides of them can be come back to, and `verify` names them.

use quarry_journal::archive::Moment;
use quarry_journal::files::simulated::Crash;
use quarry_journal::{Files, SimulatedFiles};

use super::owner::Owner;
use super::{
    HOLD_BYTES, SEGMENT_BYTES, archive, copy_of, expected, headers, history, now_ms, open,
    open_with, payload, piece_names, rebuilt, write_up_to,
};

/// An archive that has the records up to `GAP_BEGINS_BEHIND`, misses the rest of that segment and perhaps later ones, and has what
/// comes then.
struct WithGap {
    archived: SimulatedFiles,
    /// From before the first record, and from before the gap.
    backups: [(SimulatedFiles, u64); 2],
    /// Made behind the gap.
    late_backup: (SimulatedFiles, u64),
    /// The cluster time of each record, from that of record 1 on.
    times: Vec<u64>,
    /// A time while the missing records were written.
    ms_within: u64,
}

const GAP_BEGINS_BEHIND: u64 = 60;

/// Writes until so many segments were freed that the archive has not seen, or not wholly.
fn with_gap(segments: u64) -> WithGap {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open_with(&files, 0, &Owner::new(), SEGMENT_BYTES);
    let mut archive = archive(&archived);
    let (mut times, mut ms_within) = (Vec::new(), 0);
    let first_backup = copy_of(&journal);
    let mut second_backup = None;
    while journal.waiting_for_archive().unwrap().given_up < segments {
        let lsn = journal.last_lsn() + 1;
        times.push(journal.submit(&payload(1, lsn)).unwrap().cluster_time);
        match lsn {
            40 => second_backup = Some(copy_of(&journal)),
            GAP_BEGINS_BEHIND => drop(journal.archive(&mut archive, true).unwrap()),
            62 => {
                ms_within = now_ms();
                while now_ms() <= ms_within + 2 {
                    std::thread::yield_now();
                }
            }
            _ => {}
        }
        if lsn > GAP_BEGINS_BEHIND {
            journal.sync().unwrap();
            journal.checkpointed(lsn).unwrap();
        }
    }
    let said = journal.archive(&mut archive, true).unwrap();
    assert_eq!(said.gaps, 1, "a segment that is there in part is a gap");
    let late_backup = copy_of(&journal);
    write_up_to(&journal, 1, journal.last_lsn() + 30);
    assert_eq!(journal.archive(&mut archive, true).unwrap().gaps, 0);
    WithGap {
        archived,
        backups: [first_backup, second_backup.unwrap()],
        late_backup,
        times,
        ms_within,
    }
}

/// The segment of which the archive has a part, and more of them.
#[test]
fn a_moment_in_a_gap_is_refused() {
    for segments in [1, 3] {
        let with_gap = with_gap(segments);
        let history = history(&with_gap.archived);
        let lines = history.lines().unwrap();
        assert_eq!(lines.len(), 1, "a gap does not split a line");
        let ranges = lines[0].ranges(&history);
        let ends: Vec<_> = (ranges.iter())
            .map(|range| (range.first_lsn, range.last_lsn))
            .collect();
        let [(1, GAP_BEGINS_BEHIND), (behind, last)] = ends[..] else {
            panic!("{segments} segments: {ends:?}");
        };
        let at = |moment| {
            let cut = lines[0].cut_at(&history, moment).unwrap();
            (cut.lsn, cut.is_certain, cut.gap_ends_before)
        };
        let refused = (GAP_BEGINS_BEHIND, false, Some(behind));
        for lsn in 1..=last {
            let is_missing = lsn > GAP_BEGINS_BEHIND && lsn < behind;
            let expected = match is_missing {
                true => refused,
                false => (lsn, true, None),
            };
            assert_eq!(at(Moment::Lsn(lsn)), expected, "{lsn} of {ends:?}");
            if let Some(&time) = with_gap.times.get(lsn as usize - 1) {
                assert_eq!(at(Moment::ClusterTime(time)), expected, "{lsn} of {ends:?}");
            }
        }
        assert_eq!(at(Moment::UnixMs(with_gap.ms_within)), refused);
        assert_eq!(at(Moment::Latest), (last, true, None));
        // Each side can be come to from a backup of its own.
        for (backup, backup_lsn) in &with_gap.backups {
            let goes_on =
                |cut_lsn| lines[0].goes_on_from(&history, &headers(backup), *backup_lsn, cut_lsn);
            assert!(goes_on(GAP_BEGINS_BEHIND) && !goes_on(behind));
            for cut_lsn in [*backup_lsn, 50, GAP_BEGINS_BEHIND] {
                let records = rebuilt(&with_gap.archived, 0, backup, *backup_lsn, cut_lsn);
                assert_eq!(records, expected(&[(1, cut_lsn)], cut_lsn));
            }
        }
        let (backup, backup_lsn) = &with_gap.late_backup;
        assert!(lines[0].goes_on_from(&history, &headers(backup), *backup_lsn, last));
    }
}

/// The engine had records that the journal had lost.
#[test]
fn a_moment_in_a_gap_that_the_journal_recorded_is_refused() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let mut archive = archive(&archived);
    let journal = open(&files);
    write_up_to(&journal, 1, 60);
    journal.archive(&mut archive, true).unwrap();
    let files = files.crash(Crash::Kill, 0);
    let journal = open_with(&files, 100, &Owner::new(), HOLD_BYTES);
    for lsn in 101..=120 {
        assert_eq!(journal.submit(&payload(2, lsn)).unwrap().lsn, lsn);
    }
    assert_eq!(journal.archive(&mut archive, true).unwrap().gaps, 1);
    let history = history(&archived);
    let lines = history.lines().unwrap();
    assert_eq!(lines.len(), 1);
    for (lsn, is_certain) in [
        (59, true),
        (60, true),
        (61, false),
        (100, false),
        (101, true),
    ] {
        let cut = lines[0].cut_at(&history, Moment::Lsn(lsn)).unwrap();
        assert_eq!(
            (cut.lsn, cut.is_certain),
            (if is_certain { lsn } else { 60 }, is_certain)
        );
    }
    let damages = history.verify(&mut |_| {});
    assert!(
        damages.is_empty(),
        "the journal says so itself: {damages:?}"
    );
}

/// The findings of `verify` after a change to the archive.
fn found(archived: &SimulatedFiles, change: &dyn Fn(&SimulatedFiles)) -> Vec<String> {
    let copy = archived.crash(Crash::Kill, 0);
    change(&copy);
    let damages = history(&copy).verify(&mut |_| {});
    damages.iter().map(ToString::to_string).collect()
}

#[test]
fn verify_names_what_is_missing() {
    let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
    let journal = open(&files);
    let mut archive = archive(&archived);
    // The last segment comes in several pieces, each shorter than the one before it.
    for lsn in [100, 112, 114, 115] {
        write_up_to(&journal, 1, lsn);
        journal.archive(&mut archive, true).unwrap();
    }
    assert_eq!(found(&archived, &|_| {}), [""; 0]);
    let pieces = piece_names(&archived);
    let of_segment = |sequence: u64| -> Vec<&String> {
        let prefix = format!("{sequence:010}-");
        (pieces.iter())
            .filter(|name| name.starts_with(&prefix))
            .collect()
    };
    let last = headers(&files).len() as u64;
    assert!(last > 4 && of_segment(last).len() > 1, "{pieces:?}");
    let without = |names: &[&String]| {
        found(&archived, &|copy| {
            for name in names {
                copy.remove(name).unwrap();
            }
        })
    };
    let said = without(&of_segment(2));
    assert!(
        said.len() == 1 && said[0].contains("segment 2 is missing"),
        "{said:?}"
    );
    let said = without(&[of_segment(2), of_segment(3)].concat());
    assert!(
        said.len() == 1 && said[0].contains("segments 2 to 3 are"),
        "{said:?}"
    );
    // The tip says that the end is there.
    let said = without(&of_segment(last));
    assert!(
        said.len() == 1 && said[0].contains("archive.tip"),
        "{said:?}"
    );
    let said = without(&of_segment(last)[..1]);
    assert!(
        said.iter()
            .any(|said| said.contains("are missing before it")),
        "{said:?}"
    );
    let said = without(&[*of_segment(last).last().unwrap()]);
    assert!(
        said.len() == 1 && said[0].contains("up to record 115"),
        "{said:?}"
    );
    let said = found(&archived, &|copy| {
        let mut tip = copy.content("archive.tip").unwrap();
        tip[20] ^= 1;
        copy.replace("archive.tip", tip);
    });
    assert!(
        said.len() == 1 && said[0].contains("archive.tip"),
        "{said:?}"
    );
    // Records are missing behind a segment that is there in part.
    let with_gap = with_gap(1);
    let said = found(&with_gap.archived, &|_| {});
    assert!(
        said.len() == 1 && said[0].contains("behind 60 are missing"),
        "{said:?}"
    );
}
