//! The answer to a statement of a session that comes again: noted before the statement is committed, so that its record says so, and
//! read back from there.
//!
//! The answer of an update is `{_id}`, where it has inserted; that of a findAndModify `{matched, upserted, value, image}`, each where
//! there is one. Its `image` says which document `value` is, so that a request that wants another one is refused; records of
//! earlier versions have none. An insert and a delete need no answer. Where no session asks again, nothing is noted.

use quarry_bson::{Document, RawValue, Value};
use quarry_database::{Operation, RecordedStatement, StatementKind};
use smallvec::SmallVec;

use super::request::{FindAndModifyOutcome, FindAndModifyRequest, UpdateOutcome};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// The document that a findAndModify has returned: the one that it removed, or one that it updated as that was or as that is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    Removed,
    Before,
    After,
}

impl Image {
    fn asked_by(request: &FindAndModifyRequest<'_>) -> Image {
        match (request.update, request.returns_new) {
            (None, _) => Image::Removed,
            (Some(_), false) => Image::Before,
            (Some(_), true) => Image::After,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Image::Removed => "removed",
            Image::Before => "before",
            Image::After => "after",
        }
    }
}

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
pub(super) fn note_found(
    operation: &Operation,
    request: &FindAndModifyRequest<'_>,
    outcome: &FindAndModifyOutcome,
) {
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
    answer.append("image", Image::asked_by(request).name());
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
        (kind, _) => Err(incompatible(40_638, "update", type_letter(kind))),
    }
}

/// The answer of a findAndModify that was done already, as the request that comes again asks for it.
///
/// # Errors
/// MongoDB's 40606 to 40612 where the statement was another one, or its record has not the document that is wanted now.
pub fn find_and_modify_again(
    recorded: &RecordedStatement,
    request: &FindAndModifyRequest<'_>,
) -> Result<FindAndModifyOutcome> {
    let (StatementKind::FindAndModify, Some(answer)) = (recorded.kind, &recorded.answer) else {
        return Err(no_find_and_modify(recorded.kind, request));
    };
    let image = answer.get_str("image");
    let upserted = answer.get("upserted").map(|id| id.to_value());
    match image {
        Some(image) if upserted.is_some() => check_upserted(image, request)?,
        Some(image) => check_image(image, request)?,
        None => {}
    }
    let value = match answer.get("value") {
        // An upsert has no document of before.
        Some(RawValue::Document(_)) if upserted.is_some() && !request.returns_new => None,
        Some(RawValue::Document(value)) => Some(value.to_owned_document()),
        _ => None,
    };
    Ok(FindAndModifyOutcome {
        matched: answer.get("matched").is_some_and(|value| value.is_truthy()),
        upserted,
        value,
    })
}

/// Holds a request that comes again against the document that its first try has returned. MongoDB takes a removal for the update
/// whose old document it has; nothing was removed then, and here it is refused.
fn check_image(image: &str, request: &FindAndModifyRequest<'_>) -> Result<()> {
    let asked = Image::asked_by(request);
    if image == asked.name() {
        return Ok(());
    }
    Err(match asked {
        _ if image == Image::Removed.name() => incompatible(40_606, NAME, 'd'),
        Image::Removed => incompatible(40_606, NAME, 'u'),
        Image::After => lacks_after(),
        Image::Before => lacks_before(),
    })
}

/// Like `check_image`, of an upsert that has inserted. Its new document answers both who wants that and who wants none.
fn check_upserted(image: &str, request: &FindAndModifyRequest<'_>) -> Result<()> {
    if !request.is_upsert {
        return Err(incompatible(40_608, NAME, 'i'));
    }
    if request.returns_new && image != Image::After.name() {
        return Err(lacks_after());
    }
    Ok(())
}

/// The refusal of a findAndModify that comes again for a statement of another command.
fn no_find_and_modify(kind: StatementKind, request: &FindAndModifyRequest<'_>) -> Error {
    let letter = type_letter(kind);
    match (letter, Image::asked_by(request)) {
        ('d', Image::Removed) => {
            let text = "No pre-image available for findAndModify retry request";
            Error::new(ErrorCode(40_607), text)
        }
        ('d', _) | ('u', Image::Removed) => incompatible(40_606, NAME, letter),
        ('u', Image::After) => lacks_after(),
        ('u', Image::Before) => lacks_before(),
        _ => incompatible(40_608, NAME, letter),
    }
}

const NAME: &str = "findAndModify";

/// The type of the entry by which MongoDB's messages name a write.
fn type_letter(kind: StatementKind) -> char {
    match kind {
        StatementKind::Insert | StatementKind::Upsert => 'i',
        StatementKind::Update | StatementKind::FindAndModify => 'u',
        StatementKind::Delete => 'd',
        StatementKind::Commit => 'c',
    }
}

fn incompatible(code: i32, name: &str, letter: char) -> Error {
    let text = format!(
        "{name} retry request is not compatible with previous write in the transaction of type: {letter}"
    );
    Error::new(ErrorCode(code), text)
}

fn lacks_after() -> Error {
    let text = "findAndModify retry request wants the document after update returned, but only before update document is stored";
    Error::new(ErrorCode(40_611), text)
}

fn lacks_before() -> Error {
    let text = "findAndModify retry request wants the document before update returned, but only after update document is stored";
    Error::new(ErrorCode(40_612), text)
}
