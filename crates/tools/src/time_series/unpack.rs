//! Buckets of any version into the measurements that they are made of.

use std::iter::Peekable;
use std::vec;

use quarry_bson::{DocumentBuilder, Iter, RawDocument, RawElement, RawValue, Value};

use super::Series;
use super::column::{self, Budget};

/// Appends the measurements of a bucket, each as a document.
///
/// # Errors
/// The text says why the document is no bucket of the series.
pub fn measurements(
    series: &Series,
    bucket: RawDocument<'_>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let version = bucket.get_path("control.version");
    let is_packed = match version.and_then(|version| version.as_i64_exact()) {
        Some(1) => false,
        Some(2 | 3) => true,
        _ => {
            let shown = version.map_or_else(Value::null, Value::from);
            return Err(format!("a bucket of version {shown} is not supported"));
        }
    };
    let meta = bucket.get_element("meta");
    if meta.is_some() && series.meta_field.is_none() {
        return Err("a bucket has a `meta`, and the series no metaField".to_owned());
    }
    let data = bucket.get_document("data").unwrap_or(RawDocument::EMPTY);
    let mut budget = Budget::default();
    let mut columns = Vec::new();
    for column in &data {
        columns.push(Column {
            name: column.name().as_bytes(),
            values: Values::of(column, is_packed, &mut budget)?,
        });
    }
    let time = columns
        .iter()
        .find(|column| column.name == series.time_field.as_bytes());
    let count = time.map_or(0, |time| time.values.len());
    let said = bucket.get_path("control.count");
    let said = said.and_then(|said| said.as_i64_exact());
    if count == 0 || said.is_some_and(|said| usize::try_from(said) != Ok(count)) {
        let field = &series.time_field;
        return Err(format!(
            "a bucket has {count} times in `{field}`, and says that it has {}",
            said.map_or_else(|| "some".to_owned(), |said| said.to_string())
        ));
    }
    for place in 0..count {
        let start = out.len();
        write(series, meta, &mut columns, place, out)?;
        budget.spend(out.len() - start)?;
        let measurement = RawDocument::validated_any_text(&out[start..]);
        measurement.map_err(|error| error.to_string())?;
    }
    match columns.into_iter().find_map(Column::left) {
        Some(column) => Err(format!("column `{column}` has values of no measurement")),
        None => Ok(()),
    }
}

/// Appends one measurement, with its `metaField` behind its time.
fn write(
    series: &Series,
    meta: Option<RawElement<'_>>,
    columns: &mut [Column<'_>],
    place: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut measurement = DocumentBuilder::new(out);
    let mut has_time = false;
    for column in columns {
        if !column.values.write(place, column.name, &mut measurement) {
            continue;
        }
        if column.name == series.time_field.as_bytes() {
            has_time = true;
            if let (Some(field), Some(meta)) = (&series.meta_field, meta) {
                measurement.append_renamed(field, meta);
            }
        }
    }
    match has_time {
        true => Ok(()),
        false => Err(format!("measurement {place} of a bucket has no time")),
    }
}

struct Column<'b> {
    name: &'b [u8],
    values: Values<'b>,
}

/// The values of a column that have not been taken.
enum Values<'b> {
    /// Under the places of their measurements.
    Plain(RawDocument<'b>, Peekable<Iter<'b>>),
    Unpacked(vec::IntoIter<Option<Value>>),
}

impl<'b> Values<'b> {
    fn of(
        column: RawElement<'b>,
        is_packed: bool,
        budget: &mut Budget,
    ) -> Result<Values<'b>, String> {
        match column.value() {
            RawValue::Document(values) if !is_packed => {
                Ok(Values::Plain(values, values.iter().peekable()))
            }
            RawValue::Binary(packed) if is_packed && packed.subtype == column::SUBTYPE => {
                let values = column::unpack(packed.bytes, budget);
                let values = values.map_err(|what| format!("column `{}`: {what}", column.name()));
                values.map(|values| Values::Unpacked(values.into_iter()))
            }
            _ => Err(format!("`{}` is no column of values", column.name())),
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Plain(values, _) => values.len(),
            Values::Unpacked(values) => values.len(),
        }
    }

    /// Writes the value of a measurement, which is the next one; false where it has none.
    fn write(&mut self, place: usize, name: &[u8], out: &mut DocumentBuilder<'_>) -> bool {
        match self {
            Values::Plain(_, values) => {
                let place = place.to_string();
                let value = values.next_if(|value| value.name() == place.as_str());
                value.is_some_and(|value| {
                    out.append_renamed(name, value);
                    true
                })
            }
            Values::Unpacked(values) => values.next().flatten().is_some_and(|value| {
                out.append(name, &value);
                true
            }),
        }
    }
}

impl Column<'_> {
    /// The name of a column of which a value has not been taken.
    fn left(self) -> Option<String> {
        let has_more = match self.values {
            Values::Plain(_, mut values) => values.next().is_some(),
            Values::Unpacked(mut values) => values.any(|value| value.is_some()),
        };
        has_more.then(|| String::from_utf8_lossy(self.name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    fn series() -> Series {
        let options = doc! { "timeseries": { "timeField": "ts", "metaField": "at" } };
        Series::of(options.as_raw()).unwrap()
    }

    fn unpacked(bucket: &Document) -> Result<Vec<Document>, String> {
        let mut out = Vec::new();
        measurements(&series(), bucket.as_raw(), &mut out)?;
        let (mut found, mut rest) = (Vec::new(), out.as_slice());
        while let Some((document, behind)) = RawDocument::split_first(rest) {
            found.push(document.to_owned_document());
            rest = behind;
        }
        Ok(found)
    }

    fn at(ms: i64) -> Value {
        Value::date_time(ms)
    }

    /// As MongoDB 5.0 stores it.
    fn plain(data: Document) -> Document {
        let control = doc! {
            "version": 1, "min": { "ts": (at(0)) }, "max": { "ts": (at(0)) }, "closed": false,
        };
        doc! { "_id": 1, "control": control, "meta": "x", "data": data }
    }

    /// A column of the literals, one after the other.
    fn column(values: &[Value]) -> Value {
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend([value.element_type() as u8, 0]);
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.push(0);
        Value::binary(column::SUBTYPE, &bytes)
    }

    fn packed(version: i32, count: i32, data: Document) -> Document {
        doc! { "control": { "version": version, "count": count }, "meta": "x", "data": data }
    }

    #[test]
    fn buckets_of_each_version_are_taken_apart() {
        let expected = [
            doc! { "ts": (at(5)), "at": "x", "a": 1 },
            doc! { "ts": (at(6)), "at": "x" },
            doc! { "ts": (at(7)), "at": "x", "a": "text", "b": { "c": 1 } },
        ];
        let data = doc! {
            "ts": { "0": (at(5)), "1": (at(6)), "2": (at(7)) },
            "a": { "0": 1, "2": "text" }, "b": { "2": { "c": 1 } },
        };
        assert_eq!(unpacked(&plain(data)).unwrap(), expected);
        let skip = [0x90, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        let mut a = vec![16, 0, 1, 0, 0, 0];
        a.extend(skip);
        a.extend([2, 0, 5, 0, 0, 0]);
        a.extend(b"text\0\0");
        let mut b = [skip, skip].concat();
        b.extend([3, 0]);
        b.extend(doc! { "c": 1 }.into_bytes());
        b.push(0);
        let data = doc! {
            "ts": (column(&[at(5), at(6), at(7)])), "a": (Value::binary(column::SUBTYPE, &a)),
            "b": (Value::binary(column::SUBTYPE, &b)),
        };
        for version in [2, 3] {
            assert_eq!(
                unpacked(&packed(version, 3, data.clone())).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn the_fields_are_in_the_order_of_the_columns() {
        let data = doc! { "_id": { "0": 1 }, "ts": { "0": (at(5)) }, "a": { "0": 2 } };
        let found = unpacked(&plain(data)).unwrap();
        assert_eq!(
            found[0].as_bytes(),
            doc! { "_id": 1, "ts": (at(5)), "at": "x", "a": 2 }.as_bytes()
        );
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        let says = |bucket: &Document, said: &str| {
            let error = unpacked(bucket).unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        says(&doc! {}, "of version null");
        says(&packed(4, 1, doc! {}), "of version 4");
        says(&packed(2, 0, doc! {}), "has 0 times");
        let times = column(&[at(1), at(2)]);
        says(
            &packed(2, 3, doc! { "ts": (times.clone()) }),
            "says that it has 3",
        );
        says(
            &packed(2, 2, doc! { "ts": { "0": (at(1)) } }),
            "is no column",
        );
        says(
            &packed(2, 2, doc! { "ts": (Value::binary(0, &[0])) }),
            "is no column",
        );
        says(&plain(doc! { "ts": (times) }), "is no column");
        says(&plain(doc! { "ts": { "1": (at(1)) } }), "has no time");
        let beyond = doc! { "ts": { "0": (at(1)) }, "a": { "0": 1, "1": 2 } };
        says(&plain(beyond), "column `a` has values of no measurement");
        let unordered = doc! { "ts": { "0": (at(1)), "1": (at(2)) }, "a": { "1": 1, "0": 2 } };
        says(&plain(unordered), "column `a` has values of no measurement");
        let mut plain = plain(doc! { "ts": { "0": (at(1)) } });
        plain.remove("meta");
        assert!(unpacked(&plain).is_ok());
        let mut out = Vec::new();
        let without = Series::of(doc! { "timeseries": { "timeField": "ts" } }.as_raw()).unwrap();
        plain.append("meta", 1);
        let error = measurements(&without, plain.as_raw(), &mut out).unwrap_err();
        assert!(error.contains("no metaField"), "{error}");
    }
}
