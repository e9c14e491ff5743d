//! The indexes that a time series can have: MongoDB's rules, so that what is made here can be made there.
//!
//! MongoDB refuses some indexes because they would stand over buckets. They are refused here, too, though measurements could be indexed in any way.

use quarry_bson::{RawDocument, RawValue};

use crate::catalog::time_series::TimeSeries;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::index::definition::PREPARE_UNIQUE;

/// The kinds of indexes that stand over fields of measurements as well.
const KINDS_OF_MEASUREMENTS: [&str; 1] = ["2dsphere"];

/// Refuses the specification of an index that a time series cannot have.
pub(crate) fn check(series: &TimeSeries, spec: RawDocument<'_>) -> Result<()> {
    let is_asked = |name: &str| spec.get(name).is_some_and(|value| value.is_truthy());
    let key = spec.get_document("key").unwrap_or(RawDocument::EMPTY);
    if is_asked("unique") || is_asked(PREPARE_UNIQUE) {
        return Err(invalid(
            "Unique indexes are not supported on time-series collections",
        ));
    }
    check_key(series, key)?;
    if is_asked("sparse")
        && !key
            .iter()
            .all(|field| is_of_key(series, &field.name().to_string_lossy()))
    {
        return Err(invalid(
            "Sparse indexes are not supported on time-series measurements",
        ));
    }
    let partial = spec.get_document("partialFilterExpression");
    if partial.is_some() && spec.contains("collation") {
        return Err(Error::invalid(
            ErrorCode::INDEX_OPTIONS_CONFLICT,
            "On a time-series collection, partialFilterExpression and collation arguments are incompatible",
        ));
    }
    if spec.contains("expireAfterSeconds") {
        check_expiry(series, key, partial)?;
    }
    Ok(())
}

/// Refuses kinds of indexes, and fields of measurements in one.
fn check_key(series: &TimeSeries, key: RawDocument<'_>) -> Result<()> {
    for field in key {
        let (path, kind) = (field.name().to_string_lossy(), field.value().as_str());
        if kind == Some("text") {
            return Err(invalid(
                "Text indexes are not supported on time-series collections",
            ));
        }
        if path == "_id" || path.starts_with("_id.") {
            return Err(cannot_create(format!(
                "Invalid index spec for time-series collection: {key}. Cannot create index on the _id field"
            )));
        }
        let is_wildcard = path == "$**" || path.ends_with(".$**");
        let is_of_meta = series.is_meta(&path);
        if is_wildcard && !is_of_meta {
            return Err(cannot_create(format!(
                "Invalid index spec for time-series collection: {key}. Wildcard indexes are not supported on measurements"
            )));
        }
        if let Some(kind) = kind
            && !is_of_meta
            && !KINDS_OF_MEASUREMENTS.contains(&kind)
        {
            return Err(cannot_create(format!(
                "Invalid index spec for time-series collection: {key}. {kind} indexes are not supported on measurements"
            )));
        }
    }
    Ok(())
}

/// An index by which measurements expire is over their time, and is of some sources alone.
fn check_expiry(
    series: &TimeSeries,
    key: RawDocument<'_>,
    partial: Option<RawDocument<'_>>,
) -> Result<()> {
    let is_of_meta = partial.is_some_and(|filter| is_over_meta(series, filter));
    if !is_of_meta {
        return Err(invalid(
            "TTL indexes on time-series collections require a partialFilterExpression on the metaField",
        ));
    }
    let is_time = |field: quarry_bson::RawElement<'_>| field.name() == *series.time_field;
    match key.len() == 1 && key.first().is_some_and(is_time) {
        true => Ok(()),
        false => Err(invalid(
            "TTL indexes are single-field indexes over the time field on time-series collections",
        )),
    }
}

/// Whether a filter asks the field that says what was measured, and no other.
fn is_over_meta(series: &TimeSeries, filter: RawDocument<'_>) -> bool {
    !filter.is_empty()
        && filter.iter().all(|field| {
            let name = field.name().to_string_lossy();
            match field.value() {
                RawValue::Array(branches) if matches!(&*name, "$and" | "$or") => {
                    let mut branches = branches.iter();
                    branches.all(|branch| {
                        let branch = branch.as_document();
                        branch.is_some_and(|branch| is_over_meta(series, branch))
                    })
                }
                _ => series.is_meta(&name),
            }
        })
}

/// Whether a path is the time, or that of what was measured.
fn is_of_key(series: &TimeSeries, path: &str) -> bool {
    path == &*series.time_field || series.is_meta(path)
}

fn invalid(message: &str) -> Error {
    Error::invalid(ErrorCode::INVALID_OPTIONS, message)
}

fn cannot_create(message: String) -> Error {
    Error::invalid(ErrorCode::CANNOT_CREATE_INDEX, message)
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;
    use crate::keyspace::namespace::Namespace;

    fn code_of(spec: Document) -> Option<i32> {
        let options = doc! { "timeseries": { "timeField": "t", "metaField": "m" } };
        let namespace = Namespace::parse("db.c").unwrap();
        let series = TimeSeries::of(&namespace, options.as_raw()).unwrap();
        check(&series, spec.as_raw())
            .err()
            .map(|error| error.code())
    }

    #[test]
    fn indexes_are_those_that_mongodb_has_over_buckets() {
        for spec in [
            doc! { "key": { "t": 1 } },
            doc! { "key": { "m.a": 1, "t": -1 }, "sparse": true },
            doc! { "key": { "value": 1 }, "unique": false },
            doc! { "key": { "m": "hashed" } },
            doc! { "key": { "m.$**": 1 } },
            doc! { "key": { "place": "2dsphere" } },
            doc! { "key": { "t": 1 }, "expireAfterSeconds": 5, "partialFilterExpression": { "m.a": 1 } },
        ] {
            assert_eq!(code_of(spec.clone()), None, "{spec}");
        }
        for spec in [
            doc! { "key": { "m": 1 }, "unique": true },
            doc! { "key": { "value": 1 }, "sparse": true },
            doc! { "key": { "m": "text" } },
            doc! { "key": { "t": 1 }, "expireAfterSeconds": 5 },
            doc! { "key": { "t": 1 }, "expireAfterSeconds": 5, "partialFilterExpression": { "v": 1 } },
            doc! { "key": { "m": 1 }, "expireAfterSeconds": 5, "partialFilterExpression": { "m": 1 } },
        ] {
            assert_eq!(
                code_of(spec.clone()),
                Some(ErrorCode::INVALID_OPTIONS.0),
                "{spec}"
            );
        }
        for spec in [
            doc! { "key": { "_id": 1 } },
            doc! { "key": { "$**": 1 } },
            doc! { "key": { "value": "hashed" } },
        ] {
            assert_eq!(
                code_of(spec.clone()),
                Some(ErrorCode::CANNOT_CREATE_INDEX.0),
                "{spec}"
            );
        }
    }
}
