//! The document that an upsert inserts. Equalities that the filter requires (in `$and`, and in an `$or` whose arms are all the same,
//! too) become fields; of a replacement only `_id` comes from the filter.

use quarry_bson::compare::compare_values;
use quarry_bson::{Document, DocumentBuilder, ObjectId, RawDocument, RawValue, Value};

use super::operators::set::Set;
use super::parsed::{Kind, Operators, Update, check_bytes, check_levels};
use super::tree::{Branch, Leaf, Step};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::field_path::FieldPath;
use crate::matcher::{MatchDetails, MatchExpression, Matcher, Predicate};
use crate::stored_id::check_id;

pub(super) fn document(update: &Update, filter: &Matcher, now_ms: i64) -> Result<Document> {
    let mut equalities = Vec::new();
    collect_equalities(filter.root(), &mut equalities);
    let details = MatchDetails::default();
    let mut bytes = Vec::new();
    let base = match &update.kind {
        Kind::Operators(_) | Kind::Pipeline(_) => from_equalities(&equalities, now_ms)?,
        Kind::Replacement(_) => id_of(&equalities)?,
    };
    update.apply(base.as_raw(), &details, true, now_ms, &mut bytes)?;
    let made = Document::from_bytes_any_text(bytes)?;
    check_levels(made.as_raw())?;
    let made = with_id_first(made.as_raw())?;
    check_bytes(made.as_bytes().len(), true)?;
    Ok(made)
}

type Equality<'f> = (&'f FieldPath, RawValue<'f>);

/// Predicates that hold for one value only.
fn collect_equalities<'f>(expression: &'f MatchExpression, found: &mut Vec<Equality<'f>>) {
    match expression {
        MatchExpression::And(children) => children
            .iter()
            .for_each(|child| collect_equalities(child, found)),
        MatchExpression::Or(children) if children.len() == 1 => {
            collect_equalities(&children[0], found);
        }
        MatchExpression::Or(children) => found.extend(same_equality(children)),
        _ => found.extend(equality(expression)),
    }
}

fn equality(expression: &MatchExpression) -> Option<Equality<'_>> {
    let MatchExpression::Field(field) = expression else {
        return None;
    };
    match &field.predicate {
        Predicate::In(list) if list.regexes().is_empty() && list.values().len() == 1 => {
            Some((&field.path, list.values()[0].as_raw()))
        }
        _ => expression.as_equality(),
    }
}

/// The one equality that all branches of an `$or` are.
fn same_equality(branches: &[MatchExpression]) -> Option<Equality<'_>> {
    let (path, value) = equality(branches.first()?)?;
    let is_same = |branch| {
        equality(branch)
            .is_some_and(|(other, held)| other == path && compare_values(held, value).is_eq())
    };
    branches.iter().all(is_same).then_some((path, value))
}

fn from_equalities(equalities: &[Equality<'_>], now_ms: i64) -> Result<Document> {
    let mut root = Branch::default();
    for (place, (path, value)) in equalities.iter().enumerate() {
        let steps = vec![Step::Name; path.parts().len()];
        let leaf = Box::new(Leaf {
            path: (*path).clone(),
            modifier: Set(value.to_value()),
        });
        root.insert(&steps, leaf)
            .map_err(|error| matched_twice(path, &equalities[..place], error))?;
    }
    root.finish();
    let operators = Operators {
        root,
        ..Operators::default()
    };
    let update = Update {
        kind: Kind::Operators(operators),
    };
    let mut bytes = Vec::new();
    update.apply(
        RawDocument::EMPTY,
        &MatchDetails::default(),
        true,
        now_ms,
        &mut bytes,
    )?;
    Ok(Document::from_bytes_any_text(bytes)?)
}

/// The conflict of a path with one before it, in the words for filters.
fn matched_twice(path: &FieldPath, before: &[Equality<'_>], conflict: Error) -> Error {
    let Some((other, _)) = before.iter().find(|(other, _)| overlaps(path, other)) else {
        return conflict;
    };
    let text = if path == *other {
        format!(
            "cannot infer query fields to set, path '{}' is matched twice",
            path.as_str()
        )
    } else {
        let (short, long) = if path.is_prefix_of(other) {
            (path, *other)
        } else {
            (*other, path)
        };
        format!(
            "cannot infer query fields to set, both paths '{}' and '{}' are matched",
            short.as_str(),
            long.as_str()
        )
    };
    Error::new(ErrorCode::NOT_SINGLE_VALUE_FIELD, text)
}

fn overlaps(a: &FieldPath, b: &FieldPath) -> bool {
    a.is_prefix_of(b) || b.is_prefix_of(a)
}

fn id_of(equalities: &[Equality<'_>]) -> Result<Document> {
    if let Some((path, _)) = equalities
        .iter()
        .find(|(path, _)| path.as_str().starts_with("_id."))
    {
        let text = format!(
            "field at '_id' must be exactly specified, field at sub-path '{}' found",
            path.as_str()
        );
        return Err(Error::new(ErrorCode::NOT_EXACT_VALUE_FIELD, text));
    }
    let mut ids = equalities.iter().filter(|(path, _)| path.as_str() == "_id");
    let mut base = Document::new();
    if let Some((_, id)) = ids.next() {
        base.append("_id", id.to_value());
    }
    if ids.next().is_some() {
        let text = "cannot infer query fields to set, path '_id' is matched twice";
        return Err(Error::new(ErrorCode::NOT_SINGLE_VALUE_FIELD, text));
    }
    Ok(base)
}

fn with_id_first(document: RawDocument<'_>) -> Result<Document> {
    let id = document.get_element("_id");
    if let Some(id) = id {
        check_id(id.value())?;
        if document.first().is_some_and(|first| first.name() == "_id") {
            return Ok(document.to_owned_document());
        }
    }
    let generated = Value::from(ObjectId::generate());
    Ok(Document::build(|builder: &mut DocumentBuilder<'_>| {
        match id {
            Some(id) => builder.append_element(id),
            None => builder.append("_id", &generated),
        };
        for element in document.iter().filter(|element| element.name() != "_id") {
            builder.append_element(element);
        }
    }))
}
