//! The shell's syntax for values, as mongoimport's legacy mode reads it: constructors, regular expressions
//! between slashes, and words.

use super::{
    parse::{Json, Parser, is_word},
    special,
};
use crate::{DateTime, Decimal128, ObjectId, RawDbPointer, RawValue, Result, Timestamp, Value};

/// Arguments that a constructor may have.
const ARGUMENTS_MAX: usize = 3;

impl Parser<'_> {
    pub(super) fn shell_value(&mut self) -> Result<Json> {
        if self.peek() == Some(b'/') {
            return self.slashed_regex().map(Json::Made);
        }
        if self.word("new") {
            self.space();
        }
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        let word = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let plain = match word.as_str() {
            "undefined" => Some(Value::undefined()),
            "NaN" => Some(Value::from(f64::NAN)),
            "Infinity" => Some(Value::from(f64::INFINITY)),
            "MinKey" => Some(Value::min_key()),
            "MaxKey" => Some(Value::max_key()),
            _ => None,
        };
        if let Some(value) = plain {
            if matches!(word.as_str(), "MinKey" | "MaxKey") && self.next_is(b'(') {
                self.expect(b')')?;
            }
            return Ok(Json::Made(value));
        }
        if word.is_empty() || !self.next_is(b'(') {
            self.at = start;
            return self.expected("a value");
        }
        let arguments = self.arguments()?;
        self.construct(&word, &arguments).map(Json::Made)
    }

    fn arguments(&mut self) -> Result<Vec<Json>> {
        let mut arguments = Vec::new();
        if self.next_is(b')') {
            return Ok(arguments);
        }
        loop {
            // A constructor's arguments are scalars, so depth does not grow here.
            self.space();
            if let Some(b'{' | b'[') = self.peek() {
                return self.expected("a plain argument");
            }
            arguments.push(self.tree(0)?);
            if !self.another(b')')? {
                return Ok(arguments);
            }
            if arguments.len() == ARGUMENTS_MAX {
                return self.expected("fewer arguments");
            }
        }
    }

    fn construct(&self, name: &str, arguments: &[Json]) -> Result<Value> {
        let value = match (name, arguments) {
            ("ObjectId", [Json::Text(hex)]) => ObjectId::parse_hex(hex)?.into(),
            ("ObjectId", []) => ObjectId::generate().into(),
            ("ISODate" | "Date", [Json::Text(text)]) => DateTime(special::iso_date(text)?).into(),
            ("ISODate" | "Date", [Json::Number(ms)]) => match ms.as_i64_exact() {
                Some(ms) => DateTime(ms).into(),
                None => return self.expected("milliseconds"),
            },
            ("ISODate" | "Date", []) => DateTime::now().into(),
            ("NumberLong" | "Long", [n]) => self.whole(n)?.into(),
            ("NumberInt" | "Int32", [n]) => match i32::try_from(self.whole(n)?) {
                Ok(n) => n.into(),
                Err(_) => return self.expected("an Int32"),
            },
            ("NumberDecimal" | "Decimal128", [Json::Text(text)]) => Decimal128::parse(text)?.into(),
            ("NumberDecimal" | "Decimal128", [Json::Number(n)]) => match n.as_i64_exact() {
                Some(n) => Decimal128::from_i64(n).into(),
                None => Decimal128::from_f64(n.as_f64_lossy().unwrap_or(f64::NAN)).into(),
            },
            ("Timestamp", [Json::Number(t), Json::Number(i)]) => {
                let part = |n: &Value| n.as_i64_exact().and_then(|n| u32::try_from(n).ok());
                match (part(t), part(i)) {
                    (Some(time), Some(increment)) => Timestamp { time, increment }.into(),
                    _ => return self.expected("two numbers of 32 bits"),
                }
            }
            ("BinData", [Json::Number(subtype), Json::Text(base64)]) => {
                match subtype.as_i64_exact().and_then(|n| u8::try_from(n).ok()) {
                    Some(subtype) => special::binary_of(base64, subtype)?,
                    None => return self.expected("a subtype of 8 bits"),
                }
            }
            ("UUID", [Json::Text(text)]) => special::uuid(text)?,
            ("RegExp", [Json::Text(pattern)]) => special::regex(pattern, "")?,
            ("RegExp", [Json::Text(pattern), Json::Text(options)]) => {
                special::regex(pattern, options)?
            }
            ("Boolean", [Json::Bool(b)]) => Value::from(*b),
            ("DBPointer", [Json::Text(namespace), Json::Made(id)]) => match id.as_raw() {
                RawValue::ObjectId(id) => RawValue::DbPointer(RawDbPointer {
                    namespace: namespace.into(),
                    id,
                })
                .into(),
                _ => return self.expected("an ObjectId"),
            },
            ("DBRef" | "Dbref", [Json::Text(collection), id]) => {
                let members = vec![
                    ("$ref".to_owned(), Json::Text(collection.clone())),
                    ("$id".to_owned(), id.clone()),
                ];
                special::to_value(&Json::Object(members), self.dialect)?
            }
            _ => return self.expected(format!("arguments that `{name}` takes")),
        };
        Ok(value)
    }

    fn whole(&self, n: &Json) -> Result<i64> {
        let found = match n {
            Json::Number(n) => n.as_i64_exact(),
            Json::Text(text) => text.parse().ok(),
            _ => None,
        };
        found.map_or_else(|| self.expected("a whole number"), Ok)
    }

    fn slashed_regex(&mut self) -> Result<Value> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'/') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return self.expected("a closing slash"),
            }
        }
        let pattern = self.take_text(self.text[start..self.at].to_vec())?;
        self.at += 1;
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_lowercase()) {
            self.at += 1;
        }
        let options = self.take_text(self.text[start..self.at].to_vec())?;
        special::regex(&pattern, &options)
    }
}

#[cfg(test)]
mod tests {
    use crate::extjson;

    #[test]
    fn the_shells_forms_read_as_their_values() {
        let legacy = r#"{ _id: ObjectId('507f1f77bcf86cd799439011'), "d": new Date(5), e: ISODate("1970-01-01T00:00:00.005Z"),
            f: NumberLong("7"), g: NumberInt(8), h: NumberDecimal("1.5"), i: Timestamp(1, 2), j: BinData(0, "//8="),
            k: /a\/b/mi, l: undefined, m: MinKey, n: MaxKey(), o: NaN, p: -Infinity, q: [1, 2,],
            r: {"$date": 5}, s: {"$numberLong": 9}, t: {"$regex": "x", "$options": "i"}, u: {"$binary": "//8=", "$type": "00"}, }"#;
        let canonical = r#"{"_id":{"$oid":"507f1f77bcf86cd799439011"},"d":{"$date":{"$numberLong":"5"}},"e":{"$date":{"$numberLong":"5"}},"f":{"$numberLong":"7"},"g":{"$numberInt":"8"},"h":{"$numberDecimal":"1.5"},"i":{"$timestamp":{"t":1,"i":2}},"j":{"$binary":{"base64":"//8=","subType":"00"}},"k":{"$regularExpression":{"pattern":"a\\/b","options":"im"}},"l":{"$undefined":true},"m":{"$minKey":1},"n":{"$maxKey":1},"o":{"$numberDouble":"NaN"},"p":{"$numberDouble":"-Infinity"},"q":[{"$numberInt":"1"},{"$numberInt":"2"}],"r":{"$date":{"$numberLong":"5"}},"s":{"$numberLong":"9"},"t":{"$regularExpression":{"pattern":"x","options":"i"}},"u":{"$binary":{"base64":"//8=","subType":"00"}}}"#;
        let read = extjson::parse_legacy(legacy).unwrap();
        assert_eq!(extjson::canonical(read.as_raw()), canonical);
        assert!(extjson::parse(legacy).is_err());
        for text in [
            "{a: Foo(1)}",
            "{a: ObjectId(1)}",
            "{a: /x}",
            "{a: NumberInt(3000000000)}",
            "{a: new}",
            "{a: Date({})}",
            "{a: /\\",
        ] {
            assert!(extjson::parse_legacy(text).is_err(), "{text}");
        }
    }
}
