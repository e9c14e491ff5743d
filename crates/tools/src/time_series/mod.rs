//! Time series in dumps: buckets of measurements, as MongoDB's tools write and read them.
//!
//! A dump has the definition of a series under its own name, and its measurements as buckets under `system.buckets.NAME`. A bucket holds measurements of
//! one `metaField` and of a span of time, a column a field:
//!
//! ```text
//! {_id: ObjectId whose seconds are the bucket's, control: {version, min: {..}, max: {..}, count, closed}, meta, data: {FIELD: COLUMN, ..}}
//! COLUMN of version 1:      {"0": value, "1": value, ..}, a measurement without the field left out
//! COLUMN of versions 2, 3:  Binary of subtype 7 (`column.rs`)
//! ```
//!
//! Buckets of all three versions are taken apart (`unpack.rs`). Those that are made (`pack.rs`) are of version 1, which every MongoDB since 5.0 reads.
//!
//! Leaves out: the order of the fields of a measurement. It becomes that of the bucket's columns, with the `metaField` behind the time.

mod column;
mod extremes;
mod pack;
mod simple8b;
mod unpack;

use quarry_bson::RawDocument;

pub use pack::Packer;
pub use unpack::measurements;

/// The option of a collection that makes it a time series.
pub const OPTION: &str = "timeseries";
/// The beginning of the names that buckets are under.
pub const BUCKETS: &str = "system.buckets.";

/// Each granularity with the span of its buckets, and with what their beginnings are rounded to, in seconds.
const GRANULARITIES: [(&str, i64, i64); 3] = [
    ("seconds", 3600, 60),
    ("minutes", 86_400, 3600),
    ("hours", 2_592_000, 86_400),
];

/// The name that the buckets of a series are under.
pub fn buckets_of(series: &str) -> String {
    format!("{BUCKETS}{series}")
}

/// The series whose buckets are under the name; none where it is no such name.
pub fn of_buckets(name: &str) -> Option<&str> {
    name.strip_prefix(BUCKETS)
}

/// The definition of a series, as far as its buckets depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The field with the time of a measurement.
    pub time_field: String,
    /// The field that says what was measured, if there is one.
    pub meta_field: Option<String>,
    /// The time that a bucket covers, in milliseconds.
    span_ms: i64,
    /// A bucket's time is a multiple of this, in milliseconds.
    rounding_ms: i64,
}

impl Series {
    /// The definition in the options of a collection; none where they are of no time series.
    pub fn of(options: RawDocument<'_>) -> Option<Series> {
        let series = options.get_document(OPTION)?;
        let granularity = series.get_str("granularity");
        let (_, span, rounding) = GRANULARITIES
            .iter()
            .find(|(name, ..)| Some(*name) == granularity)
            .unwrap_or(&GRANULARITIES[0]);
        let seconds = |option: &str, otherwise: i64| {
            let said = series.get(option).and_then(|value| value.as_i64_exact());
            let seconds = said.filter(|said| *said > 0).unwrap_or(otherwise);
            seconds.saturating_mul(1000)
        };
        Some(Series {
            time_field: series.get_str("timeField")?.to_owned(),
            meta_field: series.get_str("metaField").map(str::to_owned),
            span_ms: seconds("bucketMaxSpanSeconds", *span),
            rounding_ms: seconds("bucketRoundingSeconds", *rounding),
        })
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    #[test]
    fn a_series_is_read_from_its_options() {
        let of = |series| Series::of(doc! { "timeseries": series }.as_raw());
        let plain = of(
            doc! { "timeField": "ts", "granularity": "minutes", "bucketMaxSpanSeconds": 86_400 },
        );
        let plain = plain.unwrap();
        assert_eq!((plain.time_field.as_str(), plain.meta_field), ("ts", None));
        assert_eq!((plain.span_ms, plain.rounding_ms), (86_400_000, 3_600_000));
        let own = doc! {
            "timeField": "ts", "metaField": "at", "bucketMaxSpanSeconds": 300, "bucketRoundingSeconds": 300,
        };
        let own = of(own).unwrap();
        assert_eq!((own.span_ms, own.rounding_ms), (300_000, 300_000));
        assert_eq!(own.meta_field.as_deref(), Some("at"));
        assert_eq!(of(doc! { "metaField": "at" }), None);
        assert_eq!(Series::of(doc! { "capped": true }.as_raw()), None);
        assert_eq!(of_buckets(&buckets_of("weather")), Some("weather"));
        assert_eq!(of_buckets("weather"), None);
    }
}
