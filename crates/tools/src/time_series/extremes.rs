//! The least and the greatest value of a field of a bucket's measurements, as `control.min` and `control.max` have them: of documents and arrays field by
//! field.
//!
//! Values of one bucket are of one kind at each path, as in MongoDB: where kinds differ, a new bucket begins.

use std::cmp::Ordering;

use quarry_bson::{
    DocumentBuilder, ElementType, RawDocument, RawValue, Value, canonical_type, compare_values,
};

/// The extremes of the values of a path.
pub enum Extremes {
    Scalar(Value, Value),
    Document(Vec<(Vec<u8>, Extremes)>),
    Array(Vec<(Vec<u8>, Extremes)>),
}

/// The end of the values that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Min,
    Max,
}

impl Extremes {
    /// The extremes of one value.
    pub fn of(value: RawValue<'_>) -> Extremes {
        let fields = |document: RawDocument<'_>| {
            let fields = document.iter().map(|field| {
                let name = field.name().as_bytes().to_vec();
                (name, Extremes::of(field.value()))
            });
            fields.collect()
        };
        match value {
            RawValue::Document(document) => Extremes::Document(fields(document)),
            RawValue::Array(array) => Extremes::Array(fields(array.as_document())),
            scalar => Extremes::Scalar(scalar.to_value(), scalar.to_value()),
        }
    }

    /// Whether the value is of the kind of the others, at each path.
    pub fn suits(&self, value: RawValue<'_>) -> bool {
        match (self, value) {
            (Extremes::Document(fields), RawValue::Document(document)) => suit(fields, document),
            (Extremes::Array(fields), RawValue::Array(array)) => suit(fields, array.as_document()),
            (Extremes::Scalar(min, _), value) => {
                canonical_type(min.as_raw()) == canonical_type(value)
            }
            _ => false,
        }
    }

    /// Takes a value in that suits.
    pub fn add(&mut self, value: RawValue<'_>) {
        match (self, value) {
            (Extremes::Document(fields), RawValue::Document(document)) => add(fields, document),
            (Extremes::Array(fields), RawValue::Array(array)) => add(fields, array.as_document()),
            (Extremes::Scalar(min, max), value) => {
                if compare_values(value, min.as_raw()) == Ordering::Less {
                    *min = value.to_value();
                }
                if compare_values(value, max.as_raw()) == Ordering::Greater {
                    *max = value.to_value();
                }
            }
            _ => {}
        }
    }

    /// Appends an end as a field.
    pub fn write(&self, end: End, name: &[u8], out: &mut DocumentBuilder<'_>) {
        match self {
            Extremes::Scalar(min, max) => {
                let value = if end == End::Min { min } else { max };
                out.append(name, value);
            }
            Extremes::Document(fields) => write_fields(fields, end, out.document(name)),
            Extremes::Array(fields) => {
                let mut bytes = Vec::new();
                write_fields(fields, end, DocumentBuilder::new(&mut bytes));
                out.append_bytes(name, ElementType::Array, &bytes);
            }
        }
    }
}

fn write_fields(fields: &[(Vec<u8>, Extremes)], end: End, mut out: DocumentBuilder<'_>) {
    for (name, extremes) in fields {
        extremes.write(end, name, &mut out);
    }
}

fn suit(fields: &[(Vec<u8>, Extremes)], document: RawDocument<'_>) -> bool {
    let mut likely = 0;
    document.iter().all(|field| {
        let found = place(fields, field.name().as_bytes(), likely);
        likely = found.map_or(likely, |found| found + 1);
        found.is_none_or(|found| fields[found].1.suits(field.value()))
    })
}

fn add(fields: &mut Vec<(Vec<u8>, Extremes)>, document: RawDocument<'_>) {
    let mut likely = 0;
    for field in &document {
        let name = field.name().as_bytes();
        match place(fields, name, likely) {
            Some(found) => {
                fields[found].1.add(field.value());
                likely = found + 1;
            }
            None => fields.push((name.to_vec(), Extremes::of(field.value()))),
        }
    }
}

/// The place of a field. The likely one is looked at first: fields of measurements stand in one order mostly.
fn place(fields: &[(Vec<u8>, Extremes)], name: &[u8], likely: usize) -> Option<usize> {
    match fields.get(likely) {
        Some((there, _)) if there == name => Some(likely),
        _ => fields.iter().position(|(there, _)| there == name),
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    fn extremes(values: &[Document]) -> Option<(Document, Document)> {
        let mut extremes = Extremes::of(RawValue::Document(values[0].as_raw()));
        for value in &values[1..] {
            let value = RawValue::Document(value.as_raw());
            if !extremes.suits(value) {
                return None;
            }
            extremes.add(value);
        }
        let write = |end| Document::build(|out| extremes.write(end, b"x", out));
        Some((write(End::Min), write(End::Max)))
    }

    #[test]
    fn documents_and_arrays_have_extremes_of_their_fields() {
        let values = [
            doc! { "a": 5, "b": { "c": "x", "d": [1, 9] } },
            doc! { "b": { "d": [2, 3.5, 0], "c": "a" }, "a": 2.5, "e": true },
            doc! {},
        ];
        let min = doc! { "a": 2.5, "b": { "c": "a", "d": [1, 3.5, 0] }, "e": true };
        let max = doc! { "a": 5, "b": { "c": "x", "d": [2, 9, 0] }, "e": true };
        let expected = (doc! { "x": min }, doc! { "x": max });
        assert_eq!(extremes(&values), Some(expected));
    }

    #[test]
    fn other_kinds_do_not_suit() {
        for other in [
            doc! { "a": "5" },
            doc! { "a": { "b": 1 } },
            doc! { "a": [1] },
        ] {
            assert_eq!(extremes(&[doc! { "a": 5 }, other.clone()]), None);
            assert_eq!(extremes(&[other, doc! { "a": 5 }]), None);
        }
        assert_eq!(
            extremes(&[doc! { "a": { "b": 1 } }, doc! { "a": { "b": "x" } }]),
            None
        );
        assert!(extremes(&[doc! { "a": 5 }, doc! { "a": 5.5 }]).is_some());
    }
}
