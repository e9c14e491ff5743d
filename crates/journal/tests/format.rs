//! A journal written by hand, byte by byte as the description of the format says, is read; and what the
//! journal writes has the bytes that the description says.

mod owner;

use owner::Owner;
use quarry_journal::{Files, Level, SimulatedFiles, inspect};

const HEADER_BYTES: usize = 4096;
const SEGMENT_BYTES: u64 = 16 * 1024;
const INCARNATION: u64 = 7 << 32 | 0x1234_5678;
const MADE_UNIX_MS: u64 = 1_700_000_000_000;

fn segment_header(sequence: u64, first_lsn: u64) -> (Vec<u8>, u32) {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(b"QUARRYJ\0");
    bytes.extend_from_slice(&1u32.to_le_bytes());
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
    bytes.resize(HEADER_BYTES, 0);
    (bytes, crc)
}

fn group(
    body: &[u8],
    count: u32,
    first_lsn: u64,
    durable_lsn: u64,
    previous_crc: u32,
    plain_bytes: u32,
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
    behind_crc.extend_from_slice(&[0; 8]);
    behind_crc.extend_from_slice(body);
    let crc = crc32c::crc32c(&behind_crc);
    (
        [&b"QJG1"[..], &crc.to_le_bytes(), &behind_crc].concat(),
        crc,
    )
}

fn records(payloads: &[&[u8]]) -> Vec<u8> {
    let record = |payload: &&[u8]| [&(payload.len() as u32).to_le_bytes()[..], payload].concat();
    payloads.iter().flat_map(record).collect()
}

/// Segment 1 with a plain group, a compressed group, and the mark of a closed journal.
fn journal_by_hand(plain_bytes_of_second: u32) -> SimulatedFiles {
    let (mut file, crc) = segment_header(1, 1);
    let (first, crc) = group(&records(&[b"one", b""]), 2, 1, 0, crc, 0);
    // A block of literals only: token, the rest of their number, 15 having gone into the token, and they.
    let body = records(&[b"three, as an LZ4 block", b"four"]);
    let packed = [&[0xf0, (body.len() - 15) as u8][..], &body].concat();
    let (second, crc) = group(&packed, 2, 3, 2, crc, plain_bytes_of_second);
    let (mark, _) = group(&[], 0, 5, 4, crc, 0);
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
fn a_journal_written_by_hand_is_read() {
    let files = journal_by_hand(SECOND_PLAIN_BYTES);
    let verified = inspect::verify(&files).unwrap();
    assert_eq!(
        (verified.first_lsn, verified.last_lsn, verified.durable_lsn),
        (1, 4, 4)
    );
    assert!(verified.is_closed);
    let owner = Owner::new();
    let journal = owner.open(&files, 0).unwrap();
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
}

#[test]
fn a_compressed_body_of_another_length_than_said_is_damage() {
    for plain_bytes in [1, SECOND_PLAIN_BYTES - 1, SECOND_PLAIN_BYTES + 1, u32::MAX] {
        let error = Owner::new()
            .open(&journal_by_hand(plain_bytes), 0)
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
    let (mut header, _) = segment_header(1, 1);
    for changing in [72..80, 104..112, 124..128] {
        header[changing.clone()].copy_from_slice(&written[changing]);
    }
    assert!(written[..HEADER_BYTES] == header);
    let first_end = HEADER_BYTES + 64 + 7;
    let crc_at = |at: usize| u32::from_le_bytes(written[at..at + 4].try_into().unwrap());
    let (mut first, _) = group(&records(&[b"one"]), 1, 1, 0, crc_at(124), 0);
    let (mut second, _) = group(&records(&[b"second"]), 1, 2, 1, crc_at(HEADER_BYTES + 4), 0);
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
