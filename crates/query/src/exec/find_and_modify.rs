//! `findAndModify`: changes or removes the first document in an order and answers it as it was or as it is.
//!
//! Keeps true: what is answered is made before anything is written, so that nothing is refused after the write.

use quarry_bson::{DateTime, Document, RawDocument};
use quarry_database::{Change, Level, Operation, Scope};

use super::collation::{Outcome, run_collated};
use super::modify::{Effect, Target};
use super::recorded;
use super::request::{FindAndModifyOutcome, FindAndModifyRequest};
use super::update::{applying, id_of, insert_upserted};
use crate::error::Result;
use crate::error_code::ErrorCode;
use crate::plan::Parsed;
use crate::update::{Beside, Update};

/// Changes or removes the first document that matches, in the order that is asked for, and returns it.
pub fn find_and_modify(
    scope: Scope<'_>,
    operation: &Operation,
    request: FindAndModifyRequest<'_>,
    level: Level,
) -> Result<FindAndModifyOutcome> {
    run_collated(request.context, |context| {
        let request = FindAndModifyRequest { context, ..request };
        find_and_modify_in(scope, operation, request, level)
    })
}

/// Runs the command in its context.
fn find_and_modify_in(
    scope: Scope<'_>,
    operation: &Operation,
    request: FindAndModifyRequest<'_>,
    level: Level,
) -> Result<Outcome<FindAndModifyOutcome>> {
    let mut target = Target::new(
        scope,
        operation,
        level,
        request.namespace,
        request.filter,
        request.hint,
        request.context,
    );
    // A filter that is one `_id` is parsed only for what else is asked.
    if request.sort.is_some() || request.projection.is_some() {
        let (sort, projection) = (request.sort, request.projection);
        let parsed = Parsed::parse(request.filter, sort, projection, target.context())?;
        // The position is that of an element of the old document, and the new one may have another there.
        if request.returns_new && parsed.uses_matched_element() {
            let text = "cannot use a positional projection and return the new document";
            return Err(crate::Error::bad_value(text));
        }
        let projection = parsed.projection.as_ref();
        if projection.is_some_and(|projection| !projection.metadata().is_empty()) {
            let text = "$meta is not supported yet in the projection of a findAndModify";
            return Err(crate::Error::new(ErrorCode::NOT_IMPLEMENTED, text));
        }
        target.set_parsed(Box::new(parsed), request.sort);
    }
    target.check()?;
    let beside = Beside {
        array_filters: request.array_filters,
        constants: None,
    };
    let mut update = request
        .update
        .map(|update| Update::parse_in(update, beside, target.context()))
        .transpose()?;
    if let Some(update) = update.as_mut().filter(|_| !request.keeps_empty_timestamps) {
        update.fill_empty_timestamps();
    }
    if request.is_upsert {
        target.check_upsert()?;
    }
    let shown = |document: RawDocument<'_>| -> Result<Document> {
        if request.projection.is_none() {
            return Ok(document.to_owned_document());
        }
        let mut bytes = Vec::new();
        target.parsed()?.project(document, &mut bytes)?;
        Ok(Document::from_bytes_any_text(bytes)?)
    };
    // An upsert that loses its `_id` to another writer starts over, and then finds that writer's document.
    let mut attempt = 0;
    loop {
        let mut outcome = FindAndModifyOutcome::default();
        let mut totals =
            target.modify_one(Effect::FindAndModify, &mut |document, details, out| {
                let change = match &update {
                    None => Change::Delete,
                    Some(update) => applying(update)(document, details, out)?,
                };
                let is_written = matches!(change, Change::Update | Change::Replace);
                let is_new = request.returns_new && is_written;
                let shown = if is_new {
                    shown(RawDocument::new(out)?)?
                } else {
                    shown(document)?
                };
                let found = FindAndModifyOutcome {
                    matched: true,
                    upserted: None,
                    value: Some(shown),
                };
                // Noted before the piece commits, because the record of a retryable write goes into the same batch.
                recorded::note_found(operation, &request, &found);
                outcome = found;
                Ok(change)
            })?;
        totals.settle(scope, level)?;
        if let Some(collation) = target.take_imposed() {
            return Ok(Outcome::Imposed(collation));
        }
        if totals.matched > 0 {
            return Ok(Outcome::Done(outcome));
        }
        let Some(update) = update.as_ref().filter(|_| request.is_upsert) else {
            return Ok(Outcome::Done(FindAndModifyOutcome::default()));
        };
        let document = update.upsert_document(&target.parsed()?.matcher, DateTime::now().0)?;
        let returned = request.returns_new.then(|| shown(document.as_raw()));
        let upserted = FindAndModifyOutcome {
            matched: false,
            upserted: id_of(&document),
            value: returned.transpose()?,
        };
        recorded::note_found(operation, &request, &upserted);
        if insert_upserted(&target, &document, level, attempt)? {
            return Ok(Outcome::Done(upserted));
        }
        attempt += 1;
    }
}
