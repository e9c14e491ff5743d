//! Documents that are exported come back, and what does not fit is refused.

use std::fs;

use quarry_bson::{RawValue, Value, doc};

use super::*;
use crate::import;

fn settings() -> Settings {
    Settings {
        compression: Compression::Zstd,
        overflow: None,
        sample: 1000,
    }
}

/// The bytes of a file of the documents, and what is told of it.
fn written(
    mut output: ParquetOutput,
    documents: &[Document],
) -> io::Result<(Vec<u8>, Vec<String>)> {
    let mut out = Vec::new();
    output.begin(&mut out)?;
    for document in documents {
        output.document(document.as_raw(), &mut out)?;
    }
    output.end(&mut out)?;
    Ok((out, output.told()))
}

fn read(bytes: &[u8]) -> Vec<Document> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    fs::write(&path, bytes).unwrap();
    import::parquet::documents_of(&path).unwrap()
}

/// Holds the documents that come back against those that were written, byte by byte.
fn come_back(settings: Settings, documents: &[Document]) -> Vec<String> {
    let (bytes, told) = written(ParquetOutput::sampled(settings), documents).unwrap();
    let back = read(&bytes);
    assert_eq!(back.len(), documents.len());
    for (back, document) in back.iter().zip(documents) {
        assert_eq!(back.as_bytes(), document.as_bytes(), "{back} {document}");
    }
    told
}

fn parsed(texts: &[&str]) -> Vec<Document> {
    texts
        .iter()
        .map(|text| extjson::parse(text).unwrap())
        .collect()
}

const EVERY_TYPE: &str = r#"{"_id": {"$oid": "0123456789abcdef01234567"}, "double": {"$numberDouble": "-0.0"}, "string": "k\u00e4se\u0000",
    "document": {"a": {"b": {"$numberInt": "1"}}, "c": []}, "empty": {}, "array": [{"x": {"$numberInt": "1"}}, null, {"x": {"$numberInt": "2"}}],
    "arrays": [[], [[{"$numberInt": "1"}]]], "binary": {"$binary": {"base64": "AQI=", "subType": "00"}},
    "uuid": {"$uuid": "01234567-89ab-cdef-0123-456789abcdef"}, "user": {"$binary": {"base64": "AQI=", "subType": "80"}},
    "undefined": {"$undefined": true}, "true": true, "date": {"$date": {"$numberLong": "-62135596800001"}}, "null": null,
    "regex": {"$regularExpression": {"pattern": "a/b", "options": "i"}}, "pointer": {"$dbPointer": {"$ref": "d.c", "$id": {"$oid": "0123456789abcdef01234567"}}},
    "code": {"$code": "f()"}, "symbol": {"$symbol": "s"}, "scope": {"$code": "f()", "$scope": {"a": {"$numberInt": "1"}}},
    "int": {"$numberInt": "-5"}, "timestamp": {"$timestamp": {"t": 4294967295, "i": 7}}, "long": {"$numberLong": "-9223372036854775808"},
    "money": {"$numberDecimal": "12.50"}, "decimal": {"$numberDecimal": "-1.0E-6000"}, "nan": {"$numberDecimal": "NaN"}, "min": {"$minKey": 1}, "max": {"$maxKey": 1}}"#;

#[test]
fn every_type_comes_back() {
    let whole = extjson::parse(EVERY_TYPE).unwrap();
    assert!(come_back(settings(), std::slice::from_ref(&whole)).is_empty());
    // Every field by itself, beside documents that have it as null and documents that do not have it.
    let mut documents = vec![whole.clone()];
    for element in &whole {
        documents.push(Document::build(|document| {
            document.append("_id", 1);
            document.append_renamed("_id2", element);
        }));
    }
    assert!(come_back(settings(), &documents[1..]).is_empty());
    for element in &whole {
        let alone = Document::build(|document| {
            document.append_element(element);
        });
        let null = Document::build(|document| {
            document.append(element.name(), RawValue::Null);
        });
        for documents in [
            vec![alone.clone()],
            vec![alone.clone(), null.clone()],
            vec![alone.clone(), Document::new()],
            vec![null, Document::new(), alone],
        ] {
            assert!(come_back(settings(), &documents).is_empty());
        }
    }
}

#[test]
fn documents_of_many_shapes_come_back() {
    let documents = parsed(&[
        r#"{"_id": 1, "a": {"b": [1, 2], "c": null}, "m": [1, "x", {"y": null}]}"#,
        r#"{"_id": 2, "a": {"b": []}, "m": "x"}"#,
        r#"{"_id": 3, "a": null, "m": null}"#,
        r#"{"_id": 4}"#,
        r#"{"_id": 5, "a": {"c": {"$numberLong": "7"}}, "m:null": true, "list": [{"p": 1}, {"q": null}, {"p": null, "q": "z"}]}"#,
    ]);
    assert!(come_back(settings(), &documents).is_empty());
    // A batch of the writer holds fewer.
    let text = "x".repeat(300);
    let many: Vec<Document> = (0..40_000)
        .map(|n| doc! { "_id": n, "text": (text.as_str()), "list": [n, (n + 1)], "at": (Value::date_time(n as i64)) })
        .collect();
    assert!(come_back(settings(), &many).is_empty());
}

#[test]
fn numbers_become_the_widest_of_their_types_which_is_told() {
    let documents = parsed(&[r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1.5}}"#]);
    let (bytes, told) = written(ParquetOutput::sampled(settings()), &documents).unwrap();
    assert_eq!(
        told,
        ["`a.b`: numbers of several types have become the widest of them"]
    );
    assert_eq!(
        read(&bytes),
        parsed(&[
            r#"{"a": {"b": {"$numberDouble": "1.0"}}}"#,
            r#"{"a": {"b": 1.5}}"#
        ])
    );
}

#[test]
fn another_order_of_fields_is_told() {
    let documents = parsed(&[r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1}"#]);
    let (bytes, told) = written(ParquetOutput::sampled(settings()), &documents).unwrap();
    assert_eq!(
        told,
        ["1 documents had their fields in another order than the columns"]
    );
    assert_eq!(
        read(&bytes),
        parsed(&[r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "b": 2}"#])
    );
}

#[test]
fn a_later_document_that_does_not_fit_is_refused_or_goes_to_a_column_of_its_own() {
    let first = r#"{"_id": 1, "a": {"b": 1, "d": null}, "c": null, "e": [1]}"#;
    for (text, said) in [
        (
            r#"{"_id": 2, "a": {"b": "x", "d": null}, "c": null}"#,
            "field `a.b` is String, and its column has Int32",
        ),
        (
            r#"{"_id": 2, "a": {"b": {"$numberLong": "1"}, "d": null}, "c": null}"#,
            "field `a.b` is Int64, and its column has Int32",
        ),
        (
            r#"{"_id": 2, "z": 1, "c": null}"#,
            "field `z` has no column",
        ),
        (
            r#"{"_id": 2}"#,
            "field `c` is missing, and a null of its column is one that is there",
        ),
        (
            r#"{"_id": 2, "a": {}, "c": null}"#,
            "field `a.d` is missing",
        ),
        (
            r#"{"_id": null, "c": null}"#,
            "field `_id` is null, and a null of its column is a field that is not there",
        ),
        (
            r#"{"_id": 2, "c": null, "e": [2, "x"]}"#,
            "field `e.1` is String",
        ),
        (
            r#"{"_id": 2, "c": null, "a": 5}"#,
            "field `a` is Int32, and its column has documents",
        ),
    ] {
        let documents = parsed(&[first, text]);
        let one = || Settings {
            sample: 1,
            ..settings()
        };
        let error = written(ParquetOutput::sampled(one()), &documents)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("document 2 (_id: ") && error.contains(said),
            "{error}"
        );
        assert!(error.contains("--overflow"), "{error}");
        let with = Settings {
            overflow: Some("rest".to_owned()),
            ..one()
        };
        let (bytes, _) = written(ParquetOutput::sampled(with), &documents).unwrap();
        let back = read(&bytes);
        assert_eq!(back[0].as_bytes(), documents[0].as_bytes());
        // What is kept apart stands behind.
        assert_eq!(back[1].as_raw().len(), documents[1].as_raw().len());
        for element in &documents[1] {
            let found = back[1].as_raw().get_element(element.name());
            assert_eq!(found.unwrap().as_bytes(), element.as_bytes());
        }
    }
    let taken = Settings {
        overflow: Some("a".to_owned()),
        ..settings()
    };
    let error = written(ParquetOutput::sampled(taken), &parsed(&[first])).unwrap_err();
    assert!(error.to_string().contains("a field `a`"));
}

#[test]
fn what_would_come_back_as_another_value_is_refused() {
    let like_a_number = doc! { "$numberInt": "5" };
    let regex = RawValue::Regex(quarry_bson::RawRegex {
        pattern: "a".into(),
        options: "xi".into(),
    });
    for value in [Value::from(like_a_number.clone()), Value::from(regex)] {
        let mixed = [doc! { "a": (value.clone()) }, doc! { "a": "x" }];
        let error = written(ParquetOutput::sampled(settings()), &mixed).unwrap_err();
        let said = "document 1: field `a` would be another value when it is read back";
        assert!(error.to_string().starts_with(said), "{error}");
        let with_overflow = || Settings {
            sample: 1,
            overflow: Some("rest".to_owned()),
            ..settings()
        };
        let later = [doc! { "a": 1 }, doc! { "b": (value) }];
        let error = written(ParquetOutput::sampled(with_overflow()), &later).unwrap_err();
        let said = "document 2: field `b` would be another value when it is read back";
        assert!(error.to_string().starts_with(said), "{error}");
    }
    // All documents together may look like a value as well.
    let with_overflow = Settings {
        sample: 1,
        overflow: Some("rest".to_owned()),
        ..settings()
    };
    let later = [doc! { "a": 1 }, like_a_number.clone()];
    assert!(written(ParquetOutput::sampled(with_overflow), &later).is_err());
    // Columns of their own keep it.
    assert!(come_back(settings(), &[doc! { "a": (like_a_number) }]).is_empty());
}

#[test]
fn named_columns_have_their_types() {
    let names: Vec<String> = ["price.decimal(2)", "a.b.string()"]
        .map(str::to_owned)
        .to_vec();
    let output = || ParquetOutput::named(settings(), &names).unwrap();
    let documents = parsed(&[
        r#"{"price": {"$numberDecimal": "1.5"}, "a": {"b": "x"}}"#,
        r#"{"price": null}"#,
        "{}",
    ]);
    let (bytes, told) = written(output(), &documents).unwrap();
    assert_eq!(told, ["`price`: null and missing fields have become one"]);
    let back = parsed(&[
        r#"{"price": {"$numberDecimal": "1.50"}, "a": {"b": "x"}}"#,
        "{}",
        "{}",
    ]);
    assert_eq!(read(&bytes), back);
    let error = written(
        output(),
        &parsed(&[r#"{"price": {"$numberDecimal": "1.555"}}"#]),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Decimal128 of 2 digits behind the point"),
        "{error}"
    );
}

#[test]
fn no_documents_are_a_file_of_no_rows() {
    assert!(come_back(settings(), &[]).is_empty());
}

#[test]
fn a_row_group_is_bounded() {
    let documents: Vec<Document> = (0..36)
        .map(|n| {
            // Nothing that could be compressed.
            let mut state = n as u64 + 1;
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .take(4 << 20)
            .collect();
            doc! { "_id": n, "bytes": (Value::binary(0, &bytes)) }
        })
        .collect();
    let mut output = ParquetOutput::sampled(Settings {
        sample: 1,
        ..settings()
    });
    let mut out = Vec::new();
    let mut bytes_of_groups = Vec::new();
    for document in &documents {
        let before = out.len();
        output.document(document.as_raw(), &mut out).unwrap();
        if out.len() > before + (1 << 20) {
            bytes_of_groups.push(out.len() - before);
        }
    }
    assert_eq!(
        bytes_of_groups.len(),
        1,
        "144 MiB are a row group of 128 MiB and what is left"
    );
    assert!(bytes_of_groups[0] < ROW_GROUP_BYTES + (16 << 20));
}
