//! Time-series collections: measurements under the time at which they were taken.
//!
//! Stands in the collection's options as MongoDB's `timeseries`. A measurement is kept as the document that it is. Its record key
//! begins with its time and ends in a number that no other record has, so that the order of time is the order of storage, what has
//! expired is one range, and no `_id` is unique. Leaves out: buckets of columns. They would be other records of the same collection,
//! behind the seam that `SeriesKeys` and the plans over the time are.
//!
//! The journal tells of a change under a name of the system's, `system.buckets.NAME`, so that no change stream shows it, as in MongoDB.

use std::sync::atomic::{AtomicU64, Ordering};

use quarry_bson::{Document, RawDocument, RawValue};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::keyspace::ident::Prefix;
use crate::keyspace::namespace::{NAMESPACE_BYTES_MAX, Namespace};

/// The option that makes a time series of a collection.
pub const TIME_SERIES: &str = "timeseries";

const TIME_FIELD: &str = "timeField";
const META_FIELD: &str = "metaField";
/// The field of the option that says how far apart in time measurements of one source are.
pub const GRANULARITY: &str = "granularity";
const ROUNDING: &str = "bucketRoundingSeconds";
const SPAN: &str = "bucketMaxSpanSeconds";

/// The beginning of the names that MongoDB keeps measurements under, and that the journal tells of them under.
pub const BUCKETS: &str = "system.buckets.";

/// Each granularity with MongoDB's span of a bucket, and with what the beginning of a bucket is rounded to, in seconds.
const GRANULARITIES: [(&str, i64, i64); 3] = [
    ("seconds", 3600, 60),
    ("minutes", 86_400, 3600),
    ("hours", 2_592_000, 86_400),
];

/// The definition of a time series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSeries {
    /// The top-level field with the time of a measurement, a date.
    pub time_field: Box<str>,
    /// The top-level field that says what was measured, if there is one.
    pub meta_field: Option<Box<str>>,
    /// The full name that the journal tells of its changes under.
    pub(crate) told: Box<str>,
}

impl TimeSeries {
    /// The definition in the options of a collection, if it is a time series.
    pub(crate) fn of(namespace: &Namespace, options: RawDocument<'_>) -> Option<Box<TimeSeries>> {
        let series = options.get_document(TIME_SERIES)?;
        Some(Box::new(TimeSeries {
            time_field: series.get_str(TIME_FIELD)?.into(),
            meta_field: series.get_str(META_FIELD).map(Box::from),
            told: told_name(namespace).into(),
        }))
    }

    /// The full name of MongoDB's collection of buckets, under which nothing stands here.
    pub fn buckets(&self) -> &str {
        &self.told
    }

    /// Whether a dotted path is the field that says what was measured, or one within it.
    pub fn is_meta(&self, path: &str) -> bool {
        let first = path.split_once('.').map_or(path, |(first, _)| first);
        self.meta_field.as_deref() == Some(first)
    }

    /// The time of a measurement, in milliseconds since 1970.
    pub(crate) fn time_of(&self, document: RawDocument<'_>) -> Result<i64> {
        match document.get(&*self.time_field) {
            Some(RawValue::DateTime(ms)) => Ok(ms),
            _ => Err(Error::invalid(
                ErrorCode::BAD_VALUE,
                format!(
                    "'{}' must be present and contain a valid BSON UTC datetime value",
                    self.time_field
                ),
            )),
        }
    }
}

/// The specification of the index that a time series with this option is made with, if it says what was measured.
pub(crate) fn first_index(series: RawDocument<'_>) -> Option<Document> {
    let (time, meta) = (series.get_str(TIME_FIELD)?, series.get_str(META_FIELD)?);
    let mut key = Document::new();
    key.append(meta, 1);
    key.append(time, 1);
    let name = format!("{meta}_1_{time}_1");
    Some(quarry_bson::doc! { "v": 2, "key": key, "name": name })
}

/// The numbers that end the record keys of measurements.
///
/// They count up from one that is drawn at the start, so that a record of another run hardly ever has the number and the time of a new
/// one; whoever inserts makes sure that none has.
pub(crate) struct SeriesKeys(AtomicU64);

impl SeriesKeys {
    pub fn new() -> SeriesKeys {
        let mut first = [0; 8];
        getrandom::fill(&mut first).expect("the kernel gives random bytes");
        SeriesKeys(AtomicU64::new(u64::from_le_bytes(first)))
    }

    /// Appends the key of a new measurement: prefix, KeyString of the time, number.
    pub fn append(&self, prefix: &Prefix, ms: i64, out: &mut Vec<u8>) {
        append_time_key(prefix, ms, out);
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Appends what the keys of all measurements of that time begin with.
pub(crate) fn append_time_key(prefix: &Prefix, ms: i64, out: &mut Vec<u8>) {
    prefix.append_to(out);
    quarry_keystring::encode_id(out, RawValue::DateTime(ms));
}

/// The name that the journal tells of the changes of a time series under.
pub(crate) fn told_name(namespace: &Namespace) -> String {
    let (database, collection) = (namespace.database(), namespace.collection());
    format!("{database}.{BUCKETS}{collection}")
}

/// Refuses a name with which that of MongoDB's buckets would be too long.
pub(crate) fn check_name(namespace: &Namespace) -> Result<()> {
    let told = told_name(namespace);
    match told.len() <= NAMESPACE_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::InvalidNamespace(format!(
            "Fully qualified namespace is too long. Namespace: {told} Max: {NAMESPACE_BYTES_MAX}"
        ))),
    }
}

/// Refuses a name of MongoDB's buckets, which nobody can read or write here.
pub fn refuse_buckets(namespace: &Namespace) -> Result<()> {
    match namespace.collection().starts_with(BUCKETS) {
        false => Ok(()),
        true => Err(Error::invalid(
            ErrorCode::NOT_IMPLEMENTED,
            format!(
                "'{namespace}' is not supported: the measurements of a time series stand in no buckets here"
            ),
        )),
    }
}

/// The option as it is kept, of one whose fields have the right types: completed with what goes without saying.
pub fn complete_time_series(namespace: &Namespace, given: RawDocument<'_>) -> Result<Document> {
    let time_field = given.get_str(TIME_FIELD).unwrap_or_default();
    let top_level = |name: &str| {
        invalid(format!(
            "{namespace}: '{name}' must be a top-level field and not contain a '.'"
        ))
    };
    if time_field.contains('.') {
        return Err(top_level(TIME_FIELD));
    }
    let meta_field = given.get_str(META_FIELD);
    if let Some(meta) = meta_field {
        if meta == "_id" {
            return Err(invalid("'metaField' cannot be \"_id\""));
        }
        if meta == time_field {
            let text = "'metaField' cannot be the same as 'timeField'";
            return Err(invalid(text));
        }
        if meta.contains('.') {
            return Err(top_level(META_FIELD));
        }
    }
    let mut kept = Document::new();
    kept.append(TIME_FIELD, time_field);
    if let Some(meta) = meta_field {
        kept.append(META_FIELD, meta);
    }
    append_spans(given, &mut kept)?;
    Ok(kept)
}

/// Appends how MongoDB would cut buckets: by a granularity, or by a span.
fn append_spans(given: RawDocument<'_>, kept: &mut Document) -> Result<()> {
    let seconds = |name: &str| given.get(name).and_then(|it| it.as_f64_lossy());
    let seconds = |name: &str| seconds(name).map(|seconds| seconds as i64);
    let (rounding, span) = (seconds(ROUNDING), seconds(SPAN));
    let granularity = match (given.get_str(GRANULARITY), rounding, span) {
        (Some(granularity), ..) => granularity,
        (None, None, None) => GRANULARITIES[0].0,
        (None, Some(rounding), Some(span)) if rounding == span => {
            kept.append(ROUNDING, whole(rounding));
            kept.append(SPAN, whole(span));
            return Ok(());
        }
        (None, Some(_), Some(_)) => {
            return Err(invalid(
                "Timeseries 'bucketRoundingSeconds' needs to be equal to 'bucketMaxSpanSeconds'",
            ));
        }
        (None, ..) => {
            return Err(invalid(
                "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' need to be set alongside each other",
            ));
        }
    };
    let (name, default_span, default_rounding) = of_name(granularity)?;
    let given = [
        (SPAN, span, default_span),
        (ROUNDING, rounding, default_rounding),
    ];
    for (field, given, default) in given {
        if given.is_some_and(|given| given != default) {
            return Err(invalid(format!(
                "Timeseries '{field}' is not configurable to a value other than the default of {default} for the provided granularity"
            )));
        }
    }
    kept.append(GRANULARITY, name);
    kept.append(SPAN, whole(default_span));
    Ok(())
}

/// The option with a greater granularity; None where it has that one already. Only one step up is allowed.
pub(crate) fn with_granularity(series: RawDocument<'_>, to: &str) -> Result<Option<Document>> {
    let (to, span, _) = of_name(to)?;
    let rank = |name: &str| GRANULARITIES.iter().position(|(known, ..)| *known == name);
    let is = series.get_str(GRANULARITY);
    if is == Some(to) {
        return Ok(None);
    }
    let Some(is) = is.and_then(rank) else {
        return Err(invalid(
            "'granularity' cannot be set on a time-series collection that was created with 'bucketMaxSpanSeconds'",
        ));
    };
    if rank(to) != Some(is + 1) {
        return Err(invalid(
            "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' or 'minutes' to 'hours'.",
        ));
    }
    let mut changed = Document::new();
    for field in series {
        match field.name().as_bytes() {
            b"granularity" => {
                changed.append(GRANULARITY, to);
            }
            b"bucketMaxSpanSeconds" => {
                changed.append(SPAN, whole(span));
            }
            _ => {
                changed.append_element(field);
            }
        }
    }
    Ok(Some(changed))
}

/// The granularity of that name.
fn of_name(name: &str) -> Result<(&'static str, i64, i64)> {
    let mut known = GRANULARITIES.iter().copied();
    known.find(|(known, ..)| *known == name).ok_or_else(|| {
        Error::invalid(
            ErrorCode::BAD_VALUE,
            format!(
                "Enumeration value '{name}' for field 'timeseries.granularity' is not a valid value."
            ),
        )
    })
}

/// Spans are at most a year of seconds.
fn whole(seconds: i64) -> i32 {
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid(ErrorCode::INVALID_OPTIONS, message)
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn completed(given: Document) -> Result<Document> {
        complete_time_series(&Namespace::parse("db.c").unwrap(), given.as_raw())
    }

    #[test]
    fn what_goes_without_saying_is_added() {
        assert_eq!(
            completed(doc! { "timeField": "t" }).unwrap(),
            doc! { "timeField": "t", "granularity": "seconds", "bucketMaxSpanSeconds": 3600 }
        );
        let given = doc! { "metaField": "m", "timeField": "t", "granularity": "hours", "bucketRoundingSeconds": 86400 };
        let kept = doc! {
            "timeField": "t", "metaField": "m", "granularity": "hours", "bucketMaxSpanSeconds": 2_592_000
        };
        assert_eq!(completed(given).unwrap(), kept);
        let given =
            doc! { "timeField": "t", "bucketMaxSpanSeconds": 100, "bucketRoundingSeconds": 100 };
        let kept =
            doc! { "timeField": "t", "bucketRoundingSeconds": 100, "bucketMaxSpanSeconds": 100 };
        assert_eq!(completed(given).unwrap(), kept);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (given, part) in [
            (
                doc! { "timeField": "a.b" },
                "'timeField' must be a top-level",
            ),
            (
                doc! { "timeField": "t", "metaField": "a.b" },
                "'metaField' must be a top-level",
            ),
            (
                doc! { "timeField": "t", "metaField": "_id" },
                "cannot be \"_id\"",
            ),
            (
                doc! { "timeField": "t", "metaField": "t" },
                "same as 'timeField'",
            ),
            (
                doc! { "timeField": "t", "bucketMaxSpanSeconds": 5 },
                "alongside",
            ),
            (
                doc! { "timeField": "t", "bucketRoundingSeconds": 5 },
                "alongside",
            ),
            (
                doc! { "timeField": "t", "bucketMaxSpanSeconds": 5, "bucketRoundingSeconds": 6 },
                "equal",
            ),
            (
                doc! { "timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 5 },
                "not configurable",
            ),
        ] {
            let error = completed(given.clone()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_OPTIONS.0, "{given}");
            assert!(error.to_string().contains(part), "{given}: {error}");
        }
    }

    #[test]
    fn granularity_goes_up_a_step_at_a_time() {
        let seconds = completed(doc! { "timeField": "t" }).unwrap();
        assert!(
            with_granularity(seconds.as_raw(), "seconds")
                .unwrap()
                .is_none()
        );
        assert!(with_granularity(seconds.as_raw(), "hours").is_err());
        let minutes = with_granularity(seconds.as_raw(), "minutes")
            .unwrap()
            .unwrap();
        let shown =
            doc! { "timeField": "t", "granularity": "minutes", "bucketMaxSpanSeconds": 86400 };
        assert_eq!(minutes, shown);
        assert!(with_granularity(minutes.as_raw(), "seconds").is_err());
        assert!(
            with_granularity(minutes.as_raw(), "hours")
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn keys_are_in_the_order_of_time_and_no_two_are_one() {
        let (keys, prefix) = (
            SeriesKeys::new(),
            crate::keyspace::ident::Ident(300).prefix(),
        );
        let key = |ms| {
            let mut out = Vec::new();
            keys.append(&prefix, ms, &mut out);
            out
        };
        let made: Vec<Vec<u8>> = [i64::MIN, -1, 0, 1, 5, i64::MAX].map(key).into();
        assert!(made.is_sorted());
        assert_ne!(key(7), key(7));
    }
}
