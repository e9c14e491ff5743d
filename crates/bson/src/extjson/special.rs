//! Objects that stand for values: `{"$oid": ..}` and its kin.
//!
//! In version 2 a special key with the wrong kind of content, or with company it should not have, is an error;
//! an object with other `$` names (an operator, a DBRef) is a document.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::parse::{Dialect, Json};
use crate::{
    ArrayBuilder, DateTime, Decimal128, Document, DocumentBuilder, ElementType, Error, ObjectId,
    RawBinary, RawCodeWithScope, RawDbPointer, RawRegex, RawValue, Result, Timestamp, Value,
    timestamp::{MS_A_DAY, days_from_civil},
};

/// Writes a tree as the value it stands for.
pub(super) fn write(tree: &Json, out: &mut Vec<u8>, dialect: Dialect) -> Result<ElementType> {
    let value = to_value(tree, dialect)?;
    out.extend_from_slice(value.as_bytes());
    Ok(value.element_type())
}

/// The parser has bounded the tree's depth.
pub(super) fn to_value(tree: &Json, dialect: Dialect) -> Result<Value> {
    Ok(match tree {
        Json::Null => Value::null(),
        Json::Bool(b) => Value::from(*b),
        Json::Number(value) | Json::Made(value) => value.clone(),
        Json::Text(text) => Value::from(text),
        Json::Array(values) => {
            let mut bytes = Vec::new();
            let mut array = ArrayBuilder::new(&mut bytes);
            for value in values {
                array.push(&to_value(value, dialect)?);
            }
            array.finish();
            Value::from_bytes(ElementType::Array, &bytes)?
        }
        Json::Object(members) => match special(members, dialect)? {
            Some(value) => value,
            None => Value::from(document(members, dialect)?),
        },
    })
}

fn document(members: &[(String, Json)], dialect: Dialect) -> Result<Document> {
    let mut bytes = Vec::new();
    let mut builder = DocumentBuilder::new(&mut bytes);
    for (name, value) in members {
        if name.contains('\0') {
            return wrong("a name without NUL");
        }
        builder.append(name, &to_value(value, dialect)?);
    }
    builder.finish();
    Ok(Document::from_built(bytes))
}

/// A tree as it stands: objects are documents whatever their names are.
pub(super) fn plain(tree: &Json) -> Result<Value> {
    let Json::Object(members) = tree else {
        return to_value(tree, Dialect::V2);
    };
    let mut document = Document::new();
    for (name, value) in members {
        document.append(name, plain(value)?);
    }
    Ok(Value::from(document))
}

/// The value that an object stands for; `None` if it is a document.
fn special(members: &[(String, Json)], dialect: Dialect) -> Result<Option<Value>> {
    let legacy = dialect == Dialect::Legacy;
    let object = Members(members);
    let Some((first, content)) = members.first() else {
        return Ok(None);
    };
    let value = match first.as_str() {
        "$oid" => Value::from(ObjectId::parse_hex(object.only_text("$oid")?)?),
        "$symbol" => Value::from(RawValue::Symbol(object.only_text("$symbol")?.into())),
        "$numberInt" | "$numberLong" | "$numberDouble" | "$numberDecimal" => {
            object.alone()?;
            number(first, content, legacy)?
        }
        "$binary" | "$type" if legacy_binary(&object) => {
            let (base64, subtype) = object.pair("$binary", "$type")?;
            binary(base64, subtype)?
        }
        "$binary" => {
            let (base64, subtype) = object.alone()?.object()?.pair("base64", "subType")?;
            binary(base64, subtype)?
        }
        "$uuid" => uuid(object.only_text("$uuid")?)?,
        "$code" | "$scope" if object.get("$code").is_some() => code(&object, dialect)?,
        "$timestamp" => timestamp(&object.alone()?.object()?)?,
        "$regularExpression" => {
            let (pattern, options) = object.alone()?.object()?.pair("pattern", "options")?;
            regex(text_of(pattern)?, text_of(options)?)?
        }
        "$regex" | "$options" if legacy && matches!(object.get("$regex"), Some(Json::Text(_))) => {
            let options = object.get("$options").map_or(Ok(""), text_of)?;
            object.count(1 + usize::from(object.get("$options").is_some()))?;
            regex(
                text_of(object.get("$regex").unwrap_or(&Json::Null))?,
                options,
            )?
        }
        "$dbPointer" => {
            let (namespace, id) = object.alone()?.object()?.pair("$ref", "$id")?;
            match to_value(id, dialect)?.as_raw() {
                RawValue::ObjectId(id) => Value::from(RawValue::DbPointer(RawDbPointer {
                    namespace: text_of(namespace)?.into(),
                    id,
                })),
                _ => return wrong("an ObjectId for $id"),
            }
        }
        "$date" => {
            object.alone()?;
            date(content, legacy)?
        }
        "$minKey" | "$maxKey" => {
            object.alone()?;
            match content {
                Json::Number(n) if n.as_i64_exact() == Some(1) => {}
                _ => return wrong("1"),
            }
            if first == "$minKey" {
                Value::min_key()
            } else {
                Value::max_key()
            }
        }
        "$undefined" => match object.alone()?.0 {
            Json::Bool(true) => Value::undefined(),
            _ => return wrong("true"),
        },
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn number(key: &str, content: &Json, legacy: bool) -> Result<Value> {
    let text = match content {
        Json::Text(text) => text.as_str(),
        Json::Number(n) if legacy => return legacy_number(key, n.as_raw()),
        _ => return wrong("a number in quotes"),
    };
    match key {
        "$numberInt" => parsed::<i32>(text).map(Value::from),
        "$numberLong" => parsed::<i64>(text).map(Value::from),
        "$numberDecimal" => Decimal128::parse(text).map(Value::from),
        _ => double(text).map(Value::from),
    }
}

fn legacy_number(key: &str, n: RawValue<'_>) -> Result<Value> {
    let whole = n.as_i64_exact();
    match key {
        "$numberInt" => whole
            .and_then(|n| i32::try_from(n).ok())
            .map_or_else(|| wrong("an Int32"), |n| Ok(n.into())),
        "$numberLong" => whole.map_or_else(|| wrong("an Int64"), |n| Ok(n.into())),
        "$numberDecimal" => match (whole, n.as_f64_lossy()) {
            (Some(n), _) => Ok(Decimal128::from_i64(n).into()),
            (None, double) => Ok(Decimal128::from_f64(double.unwrap_or(f64::NAN)).into()),
        },
        _ => Ok(n.as_f64_lossy().unwrap_or(f64::NAN).into()),
    }
}

/// A Double of Extended JSON: the three names, else digits (the words that Rust reads too are refused).
fn double(text: &str) -> Result<f64> {
    match text {
        "NaN" => Ok(f64::NAN),
        "Infinity" => Ok(f64::INFINITY),
        "-Infinity" => Ok(f64::NEG_INFINITY),
        _ if text
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) =>
        {
            parsed(text)
        }
        _ => wrong("a number"),
    }
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().or_else(|_| wrong("a number in range"))
}

/// Version 1 keeps base64 and type side by side.
fn legacy_binary(object: &Members<'_>) -> bool {
    matches!(object.get("$binary"), Some(Json::Text(_))) && object.get("$type").is_some()
}

fn binary(base64: &Json, subtype: &Json) -> Result<Value> {
    let subtype = match subtype {
        Json::Text(hex) if hex.len() <= 2 => {
            u8::from_str_radix(hex, 16).or_else(|_| wrong("a subtype of two digits"))
        }
        _ => wrong("a subtype of two digits"),
    }?;
    binary_of(text_of(base64)?, subtype)
}

pub(super) fn binary_of(base64: &str, subtype: u8) -> Result<Value> {
    let lenient =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let payload = GeneralPurpose::new(&STANDARD, lenient)
        .decode(base64)
        .or_else(|_| wrong("base64"))?;
    let bytes = if subtype == 2 {
        [&(payload.len() as u32).to_le_bytes()[..], &payload].concat()
    } else {
        payload
    };
    Ok(Value::from(RawBinary {
        subtype,
        bytes: &bytes,
    }))
}

pub(super) fn uuid(text: &str) -> Result<Value> {
    const UUID_SUBTYPE: u8 = 4;
    let dashes = [8, 13, 18, 23];
    let placed = text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| (b == b'-') == dashes.contains(&i));
    let bare = text.len() == 32 && !text.contains('-');
    if !placed && !bare {
        return wrong("a UUID");
    }
    let digits: Option<Vec<u32>> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16))
        .collect();
    let Some(digits) = digits else {
        return wrong("a UUID");
    };
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect();
    Ok(Value::binary(UUID_SUBTYPE, &bytes))
}

fn code(object: &Members<'_>, dialect: Dialect) -> Result<Value> {
    let code = text_of(object.get("$code").unwrap_or(&Json::Null))?;
    let Some(scope) = object.get("$scope") else {
        object.alone()?;
        return Ok(Value::from(RawValue::JavaScript(code.into())));
    };
    object.count(2)?;
    let Json::Object(members) = scope else {
        return wrong("an object for $scope");
    };
    let scope = document(members, dialect)?;
    Ok(Value::from(RawValue::JavaScriptWithScope(
        RawCodeWithScope {
            code: code.into(),
            scope: scope.as_raw(),
        },
    )))
}

fn timestamp(parts: &Members<'_>) -> Result<Value> {
    let (time, increment) = parts.pair("t", "i")?;
    let part = |json: &Json| match json {
        Json::Number(n) => n
            .as_i64_exact()
            .and_then(|n| u32::try_from(n).ok())
            .map_or_else(|| wrong("a number of 32 bits"), Ok),
        _ => wrong("a number of 32 bits"),
    };
    Ok(Value::from(Timestamp {
        time: part(time)?,
        increment: part(increment)?,
    }))
}

pub(super) fn regex(pattern: &str, options: &str) -> Result<Value> {
    if pattern.contains('\0') || options.contains('\0') {
        return wrong("a pattern and options without NUL");
    }
    let mut sorted: Vec<char> = options.chars().collect();
    sorted.sort_unstable();
    let options: String = sorted.into_iter().collect();
    Ok(Value::from(RawRegex {
        pattern: pattern.into(),
        options: (&options).into(),
    }))
}

fn date(content: &Json, legacy: bool) -> Result<Value> {
    match content {
        Json::Text(text) => Ok(Value::from(DateTime(iso_date(text)?))),
        Json::Object(members) => match Members(members).only_text("$numberLong") {
            Ok(ms) => Ok(Value::from(DateTime(parsed(ms)?))),
            Err(_) => wrong("$numberLong"),
        },
        Json::Number(n) if legacy => n
            .as_i64_exact()
            .map_or_else(|| wrong("milliseconds"), |ms| Ok(DateTime(ms).into())),
        _ => wrong("a date"),
    }
}

/// ISO 8601: a date, `T`, a time with or without seconds and a fraction, and `Z` or an offset. Milliseconds.
pub(super) fn iso_date(text: &str) -> Result<i64> {
    read_iso_date(text).map_or_else(|| wrong("a date of ISO 8601"), Ok)
}

fn read_iso_date(text: &str) -> Option<i64> {
    let mut rest = text;
    let (year, month, day) = (
        field(&mut rest, 4, "")?,
        field(&mut rest, 2, "-")?,
        field(&mut rest, 2, "-")?,
    );
    let days_in_month = match month {
        2 => 28 + i64::from((year % 4 == 0 && year % 100 != 0) || year % 400 == 0),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * MS_A_DAY;
    if rest.is_empty() {
        return Some(midnight);
    }
    let separator = if rest.starts_with(' ') { " " } else { "T" };
    let (hour, minute) = (field(&mut rest, 2, separator)?, field(&mut rest, 2, ":")?);
    let second = if rest.starts_with(':') {
        field(&mut rest, 2, ":")?
    } else {
        0
    };
    let mut ms = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{}000", &fraction[..digits]);
        ms = if digits == 0 {
            return None;
        } else {
            padded[..3].parse().ok()?
        };
        rest = &fraction[digits..];
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset_minutes = match rest {
        "" | "Z" | "z" => 0,
        _ => read_offset(rest)?,
    };
    Some(midnight + ((hour * 60 + minute - offset_minutes) * 60 + second) * 1000 + ms)
}

/// `+hh`, `+hhmm` or `+hh:mm`, in minutes.
fn read_offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { "-" } else { "+" };
    let mut rest = text;
    let hours = field(&mut rest, 2, sign)?;
    let separator = if rest.starts_with(':') { ":" } else { "" };
    let minutes = if rest.is_empty() {
        0
    } else {
        field(&mut rest, 2, separator)?
    };
    let total = hours * 60 + minutes;
    (rest.is_empty() && minutes < 60 && hours < 24).then_some(if sign == "-" {
        -total
    } else {
        total
    })
}

/// A number of a fixed count of digits after a separator.
fn field(rest: &mut &str, digits: usize, separator: &str) -> Option<i64> {
    let after = rest.strip_prefix(separator)?;
    let (number, left) = after.split_at_checked(digits)?;
    *rest = left;
    number
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| number.parse().ok())?
}

/// The members of an object, looked at by name.
struct Members<'a>(&'a [(String, Json)]);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a Json> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value)
    }

    fn count(&self, count: usize) -> Result<()> {
        if self.0.len() == count {
            Ok(())
        } else {
            wrong("no other fields")
        }
    }

    /// The content of the only member.
    fn alone(&self) -> Result<Content<'a>> {
        self.count(1)?;
        Ok(Content(&self.0[0].1))
    }

    fn only_text(&self, name: &str) -> Result<&'a str> {
        self.count(1)?;
        self.get(name).map_or_else(|| wrong(name), text_of)
    }

    /// Two members and no other.
    fn pair(&self, first: &str, second: &str) -> Result<(&'a Json, &'a Json)> {
        self.count(2)?;
        match (self.get(first), self.get(second)) {
            (Some(a), Some(b)) => Ok((a, b)),
            _ => wrong(format!("{first} and {second}")),
        }
    }
}

struct Content<'a>(&'a Json);

impl<'a> Content<'a> {
    fn object(&self) -> Result<Members<'a>> {
        match self.0 {
            Json::Object(members) => Ok(Members(members)),
            _ => wrong("an object"),
        }
    }
}

fn text_of(json: &Json) -> Result<&str> {
    match json {
        Json::Text(text) => Ok(text),
        _ => wrong("text"),
    }
}

pub(super) fn wrong<T>(expected: impl Into<String>) -> Result<T> {
    Err(Error::text(0, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_iso_8601_read_as_milliseconds() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2012-12-24T12:15:30.501Z", 1_356_351_330_501),
            ("2012-12-24T13:15:30.501+01:00", 1_356_351_330_501),
            ("2012-12-24T07:15:30.501-0500", 1_356_351_330_501),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("2020-02-29", 1_582_934_400_000),
            ("2020-02-29T10:00Z", 1_582_970_400_000),
        ] {
            assert_eq!(iso_date(text).unwrap(), ms, "{text}");
        }
        for text in [
            "",
            "2020",
            "2021-02-29",
            "2020-13-01",
            "2020-01-01T25:00:00Z",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00+1",
            "2020-01-01Té",
        ] {
            assert!(iso_date(text).is_err(), "{text}");
        }
    }
}
