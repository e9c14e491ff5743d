//! The changes that a time series can have, as in MongoDB: documents are inserted and deleted as they are, and updates change what was
//! measured, for all measurements that it is asked for by.

use quarry_database::{Namespace, TimeSeries};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::matcher::{MatchExpression, Matcher};
use crate::update::Update;

/// Refuses an update of one document, and one that may make a document.
pub(super) fn check_kind(series: &TimeSeries, is_multi: bool, is_upsert: bool) -> Result<()> {
    if !is_multi {
        return Err(invalid(
            "Cannot perform a non-multi update on a time-series collection",
        ));
    }
    if is_upsert {
        return Err(invalid(
            "Cannot perform an upsert on a time-series collection",
        ));
    }
    match series.meta_field {
        Some(_) => Ok(()),
        None => Err(invalid(
            "Cannot perform an update on a time-series collection that does not have a metaField",
        )),
    }
}

/// Refuses an update that asks for, or changes, more than the field that says what was measured.
pub(super) fn check_update(series: &TimeSeries, matcher: &Matcher, update: &Update) -> Result<()> {
    let meta = series.meta_field.as_deref().unwrap_or_default();
    if !asks_only(matcher.root(), &|path| series.is_meta(path)) {
        return Err(invalid(format!(
            "Cannot perform an update or delete on a time-series collection when querying on a field that is not the metaField '{meta}'"
        )));
    }
    if update.is_pipeline() {
        return Err(invalid(
            "Cannot perform an update on a time-series collection using a pipeline update",
        ));
    }
    if update.is_replacement() {
        return Err(invalid(
            "Cannot perform an update on a time-series collection using a replacement document",
        ));
    }
    match update.changes_only(meta) {
        true => Ok(()),
        false => Err(invalid(format!(
            "Cannot perform an update on a time-series collection which updates a field that is not the metaField '{meta}'"
        ))),
    }
}

/// The error of findAndModify over a time series.
pub(super) fn no_find_and_modify(namespace: &Namespace) -> Error {
    Error::new(
        ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW,
        format!("findAndModify is not supported on the time-series collection {namespace}"),
    )
}

/// Whether a filter asks paths alone, and none but these. Recursion is as deep as the filter, whose parser bounds it.
fn asks_only(filter: &MatchExpression, is_asked: &dyn Fn(&str) -> bool) -> bool {
    let all = |children: &[MatchExpression]| {
        let mut children = children.iter();
        children.all(|child| asks_only(child, is_asked))
    };
    match filter {
        MatchExpression::AlwaysTrue | MatchExpression::AlwaysFalse => true,
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => all(children),
        MatchExpression::Not(child) => asks_only(child, is_asked),
        MatchExpression::Field(field) => is_asked(field.path.as_str()),
        MatchExpression::Expr(_)
        | MatchExpression::Schema(_)
        | MatchExpression::Near(_)
        | MatchExpression::Text(_) => false,
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_OPTIONS, message)
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn a_filter_asks_what_was_measured_alone() {
        let asks = |filter: quarry_bson::Document| {
            let matcher = Matcher::parse(filter.as_raw()).unwrap();
            asks_only(matcher.root(), &|path| {
                path == "m" || path.starts_with("m.")
            })
        };
        assert!(asks(doc! {}));
        assert!(asks(doc! { "m": 1 }));
        assert!(asks(
            doc! { "$or": [{ "m.a": { "$gt": 1 } }, { "m": { "$exists": false } }] }
        ));
        assert!(asks(doc! { "m": { "$elemMatch": { "a": 1 } } }));
        assert!(!asks(doc! { "m": 1, "v": 2 }));
        assert!(!asks(doc! { "$nor": [{ "_id": 1 }] }));
        assert!(!asks(doc! { "$expr": { "$eq": ["$m", 1] } }));
    }
}
