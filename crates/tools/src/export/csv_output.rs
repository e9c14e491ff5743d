//! Documents as CSV: a field a column, as mongoexport writes values.
//!
//! Text, numbers and booleans stand as they are, dates in ISO 8601, an ObjectId as `ObjectId(..)`; null and a field that is not there are empty. Everything else is Extended
//! JSON, which `quarry import` reads as text.

use std::borrow::Cow;
use std::io::{self, Write};

use quarry_bson::{DateTime, RawDocument, RawValue, extjson};

use super::output::Output;

/// Writes CSV.
pub struct CsvOutput {
    fields: Vec<String>,
    has_header: bool,
    writer: csv::Writer<Vec<u8>>,
}

impl CsvOutput {
    pub fn new(fields: &[String], has_header: bool) -> CsvOutput {
        CsvOutput {
            fields: fields.to_vec(),
            has_header,
            writer: csv::Writer::from_writer(Vec::new()),
        }
    }

    fn hand_on(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let full = std::mem::replace(&mut self.writer, csv::Writer::from_writer(Vec::new()));
        let bytes = full
            .into_inner()
            .map_err(|error| io::Error::other(error.to_string()))?;
        out.write_all(&bytes)
    }
}

impl Output for CsvOutput {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.has_header {
            self.writer
                .write_record(&self.fields)
                .map_err(io::Error::other)?;
        }
        self.hand_on(out)
    }

    fn document(&mut self, document: RawDocument<'_>, out: &mut dyn Write) -> io::Result<()> {
        for field in &self.fields {
            let bytes = document.get_path(field).map_or_else(Cow::default, bytes_of);
            self.writer.write_field(bytes).map_err(io::Error::other)?;
        }
        self.writer
            .write_record(None::<&[u8]>)
            .map_err(io::Error::other)?;
        self.hand_on(out)
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Text as it is stored, whether it is UTF-8 or not.
fn bytes_of(value: RawValue<'_>) -> Cow<'_, [u8]> {
    let text = match value {
        RawValue::Null | RawValue::Undefined => return Cow::default(),
        RawValue::String(text) | RawValue::Symbol(text) => return text.as_bytes().into(),
        RawValue::DateTime(ms) => DateTime(ms).to_string(),
        RawValue::ObjectId(id) => format!("ObjectId({id})"),
        RawValue::Decimal128(decimal) => decimal.to_string(),
        value => extjson::relaxed_value(value),
    };
    text.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::{ObjectId, Value, doc};

    #[test]
    fn values_are_written_as_mongoexport_writes_them() {
        let fields = ["a", "b.c", "d", "e", "f", "g", "missing"].map(str::to_owned);
        let mut output = CsvOutput::new(&fields, true);
        let document = doc! {
            "a": "x, \"y\"\nz", "b": { "c": 1.5 }, "d": (ObjectId::from_bytes([0xAB; 12])), "e": (Value::date_time(0)),
            "f": [1, { "g": "h" }], "g": null,
        };
        let mut out = Vec::new();
        output.begin(&mut out).unwrap();
        output.document(document.as_raw(), &mut out).unwrap();
        output.end(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a,b.c,d,e,f,g,missing\n\"x, \"\"y\"\"\nz\",1.5,ObjectId(abababababababababababab),1970-01-01T00:00:00.000Z,\"[1,{\"\"g\"\":\"\"h\"\"}]\",,\n"
        );
    }

    #[test]
    fn text_that_is_not_utf_8_is_written_as_it_is_stored() {
        let mut bytes = doc! { "a": "x?" }.as_bytes().to_vec();
        let place = bytes.iter().position(|byte| *byte == b'?').unwrap();
        bytes[place] = 0xFF;
        let mut out = Vec::new();
        let mut output = CsvOutput::new(&["a".to_owned()], false);
        let document = RawDocument::new(&bytes).unwrap();
        output.document(document, &mut out).unwrap();
        assert_eq!(out, b"x\xFF\n");
    }
}
