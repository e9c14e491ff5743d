//! `update`: one statement. An upsert that loses a race for its own key becomes an update.

use quarry_bson::{DateTime, Document, RawDocument, RawValue, Value};
use quarry_database::{
    Change, DescribedStep, DuplicateKey, Error, Level, NewDocument, Operation, Scope,
    StatementKind, describe_path, holds_text,
};

use super::collation::{Outcome, run_collated, statement_context};
use super::modify::{Effect, Target, Totals};
use super::recorded;
use super::request::{UpdateOutcome, UpdateRequest};
use crate::error::Error as QueryError;
use crate::error::Result;
use crate::matcher::{MatchDetails, MatchExpression, Matcher};
use crate::plan::Parsed;
use crate::update::{Beside, Described, PathStep, Update};

/// Room for what an update adds to a document, so that most need no second allocation.
const GROWTH_BYTES: usize = 128;
/// Room for the description of most updates.
const DESCRIPTION_BYTES: usize = 64;
/// How often an upsert starts again when another inserted its document first.
pub(super) const UPSERT_ATTEMPTS_MAX: u32 = 100;

/// Runs one statement of an update.
pub fn update(
    scope: Scope<'_>,
    operation: &Operation,
    request: UpdateRequest<'_>,
    level: Level,
) -> Result<UpdateOutcome> {
    let own = statement_context(request.context, request.collation)?;
    run_collated(own.as_ref().or(request.context), |context| {
        update_in(
            scope,
            operation,
            UpdateRequest { context, ..request },
            level,
        )
    })
}

/// Runs the statement in its context.
fn update_in(
    scope: Scope<'_>,
    operation: &Operation,
    request: UpdateRequest<'_>,
    level: Level,
) -> Result<Outcome<UpdateOutcome>> {
    let mut target = Target::new(
        scope,
        operation,
        level,
        request.namespace,
        request.filter,
        request.hint,
        request.context,
    );
    if request.sort.is_some() {
        let parsed = Parsed::parse(request.filter, request.sort, None, target.context())?;
        target.set_parsed(Box::new(parsed), request.sort);
    }
    target.check()?;
    target.is_upsert = request.is_upsert;
    if request.is_upsert {
        target.check_upsert()?;
    }
    let beside = Beside {
        array_filters: request.array_filters,
        constants: request.constants,
    };
    let mut update = Update::parse_in(request.update, beside, target.context())?;
    if !request.keeps_empty_timestamps {
        update.fill_empty_timestamps();
    }
    check_multi(&request, &update)?;
    let mut apply = applying(&update);
    let mut attempt = 0;
    loop {
        recorded::note(operation, StatementKind::Update);
        let mut totals = if request.is_multi {
            target.modify_all(Effect::Update(&update), &mut apply)?
        } else {
            target.modify_one(Effect::Update(&update), &mut apply)?
        };
        totals.settle(scope, level)?;
        if let Some(collation) = target.take_imposed() {
            return Ok(Outcome::Imposed(collation));
        }
        if totals.matched > 0 || !request.is_upsert {
            return Ok(Outcome::Done(UpdateOutcome {
                matched: totals.matched,
                modified: totals.modified,
                upserted: None,
            }));
        }
        let document = update.upsert_document(&target.parsed()?.matcher, DateTime::now().0)?;
        let upserted = id_of(&document);
        recorded::note_upsert(operation, upserted.as_ref());
        if insert_upserted(&target, &document, level, attempt)? {
            return Ok(Outcome::Done(UpdateOutcome {
                upserted,
                ..UpdateOutcome::default()
            }));
        }
        attempt += 1;
    }
}

/// Computes the updated document. `$currentDate` is the moment at which this is done, document by document; only `$$NOW` is one
/// moment for the whole command.
pub(super) fn applying(
    update: &Update,
) -> impl FnMut(RawDocument<'_>, &MatchDetails, &mut NewDocument) -> Result<Change> + '_ {
    move |document, details, out| {
        out.reserve(document.as_bytes().len() + GROWTH_BYTES);
        let outcome = update.apply(document, details, false, DateTime::now().0, out)?;
        Ok(match (outcome.modified, update.is_replacement()) {
            (false, _) => Change::Keep,
            (true, true) => Change::Replace,
            (true, false) => {
                let NewDocument {
                    document: new,
                    description,
                } = out;
                description.reserve(DESCRIPTION_BYTES);
                let described =
                    update.describe(document, RawDocument::new(new)?, &mut |steps| {
                        describe_path(description, steps.iter().map(described));
                    })?;
                match described {
                    Described::ByFields => Change::Update,
                    Described::AsAWhole => {
                        description.clear();
                        Change::Replace
                    }
                }
            }
        })
    }
}

fn described<'p>(step: &PathStep<'p>) -> DescribedStep<'p> {
    match *step {
        PathStep::Field(name) => DescribedStep::Field(name),
        PathStep::Element(index) => DescribedStep::Element(index),
    }
}

/// Inserts what an upsert's filter and update make; false if another has inserted it meanwhile, so that the filter shall be
/// asked again. A filter that asks for more than the key that is taken may well not find the document that has it: it is asked
/// again once, after the first attempt, and then the key is a duplicate. So it is for any filter after the last attempt.
pub(super) fn insert_upserted(
    target: &Target<'_>,
    document: &Document,
    level: Level,
    attempt: u32,
) -> Result<bool> {
    let mut inserted = target.scope.insert_piece(
        target.operation,
        target.namespace,
        &[document.as_raw()],
        true,
        target.level,
    )?;
    match inserted.errors.pop() {
        None => {
            let mut totals = Totals {
                lsn: inserted.lsn,
                ..Totals::default()
            };
            totals.settle(target.scope, level)?;
            Ok(true)
        }
        Some((_, error)) => {
            let matcher = &target.parsed()?.matcher;
            let is_lost = matches!(&error, Error::DuplicateKey(key)
                if is_own(key, matcher, document)
                    && attempt + 1 < UPSERT_ATTEMPTS_MAX
                    && (attempt == 0 || asks_no_more(key, matcher)));
            match is_lost {
                true => Ok(false),
                false => Err(error.into()),
            }
        }
    }
}

/// Whether the filter asks for the key that is taken, so that it finds that document when it looks again.
fn is_own(key: &DuplicateKey, matcher: &Matcher, document: &Document) -> bool {
    key.key_pattern.iter().all(|field| {
        let Ok(path) = field.name().as_str() else {
            return false;
        };
        let asked = equality(matcher.root(), path);
        // An index that tells strings apart otherwise may have the key of a document that the filter does not find.
        let is_alike = |asked| key.collation == *matcher.collation() || !holds_text(asked);
        asked
            .is_some_and(|asked| document.as_raw().get_path(path) == Some(asked) && is_alike(asked))
    })
}

/// Whether the filter has as many conditions as the key has fields, and asks for the key itself. Of an array, the key is one element,
/// which a document may have that the filter does not find.
fn asks_no_more(key: &DuplicateKey, matcher: &Matcher) -> bool {
    let conditions = match matcher.root() {
        MatchExpression::And(children) => children.len(),
        _ => 1,
    };
    let asks_array = |path: &str| {
        let asked = equality(matcher.root(), path);
        asked.is_some_and(|asked| asked.as_array().is_some())
    };
    let mut names = key.key_pattern.iter().map(|field| field.name());
    conditions == key.key_pattern.len() && !names.any(|name| name.as_str().is_ok_and(asks_array))
}

fn equality<'m>(expression: &'m MatchExpression, path: &str) -> Option<RawValue<'m>> {
    match expression {
        MatchExpression::And(children) => children.iter().find_map(|child| equality(child, path)),
        _ => expression
            .as_equality()
            .filter(|(asked, _)| asked.as_str() == path)
            .map(|(_, value)| value),
    }
}

pub(super) fn id_of(document: &Document) -> Option<Value> {
    document.get("_id").map(|id| id.to_value())
}

/// Refuses what an update of many documents cannot do; explain asks, too.
pub(super) fn check_multi(request: &UpdateRequest<'_>, update: &Update) -> Result<()> {
    if request.is_multi && request.sort.is_some() {
        let text = "Cannot specify sort with multi=true";
        return Err(QueryError::failed_to_parse(text));
    }
    if request.is_multi && update.is_replacement() {
        let text = "multi update is not supported for replacement-style update";
        return Err(QueryError::failed_to_parse(text));
    }
    Ok(())
}
