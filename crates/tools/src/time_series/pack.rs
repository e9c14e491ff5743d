//! Measurements into buckets of version 1.
//!
//! A bucket has measurements of one `metaField`, at most as many and as large as MongoDB's, of its span of time and of one kind of values a field. A field
//! joins only where its place among the columns keeps the order that the measurement has, so that the order is not lost.

use std::collections::HashMap;

use quarry_bson::{
    DOCUMENT_BYTES_MAX, Document, DocumentBuilder, ElementType, ObjectId, RawDocument, RawElement,
    RawValue, Value,
};

use super::Series;
use super::extremes::{End, Extremes};

const VERSION: i32 = 1;
const MEASUREMENTS_MAX: usize = 1000;
const BUCKET_BYTES_MAX: usize = 125 << 10;
/// All open buckets together.
const OPEN_BYTES_MAX: usize = 32 << 20;

/// Puts measurements into buckets, and hands those out that are full.
pub struct Packer {
    series: Series,
    /// By the bytes of the `metaField`.
    open: HashMap<Vec<u8>, Bucket>,
    open_bytes: usize,
}

struct Bucket {
    /// The time that its span begins at, in milliseconds.
    from_ms: i64,
    len: usize,
    bytes: usize,
    columns: Vec<Column>,
}

struct Column {
    name: Vec<u8>,
    /// Its values under the places of their measurements.
    values: Document,
    extremes: Extremes,
}

impl Packer {
    pub fn new(series: Series) -> Packer {
        Packer {
            series,
            open: HashMap::new(),
            open_bytes: 0,
        }
    }

    /// Takes a measurement. Buckets that are full are appended to `out`.
    ///
    /// # Errors
    /// The text says why the measurement fits into no bucket.
    pub fn add(&mut self, measurement: RawDocument<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(RawValue::DateTime(time_ms)) = measurement.get(&self.series.time_field) else {
            let field = &self.series.time_field;
            return Err(format!("a measurement has no date in `{field}`"));
        };
        let meta = self.meta_of(measurement);
        let meta = meta.map_or_else(Vec::new, |meta| {
            let mut bytes = vec![meta.element_type() as u8];
            bytes.extend_from_slice(meta.value_bytes());
            bytes
        });
        if let Some(bucket) = self.open.remove(&meta) {
            self.open_bytes -= bucket.bytes;
            match self.joins(&bucket, time_ms, measurement) {
                true => {
                    self.open.insert(meta.clone(), bucket);
                }
                false => bucket.write(&meta, &self.series.time_field, out)?,
            }
        }
        let rounding_ms = self.series.rounding_ms;
        let bucket = self.open.entry(meta).or_insert_with(|| Bucket {
            from_ms: time_ms.div_euclid(rounding_ms).saturating_mul(rounding_ms),
            len: 0,
            bytes: 0,
            columns: Vec::new(),
        });
        let meta_field = self.series.meta_field.as_deref();
        bucket.add(measurement, meta_field)?;
        self.open_bytes += bucket.bytes;
        match self.open_bytes > OPEN_BYTES_MAX {
            true => self.finish(out),
            false => Ok(()),
        }
    }

    /// Appends all buckets that are open.
    ///
    /// # Errors
    /// As [`Packer::add`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        self.open_bytes = 0;
        let mut open: Vec<(Vec<u8>, Bucket)> = self.open.drain().collect();
        open.sort_by(|(a, one), (b, other)| (one.from_ms, a).cmp(&(other.from_ms, b)));
        let mut buckets = open.iter();
        buckets.try_for_each(|(meta, bucket)| bucket.write(meta, &self.series.time_field, out))
    }

    fn meta_of<'m>(&self, measurement: RawDocument<'m>) -> Option<RawElement<'m>> {
        measurement.get_element(self.series.meta_field.as_ref()?)
    }

    fn joins(&self, bucket: &Bucket, time_ms: i64, measurement: RawDocument<'_>) -> bool {
        let is_in_span = time_ms
            .checked_sub(bucket.from_ms)
            .is_some_and(|since| (0..self.series.span_ms).contains(&since));
        is_in_span
            && bucket.len < MEASUREMENTS_MAX
            && bucket.bytes + measurement.len_bytes() <= BUCKET_BYTES_MAX
            && bucket.suits(measurement, self.series.meta_field.as_deref())
    }
}

impl Bucket {
    /// Whether the measurement's values are of the kinds of the columns, and its fields in their order.
    fn suits(&self, measurement: RawDocument<'_>, meta_field: Option<&str>) -> bool {
        let mut next = 0;
        fields(measurement, meta_field).all(|field| {
            let name = field.name().as_bytes();
            match self.columns.iter().position(|column| column.name == name) {
                None => true,
                Some(at) if at < next => false,
                Some(at) => {
                    next = at + 1;
                    self.columns[at].extremes.suits(field.value())
                }
            }
        })
    }

    fn add(
        &mut self,
        measurement: RawDocument<'_>,
        meta_field: Option<&str>,
    ) -> Result<(), String> {
        let place = self.len.to_string();
        let mut next = 0;
        for field in fields(measurement, meta_field) {
            let name = field.name().as_bytes();
            match self.columns.iter().position(|column| column.name == name) {
                Some(at) if at < next => {
                    return Err(format!("a measurement has `{}` twice", field.name()));
                }
                Some(at) => {
                    self.columns[at].extremes.add(field.value());
                    next = at;
                }
                None => self.columns.insert(next, Column::new(field)),
            }
            let values = &mut self.columns[next].values;
            values.append(&place, Value::from(field));
            next += 1;
        }
        self.len += 1;
        self.bytes += measurement.len_bytes();
        Ok(())
    }

    /// Appends the bucket as a document.
    fn write(&self, meta: &[u8], time_field: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let mut bucket = DocumentBuilder::new(out);
        bucket.append("_id", self.id());
        let mut control = bucket.document("control");
        control.append("version", VERSION);
        for (name, end) in [("min", End::Min), ("max", End::Max)] {
            self.write_extremes(end, time_field, control.document(name));
        }
        control.finish();
        if let Some((kind, value)) = meta.split_first()
            && let Some(kind) = ElementType::from_u8(*kind)
        {
            bucket.append_bytes("meta", kind, value);
        }
        let mut data = bucket.document("data");
        for column in &self.columns {
            data.append(&column.name, &column.values);
        }
        data.finish();
        bucket.finish();
        let bytes = out.len() - start;
        match bytes > DOCUMENT_BYTES_MAX {
            true => Err(format!(
                "a bucket of {} measurements has {bytes} bytes, where {DOCUMENT_BYTES_MAX} are possible",
                self.len,
            )),
            false => Ok(()),
        }
    }

    /// Writes one end of all fields. The least time is the one that the bucket's span begins at: MongoDB looks for buckets by it.
    fn write_extremes(&self, end: End, time_field: &str, mut out: DocumentBuilder<'_>) {
        for column in &self.columns {
            match end == End::Min && column.name == time_field.as_bytes() {
                true => out.append(time_field, RawValue::DateTime(self.from_ms)),
                false => {
                    column.extremes.write(end, &column.name, &mut out);
                    &mut out
                }
            };
        }
    }

    /// A new id whose time is the bucket's.
    fn id(&self) -> ObjectId {
        let mut bytes = ObjectId::generate().bytes();
        let seconds = self.from_ms.div_euclid(1000);
        // As in MongoDB, of a time that 32 bits cannot say the lower bits.
        bytes[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
        ObjectId::from_bytes(bytes)
    }
}

impl Column {
    fn new(first: RawElement<'_>) -> Column {
        Column {
            name: first.name().as_bytes().to_vec(),
            values: Document::new(),
            extremes: Extremes::of(first.value()),
        }
    }
}

/// The fields of a measurement that are columns.
fn fields<'m>(
    measurement: RawDocument<'m>,
    meta_field: Option<&str>,
) -> impl Iterator<Item = RawElement<'m>> {
    measurement
        .iter()
        .filter(move |field| meta_field.is_none_or(|meta| field.name() != meta))
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::super::measurements;
    use super::*;

    const SPAN_MS: i64 = 3_600_000;

    fn series() -> Series {
        let options = doc! { "timeseries": { "timeField": "ts", "metaField": "at" } };
        Series::of(options.as_raw()).unwrap()
    }

    fn documents(mut bytes: &[u8]) -> Vec<Document> {
        let mut found = Vec::new();
        while let Some((document, rest)) = RawDocument::split_first(bytes) {
            found.push(document.to_owned_document());
            bytes = rest;
        }
        assert!(bytes.is_empty());
        found
    }

    fn packed(measurements: &[Document]) -> Result<Vec<Document>, String> {
        let mut packer = Packer::new(series());
        let mut out = Vec::new();
        for measurement in measurements {
            packer.add(measurement.as_raw(), &mut out)?;
        }
        packer.finish(&mut out)?;
        Ok(documents(&out))
    }

    fn unpacked(buckets: &[Document]) -> Vec<Document> {
        let mut out = Vec::new();
        for bucket in buckets {
            measurements(&series(), bucket.as_raw(), &mut out).unwrap();
        }
        documents(&out)
    }

    fn at(ms: i64) -> Value {
        Value::date_time(ms)
    }

    #[test]
    fn a_bucket_has_the_published_shape() {
        let buckets = packed(&[
            doc! { "_id": 7, "ts": (at(61_500)), "at": { "room": 1 }, "c": 3, "d": { "x": "b" } },
            doc! { "_id": 8, "ts": (at(60_100)), "at": { "room": 1 }, "c": 2.5, "d": { "x": "a" } },
            doc! { "_id": 9, "ts": (at(90_000)), "at": { "room": 1 }, "d": { "y": 1 } },
        ]);
        let buckets = buckets.unwrap();
        assert_eq!(buckets.len(), 1);
        assert_eq!(buckets[0].get_object_id("_id").unwrap().seconds(), 60);
        let expected = doc! {
            "control": {
                "version": 1,
                "min": { "_id": 7, "ts": (at(60_000)), "c": 2.5, "d": { "x": "a", "y": 1 } },
                "max": { "_id": 9, "ts": (at(90_000)), "c": 3, "d": { "x": "b", "y": 1 } },
            },
            "meta": { "room": 1 },
            "data": {
                "_id": { "0": 7, "1": 8, "2": 9 },
                "ts": { "0": (at(61_500)), "1": (at(60_100)), "2": (at(90_000)) },
                "c": { "0": 3, "1": 2.5 },
                "d": { "0": { "x": "b" }, "1": { "x": "a" }, "2": { "y": 1 } },
            },
        };
        let mut bucket = buckets[0].clone();
        bucket.remove("_id");
        assert_eq!(bucket.as_bytes(), expected.as_bytes());
    }

    #[test]
    fn what_does_not_go_together_goes_into_several() {
        let len = |measurements: &[Document]| packed(measurements).unwrap().len();
        let one = doc! { "ts": (at(0)), "at": 1, "a": 1, "b": 2 };
        let pair = |other: Document| len(&[one.clone(), other]);
        assert_eq!(
            pair(doc! { "ts": (at(SPAN_MS - 1)), "at": 1, "a": 7, "n": 1, "b": 2 }),
            1
        );
        // Another source, no source, a later and an earlier time, another kind of value, another order.
        assert_eq!(pair(doc! { "ts": (at(0)), "at": 1.0, "a": 1 }), 2);
        assert_eq!(pair(doc! { "ts": (at(0)), "a": 1 }), 2);
        assert_eq!(pair(doc! { "ts": (at(SPAN_MS)), "at": 1 }), 2);
        assert_eq!(pair(doc! { "ts": (at(-1)), "at": 1 }), 2);
        assert_eq!(pair(doc! { "ts": (at(0)), "at": 1, "a": "1" }), 2);
        assert_eq!(pair(doc! { "ts": (at(0)), "at": 1, "b": 1, "a": 2 }), 2);
        let many = vec![one.clone(); MEASUREMENTS_MAX + 1];
        assert_eq!(len(&many), 2);
        let large = doc! { "ts": (at(0)), "at": 1, "text": ("x".repeat(BUCKET_BYTES_MAX / 2)) };
        assert_eq!(len(&vec![large; 3]), 3);
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let all = [
            doc! { "_id": 1, "ts": (at(-1_500)), "at": "x", "a": [1, { "b": (Value::null()) }] },
            doc! { "_id": 2, "ts": (at(0)), "at": "y" },
            doc! { "ts": (at(1)), "a": "of no source", "": 1, "x.y": 2 },
            doc! { "_id": 3, "ts": (at(2)), "at": "x", "a": [2] },
            doc! { "_id": 4, "n": 1, "ts": (at(3)), "at": "y", "a": 1 },
        ];
        let mut found = unpacked(&packed(&all).unwrap());
        found.sort_by_key(|one| match one.get("ts") {
            Some(RawValue::DateTime(ms)) => ms,
            _ => panic!("no time"),
        });
        assert_eq!(found.len(), all.len());
        for (found, one) in found.iter().zip(&all) {
            assert_eq!(found.as_bytes(), one.as_bytes(), "{found} {one}");
        }
    }

    #[test]
    fn what_fits_into_no_bucket_is_refused() {
        assert!(
            packed(&[doc! { "ts": 1 }])
                .unwrap_err()
                .contains("no date in `ts`")
        );
        let mut twice = doc! { "ts": (at(0)), "a": 1 };
        twice.append("a", 2);
        assert!(packed(&[twice]).unwrap_err().contains("has `a` twice"));
        // Its value stands in the bucket three times.
        let large = doc! { "ts": (at(0)), "a": ("x".repeat(DOCUMENT_BYTES_MAX / 3)) };
        assert!(packed(&[large]).unwrap_err().contains("bytes, where"));
    }
}
