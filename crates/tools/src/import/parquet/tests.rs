//! Files that others have made, and files that somebody has damaged.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, ListBuilder, MapBuilder, StringBuilder, UInt64Builder,
};
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    Decimal256Array, DictionaryArray, DurationMicrosecondArray, FixedSizeBinaryArray, Float16Array,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, NullArray,
    RecordBatch, StringArray, StringViewArray, StructArray, Time32MillisecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::extension::Uuid;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use quarry_bson::{Document, RawDocument};
use tempfile::TempDir;

use super::*;

/// Reads what a file gives: documents as the shell prints them, and faults by their rows.
fn read(file: &mut ParquetFile) -> Result<Vec<String>> {
    let mut said = Vec::new();
    loop {
        let mut out = Vec::new();
        match file.next(&mut out)? {
            Next::Document(row) => {
                let document = Document::from_raw(RawDocument::validated(&out).unwrap());
                said.push(format!("{row}: {document}"));
            }
            Next::Bad(row, what) => {
                assert!(out.is_empty());
                said.push(format!("{row}! {what}"));
            }
            Next::Skipped(..) => unreachable!(),
            Next::End => return Ok(said),
        }
    }
}

fn open(path: &Path) -> Result<ParquetFile> {
    ParquetFile::open(path, Place::default(), false)
}

struct Written {
    directory: TempDir,
    path: PathBuf,
}

/// A file of the columns, with so many rows in a row group.
fn written(
    columns: Vec<(Field, ArrayRef)>,
    group_rows: usize,
    compression: Compression,
) -> Written {
    let properties = WriterProperties::builder().set_compression(compression);
    written_with(columns, group_rows, properties)
}

fn written_with(
    columns: Vec<(Field, ArrayRef)>,
    group_rows: usize,
    properties: WriterPropertiesBuilder,
) -> Written {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let properties = properties
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10)
        .build();
    let mut writer =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties)).unwrap();
    writer
        .write(&RecordBatch::try_new(schema, arrays).unwrap())
        .unwrap();
    let bytes = writer.into_inner().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    fs::write(&path, bytes).unwrap();
    Written { directory, path }
}

fn column(name: &str, array: impl Array + 'static) -> (Field, ArrayRef) {
    (
        Field::new(name, array.data_type().clone(), true),
        Arc::new(array),
    )
}

fn one(name: &str, array: impl Array + 'static) -> String {
    let file = written(vec![column(name, array)], 100, Compression::UNCOMPRESSED);
    match open(&file.path).and_then(|mut file| read(&mut file)) {
        Ok(said) => said.join("; "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_type_has_its_counterpart() {
    let half = |value: f32| {
        <Float16Array as From<Vec<_>>>::from(vec![
            <<Float16Type as ArrowPrimitiveType>::Native>::from_f32(value),
        ])
    };
    for (said, expected) in [
        (one("a", BooleanArray::from(vec![true])), "1: { a: true }"),
        (one("a", Int8Array::from(vec![-5])), "1: { a: -5 }"),
        (one("a", UInt8Array::from(vec![255])), "1: { a: 255 }"),
        (
            one("a", Int32Array::from(vec![Some(7), None])),
            "1: { a: 7 }; 2: { a: null }",
        ),
        (
            one("a", UInt32Array::from(vec![u32::MAX])),
            "1: { a: Long('4294967295') }",
        ),
        (one("a", Int64Array::from(vec![5])), "1: { a: Long('5') }"),
        (
            one("a", UInt64Array::from(vec![5, u64::MAX])),
            "1: { a: Long('5') }; 2: { a: Decimal128('18446744073709551615') }",
        ),
        (one("a", half(1.5)), "1: { a: 1.5 }"),
        (one("a", Float32Array::from(vec![0.5])), "1: { a: 0.5 }"),
        (one("a", Float64Array::from(vec![0.1])), "1: { a: 0.1 }"),
        (
            one(
                "a",
                Decimal128Array::from(vec![-150])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
            "1: { a: Decimal128('-1.50') }",
        ),
        (
            one(
                "a",
                Decimal256Array::from(vec![i256::from_i128(7), i256::MAX])
                    .with_precision_and_scale(76, 3)
                    .unwrap(),
            ),
            "1: { a: Decimal128('0.007') }; 2! column `a`: a decimal of more than 34 digits",
        ),
        (
            one("a", StringArray::from(vec!["k\u{e4}se"])),
            "1: { a: 'k\u{e4}se' }",
        ),
        (one("a", LargeStringArray::from(vec!["x"])), "1: { a: 'x' }"),
        (one("a", StringViewArray::from(vec!["x"])), "1: { a: 'x' }"),
        (
            one(
                "a",
                ["x", "y", "x"]
                    .into_iter()
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
            "1: { a: 'x' }; 2: { a: 'y' }; 3: { a: 'x' }",
        ),
        (
            one("a", BinaryArray::from(vec![&b"\x01\x02"[..]])),
            "1: { a: Binary.createFromBase64('AQI=', 0) }",
        ),
        (
            one(
                "a",
                FixedSizeBinaryArray::try_from_iter([b"\x01\x02"].into_iter()).unwrap(),
            ),
            "1: { a: Binary.createFromBase64('AQI=', 0) }",
        ),
        (one("a", NullArray::new(1)), "1: { a: null }"),
        (
            one("a", Date32Array::from(vec![-1])),
            "1: { a: ISODate('1969-12-31T00:00:00.000Z') }",
        ),
        (
            one("a", Date64Array::from(vec![86_400_000])),
            "1: { a: ISODate('1970-01-02T00:00:00.000Z') }",
        ),
        (
            one("a", TimestampSecondArray::from(vec![1, i64::MAX])),
            "1: { a: ISODate('1970-01-01T00:00:01.000Z') }; 2! column `a`: a date beyond what BSON has room for",
        ),
        (
            one("a", TimestampMicrosecondArray::from(vec![-1])),
            "1: { a: ISODate('1969-12-31T23:59:59.999Z') }",
        ),
        (
            one("a", TimestampNanosecondArray::from(vec![1_999_999])),
            "1: { a: ISODate('1970-01-01T00:00:00.001Z') }",
        ),
        (
            one("a", Time32MillisecondArray::from(vec![1000])),
            "1: { a: 1000 }",
        ),
        (
            one("a", Time64NanosecondArray::from(vec![1000])),
            "1: { a: Long('1000') }",
        ),
        (
            one("a", DurationMicrosecondArray::from(vec![3])),
            "1: { a: Long('3') }",
        ),
    ] {
        assert_eq!(said, expected);
    }
}

#[test]
fn a_uuid_and_nested_columns_are_what_they_are() {
    let uuid = Field::new("u", DataType::FixedSizeBinary(16), true).with_extension_type(Uuid);
    let uuids: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter([[7u8; 16]].into_iter()).unwrap());
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(1)]));
    let nested = StructArray::from(vec![(
        Arc::new(Field::new("b", DataType::Int32, true)),
        inner,
    )]);
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("x"), None]);
    let mut maps = MapBuilder::new(None, StringBuilder::new(), UInt64Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(2);
    maps.append(true).unwrap();
    let file = written(
        vec![
            (uuid, uuids),
            column("s", nested),
            column("l", lists.finish()),
            column("m", maps.finish()),
        ],
        10,
        Compression::SNAPPY,
    );
    assert_eq!(
        read(&mut open(&file.path).unwrap()).unwrap(),
        [
            "1: { u: UUID('07070707-0707-0707-0707-070707070707'), s: { b: 1 }, l: [ 'x', null ], m: { k: Long('2') } }"
        ]
    );
}

#[test]
fn what_is_cut_of_a_date_is_told_once() {
    let dates = TimestampMicrosecondArray::from(vec![1, 2, 1000]);
    let file = written(vec![column("at", dates)], 2, Compression::UNCOMPRESSED);
    let mut file = open(&file.path).unwrap();
    assert_eq!(read(&mut file).unwrap().len(), 3);
    assert_eq!(file.told(), ["dates of `at` were cut to milliseconds"]);
    let whole = written(
        vec![column("at", TimestampMicrosecondArray::from(vec![1000]))],
        2,
        Compression::UNCOMPRESSED,
    );
    let mut whole = open(&whole.path).unwrap();
    read(&mut whole).unwrap();
    assert!(whole.told().is_empty());
}

#[test]
fn nulls_are_left_out_where_that_was_asked_for() {
    let file = written(
        vec![column("a", Int32Array::from(vec![None, Some(1)]))],
        9,
        Compression::UNCOMPRESSED,
    );
    let mut file = ParquetFile::open(&file.path, Place::default(), true).unwrap();
    assert_eq!(read(&mut file).unwrap(), ["1: {}", "2: { a: 1 }"]);
}

/// Some columns of 100 rows, in row groups of 30.
fn sample(compression: Compression) -> Written {
    written(sample_columns(), 30, compression)
}

fn sample_columns() -> Vec<(Field, ArrayRef)> {
    let numbers: Vec<i32> = (0..100).collect();
    let texts: Vec<String> = numbers
        .iter()
        .map(|number| format!("text {}", number % 7))
        .collect();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for number in 0..100 {
        lists.append_value((0..number % 4).map(|_| Some("x")));
    }
    let inner: ArrayRef = Arc::new(Float64Array::from_iter(
        numbers.iter().map(|number| (number % 3 > 0).then_some(0.5)),
    ));
    let nested = StructArray::from(vec![(
        Arc::new(Field::new("b", DataType::Float64, true)),
        inner,
    )]);
    vec![
        column("n", Int32Array::from(numbers)),
        column("t", StringArray::from(texts)),
        column("l", lists.finish()),
        column("s", nested),
    ]
}

#[test]
fn a_file_is_read_on_at_any_row() {
    let file = sample(Compression::ZSTD(Default::default()));
    let all = read(&mut open(&file.path).unwrap()).unwrap();
    assert_eq!(all.len(), 100);
    for done in [0, 1, 29, 30, 31, 60, 99, 100] {
        let mut first = open(&file.path).unwrap();
        let mut offset = 0;
        for _ in 0..done {
            first.next(&mut Vec::new()).unwrap();
            assert!(first.place().offset >= offset, "a place never goes back");
            offset = first.place().offset;
        }
        let place = first.place();
        assert!(place.line == done as u64 + 1 && offset <= fs::metadata(&file.path).unwrap().len());
        let mut second = ParquetFile::open(&file.path, place, false).unwrap();
        // The last of the four has ten rows.
        let groups_done = if done == 100 { 4 } else { done / 30 };
        assert_eq!(
            second.group, groups_done,
            "whole row groups are passed over"
        );
        assert_eq!(read(&mut second).unwrap(), all[done..]);
    }
    let beyond = Place {
        line: 102,
        ..Place::default()
    };
    let error = ParquetFile::open(&file.path, beyond, false).err().unwrap();
    assert!(error.to_string().contains("another file"), "{error}");
}

#[test]
fn every_compression_and_encoding_is_read() {
    let all = read(&mut open(&sample(Compression::UNCOMPRESSED).path).unwrap()).unwrap();
    for compression in [
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for encoding in [
                Encoding::PLAIN,
                Encoding::DELTA_BYTE_ARRAY,
                Encoding::DELTA_LENGTH_BYTE_ARRAY,
            ] {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(compression);
                let properties = texts().into_iter().fold(properties, |properties, column| {
                    properties
                        .set_column_encoding(column.clone(), encoding)
                        .set_column_dictionary_enabled(column, encoding == Encoding::PLAIN)
                });
                let file = written_with(sample_columns(), 30, properties);
                let back = read(&mut open(&file.path).unwrap());
                assert_eq!(back.unwrap(), all, "{compression} {version:?} {encoding}");
            }
        }
    }
}

/// The columns of the sample that hold texts.
fn texts() -> [ColumnPath; 2] {
    [
        ColumnPath::from("t"),
        ColumnPath::new(["l", "list", "item"].map(str::to_owned).to_vec()),
    ]
}

#[test]
fn a_row_of_more_values_than_a_batch_may_draw_is_refused() {
    let mut lists = ListBuilder::new(FixedSizeBinaryBuilder::new(1000));
    for _ in 0..20_000 {
        lists.values().append_null();
    }
    lists.append(true);
    let small = column("n", Int32Array::from(vec![1]));
    let columns = vec![small, column("l", lists.finish())];
    let file = written(columns, 9, Compression::UNCOMPRESSED);
    assert!(fs::metadata(&file.path).unwrap().len() < 10_000);
    let said = error(&file.path);
    let expected = "row group 1, column `l.list.item`: ";
    assert!(
        said.contains(expected) && said.contains("take more than"),
        "{said}"
    );
}

#[test]
fn rows_without_columns_are_refused() {
    let footer = [
        &[0x15, 2, 0x19, 0x1C, 0x48, 1, b'r', 0x15, 0, 0][..], // Version 1, a schema of a root
        &[0x16, 10, 0x19, 0x1C, 0x19, 0x0C, 0x16, 0, 0x16, 10, 0, 0], // 5 rows, in a row group
    ]
    .concat();
    let bytes = [
        &b"PAR1"[..],
        &footer,
        &[footer.len() as u8, 0, 0, 0],
        b"PAR1",
    ]
    .concat();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    fs::write(&path, bytes).unwrap();
    assert!(error(&path).contains("it has rows and no columns"));
}

/// The error of a file that is opened and read.
fn error(path: &Path) -> String {
    let read = open(path).and_then(|mut file| read(&mut file));
    read.err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn a_file_that_is_none_or_is_cut_is_refused() {
    let file = sample(Compression::UNCOMPRESSED);
    let whole = fs::read(&file.path).unwrap();
    fs::write(&file.path, b"PAR1").unwrap();
    assert!(error(&file.path).contains("too short"));
    fs::write(&file.path, b"{\"a\": 1}\n{\"a\": 1}\n").unwrap();
    assert!(error(&file.path).contains("does not end with PAR1"));
    for cut in [whole.len() - 1, whole.len() / 2, 20] {
        fs::write(&file.path, &whole[..cut]).unwrap();
        assert!(
            error(&file.path).contains("does not end with PAR1"),
            "{cut}"
        );
    }
    // The middle is gone: the footer is whole, and columns stand behind the end.
    let cut = [&whole[..100], &whole[whole.len() - footer_bytes(&whole)..]].concat();
    fs::write(&file.path, cut).unwrap();
    let said = error(&file.path);
    assert!(
        said.contains("row group") && said.contains("column `"),
        "{said}"
    );
    assert!(error(file.directory.path()).contains("read from its end"));
}

/// The bytes of the footer with its length and the magic.
fn footer_bytes(file: &[u8]) -> usize {
    let length = file[file.len() - 8..file.len() - 4].try_into().unwrap();
    u32::from_le_bytes(length) as usize + 8
}

#[test]
fn a_damaged_page_is_named_by_its_row_group_and_column() {
    let file = sample(Compression::SNAPPY);
    let mut bytes = fs::read(&file.path).unwrap();
    let opened = open(&file.path).unwrap();
    let chunk = opened.metadata.row_group(1).column(1);
    let (start, length) = chunk.byte_range();
    for byte in &mut bytes[start as usize + 20..(start + length) as usize] {
        *byte = 0xFF;
    }
    fs::write(&file.path, bytes).unwrap();
    let mut damaged = open(&file.path).unwrap();
    for _ in 0..30 {
        assert!(matches!(
            damaged.next(&mut Vec::new()),
            Ok(Next::Document(_))
        ));
    }
    let said = damaged.next(&mut Vec::new()).unwrap_err().to_string();
    assert!(said.contains("row group 2, column `t`: "), "{said}");
}

#[test]
fn no_damage_ends_in_a_panic_or_in_a_document_that_is_none() {
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ];
    let (mut refused, mut read_well) = (0, 0);
    for codec in codecs {
        let file = sample(codec);
        let whole = fs::read(&file.path).unwrap();
        let footer = footer_bytes(&whole);
        for round in 0..400 {
            let mut bytes = whole.clone();
            // Half of the damage is in the footer, which says where everything stands.
            let (from, span) = match round % 2 {
                0 => (4, whole.len() - footer),
                _ => (whole.len() - footer, footer - 8),
            };
            for _ in 0..=random(4) {
                let at = (from + random(span)).min(bytes.len() - 1);
                match random(4) {
                    0 => bytes[at] = [0, 0xFF, 0x7F, 0x80][random(4)],
                    1 => bytes[at] ^= 1 << random(8),
                    2 => {
                        bytes.remove(at);
                    }
                    _ => bytes.insert(at, random(256) as u8),
                }
            }
            fs::write(&file.path, &bytes).unwrap();
            match open(&file.path).and_then(|mut file| read(&mut file)) {
                Ok(_) => read_well += 1,
                Err(error) => {
                    assert!(error.to_string().contains("a.parquet"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 400 && read_well > 10, "{refused} {read_well}");
}
