//! `findAndModify`: changes or removes the first document in an order and answers it as it was or as it is.

use quarry_bson::{Document, RawDocument};
use quarry_database::{Change, Database, Error, Level, Operation};

use super::error::Result;
use super::executor::project;
use super::find::Parsed;
use super::modify::Target;
use super::now_ms;
use super::request::{FindAndModifyOutcome, FindAndModifyRequest};
use super::update::{UPSERT_ATTEMPTS_MAX, applying, id_of, upsert};
use crate::update::Update;

pub fn find_and_modify(
    database: &Database,
    operation: &Operation,
    request: FindAndModifyRequest<'_>,
    level: Level,
) -> Result<FindAndModifyOutcome> {
    let parsed = Parsed::parse(request.filter, request.sort, request.projection)?;
    let mut update = request.update.map(Update::parse).transpose()?;
    if let Some(update) = update.as_mut().filter(|_| !request.keeps_empty_timestamps) {
        update.fill_empty_timestamps();
    }
    let target = Target::new(
        database,
        operation,
        request.namespace,
        request.filter,
        request.hint,
    )
    .with_parsed(parsed);
    let parsed = target.parsed()?;
    let now_ms = now_ms();
    for _ in 0..UPSERT_ATTEMPTS_MAX {
        let mut image = None;
        let mut totals = target.modify_one(&mut |document, details, out| {
            let change = match &update {
                None => Change::Delete,
                Some(update) => applying(update, now_ms)(document, details, out)?,
            };
            let is_new = request.returns_new && change == Change::Replace;
            let shown = if is_new {
                RawDocument::new(out)?
            } else {
                document
            };
            image = Some(shown.to_owned_document());
            Ok(change)
        })?;
        totals.settle(database, level)?;
        if totals.matched > 0 {
            return Ok(FindAndModifyOutcome {
                matched: true,
                upserted: None,
                value: image.map(|image| shown(parsed, &image)).transpose()?,
            });
        }
        let Some(update) = update.as_ref().filter(|_| request.is_upsert) else {
            return Ok(FindAndModifyOutcome::default());
        };
        if let Some(document) = upsert(&target, update, now_ms, level)? {
            let value = request.returns_new.then(|| shown(parsed, &document));
            return Ok(FindAndModifyOutcome {
                matched: false,
                upserted: id_of(&document),
                value: value.transpose()?,
            });
        }
    }
    Err(Error::WriteConflict)
}

fn shown(parsed: &Parsed, document: &Document) -> Result<Document> {
    let mut bytes = Vec::new();
    project(parsed, document.as_raw(), &mut bytes)?;
    Ok(Document::from_bytes(bytes)?)
}
