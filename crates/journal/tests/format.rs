//! A journal written by hand, byte by byte as the description of the format says, is read, in each version; and what the
//! journal writes has the bytes that the description says.

mod owner;

use owner::Owner;
use quarry_journal::files::simulated::Crash;
use quarry_journal::{Error, Files, Journal, Level, SimulatedFiles, Stamp, inspect};
use twox_hash::XxHash3_64;

const HEADER_BYTES: usize = 4096;
const SEGMENT_BYTES: u64 = 16 * 1024;
const INCARNATION: u64 = 7 << 32 | 0x1234_5678;
const MADE_UNIX_MS: u64 = 1_700_000_000_000;

/// The 128 bytes that both versions begin with.
fn segment_header_start(version: u32, sequence: u64, first_lsn: u64) -> (Vec<u8>, u32) {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(b"QUARRYJ\0");
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&4096u32.to_le_bytes());
    bytes.extend_from_slice(b"a database uuid!");
    bytes.extend_from_slice(b"memory");
    bytes.resize(64, 0);
    for field in [
        sequence,
        INCARNATION,
        SEGMENT_BYTES,
        first_lsn,
        0,
        MADE_UNIX_MS,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.resize(124, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}

fn stamp_bytes(stamp: Stamp) -> Vec<u8> {
    let words = [stamp.term, stamp.index, stamp.cluster_time, stamp.digest];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `stamp` is there in version 2 alone.
fn segment_header(sequence: u64, first_lsn: u64, stamp: Option<Stamp>) -> (Vec<u8>, u32) {
    let version = if stamp.is_some() { 2 } else { 1 };
    let (mut bytes, mut crc) = segment_header_start(version, sequence, first_lsn);
    if let Some(stamp) = stamp {
        bytes.extend_from_slice(&stamp_bytes(stamp));
        crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes.resize(HEADER_BYTES, 0);
    (bytes, crc)
}

/// The digest of a group of records, from the one before.
fn digest(before: u64, stamp: Stamp, first_lsn: u64, count: u32, records: &[u8]) -> u64 {
    let words = [
        before,
        stamp.term,
        stamp.index,
        stamp.cluster_time,
        first_lsn,
        u64::from(count),
        XxHash3_64::oneshot(records),
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    XxHash3_64::oneshot(&bytes)
}

fn group(
    body: &[u8],
    count: u32,
    first_lsn: u64,
    durable_lsn: u64,
    previous_crc: u32,
    plain_bytes: u32,
    stamp: Option<Stamp>,
) -> (Vec<u8>, u32) {
    let mut behind_crc = Vec::new();
    behind_crc.extend_from_slice(&(body.len() as u32).to_le_bytes());
    behind_crc.extend_from_slice(&count.to_le_bytes());
    behind_crc.extend_from_slice(&INCARNATION.to_le_bytes());
    behind_crc.extend_from_slice(&first_lsn.to_le_bytes());
    behind_crc.extend_from_slice(&durable_lsn.to_le_bytes());
    behind_crc.extend_from_slice(&previous_crc.to_le_bytes());
    behind_crc.extend_from_slice(&plain_bytes.to_le_bytes());
    behind_crc.extend_from_slice(&MADE_UNIX_MS.to_le_bytes());
    behind_crc.extend(stamp.into_iter().flat_map(stamp_bytes));
    behind_crc.extend_from_slice(&[0; 8]);
    behind_crc.extend_from_slice(body);
    let crc = crc32c::crc32c(&behind_crc);
    let magic = if stamp.is_some() { b"QJG2" } else { b"QJG1" };
    ([&magic[..], &crc.to_le_bytes(), &behind_crc].concat(), crc)
}

fn records(payloads: &[&[u8]]) -> Vec<u8> {
    let record = |payload: &&[u8]| [&(payload.len() as u32).to_le_bytes()[..], payload].concat();
    payloads.iter().flat_map(record).collect()
}

/// The stamps of the two groups of the journal written by hand, and of what comes behind them.
struct Stamps {
    begun: Stamp,
    first: Stamp,
    second: Stamp,
    behind: Stamp,
}

fn stamps() -> Stamps {
    let begun = Stamp {
        term: 1,
        index: 41,
        cluster_time: 1_700_000_000 << 32 | 1,
        digest: 0x0123_4567_89ab_cdef,
    };
    let mut first = begun;
    first.digest = digest(begun.digest, first, 1, 2, &records(&[b"one", b""]));
    let mut second = Stamp {
        index: 42,
        cluster_time: 1_700_000_003 << 32 | 1,
        ..begun
    };
    let plain = records(&[b"three, as an LZ4 block", b"four"]);
    second.digest = digest(first.digest, second, 3, 2, &plain);
    let behind = Stamp {
        index: 43,
        cluster_time: second.cluster_time + 2,
        ..second
    };
    Stamps {
        begun,
        first,
        second,
        behind,
    }
}

/// Segment 1 with a plain group, a compressed group, and the mark of a closed journal; in version 2 with stamps.
fn journal_by_hand(plain_bytes_of_second: u32, stamps: Option<&Stamps>) -> SimulatedFiles {
    let (mut file, crc) = segment_header(1, 1, stamps.map(|stamps| stamps.begun));
    let stamp = stamps.map(|stamps| stamps.first);
    let (first, crc) = group(&records(&[b"one", b""]), 2, 1, 0, crc, 0, stamp);
    // A block of literals only: token, the rest of their number, 15 having gone into the token, and they.
    let body = records(&[b"three, as an LZ4 block", b"four"]);
    let packed = [&[0xf0, (body.len() - 15) as u8][..], &body].concat();
    let stamp = stamps.map(|stamps| stamps.second);
    let (second, crc) = group(&packed, 2, 3, 2, crc, plain_bytes_of_second, stamp);
    let stamp = stamps.map(|stamps| stamps.behind);
    let (mark, _) = group(&[], 0, 5, 4, crc, 0, stamp);
    for part in [first, second, mark] {
        file.extend_from_slice(&part);
    }
    file.resize(SEGMENT_BYTES as usize, 0);
    let files = SimulatedFiles::new();
    files.replace("0000000001.segment", file);
    files
}

const SECOND_PLAIN_BYTES: u32 = 4 + 22 + 4 + 4;

#[test]
fn a_journal_of_version_1_written_by_hand_is_read() {
    let journal = is_read(&journal_by_hand(SECOND_PLAIN_BYTES, None));
    // It knows no cluster time: what comes now begins with the time that it is.
    let now_secs = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!((journal.cluster_time() >> 32).abs_diff(now_secs) < 1000);
}

#[test]
fn a_journal_of_version_2_written_by_hand_is_read() {
    let stamps = stamps();
    let journal = is_read(&journal_by_hand(SECOND_PLAIN_BYTES, Some(&stamps)));
    let written = inspect_last(&journal);
    assert_eq!(written.index, stamps.behind.index);
    assert!(written.cluster_time >= stamps.behind.cluster_time);
}

/// A group that no start could read must not be answered for.
#[test]
fn no_record_is_taken_behind_the_end_of_cluster_time() {
    let mut stamps = stamps();
    let last = u64::from(u32::MAX) << 32;
    stamps.second.cluster_time = last - 2;
    let plain = records(&[b"three, as an LZ4 block", b"four"]);
    stamps.second.digest = digest(stamps.first.digest, stamps.second, 3, 2, &plain);
    stamps.behind.cluster_time = last;
    stamps.behind.digest = stamps.second.digest;
    let files = journal_by_hand(SECOND_PLAIN_BYTES, Some(&stamps));
    for _ in 0..2 {
        let owner = Owner::new();
        let journal = owner.open(&files, 0).unwrap();
        let error = journal.submit(b"five").unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
        assert_eq!(owner.records().len(), 4);
    }
}

/// A start after an upgrade goes on from records that have no time: whoever asks for a time before the first one that has is
/// told so.
#[test]
fn a_time_before_the_first_stamped_record_of_an_upgraded_journal_is_history_missing() {
    let files = journal_by_hand(SECOND_PLAIN_BYTES, None);
    let made_secs = MADE_UNIX_MS / 1000;
    let is_missing = |journal: &Journal, time: u64| {
        let found = journal.first_since(time);
        matches!(found, Err(Error::HistoryMissing { .. }))
    };
    let journal = Owner::new().open(&files, 0).unwrap();
    assert!(is_missing(&journal, 0) && is_missing(&journal, made_secs << 32));
    // Later than all that is there.
    assert_eq!(journal.first_since((made_secs + 1) << 32).unwrap(), None);
    assert_eq!(journal.submit(b"five").unwrap().lsn, 5);
    let five = journal.cluster_time();
    for life in 0..2 {
        let journal = match life {
            0 => journal_of(&files, 4),
            _ => journal_of(&files, 0),
        };
        assert_eq!(journal.submit(b"more").unwrap().lsn, 6 + life);
        for time in [0, 1, made_secs << 32, five - 1] {
            assert!(is_missing(&journal, time), "life {life}, {time}");
        }
        assert_eq!(journal.first_since(five).unwrap(), Some(5));
        assert!(
            journal
                .first_since(five + 1)
                .unwrap()
                .is_some_and(|lsn| lsn > 5)
        );
    }
}

fn journal_of(files: &SimulatedFiles, applied_lsn: u64) -> Journal {
    Owner::new().open(files, applied_lsn).unwrap()
}

/// A digest of another history is found by whoever asks; a start trusts the checksums.
#[test]
fn verify_finds_a_digest_of_another_history() {
    let mut stamps = stamps();
    stamps.second.digest ^= 1;
    let error = inspect::verify(&journal_by_hand(SECOND_PLAIN_BYTES, Some(&stamps)));
    let error = error.err().unwrap();
    assert!(
        matches!(&error, Error::Damaged { reason, .. } if reason.contains("digest")),
        "{error}"
    );
}

/// An index that is left out, and a cluster time or a term that falls, are not the next group's.
#[test]
fn a_group_that_does_not_go_on_from_the_one_before_ends_the_chain() {
    let spoils: [fn(&mut Stamp); 3] = [
        |stamp| stamp.index += 1,
        |stamp| stamp.cluster_time = (1_700_000_000 << 32) + 2,
        |stamp| stamp.term -= 1,
    ];
    for spoil in spoils {
        let mut stamps = stamps();
        spoil(&mut stamps.second);
        let error = Owner::new().open(&journal_by_hand(SECOND_PLAIN_BYTES, Some(&stamps)), 0);
        assert!(error.err().is_some_and(|error| error.is_corruption()));
    }
}

/// The stamp of the last group that the journal has, as a start would go on from it.
fn inspect_last(journal: &Journal) -> Stamp {
    let behind = journal.log().stamp().unwrap();
    Stamp {
        index: behind.index - 1,
        cluster_time: behind.cluster_time - 1,
        ..behind
    }
}

fn is_read(files: &SimulatedFiles) -> Journal {
    let verified = inspect::verify(files).unwrap();
    assert_eq!(
        (verified.first_lsn, verified.last_lsn, verified.durable_lsn),
        (1, 4, 4)
    );
    assert!(verified.is_closed);
    let owner = Owner::new();
    let journal = owner.open(files, 0).unwrap();
    let expected: [(u64, &[u8]); 4] = [
        (1, b"one"),
        (2, b""),
        (3, b"three, as an LZ4 block"),
        (4, b"four"),
    ];
    assert_eq!(
        owner.records(),
        expected.map(|(lsn, payload)| (lsn, payload.to_vec()))
    );
    assert_eq!(journal.submit(b"five").unwrap().lsn, 5);
    journal
}

#[test]
fn a_compressed_body_of_another_length_than_said_is_damage() {
    for plain_bytes in [1, SECOND_PLAIN_BYTES - 1, SECOND_PLAIN_BYTES + 1, u32::MAX] {
        let error = Owner::new()
            .open(&journal_by_hand(plain_bytes, None), 0)
            .err()
            .unwrap();
        assert!(error.is_corruption(), "{plain_bytes}: {error}");
    }
}

/// Incarnation and times differ from life to life; everything else is fixed.
#[test]
fn what_is_written_has_the_bytes_described() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    journal.commit(b"one", Level::Durable).unwrap();
    journal.commit(b"second", Level::Written).unwrap();
    let written = files.content("0000000001.segment").unwrap();
    assert_eq!(written.len() as u64, SEGMENT_BYTES);
    let (mut header, _) = segment_header(1, 1, Some(Stamp::default()));
    for changing in [72..80, 104..112, 124..128, 160..164] {
        header[changing.clone()].copy_from_slice(&written[changing]);
    }
    assert!(written[..HEADER_BYTES] == header);
    let first_end = HEADER_BYTES + 96 + 7;
    let long_at = |at: usize| u64::from_le_bytes(written[at..at + 8].try_into().unwrap());
    let crc_at = |at: usize| u32::from_le_bytes(written[at..at + 4].try_into().unwrap());
    // The cluster time is the system's clock's, if that is not behind the record before.
    let stamp = |index, at: usize, before, records: &[u8]| {
        let mut stamp = Stamp {
            term: 1,
            index,
            cluster_time: long_at(at + 72),
            digest: 0,
        };
        stamp.digest = digest(before, stamp, 1 + index, 1, records);
        stamp
    };
    let (one, two) = (records(&[b"one"]), records(&[b"second"]));
    let first = stamp(0, HEADER_BYTES, 0, &one);
    let second = stamp(1, first_end, first.digest, &two);
    assert_eq!(first.cluster_time & 0xffff_ffff, 1);
    assert!(second.cluster_time > first.cluster_time);
    let (mut first, _) = group(&one, 1, 1, 0, crc_at(160), 0, Some(first));
    let previous = crc_at(HEADER_BYTES + 4);
    let (mut second, _) = group(&two, 1, 2, 1, previous, 0, Some(second));
    for (expected, at) in [(&mut first, HEADER_BYTES), (&mut second, first_end)] {
        for changing in [4..8, 16..24, 48..56] {
            expected[changing.clone()]
                .copy_from_slice(&written[at + changing.start..at + changing.end]);
        }
        assert!(written[at..at + expected.len()] == expected[..]);
        assert_eq!(crc_at(at + 4), crc32c::crc32c(&expected[8..]));
    }
    assert!(
        written[first_end + second.len()..]
            .iter()
            .all(|&byte| byte == 0)
    );
    let names = files.list().unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// A segment behind a recorded gap says from which cluster time on there is no record in the gap; a build before did not.
#[test]
fn a_segment_behind_a_gap_says_when_the_gap_ends() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    journal.commit(b"lost", Level::Written).unwrap();
    let files = files.crash(Crash::Drop, 0);
    let journal = journal_of(&files, 4);
    let behind = journal.cluster_time();
    let written = files.content("0000000002.segment").unwrap();
    let long_at = |at: usize| u64::from_le_bytes(written[at..at + 8].try_into().unwrap());
    assert_eq!([long_at(88), long_at(96)], [5, 0]);
    assert_eq!(long_at(112), behind + 1);
    assert_eq!(written[120..124], [0; 4]);
    assert_eq!(
        written[124..128],
        crc32c::crc32c(&written[..124]).to_le_bytes()
    );

    let begun = stamps().begun;
    let (mut content, previous) = segment_header(1, 5, Some(begun));
    let (body, stamp) = (
        records(&[b"five"]),
        Stamp {
            cluster_time: (MADE_UNIX_MS / 1000 + 1) << 32 | 1,
            ..begun
        },
    );
    content.extend(group(&body, 1, 5, 4, previous, 0, Some(stamp)).0);
    content.resize(SEGMENT_BYTES as usize, 0);
    let files = SimulatedFiles::new();
    files.replace("0000000001.segment", content);
    let journal = journal_of(&files, 4);
    let earlier = journal.first_since(begun.cluster_time);
    assert!(matches!(earlier, Err(Error::HistoryMissing { .. })));
    assert_eq!(journal.first_since(stamp.cluster_time).unwrap(), Some(5));
}

/// A closed journal says in each segment where some of its groups begin.
#[test]
fn the_index_that_is_written_has_the_bytes_described() {
    let files = SimulatedFiles::new();
    let journal = Owner::new().open(&files, 0).unwrap();
    journal.commit(b"one", Level::Durable).unwrap();
    let cluster_time = journal.cluster_time();
    drop(journal);
    let written = files.content("0000000001.segment").unwrap();
    let mut expected = Vec::new();
    for word in [1, cluster_time, HEADER_BYTES as u64] {
        expected.extend_from_slice(&word.to_le_bytes());
    }
    assert_eq!(written[164..512], [0; 348]);
    assert_eq!(written[512..516], *b"QJIX");
    assert_eq!(written[520..528], *b"\x01\0\0\0\0\0\0\0");
    assert_eq!(written[528..552], expected);
    assert!(written[552..HEADER_BYTES].iter().all(|&byte| byte == 0));
    let mut summed = Vec::new();
    summed.extend_from_slice(&written[72..80]);
    summed.extend_from_slice(&written[64..72]);
    summed.extend_from_slice(&written[520..552]);
    assert_eq!(written[516..520], crc32c::crc32c(&summed).to_le_bytes());
}
