//! A column of values in the packed form that MongoDB gives it: BSON's Binary of subtype 7.
//!
//! Written from what MongoDB publishes of the format. A column is a run of pieces, each told by its first byte, and ends with a byte of zeros:
//!
//! ```text
//! 00            the end
//! 01 .. 1F, 7F, FF   a literal: the type, a name of no bytes and the value, as in a document
//! 8n 9n An Bn Cn Dn  n + 1 words of differences to the value before (`simple8b.rs`); the high digit is the scale of Doubles:
//!                    their bits, and 1, 10, 100, 10,000 and 100,000,000 times the value
//! F0 F1 F2      documents: a reference, then the pieces of all its fields in turn, up to an end of their own. F0 has arrays whole, F1
//!               field by field, and with F2 the values themselves are arrays
//! ```
//!
//! A difference is a number with its sign in the lowest bit, and a word without a number is a value that is missing. Dates, Timestamps and ObjectIds have
//! differences of differences; what is no number has the difference 0 alone, and is repeated. Strings and binaries of at most 16 bytes are numbers of 128 bits.

mod documents;
mod stream;

use quarry_bson::{ElementType, RawValue, Value};

use super::simple8b::WORD_BYTES;
use documents::unpack_documents;
use stream::Stream;

/// The subtype of a Binary that is a column.
pub const SUBTYPE: u8 = 7;

/// More than any bucket of MongoDB has by far.
const UNPACKED_BYTES_MAX: usize = 128 << 20;
/// The memory that a value takes, or one that is missing, beside its bytes.
const VALUE_BYTES: usize = 32;

const END: u8 = 0;

/// The bytes that a bucket may still be unpacked to: a few bytes of a column can stand for any number of values.
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(UNPACKED_BYTES_MAX)
    }
}

impl Budget {
    /// Takes bytes from it.
    ///
    /// # Errors
    /// It has not so many.
    pub fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| {
            format!("a bucket is larger than {UNPACKED_BYTES_MAX} bytes when it is unpacked")
        })?;
        Ok(())
    }

    /// Takes a value's bytes from it; what else it takes was taken when it was read.
    fn spend_on(&mut self, value: Option<&Value>) -> Result<(), String> {
        self.spend(value.map_or(0, |value| value.as_bytes().len()))
    }
}

/// The values of a column, with None for each that is missing.
///
/// # Errors
/// The text says why the bytes are no column.
pub fn unpack(column: &[u8], budget: &mut Budget) -> Result<Vec<Option<Value>>, String> {
    let mut pieces = Pieces {
        rest: column,
        budget,
    };
    let mut stream = Stream::default();
    let mut values: Vec<Option<Value>> = Vec::new();
    loop {
        match pieces.next(&mut stream)? {
            Piece::End if pieces.rest.is_empty() => return Ok(values),
            Piece::End => return Err("bytes behind the end".to_owned()),
            Piece::Values => {}
            Piece::Documents(kind) => {
                unpack_documents(kind, &mut pieces, &mut values)?;
                let last = values.last().cloned().flatten();
                stream = last.map_or_else(Stream::default, Stream::behind);
            }
        }
        while let Some(value) = stream.next()? {
            pieces.budget.spend_on(value.as_ref())?;
            values.push(value);
        }
    }
}

/// The bytes of a column that have not been read.
struct Pieces<'c> {
    rest: &'c [u8],
    budget: &'c mut Budget,
}

/// The beginning of a column's next piece.
enum Piece {
    End,
    /// The stream has values.
    Values,
    /// A reference follows.
    Documents(Interleaved),
}

/// The form of a run of documents.
#[derive(Clone, Copy)]
struct Interleaved {
    splits_arrays: bool,
    root: ElementType,
}

impl<'c> Pieces<'c> {
    /// Reads on. Values come into the stream.
    fn next(&mut self, stream: &mut Stream) -> Result<Piece, String> {
        let control = self.take(1)?[0];
        if control == END {
            return Ok(Piece::End);
        }
        let interleaved = |splits_arrays, root| {
            Ok(Piece::Documents(Interleaved {
                splits_arrays,
                root,
            }))
        };
        match control {
            0xF0 => interleaved(false, ElementType::Document),
            0xF1 => interleaved(true, ElementType::Document),
            0xF2 => interleaved(true, ElementType::Array),
            0x80..=0xDF => {
                let words = self.take((usize::from(control & 0xF) + 1) * WORD_BYTES)?;
                let values = stream.load(control >> 4, words)?;
                self.budget.spend(values * VALUE_BYTES)?;
                Ok(Piece::Values)
            }
            _ => {
                self.budget.spend(VALUE_BYTES)?;
                *stream = Stream::of_literal(self.literal(control)?);
                Ok(Piece::Values)
            }
        }
    }

    /// The next bytes, of which there must be so many.
    fn take(&mut self, len: usize) -> Result<&'c [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("it is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn literal(&mut self, kind: u8) -> Result<Value, String> {
        let kind = ElementType::from_u8(kind);
        let kind = kind.ok_or_else(|| "a byte that begins nothing".to_owned())?;
        if self.take(1)? != [0] {
            return Err("a value with a name".to_owned());
        }
        let value = RawValue::split_first(kind, self.rest);
        let (value, rest) = value.map_err(|_| "it is cut off within a value")?;
        self.rest = rest;
        Ok(value.to_value())
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Decimal128, ObjectId, RawDocument, Timestamp, doc};

    use super::*;

    /// Bytes of a column, put together from the description of the format.
    #[derive(Default)]
    struct Column(Vec<u8>);

    impl Column {
        fn literal(mut self, value: impl Into<Value>) -> Column {
            let value = value.into();
            self.0.extend([value.element_type() as u8, 0]);
            self.0.extend_from_slice(value.as_bytes());
            self
        }

        /// A piece of words.
        fn words(mut self, scale: u8, words: &[u64]) -> Column {
            self.0.push(scale << 4 | (words.len() as u8 - 1));
            self.0
                .extend(words.iter().flat_map(|word| word.to_le_bytes()));
            self
        }

        /// One word of 60 bits a difference.
        fn differences(self, scale: u8, differences: &[i64]) -> Column {
            let word = |difference: &i64| {
                let unsigned = (difference << 1 ^ difference >> 63).cast_unsigned();
                unsigned << 4 | 14
            };
            let words: Vec<u64> = differences.iter().map(word).collect();
            self.words(scale, &words)
        }

        fn documents(mut self, control: u8, reference: RawDocument<'_>) -> Column {
            self.0.push(control);
            self.0.extend_from_slice(reference.as_bytes());
            self
        }

        fn end(mut self) -> Column {
            self.0.push(END);
            self
        }

        fn values(self) -> Vec<Option<Value>> {
            unpack(&self.end().0, &mut Budget::default()).unwrap()
        }

        fn error(self) -> String {
            unpack(&self.0, &mut Budget::default()).unwrap_err()
        }
    }

    const MISSING: u64 = 0xFFFF_FFFF_FFFF_FFFE;

    fn column() -> Column {
        Column::default()
    }

    /// Asserts type and bytes of each value.
    fn assert_values<const N: usize>(column: Column, expected: [Option<Value>; N]) {
        let exact = |values: &[Option<Value>]| -> Vec<_> {
            let exact = values.iter().map(|value| {
                let value = value.as_ref()?;
                Some((value.element_type(), value.as_bytes().to_vec()))
            });
            exact.collect()
        };
        assert_eq!(exact(&column.values()), exact(&expected));
    }

    fn some<const N: usize, V: Into<Value>>(values: [V; N]) -> [Option<Value>; N] {
        values.map(|value| Some(value.into()))
    }

    #[test]
    fn literals_and_an_empty_column() {
        assert!(column().values().is_empty());
        let every: [Value; 6] = [
            1.5.into(),
            "text".into(),
            doc! { "a": [1] }.into(),
            Value::binary(0, b"bytes"),
            Value::min_key(),
            Value::max_key(),
        ];
        let literals = every.iter().cloned().fold(column(), Column::literal);
        assert_values(literals, some(every));
    }

    #[test]
    fn whole_numbers_have_differences() {
        let ints = column().literal(100).differences(9, &[1, -3, 0]);
        assert_values(ints, some([100, 101, 98, 98]));
        let longs = column().literal(i64::MAX).differences(9, &[1]);
        assert_values(longs, some([i64::MAX, i64::MIN]));
        // Two slots of 30 bits: +1 and -1.
        let two = column().literal(7).words(9, &[13 | 2 << 4 | 1 << 34]);
        assert_values(two, some([7, 8, 7]));
        let truths = column().literal(false).differences(9, &[1, -1]);
        assert_values(truths, some([false, true, false]));
    }

    #[test]
    fn doubles_are_scaled() {
        for (scale, step) in [
            (9, 1.0),
            (0xA, 0.1),
            (0xB, 0.01),
            (0xC, 0.0001),
            (0xD, 1e-8),
        ] {
            let column = column().literal(0.0).differences(scale, &[1, 1, -2]);
            assert_values(column, some([0.0, step, step * 2.0, 0.0]));
        }
        let bits = |value: f64| value.to_bits().cast_signed();
        let odd = [1.0 / 3.0, 1.0 / 3.0 + f64::EPSILON];
        let column = column().literal(odd[0]);
        let column = column.differences(8, &[bits(odd[1]) - bits(odd[0])]);
        assert_values(column, some(odd));
        // Another scale begins with the value as it is.
        let column = self::column().literal(1.0).differences(9, &[1]);
        let column = column.differences(0xA, &[5]);
        assert_values(column, some([1.0, 2.0, 2.5]));
        let error = self::column().literal(0.25).differences(0xA, &[5]).error();
        assert!(error.contains("does not suit its scale"), "{error}");
    }

    #[test]
    fn times_and_ids_have_differences_of_differences() {
        let at = Value::date_time;
        let dates = column().literal(at(5000)).differences(9, &[1000, 0, -500]);
        assert_values(dates, some([at(5000), at(6000), at(7000), at(7500)]));
        let stamp = |time, increment| RawValue::Timestamp(Timestamp { time, increment });
        let stamps = column().literal(stamp(9, 1)).differences(9, &[1, 0]);
        assert_values(stamps, some([stamp(9, 1), stamp(9, 2), stamp(9, 3)]));
        let id = |last: [u8; 2], time: u8| {
            let bytes = [0x60, 0, 0, time, 1, 2, 3, 4, 5, 0, last[0], last[1]];
            RawValue::ObjectId(ObjectId::from_bytes(bytes))
        };
        // The lowest byte is the counter's lowest, the next one the time's, the third the counter's second.
        let ids = column()
            .literal(id([0, 7], 1))
            .differences(9, &[1, 0x1_00FF]);
        assert_values(ids, some([id([0, 7], 1), id([0, 8], 1), id([1, 8], 2)]));
    }

    #[test]
    fn short_texts_and_bytes_are_numbers() {
        let texts = column()
            .literal("room 1")
            .differences(9, &[1, 7, 0x100 - 8]);
        assert_values(texts, some(["room 1", "room 2", "room 9", "room!1"]));
        // A text of another length: 'a' and 'b' become 'abc'.
        let texts = column().literal("").differences(9, &[0x61, 0x6162 - 0x61]);
        assert_values(texts, some(["", "a", "ab"]));
        let binary = |bytes: &[u8]| Value::binary(5, bytes);
        let bytes = column()
            .literal(binary(&[1, 2]))
            .differences(9, &[1, 0x100]);
        assert_values(
            bytes,
            some([binary(&[1, 2]), binary(&[2, 2]), binary(&[2, 3])]),
        );
        let decimal = |bits: u128| RawValue::Decimal128(Decimal128::from_bits(bits));
        // A difference whose zeros at the end are counted: 3 with 17 fours of zeros.
        let word = 8 | 13 << 4 | 17 << 8 | 6 << 13;
        let decimals = column().literal(decimal(5)).words(9, &[word]);
        assert_values(decimals, some([decimal(5), decimal(5 + (3 << 68))]));
        let long = "longer than sixteen bytes";
        assert_values(
            column().literal(long).differences(9, &[0]),
            some([long, long]),
        );
        let error = column().literal(long).differences(9, &[1]).error();
        assert!(error.contains("is no number"), "{error}");
    }

    #[test]
    fn values_are_missing_and_repeated() {
        let one = || Some(Value::from(1));
        let column = column()
            .words(9, &[MISSING])
            .literal(1)
            .words(9, &[MISSING, 14]);
        assert_values(column, [None, one(), None, one()]);
        let repeated = self::column().literal(1).words(9, &[15]).values();
        assert_eq!(repeated, vec![one(); 121]);
        let counted = self::column()
            .literal(1)
            .words(9, &[14 | 2 << 4])
            .words(9, &[15]);
        assert_eq!(counted.values().last(), Some(&Some(Value::from(122))));
        let gone = self::column().literal(1).words(9, &[MISSING, 15]).values();
        assert_eq!(gone[1..], vec![None; 121]);
        let nulls = self::column().literal(Value::null()).words(9, &[14]);
        assert_values(nulls, some([Value::null(), Value::null()]));
        let error = self::column()
            .literal(Value::null())
            .differences(9, &[1])
            .error();
        assert!(error.contains("is no number"), "{error}");
    }

    #[test]
    fn documents_have_streams_of_their_fields() {
        let reference = doc! { "a": 1, "b": { "c": "x", "e": {} }, "d": [1, 2] };
        let document = |a: i32, c: &str| doc! { "a": a, "b": { "c": c, "e": {} }, "d": [1, 2] };
        // Arrays are whole: a, b.c and d take turns, and again where one has no more.
        let whole = column()
            .documents(0xF0, reference.as_raw())
            .differences(9, &[0, 1])
            .differences(9, &[0])
            .differences(9, &[0])
            .differences(9, &[1])
            .differences(9, &[0])
            .end()
            .literal(5);
        let expected = [
            document(1, "x").into(),
            document(2, "y").into(),
            Value::from(5),
        ];
        assert_values(whole, some(expected));
        // Arrays field by field; a literal is put in the place of a field.
        let split = column()
            .documents(0xF1, reference.as_raw())
            .differences(9, &[4])
            .words(9, &[MISSING])
            .literal("z")
            .differences(9, &[1])
            .end();
        let expected = doc! { "a": 5, "b": { "e": {} }, "d": ["z", 3] };
        assert_values(split, some([expected]));
        let array = Value::from(vec![Value::from(1), Value::from(2)]);
        let elements = array.as_array().unwrap().as_document();
        let arrays = column().documents(0xF2, elements);
        let arrays = arrays.differences(9, &[1]).differences(9, &[1]).end();
        let expected = Value::from(vec![Value::from(2), Value::from(3)]);
        assert_values(arrays, some([expected]));
    }

    #[test]
    fn a_document_of_missing_fields_is_missing_and_the_last_is_repeated() {
        let reference = doc! { "a": { "b": 1 } };
        let column = column()
            .documents(0xF1, reference.as_raw())
            .words(9, &[MISSING, 14])
            .end()
            .words(9, &[14]);
        let value = || Some(Value::from(doc! { "a": { "b": 1 } }));
        assert_values(column, [None, value(), value()]);
    }

    #[test]
    fn damaged_columns_are_refused() {
        let refused = |column: Column, said: &str| {
            let error = column.error();
            assert!(error.contains(said), "{error}");
        };
        refused(column(), "cut off");
        refused(Column(vec![0x20, 0]), "begins nothing");
        refused(Column(vec![0xE0, 0]), "begins nothing");
        refused(Column(vec![16, b'a', 0, 1, 0, 0, 0, 0]), "with a name");
        refused(Column(vec![0, 0]), "behind the end");
        refused(
            Column(vec![2, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0]),
            "within a value",
        );
        refused(column().words(9, &[0]).end(), "cannot be");
        refused(column().differences(9, &[1]).end(), "no number");
        refused(
            column().literal(true).differences(9, &[1]).end(),
            "neither value",
        );
        refused(
            column().documents(0xF1, RawDocument::EMPTY).end(),
            "without fields",
        );
        let two = doc! { "a": 1, "b": 2 };
        let cut = column().documents(0xF1, two.as_raw()).differences(9, &[1]);
        refused(cut.end().end(), "end within one");
        let nested = column().documents(0xF1, two.as_raw());
        refused(nested.documents(0xF1, two.as_raw()), "within documents");
        let whole = column().literal("x").literal(1.5);
        let whole = whole.differences(0xA, &[1]).end().0;
        unpack(&whole, &mut Budget::default()).unwrap();
        for cut in 0..whole.len() {
            unpack(&whole[..cut], &mut Budget::default()).unwrap_err();
        }
    }

    #[test]
    fn a_column_is_bounded() {
        let many = (0..200).fold(column().literal(1), |it, _| it.words(9, &[0xFF; 16]));
        let error = many.end().error();
        assert!(error.contains("larger than"), "{error}");
        let large = column().literal("x".repeat(1 << 20)).words(9, &[0xFF]);
        let error = large.end().error();
        assert!(error.contains("larger than"), "{error}");
    }
}
