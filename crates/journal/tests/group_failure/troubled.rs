//! Failures at random, under writers of all kinds.

use super::*;

/// An engine and a disk that refuse groups now and then, whoever is in them.
struct Troubled {
    files: SimulatedFiles,
    owner: Arc<Owner>,
    groups: AtomicU64,
}

impl Hooks for Troubled {
    fn ready(&self, _bytes: usize) -> Result<(), HookError> {
        let group = self.groups.fetch_add(1, Ordering::Relaxed);
        // The next segment cannot be made.
        let space = group.is_multiple_of(2).then(|| self.files.bytes());
        self.files.set_space(space);
        match group % 7 {
            0 => Err(refusal(HookErrorKind::NoSpace)),
            _ => Ok(()),
        }
    }

    fn finish_group(&self, group: &mut GroupBuilder<'_>) -> Result<(), HookError> {
        self.owner.finish_group(group)
    }

    fn apply(&self, first_lsn: u64, payloads: &Payloads<'_>) -> Result<(), HookError> {
        self.owner.apply(first_lsn, payloads)
    }
}

#[test]
fn records_are_there_once_or_not_at_all_as_their_writers_were_told() {
    const RECORDS: usize = 200;
    let (files, owner) = (SimulatedFiles::new(), Owner::new());
    owner.set_trailer(true);
    let troubled = Arc::new(Troubled {
        files: files.clone(),
        owner: owner.clone(),
        groups: AtomicU64::new(1),
    });
    let journal = open(&files, options(), troubled);
    let record =
        |writer: usize, number: usize| format!("{writer} {number}").repeat(30).into_bytes();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let journal = Arc::clone(&journal);
            let commit =
                move |number| kind_in(&Kind::ALL, writer).commit(&journal, &record(writer, number));
            begin(move || (0..RECORDS).map(commit).collect::<Vec<_>>())
        })
        .collect();
    let answers: Vec<Vec<Answer>> = writers.iter().map(end).collect();
    let records = owner.records();
    let mut lsns = BTreeMap::<&[u8], Vec<u64>>::new();
    for (lsn, record) in &records {
        lsns.entry(record).or_default().push(*lsn);
    }
    let (mut full, mut refused, mut durable_lsn) = (0, 0, 0);
    for (writer, answers) in answers.iter().enumerate() {
        for (number, answer) in answers.iter().enumerate() {
            let found = lsns.get(&record(writer, number)[..]);
            match answer {
                Ok(lsn) => {
                    assert_eq!(found, Some(&vec![*lsn]));
                    if kind_in(&Kind::ALL, writer).level() == Level::Durable {
                        durable_lsn = durable_lsn.max(*lsn);
                    }
                }
                Err(Error::NoSpace { .. }) => {
                    assert_eq!(found, None);
                    full += 1;
                }
                Err(Error::Refused(_)) => {
                    assert_eq!(found, None);
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(full > 0 && refused > 0, "{full} {refused}");
    assert!(durable_lsn > 0 && journal.durable_lsn() >= durable_lsn);
    let after = found_in(&files.crash(Crash::Drop, 0));
    assert!(after.len() as u64 >= durable_lsn && records.starts_with(&after));
    assert!(found_in(&files.crash(Crash::Kill, 0)) == records);
}
