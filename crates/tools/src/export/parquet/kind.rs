//! The types of columns, found by looking at documents.
//!
//! Every value has a column that gives it back as it was. Numbers of several types share the widest that has all of them exactly; values of types that
//! share none become texts of Extended JSON.

use std::collections::HashMap;

use quarry_bson::{Decimal128, DecimalParts, RawArray, RawDocument, RawValue};

/// Documents and arrays within each other that have columns; what is deeper is Extended JSON.
const DEPTH_MAX: usize = 30;
/// Fields of a document within a document; one that has more of them, in all, takes its names from data, and is Extended JSON.
const FIELDS_MAX: usize = 1000;
/// Digits that a column of decimals has room for, of which all may be behind the point.
const SCALE_MAX: i32 = 38;
/// Whole numbers up to this one are Doubles exactly.
const DOUBLE_WHOLE_MAX: u64 = 1 << 53;
/// The subtype of a UUID in BSON, and its length.
const UUID: (u8, usize) = (4, 16);

/// The type of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Boolean,
    Int32,
    Int64,
    Double,
    /// Decimals with so many digits behind the point. Only a type that somebody has named may add zeros to reach them.
    Decimal {
        scale: i8,
        pads: bool,
    },
    DecimalText,
    String,
    Binary,
    Uuid,
    ObjectId,
    DateTime,
    Timestamp,
    /// Extended JSON of any value.
    Json,
    Document(Vec<Field>),
    Array(Box<Kind>),
}

/// A field that has a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
    pub nulls: Nulls,
}

/// The meaning of a null of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// The field is not there.
    Missing,
    /// The field is null.
    Null,
    /// Another column tells which.
    Told,
    /// Nothing tells which: the columns are those that somebody has named.
    Either,
}

/// Whether a Double has the whole number exactly.
pub fn is_exact(number: i64) -> bool {
    number.unsigned_abs() <= DOUBLE_WHOLE_MAX
}

/// The digits of a decimal in a column; none where the column does not have the number, or not as it is written.
pub fn digits(decimal: Decimal128, scale: i8, pads: bool) -> Option<i128> {
    let DecimalParts::Finite {
        negative,
        coefficient,
        exponent,
    } = decimal.parts()
    else {
        return None;
    };
    let zeros = exponent + i32::from(scale);
    let is_negative_zero = negative && coefficient == 0;
    if zeros < 0 || (zeros > 0 && !pads) || (is_negative_zero && !pads) {
        return None;
    }
    let power = 10u128.checked_pow(u32::try_from(zeros).ok()?)?;
    let digits = coefficient.checked_mul(power)?;
    let digits = i128::try_from(digits)
        .ok()
        .filter(|digits| *digits < 10i128.pow(SCALE_MAX as u32))?;
    Some(if negative { -digits } else { digits })
}

/// The types that have been seen of a field's values.
#[derive(Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    Numbers(Numbers),
    Decimals {
        /// The digits behind the point, where all have as many.
        scale: Option<i8>,
    },
    Scalars(Kind),
    Documents(Documents),
    Arrays(Box<Seen>),
    /// Values of types that no column but Extended JSON has.
    Mixed,
}

#[derive(Debug, Default)]
struct Numbers {
    has_int64: bool,
    has_double: bool,
    has_inexact: bool,
}

/// The fields that have been seen of documents in one place.
#[derive(Debug, Default)]
pub struct Documents {
    count: u64,
    fields: Vec<SeenField>,
    places: HashMap<Vec<u8>, usize>,
}

#[derive(Debug)]
struct SeenField {
    name: String,
    count: u64,
    has_null: bool,
    values: Seen,
}

impl Documents {
    /// Looks at a document.
    pub fn look(&mut self, document: RawDocument<'_>) {
        self.look_at(document, 1);
    }

    /// Whether no field has been seen.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn look_at(&mut self, document: RawDocument<'_>, depth: usize) {
        self.count += 1;
        for element in document {
            let name = element.name();
            let place = match self.places.get(name.as_bytes()) {
                Some(place) => *place,
                None => self.add(name.as_bytes(), name.to_string_lossy().into_owned()),
            };
            let field = &mut self.fields[place];
            field.count += 1;
            match element.value() {
                RawValue::Null => field.has_null = true,
                value => field.values.look(value, depth + 1),
            }
        }
    }

    fn add(&mut self, key: &[u8], name: String) -> usize {
        let place = self.fields.len();
        self.places.insert(key.to_owned(), place);
        self.fields.push(SeenField {
            name,
            count: 0,
            has_null: false,
            values: Seen::Nothing,
        });
        place
    }

    /// The fields, in the order in which they were first seen.
    pub fn fields(self) -> Vec<Field> {
        let count = self.count;
        let field = |field: SeenField| Field {
            name: field.name,
            kind: field.values.kind(),
            nulls: match (field.has_null, field.count < count) {
                (true, true) => Nulls::Told,
                (true, false) => Nulls::Null,
                (false, _) => Nulls::Missing,
            },
        };
        self.fields.into_iter().map(field).collect()
    }
}

impl Seen {
    fn look(&mut self, value: RawValue<'_>, depth: usize) {
        if matches!(self, Seen::Nothing) {
            *self = Seen::first(value, depth);
        }
        let fits = match (&mut *self, value) {
            (Seen::Mixed, _) => true,
            (Seen::Numbers(numbers), value) => numbers.look(value),
            (Seen::Decimals { scale }, RawValue::Decimal128(decimal)) => {
                *scale = scale.filter(|scale| digits(decimal, *scale, false).is_some());
                true
            }
            (Seen::Documents(documents), RawValue::Document(document)) => {
                documents.look_at(document, depth);
                documents.fields.len() <= FIELDS_MAX
            }
            (Seen::Arrays(elements), RawValue::Array(array)) => {
                elements.look_at_elements(array, depth);
                true
            }
            (Seen::Scalars(kind), value) => scalar(value).as_ref() == Some(&*kind),
            _ => false,
        };
        if !fits {
            *self = Seen::Mixed;
        }
    }

    fn look_at_elements(&mut self, array: RawArray<'_>, depth: usize) {
        for element in array {
            if !matches!(element, RawValue::Null) {
                self.look(element, depth + 1);
            }
        }
    }

    /// Says what it can of a first value before it is looked at.
    fn first(value: RawValue<'_>, depth: usize) -> Seen {
        match value {
            RawValue::Int32(_) | RawValue::Int64(_) | RawValue::Double(_) => {
                Seen::Numbers(Numbers::default())
            }
            RawValue::Decimal128(decimal) => Seen::Decimals {
                scale: scale(decimal),
            },
            RawValue::Document(_) if depth <= DEPTH_MAX => Seen::Documents(Documents::default()),
            RawValue::Array(_) if depth <= DEPTH_MAX => Seen::Arrays(Box::default()),
            value => scalar(value).map_or(Seen::Mixed, Seen::Scalars),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Seen::Nothing | Seen::Mixed => Kind::Json,
            Seen::Numbers(numbers) => numbers.kind(),
            Seen::Decimals { scale: Some(scale) } => Kind::Decimal { scale, pads: false },
            Seen::Decimals { scale: None } => Kind::DecimalText,
            Seen::Scalars(kind) => kind,
            // There are no documents without a column.
            Seen::Documents(documents) if documents.fields.is_empty() => Kind::Json,
            Seen::Documents(documents) => Kind::Document(documents.fields()),
            Seen::Arrays(elements) => Kind::Array(Box::new(elements.kind())),
        }
    }
}

impl Numbers {
    fn look(&mut self, value: RawValue<'_>) -> bool {
        match value {
            RawValue::Int32(_) => {}
            RawValue::Int64(number) => {
                self.has_int64 = true;
                self.has_inexact |= !is_exact(number);
            }
            RawValue::Double(_) => self.has_double = true,
            _ => return false,
        }
        !(self.has_double && self.has_inexact)
    }

    fn kind(&self) -> Kind {
        match self {
            Numbers {
                has_double: true, ..
            } => Kind::Double,
            Numbers {
                has_int64: true, ..
            } => Kind::Int64,
            _ => Kind::Int32,
        }
    }
}

/// The digits that a decimal has behind the point, if a column can have it as it is written.
fn scale(decimal: Decimal128) -> Option<i8> {
    let DecimalParts::Finite { exponent, .. } = decimal.parts() else {
        return None;
    };
    let scale = (-SCALE_MAX..=0).contains(&exponent).then_some(-exponent)?;
    let scale = i8::try_from(scale).ok()?;
    digits(decimal, scale, false).map(|_| scale)
}

/// The type of a value that is neither a number nor made of others; none where only Extended JSON has it.
fn scalar(value: RawValue<'_>) -> Option<Kind> {
    Some(match value {
        RawValue::Boolean(_) => Kind::Boolean,
        RawValue::String(_) => Kind::String,
        RawValue::Binary(binary) if binary.subtype == 0 => Kind::Binary,
        RawValue::Binary(binary) if (binary.subtype, binary.bytes.len()) == UUID => Kind::Uuid,
        RawValue::ObjectId(_) => Kind::ObjectId,
        RawValue::DateTime(_) => Kind::DateTime,
        RawValue::Timestamp(_) => Kind::Timestamp,
        _ => return None,
    })
}

impl Kind {
    /// Whether a column of this type has the value; of documents and arrays, it tells whether they are such.
    pub fn has(&self, value: RawValue<'_>) -> bool {
        match (self, value) {
            (Kind::Json, _)
            | (Kind::Int32 | Kind::Int64 | Kind::Double, RawValue::Int32(_))
            | (Kind::Int64, RawValue::Int64(_))
            | (Kind::Double, RawValue::Double(_))
            | (Kind::DecimalText, RawValue::Decimal128(_))
            | (Kind::Document(_), RawValue::Document(_))
            | (Kind::Array(_), RawValue::Array(_)) => true,
            (Kind::Double, RawValue::Int64(number)) => is_exact(number),
            (Kind::Decimal { scale, pads }, RawValue::Decimal128(decimal)) => {
                digits(decimal, *scale, *pads).is_some()
            }
            (Kind::String, RawValue::String(text)) => text.as_str().is_ok(),
            (kind, value) => scalar(value).as_ref() == Some(kind),
        }
    }

    /// The name for messages.
    pub fn shown(&self) -> String {
        match self {
            Kind::Decimal { scale, .. } => format!("Decimal128 of {scale} digits behind the point"),
            Kind::DecimalText => "Decimal128".to_owned(),
            Kind::Uuid => "UUID".to_owned(),
            Kind::DateTime => "Date".to_owned(),
            Kind::Document(_) => "documents".to_owned(),
            Kind::Array(_) => "arrays".to_owned(),
            kind => format!("{kind:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::{Document, ObjectId, Value, doc};

    fn kinds(documents: &[Document]) -> Vec<Field> {
        let mut seen = Documents::default();
        for document in documents {
            seen.look(document.as_raw());
        }
        seen.fields()
    }

    fn kind(values: &[Value]) -> Kind {
        let documents: Vec<_> = values
            .iter()
            .map(|value| doc! { "a": (value.clone()) })
            .collect();
        kinds(&documents).remove(0).kind
    }

    fn decimal(text: &str) -> Value {
        Value::from(RawValue::Decimal128(Decimal128::parse(text).unwrap()))
    }

    #[test]
    fn numbers_share_the_widest_type_that_has_them_exactly() {
        let value = |value: RawValue<'_>| Value::from(value);
        let (int, long, double) = (
            value(RawValue::Int32(1)),
            value(RawValue::Int64(2)),
            value(RawValue::Double(0.5)),
        );
        let large = value(RawValue::Int64((1 << 53) + 1));
        assert_eq!(kind(std::slice::from_ref(&int)), Kind::Int32);
        assert_eq!(kind(&[int.clone(), long.clone()]), Kind::Int64);
        assert_eq!(
            kind(&[long.clone(), int.clone(), double.clone()]),
            Kind::Double
        );
        assert_eq!(kind(&[large.clone(), int.clone()]), Kind::Int64);
        assert_eq!(kind(&[large.clone(), double.clone()]), Kind::Json);
        assert_eq!(kind(&[double.clone(), large]), Kind::Json);
        assert_eq!(kind(&[double, decimal("1")]), Kind::Json);
    }

    #[test]
    fn decimals_have_a_column_of_digits_where_all_are_written_alike() {
        let of = |texts: &[&str]| kind(&texts.iter().map(|text| decimal(text)).collect::<Vec<_>>());
        assert_eq!(
            of(&["1.10", "-2.55", "0.00"]),
            Kind::Decimal {
                scale: 2,
                pads: false
            }
        );
        for texts in [
            &["1.10", "1.1"][..],
            &["NaN"],
            &["1E+2"],
            &["-0"],
            &["1E-39"],
            &["1.0", "Infinity"],
        ] {
            assert_eq!(of(texts), Kind::DecimalText, "{texts:?}");
        }
        let digits = |text, scale, pads| digits(Decimal128::parse(text).unwrap(), scale, pads);
        assert_eq!(digits("1.5", 2, true), Some(150));
        assert_eq!(digits("1.5", 2, false), None);
        assert_eq!(digits("1.555", 2, true), None);
        assert_eq!(digits("9999999999999999999999999999999999", 5, true), None);
    }

    #[test]
    fn what_shares_no_type_is_extended_json() {
        assert_eq!(kind(&[Value::from("x"), Value::from(1)]), Kind::Json);
        assert_eq!(kind(&[Value::from(doc! {})]), Kind::Json);
        assert_eq!(
            kind(&[Value::from(doc! { "b": 1 }), Value::from("x")]),
            Kind::Json
        );
        assert_eq!(kind(&[Value::binary(5, b"x")]), Kind::Json);
        assert_eq!(kind(&[Value::binary(4, &[1; 16])]), Kind::Uuid);
        assert_eq!(
            kind(&[Value::from(RawValue::ObjectId(ObjectId::from_bytes(
                [1; 12]
            )))]),
            Kind::ObjectId
        );
    }

    #[test]
    fn nulls_are_told_from_missing_fields() {
        let fields = kinds(&[
            doc! { "a": 1, "b": null, "c": null, "e": [null, "x", {}] },
            doc! { "b": 2, "d": { "x": 1 } },
        ]);
        let said: Vec<_> = fields
            .iter()
            .map(|field| (field.name.as_str(), field.nulls))
            .collect();
        assert_eq!(
            said,
            [
                ("a", Nulls::Missing),
                ("b", Nulls::Null),
                ("c", Nulls::Told),
                ("e", Nulls::Missing),
                ("d", Nulls::Missing)
            ]
        );
        assert_eq!(fields[2].kind, Kind::Json);
        assert_eq!(fields[3].kind, Kind::Array(Box::new(Kind::Json)));
        let Kind::Document(inner) = &fields[4].kind else {
            panic!("{:?}", fields[4].kind);
        };
        assert_eq!(inner[0].kind, Kind::Int32);
    }

    #[test]
    fn documents_that_are_too_deep_or_have_too_many_fields_are_extended_json() {
        let mut deep = doc! { "a": 1 };
        for _ in 0..DEPTH_MAX + 5 {
            deep = doc! { "a": (deep) };
        }
        let mut kind_at = kinds(&[deep]).remove(0).kind;
        let mut levels = 1;
        while let Kind::Document(mut fields) = kind_at {
            kind_at = fields.remove(0).kind;
            levels += 1;
        }
        assert_eq!((kind_at, levels), (Kind::Json, DEPTH_MAX));
        let mut wide = Document::new();
        for number in 0..=FIELDS_MAX {
            wide.append(format!("f{number}"), 1);
        }
        assert_eq!(kind(&[Value::from(wide)]), Kind::Json);
    }
}
