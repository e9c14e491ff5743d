//! The answer to a statement of a session that comes again: noted before the statement is committed, so that its record says so, and
//! read back from there.
//!
//! The answer of an update is `{_id}`, where it has inserted; that of a findAndModify `{matched, upserted, value}`, each where
//! there is one. An insert and a delete need none. Where no session asks again, nothing is noted.

use quarry_bson::{Document, RawValue, Value};
use quarry_database::{Operation, RecordedStatement, StatementKind};
use smallvec::SmallVec;

use super::request::{FindAndModifyOutcome, UpdateOutcome};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// The statements of a command, by position.
pub(super) type Statements = SmallVec<[i32; 4]>;

/// Notes what follows, and returns the statements that the command has named; none where nobody asks for them again.
pub(super) fn named(operation: &Operation, kind: StatementKind) -> Statements {
    let Some(write) = operation.retryable() else {
        return Statements::new();
    };
    write.set_answer(kind, None);
    write.named()
}

/// Notes that what is committed next is of that kind, which says all that a retry is answered.
#[inline]
pub(super) fn note(operation: &Operation, kind: StatementKind) {
    if let Some(write) = operation.retryable() {
        write.set_answer(kind, None);
    }
}

/// Notes that what is committed next is an upsert's document.
pub(super) fn note_upsert(operation: &Operation, id: Option<&Value>) {
    if let Some(write) = operation.retryable() {
        let mut answer = Document::new();
        if let Some(id) = id {
            answer.append("_id", id);
        }
        write.set_answer(StatementKind::Upsert, Some(answer.as_raw()));
    }
}

/// Notes what the findAndModify that is committed next answers.
pub(super) fn note_found(operation: &Operation, outcome: &FindAndModifyOutcome) {
    let Some(write) = operation.retryable() else {
        return;
    };
    let mut answer = Document::new();
    answer.append("matched", outcome.matched);
    if let Some(id) = &outcome.upserted {
        answer.append("upserted", id);
    }
    if let Some(value) = &outcome.value {
        answer.append("value", value);
    }
    write.set_answer(StatementKind::FindAndModify, Some(answer.as_raw()));
}

/// The answer of an update that was done already.
pub fn update_again(recorded: &RecordedStatement) -> Result<UpdateOutcome> {
    match (recorded.kind, &recorded.answer) {
        (StatementKind::Update, _) => Ok(UpdateOutcome {
            matched: 1,
            modified: 1,
            upserted: None,
        }),
        (StatementKind::Upsert, Some(answer)) => Ok(UpdateOutcome {
            upserted: answer.get("_id").map(|id| id.to_value()),
            ..UpdateOutcome::default()
        }),
        _ => Err(other_statement("update", recorded)),
    }
}

/// The answer of a findAndModify that was done already.
pub fn find_and_modify_again(recorded: &RecordedStatement) -> Result<FindAndModifyOutcome> {
    let (StatementKind::FindAndModify, Some(answer)) = (recorded.kind, &recorded.answer) else {
        return Err(other_statement("findAndModify", recorded));
    };
    let value = match answer.get("value") {
        Some(RawValue::Document(value)) => Some(value.to_owned_document()),
        _ => None,
    };
    Ok(FindAndModifyOutcome {
        matched: answer.get("matched").is_some_and(|value| value.is_truthy()),
        upserted: answer.get("upserted").map(|id| id.to_value()),
        value,
    })
}

fn other_statement(name: &str, recorded: &RecordedStatement) -> Error {
    let text = format!(
        "{name} retry request is not compatible with the previous write of this statement: {:?}",
        recorded.kind
    );
    Error::new(ErrorCode(40_606), text)
}
