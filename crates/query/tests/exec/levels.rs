//! What a write waits for: its own commit, and where it changed nothing, what it saw.

use super::*;

fn is_durable(database: &Database) -> bool {
    let journal = database.journal();
    journal.durable_lsn() == journal.last_lsn()
}

/// A client that is not sure of its write sends it again, asks for more this time, and hears that it was there already.
#[test]
fn a_write_that_changes_nothing_waits_for_what_it_saw() {
    // No background sync: only who waits makes anything durable.
    let fixture = with_documents(&[]);
    let document = [json(r#"{"_id": 1, "a": 1}"#)];
    let set = r#"{"$set": {"a": 1}}"#;
    let again: [&dyn Fn(Level) -> u64; 4] = [
        &|level| fixture.insert_at(level, &document, true).errors.len() as u64,
        &|level| {
            fixture
                .update_at(level, r#"{"_id": 1}"#, set, false, false)
                .matched
        },
        &|level| {
            fixture
                .update_at(level, r#"{"_id": 2}"#, set, false, false)
                .matched
        },
        &|level| fixture.delete_at(level, r#"{"_id": 2}"#, false),
    ];
    for (number, again) in again.iter().enumerate() {
        let expected = u64::from(number < 2);
        fixture.insert(&document, true);
        assert_eq!(again(Level::Written), expected);
        assert!(!is_durable(&fixture.database), "{number}");
        assert_eq!(again(Level::Durable), expected);
        assert!(is_durable(&fixture.database), "{number}");
        assert_eq!(fixture.delete(r#"{"_id": 1}"#, false), 1);
    }
}
