//! Writing Extended JSON v2, straight into one string.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{DEPTH_MAX, DateTime, RawBinary, RawDocument, RawRegex, RawStr, RawValue, layout};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Canonical,
    Relaxed,
}

pub(super) fn document(document: RawDocument<'_>, form: Form) -> String {
    let mut writer = Writer {
        out: String::with_capacity(document.len_bytes() * 2),
        form,
    };
    writer.document(document, 0);
    writer.out
}

pub(super) fn value(value: RawValue<'_>, form: Form) -> String {
    let mut writer = Writer {
        out: String::new(),
        form,
    };
    writer.value(value, 0);
    writer.out
}

struct Writer {
    out: String,
    form: Form,
}

impl Writer {
    /// `depth` bounds the recursion over bytes that nobody validated; what lies deeper is left out.
    fn document(&mut self, document: RawDocument<'_>, depth: usize) {
        self.out.push('{');
        if depth <= DEPTH_MAX {
            for (i, element) in document.iter().enumerate() {
                if i > 0 {
                    self.out.push(',');
                }
                self.text(element.name());
                self.out.push(':');
                self.value(element.value(), depth + 1);
            }
        }
        self.out.push('}');
    }

    fn value(&mut self, value: RawValue<'_>, depth: usize) {
        let relaxed = self.form == Form::Relaxed;
        match value {
            RawValue::String(text) => self.text(text),
            RawValue::Document(document) => self.document(document, depth),
            RawValue::Array(array) => {
                self.out.push('[');
                if depth <= DEPTH_MAX {
                    for (i, value) in array.iter().enumerate() {
                        if i > 0 {
                            self.out.push(',');
                        }
                        self.value(value, depth + 1);
                    }
                }
                self.out.push(']');
            }
            RawValue::Boolean(b) => self.out.push_str(if b { "true" } else { "false" }),
            RawValue::Null => self.out.push_str("null"),
            RawValue::Int32(n) if relaxed => self.put(format_args!("{n}")),
            RawValue::Int64(n) if relaxed => self.put(format_args!("{n}")),
            RawValue::Double(d) if relaxed && d.is_finite() => self.double(d),
            RawValue::Int32(n) => self.put(format_args!("{{\"$numberInt\":\"{n}\"}}")),
            RawValue::Int64(n) => self.put(format_args!("{{\"$numberLong\":\"{n}\"}}")),
            RawValue::Double(d) => {
                self.out.push_str("{\"$numberDouble\":\"");
                self.double(d);
                self.out.push_str("\"}");
            }
            RawValue::DateTime(ms) => self.date(ms),
            RawValue::ObjectId(id) => self.put(format_args!("{{\"$oid\":\"{id}\"}}")),
            RawValue::Decimal128(d) => self.put(format_args!("{{\"$numberDecimal\":\"{d}\"}}")),
            RawValue::Binary(binary) => self.binary(binary),
            RawValue::Timestamp(t) => {
                self.put(format_args!(
                    "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}",
                    t.time, t.increment
                ));
            }
            RawValue::Regex(regex) => self.regex(regex),
            RawValue::DbPointer(pointer) => {
                self.out.push_str("{\"$dbPointer\":{\"$ref\":");
                self.text(pointer.namespace);
                self.put(format_args!(",\"$id\":{{\"$oid\":\"{}\"}}}}}}", pointer.id));
            }
            RawValue::JavaScript(code) => self.wrapped("$code", code),
            RawValue::Symbol(symbol) => self.wrapped("$symbol", symbol),
            RawValue::JavaScriptWithScope(code) => {
                self.out.push_str("{\"$code\":");
                self.text(code.code);
                self.out.push_str(",\"$scope\":");
                self.document(code.scope, depth + 1);
                self.out.push('}');
            }
            RawValue::Undefined => self.out.push_str("{\"$undefined\":true}"),
            RawValue::MinKey => self.out.push_str("{\"$minKey\":1}"),
            RawValue::MaxKey => self.out.push_str("{\"$maxKey\":1}"),
        }
    }

    fn put(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(args);
    }

    fn wrapped(&mut self, key: &str, text: RawStr<'_>) {
        self.put(format_args!("{{\"{key}\":"));
        self.text(text);
        self.out.push('}');
    }

    /// The shortest digits that read back; always with a point or an exponent, so that it stays a Double.
    fn double(&mut self, d: f64) {
        if d.is_nan() {
            self.out.push_str("NaN");
        } else if d.is_infinite() {
            self.out
                .push_str(if d > 0.0 { "Infinity" } else { "-Infinity" });
        } else if d == 0.0 || (1e-5..1e16).contains(&d.abs()) {
            self.put(format_args!("{d:?}"));
        } else {
            let text = format!("{d:e}");
            let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
            let point = if digits.contains('.') { "" } else { ".0" };
            let plus = if power.starts_with('-') { "" } else { "+" };
            self.put(format_args!("{digits}{point}E{plus}{power}"));
        }
    }

    fn date(&mut self, ms: i64) {
        const YEAR_10000: i64 = 253_402_300_800_000;
        if self.form == Form::Canonical || !(0..YEAR_10000).contains(&ms) {
            return self.put(format_args!("{{\"$date\":{{\"$numberLong\":\"{ms}\"}}}}"));
        }
        let text = DateTime(ms).to_string();
        let shown = text
            .strip_suffix(".000Z")
            .map_or_else(|| text.clone(), |seconds| format!("{seconds}Z"));
        self.put(format_args!("{{\"$date\":\"{shown}\"}}"));
    }

    fn binary(&mut self, binary: RawBinary<'_>) {
        // Subtype 2's inner length is no part of its payload.
        let payload = if binary.subtype == 2 {
            binary.bytes.get(4..)
        } else {
            Some(binary.bytes)
        };
        self.out.push_str("{\"$binary\":{\"base64\":\"");
        STANDARD.encode_string(payload.unwrap_or_default(), &mut self.out);
        self.put(format_args!(
            "\",\"subType\":\"{:02x}\"}}}}",
            binary.subtype
        ));
    }

    fn regex(&mut self, regex: RawRegex<'_>) {
        let mut options: Vec<char> = regex.options.to_string_lossy().chars().collect();
        options.sort_unstable();
        let options: String = options.into_iter().collect();
        self.out.push_str("{\"$regularExpression\":{\"pattern\":");
        self.text(regex.pattern);
        self.out.push_str(",\"options\":");
        self.text(RawStr::from(&options));
        self.out.push_str("}}");
    }

    fn text(&mut self, text: RawStr<'_>) {
        let text = text.to_string_lossy();
        self.out.push('"');
        let mut from = 0;
        while let Some(found) = layout::escape_at(&text.as_bytes()[from..]) {
            let at = from + found;
            self.out.push_str(&text[from..at]);
            from = at + 1;
            match text.as_bytes()[at] {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                0x08 => self.out.push_str("\\b"),
                0x0c => self.out.push_str("\\f"),
                control => self.put(format_args!("\\u{control:04x}")),
            }
        }
        self.out.push_str(&text[from..]);
        self.out.push('"');
    }
}
