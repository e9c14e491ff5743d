//! `quarry journal` as a person runs it, on journals of known content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quarry_journal::{
    GroupBuilder, HookError, Hooks, Identity, Journal, Level, Options, Payloads, RealFiles,
};

const RECORDS: u64 = 40;
const RECORD_BYTES: usize = 500;
/// The size of a group in a journal of these records: each is a group of its own.
const GROUP_BYTES: usize = 96 + 4 + RECORD_BYTES;
const HEADER_BYTES: usize = 4096;

struct Nothing;

impl Hooks for Nothing {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        Ok(())
    }

    fn finish_group(&self, _group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        Ok(())
    }

    fn apply(&self, _first_lsn: u64, _payloads: &Payloads<'_>) -> Result<(), HookError> {
        Ok(())
    }
}

/// A data directory with a journal in it, gone with the test.
struct Data(PathBuf);

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Data {
    fn new() -> Data {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("quarry-journal-command-{}-{number}", std::process::id());
        let data = Data(std::env::temp_dir().join(name));
        fs::create_dir_all(&data.0).unwrap();
        data
    }

    fn with_journal() -> Data {
        let data = Data::new();
        let journal = data.open(0);
        for number in 1..=RECORDS {
            journal
                .commit(&[number as u8; RECORD_BYTES], Level::Written)
                .unwrap();
        }
        journal.close().unwrap();
        data
    }

    fn open(&self, applied_lsn: u64) -> Journal {
        let files = Arc::new(RealFiles::open(self.0.join("journal")).unwrap());
        let identity = Identity {
            database: *b"0123456789abcdef",
            engine: "memory".to_owned(),
        };
        let options = Options {
            segment_bytes: 16 * 1024,
            background: false,
            ..Options::default()
        };
        Journal::open(files, options, identity, applied_lsn, Arc::new(Nothing)).unwrap()
    }

    fn segment(&self, number: u32) -> PathBuf {
        self.0.join(format!("journal/{number:010}.segment"))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        journal_command(arguments, &self.0)
    }
}

fn journal_command(arguments: &[&str], dbpath: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quarry"))
        .arg("journal")
        .args(arguments)
        .arg("--dbpath")
        .arg(dbpath)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        line.starts_with("quarry journal: ") && line.lines().count() == 1,
        "{line}"
    );
    line
}

fn flip(path: &Path, at: usize) {
    let mut content = fs::read(path).unwrap();
    content[at] ^= 1;
    fs::write(path, content).unwrap();
}

#[test]
fn verify_tells_what_is_there() {
    let data = Data::with_journal();
    let before = fs::read(data.segment(1)).unwrap();
    let text = said(&data.run(&["verify"]));
    assert!(
        text.contains("database 30313233-3435-3637-3839-616263646566\n"),
        "{text}"
    );
    assert!(text.contains("engine   memory\n"), "{text}");
    assert!(
        text.contains("the chain is whole: records 1 to 40, end in `0000000002.segment`"),
        "{text}"
    );
    let history = "closed, all of it durable\n40 groups since the history began, term 1, digest ";
    assert!(text.contains(history), "{text}");
    assert_eq!(before, fs::read(data.segment(1)).unwrap());
    // A process that ended without closing leaves no mark.
    let journal = data.open(RECORDS);
    journal.commit(b"one more", Level::Written).unwrap();
    std::mem::forget(journal);
    let line = refused(&data.run(&["verify"]), 100);
    assert!(line.contains("in use by another process"), "{line}");
}

#[test]
fn verify_names_the_damage() {
    let data = Data::with_journal();
    flip(&data.segment(1), HEADER_BYTES + 3 * GROUP_BYTES + 100);
    let line = refused(&data.run(&["verify"]), 1);
    let place = format!(
        "`0000000001.segment` is damaged at offset {}",
        HEADER_BYTES + 3 * GROUP_BYTES
    );
    assert!(line.contains(&place), "{line}");
}

#[test]
fn dump_lists_groups_and_records() {
    let data = Data::with_journal();
    let text = said(&data.run(&["dump"]));
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(" record "))
            .count() as u64,
        RECORDS,
        "{text}"
    );
    assert!(
        text.lines()
            .last()
            .is_some_and(|line| line.contains(" mark, 96 bytes, durable up to 40")),
        "{text}"
    );
    let text = said(&data.run(&["dump", "--from", "7", "--limit", "2", "--records"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let offset = HEADER_BYTES + 6 * GROUP_BYTES;
    assert!(
        lines[0].starts_with("0000000001.segment")
            && lines[0].contains(&format!(" {offset}  record 7, {GROUP_BYTES} bytes")),
        "{text}"
    );
    assert_eq!(
        lines[1],
        format!("  7 {RECORD_BYTES} {}", "07".repeat(RECORD_BYTES))
    );
    assert!(lines[3].starts_with("  8 "), "{text}");
}

#[test]
fn truncate_gives_up_the_damage_and_the_log_goes_on() {
    let data = Data::with_journal();
    flip(&data.segment(1), HEADER_BYTES + 9 * GROUP_BYTES + 70);
    refused(&data.run(&["verify"]), 1);
    let line = refused(&data.run(&["truncate", "--after", "10"]), 1);
    assert!(
        line.contains("the last one before it ends at record 9; nothing was changed"),
        "{line}"
    );
    refused(&data.run(&["verify"]), 1);
    let text = said(&data.run(&["truncate", "--after", "9"]));
    assert_eq!(text, "the log now ends at record 9: 9 groups are kept\n");
    let text = said(&data.run(&["verify"]));
    assert!(
        text.contains("records 1 to 9,") && text.contains("not closed"),
        "{text}"
    );
    assert_eq!(
        data.open(0).commit(b"goes on", Level::Durable).unwrap().lsn,
        10
    );
}

#[test]
fn truncate_gives_up_what_lies_behind_a_missing_segment_only_if_told_so() {
    let data = Data::with_journal();
    fs::rename(data.segment(2), data.segment(3)).unwrap();
    let line = refused(&data.run(&["truncate", "--after", "5"]), 1);
    assert!(
        line.contains("`0000000002.segment`") && line.contains("nothing was changed"),
        "{line}"
    );
    assert!(data.segment(3).exists());
    let text = said(&data.run(&["truncate", "--after", "5", "--over-gap"]));
    assert_eq!(text, "the log now ends at record 5: 5 groups are kept\n");
    assert!(!data.segment(3).exists());
}

#[test]
fn a_directory_without_a_journal_is_named_and_not_made() {
    let data = Data::new();
    for command in [&["verify"][..], &["dump"], &["truncate", "--after", "1"]] {
        let line = refused(&data.run(command), 100);
        assert!(
            line.contains("there is none") && line.contains("/journal`"),
            "{line}"
        );
    }
    assert!(!data.0.join("journal").exists());
    assert_eq!(
        data.run(&["truncate"]).status.code(),
        Some(2),
        "an LSN must be said"
    );
}
