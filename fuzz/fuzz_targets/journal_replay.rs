//! A journal of known content, damaged as the input says: the start refuses, or it replays a beginning of what
//! was written. Once checksums are set right again over the damage the content is anybody's: then the start must
//! not panic, and what it replays once it replays twice.
#![no_main]

use std::sync::{Arc, Mutex, OnceLock};

use libfuzzer_sys::fuzz_target;
use quarry_journal::{
    Files, GroupBuilder, HookError, Hooks, Identity, Journal, Level, Options, Payloads,
    SimulatedFiles, inspect,
};

const HEADER_BYTES: usize = 4096;
const GROUP_HEADER_BYTES: usize = 96;
/// Steps of damage that one input may ask for.
const STEPS_MAX: usize = 64;

type Records = Vec<(u64, Vec<u8>)>;
type Segments = Vec<(String, Vec<u8>)>;

#[derive(Default)]
struct Owner(Mutex<Records>);

impl Hooks for Owner {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        assert_eq!(first_lsn, payloads.first_lsn());
        let mut records = self.0.lock().unwrap();
        for (lsn, payload) in payloads {
            assert!(records.last().is_none_or(|(last, _)| last + 1 == lsn));
            records.push((lsn, payload.to_vec()));
        }
        Ok(())
    }
}

fn open(files: &SimulatedFiles, applied_lsn: u64) -> (Records, Option<Journal>) {
    let options = Options {
        segment_bytes: 8 * 1024,
        group_bytes_max: 2048,
        background: false,
        compress_above_bytes: Some(300),
        ..Options::default()
    };
    let identity = Identity {
        database: [7; 16],
        engine: "fuzz".to_owned(),
    };
    let owner = Arc::new(Owner::default());
    let journal = Journal::open(
        Arc::new(files.clone()),
        options,
        identity,
        applied_lsn,
        owner.clone(),
    )
    .ok();
    let records = std::mem::take(&mut *owner.0.lock().unwrap());
    (records, journal)
}

/// Two lives, the first one closed; groups of one and of several records, plain and compressed.
fn whole() -> &'static (Segments, Records) {
    static WHOLE: OnceLock<(Segments, Records)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let files = SimulatedFiles::new();
        for life in 0..2u8 {
            let journal = open(&files, 0).1.expect("a whole journal opens");
            for number in 0..14u8 {
                let bytes = if number % 3 == 0 { 900 } else { 40 };
                let level = if number % 4 == 0 {
                    Level::Durable
                } else {
                    Level::Written
                };
                let pending = journal
                    .submit_async(&vec![number ^ life; bytes], Level::Written)
                    .unwrap();
                journal.commit(&[number; 10], level).unwrap();
                journal.wait(&pending).unwrap();
            }
            if life == 0 {
                journal.close().unwrap();
            } else {
                // Without a mark at the end: a killed process.
                std::mem::forget(journal);
            }
        }
        let names = files.list().unwrap().into_iter().map(|entry| entry.name);
        let segments = names
            .filter(|name| name.ends_with(".segment"))
            .map(|name| (name.clone(), files.content(&name).unwrap()))
            .collect();
        (segments, open(&files, 0).0)
    })
}

/// The input as a list of small numbers; it ends in zeros.
struct Input<'i>(&'i [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % bound.max(1)
    }
}

/// Returns whether checksums were set right again.
fn damage(segments: &mut Segments, input: &mut Input<'_>) -> bool {
    let mut is_forged = false;
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() || segments.is_empty() {
            break;
        }
        let kind = input.byte() % 10;
        let index = input.below(segments.len());
        let other = (index + 1) % segments.len();
        let content = &mut segments[index].1;
        let at = input.below(content.len());
        let length = input.below(700).min(content.len() - at);
        match kind {
            0 => content[at..at + length.min(1)]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << (length % 8)),
            1 => content[at..at + length].fill_with(|| input.byte()),
            2 => content[at..at + length].fill(0),
            3 => content.truncate(at),
            4 => {
                let to = input.below(content.len() - length + 1);
                content.copy_within(at..at + length, to);
            }
            5 => segments[index].1 = segments[other].1.clone(),
            6 => drop(segments.remove(index)),
            7 => {
                let (a, b) = (segments[index].1.clone(), segments[other].1.clone());
                (segments[index].1, segments[other].1) = (b, a);
            }
            8 => is_forged |= reseal_header(content),
            _ => is_forged |= reseal_groups(content),
        }
    }
    is_forged
}

fn reseal_header(content: &mut [u8]) -> bool {
    let Some(header) = content.get_mut(..164) else {
        return false;
    };
    // The part that version 1 has alone, and the whole.
    for crc_at in [124, 160] {
        let crc = crc32c::crc32c(&header[..crc_at]);
        header[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    true
}

/// Sets checksums and the chain right, group by group, as far as lengths lead.
fn reseal_groups(content: &mut [u8]) -> bool {
    let mut at = HEADER_BYTES;
    let mut previous_crc: Option<u32> = None;
    while let Some(header) = content.get(at..at + GROUP_HEADER_BYTES) {
        let body_bytes = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let end = at + GROUP_HEADER_BYTES + body_bytes;
        if &header[..4] != b"QJG2" || end > content.len() {
            break;
        }
        let group = &mut content[at..end];
        if let Some(crc) = previous_crc {
            group[40..44].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = crc32c::crc32c(&group[8..]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        previous_crc = Some(crc);
        at = end;
    }
    previous_crc.is_some()
}

fuzz_target!(|bytes: &[u8]| {
    let (segments, written) = whole();
    let mut segments = segments.clone();
    let mut input = Input(bytes);
    let applied_lsn = input.below(written.len() + 2) as u64;
    let applied_lsn = if applied_lsn > written.len() as u64 {
        0
    } else {
        applied_lsn
    };
    let is_forged = damage(&mut segments, &mut input);
    let files = SimulatedFiles::new();
    for (name, content) in segments {
        files.replace(&name, content);
    }
    let _ = inspect::verify(&files);
    let (records, journal) = open(&files, applied_lsn);
    let Some(journal) = journal else {
        return;
    };
    if !is_forged {
        let rest = written.get(applied_lsn as usize..).unwrap_or_default();
        assert!(records.len() <= rest.len() && records == rest[..records.len()]);
    }
    let next_lsn = journal.submit(b"goes on").unwrap().lsn;
    drop(journal);
    let (again, journal) = open(&files, applied_lsn);
    assert!(
        journal.is_some(),
        "a journal that was recovered and closed opens"
    );
    assert_eq!(again.len(), records.len() + 1);
    assert!(again[..records.len()] == records);
    assert_eq!(again.last(), Some(&(next_lsn, b"goes on".to_vec())));
});
