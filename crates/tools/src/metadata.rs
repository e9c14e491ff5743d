//! `metadata.json`: a collection's definition beside its documents, in Extended JSON.
//!
//! `{"options": {...}, "indexes": [...], "uuid": "32 hexadecimal digits", "collectionName": "...", "type": "collection" | "timeseries" | "view"}`

use std::fmt::Write;

use quarry_bson::{Document, Value, doc, extjson};

use crate::definition::{Definition, Kind};
use crate::error::{Error, Result};
use crate::time_series::Series;

/// The text of a definition.
pub fn to_text(definition: &Definition) -> String {
    let indexes: Value = definition.indexes.iter().map(Value::from).collect();
    let mut metadata = doc! { "options": (&definition.options), "indexes": indexes };
    if let Some(uuid) = definition.uuid {
        let mut digits = String::with_capacity(32);
        for byte in uuid {
            // Writing to a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        metadata.append("uuid", digits);
    }
    metadata.append("collectionName", definition.name.as_str());
    metadata.append("type", definition.kind.as_str());
    extjson::canonical(metadata.as_raw())
}

/// The definition of a text, which stands at `place`. `name` is the collection's if the text does not say, as old ones do not.
pub fn from_text(text: &str, name: &str, place: &str) -> Result<Definition> {
    let damaged = |what: &str| Error::damaged(place, what);
    let metadata = match text.trim() {
        // Of a collection that has nothing to say.
        "" => Document::new(),
        text => extjson::parse(text)
            .or_else(|error| extjson::parse_legacy(text).or(Err(error)))
            .map_err(|error| Error::damaged(place, error))?,
    };
    let options = match metadata.get("options") {
        None => Document::new(),
        Some(options) if options.is_nullish() => Document::new(),
        Some(options) => match options.as_document() {
            Some(options) => options.to_owned_document(),
            None => return Err(damaged("`options` is no document")),
        },
    };
    let mut indexes = Vec::new();
    for index in metadata
        .get_array("indexes")
        .iter()
        .flat_map(quarry_bson::RawArray::iter)
    {
        match index.as_document() {
            Some(index) => indexes.push(index.to_owned_document()),
            None => return Err(damaged("an index is no document")),
        }
    }
    let kind = match metadata.get_str("type") {
        Some("view") => Kind::View,
        _ if Series::of(options.as_raw()).is_some() => Kind::TimeSeries,
        Some("timeseries") => return Err(damaged("a time series without a `timeField`")),
        _ if options.contains("viewOn") => Kind::View,
        _ => Kind::Collection,
    };
    Ok(Definition {
        name: metadata
            .get_str("collectionName")
            .unwrap_or(name)
            .to_owned(),
        kind,
        options,
        indexes,
        uuid: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As mongodump writes it.
    const TEXT: &str = r#"{"options":{"capped":true,"size":{"$numberInt":"4096"}},"indexes":[{"v":{"$numberInt":"2"},"key":{"_id":{"$numberInt":"1"}},"name":"_id_"},{"v":{"$numberInt":"2"},"key":{"a":{"$numberDouble":"-1.0"}},"name":"a_-1","unique":true}],"uuid":"0123456789abcdef0123456789abcdef","collectionName":"logs","type":"collection"}"#;

    #[test]
    fn what_mongodump_writes_is_read_and_written() {
        let mut read = from_text(TEXT, "other", "x").unwrap();
        assert_eq!((read.name.as_str(), read.kind), ("logs", Kind::Collection));
        assert!(read.is_capped());
        assert_eq!(read.indexes.len(), 2);
        assert_eq!(read.indexes[1].get_bool("unique"), Some(true));
        read.uuid = Some([
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
            0xcd, 0xef,
        ]);
        assert_eq!(to_text(&read), TEXT);
    }

    #[test]
    fn what_old_tools_wrote_is_read() {
        let old = r#"{"options":{},"indexes":[{"v":1,"key":{"_id":1},"name":"_id_","ns":"db.c"}]}"#;
        let read = from_text(old, "c", "x").unwrap();
        assert_eq!((read.name.as_str(), read.indexes.len()), ("c", 1));
        assert_eq!(from_text("", "c", "x").unwrap().name, "c");
        let view = r#"{"options":{"viewOn":"a","pipeline":[]},"indexes":[]}"#;
        assert_eq!(from_text(view, "v", "x").unwrap().kind, Kind::View);
        let series = r#"{"options":{"timeseries":{"timeField":"ts","granularity":"seconds","bucketMaxSpanSeconds":{"$numberInt":"3600"}}},"indexes":[],"uuid":"","collectionName":"weather","type":"timeseries"}"#;
        let series = from_text(series, "w", "x").unwrap();
        assert_eq!(
            (series.name.as_str(), series.kind),
            ("weather", Kind::TimeSeries)
        );
        for bad in [
            "{",
            "[]",
            r#"{"options":1}"#,
            r#"{"indexes":[1]}"#,
            r#"{"type":"timeseries"}"#,
        ] {
            let error = from_text(bad, "c", "place").unwrap_err().to_string();
            assert!(error.starts_with("place: "), "{bad}: {error}");
        }
    }
}
