//! Reading JSON text straight into BSON bytes.
//!
//! Plain values never become a tree: they are written where they belong and the type byte before them is
//! patched. An object whose first name begins with `$` may stand for a value; it is read into a small tree and
//! handed to `special`.

use super::special;
use crate::{DEPTH_MAX, ElementType, Error, Result, Value, encode::write_cstring, layout};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    V2,
    Legacy,
}

/// A piece of JSON kept as a tree.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number and the text it was read from.
    Number(Value),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// A value of the shell's syntax.
    Made(Value),
}

pub(super) struct Parser<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    pub(super) dialect: Dialect,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, dialect: Dialect) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
            dialect,
        }
    }

    /// The one value that makes up the whole text.
    pub(super) fn only_value(&mut self, out: &mut Vec<u8>) -> Result<ElementType> {
        let found = self.value(out, 1)?;
        self.space();
        if self.at < self.text.len() {
            self.expected("nothing after the value")
        } else {
            Ok(found)
        }
    }

    /// Writes the value's bytes and gives its type.
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<ElementType> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(out, depth),
            Some(b'[') => self.array(out, depth),
            Some(b'"') => {
                self.string_value(out)?;
                Ok(ElementType::String)
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.number()?;
                out.extend_from_slice(number.as_bytes());
                Ok(number.element_type())
            }
            _ => {
                let tree = self.scalar_tree()?;
                special::write(&tree, out, self.dialect)
            }
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<ElementType> {
        self.deeper(depth)?;
        self.at += 1;
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        if self.next_is(b'}') {
            close(out, start);
            return Ok(ElementType::Document);
        }
        let mut first = true;
        loop {
            let tag_at = out.len();
            out.push(0);
            let name_at = self.at;
            self.name(out)?;
            if first && out.get(tag_at + 1) == Some(&b'$') {
                let name = self.take_text(out.split_off(tag_at + 1))?;
                out.truncate(start);
                let members = self.members(name, depth)?;
                return special::write(&Json::Object(members), out, self.dialect)
                    .map_err(|e| e.moved_to(name_at));
            }
            first = false;
            self.check_name(out, tag_at + 1)?;
            out.push(0);
            self.expect(b':')?;
            let found = self
                .value(out, depth + 1)
                .map_err(|e| e.within(out, tag_at + 1))?;
            out[tag_at] = found as u8;
            if !self.another(b'}')? {
                close(out, start);
                return Ok(ElementType::Document);
            }
        }
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<ElementType> {
        self.deeper(depth)?;
        self.at += 1;
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        if self.next_is(b']') {
            close(out, start);
            return Ok(ElementType::Array);
        }
        for position in 0usize.. {
            let tag_at = out.len();
            out.push(0);
            write_cstring(out, position.to_string().as_bytes());
            let found = self
                .value(out, depth + 1)
                .map_err(|e| e.within(out, tag_at + 1))?;
            out[tag_at] = found as u8;
            if !self.another(b']')? {
                break;
            }
        }
        close(out, start);
        Ok(ElementType::Array)
    }

    /// The members of an object of which the first name has been read.
    fn members(&mut self, first: String, depth: usize) -> Result<Vec<(String, Json)>> {
        let mut members = Vec::new();
        let mut name = first;
        loop {
            self.expect(b':')?;
            let value = self.tree(depth + 1)?;
            members.push((name, value));
            if !self.another(b'}')? {
                return Ok(members);
            }
            let mut bytes = Vec::new();
            self.name(&mut bytes)?;
            name = self.take_text(bytes)?;
        }
    }

    pub(super) fn tree(&mut self, depth: usize) -> Result<Json> {
        self.space();
        match self.peek() {
            Some(b'{') => {
                self.deeper(depth)?;
                self.at += 1;
                if self.next_is(b'}') {
                    return Ok(Json::Object(Vec::new()));
                }
                let mut bytes = Vec::new();
                self.name(&mut bytes)?;
                let name = self.take_text(bytes)?;
                Ok(Json::Object(self.members(name, depth)?))
            }
            Some(b'[') => {
                self.deeper(depth)?;
                self.at += 1;
                let mut values = Vec::new();
                if self.next_is(b']') {
                    return Ok(Json::Array(values));
                }
                loop {
                    values.push(self.tree(depth + 1)?);
                    if !self.another(b']')? {
                        return Ok(Json::Array(values));
                    }
                }
            }
            _ => self.scalar_tree(),
        }
    }

    fn scalar_tree(&mut self) -> Result<Json> {
        match self.peek() {
            Some(quote) if self.is_quote(quote) => {
                let mut bytes = Vec::new();
                self.string(&mut bytes)?;
                Ok(Json::Text(self.take_text(bytes)?))
            }
            Some(b'-' | b'0'..=b'9') => Ok(Json::Number(self.number()?)),
            _ if self.word("true") => Ok(Json::Bool(true)),
            _ if self.word("false") => Ok(Json::Bool(false)),
            _ if self.word("null") => Ok(Json::Null),
            _ if self.dialect == Dialect::Legacy => self.shell_value(),
            _ => self.expected("a JSON value"),
        }
    }

    /// A whole number that fits becomes Int32 or Int64, anything else a Double.
    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            if self.dialect == Dialect::Legacy && self.word("Infinity") {
                return Ok(Value::from(f64::NEG_INFINITY));
            }
        }
        let whole = self.digits();
        if whole == 0 || (whole > 1 && self.text[self.at - whole] == b'0') {
            return self.expected("a number");
        }
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            is_whole = false;
            self.at += 1;
            if self.digits() == 0 {
                return self.expected("a digit");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.expected("a digit");
            }
        }
        let text = str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        match text.parse::<i64>() {
            Ok(n) if is_whole => Ok(i32::try_from(n).map_or_else(|_| Value::from(n), Value::from)),
            _ => text
                .parse::<f64>()
                .map(Value::from)
                .or_else(|_| self.expected("a number")),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn string_value(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.string(out)?;
        out.push(0);
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        Ok(())
    }

    /// Appends an object member's name, as text without a NUL at its end.
    fn name(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.space();
        match self.peek() {
            Some(quote) if self.is_quote(quote) => self.string(out),
            Some(b) if self.dialect == Dialect::Legacy && is_word(b) => {
                let start = self.at;
                while self.peek().is_some_and(is_word) {
                    self.at += 1;
                }
                out.extend_from_slice(&self.text[start..self.at]);
                Ok(())
            }
            _ => self.expected("a name in quotes"),
        }
    }

    fn check_name(&self, out: &[u8], start: usize) -> Result<()> {
        match memchr::memchr(0, &out[start..]) {
            None => Ok(()),
            Some(_) => self.expected("a name without NUL"),
        }
    }

    /// Appends the text of a quoted string, escapes resolved.
    fn string(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let quote = self.text[self.at];
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = if quote == b'"' {
                layout::escape_at(rest)
            } else {
                rest.iter()
                    .position(|b| *b == quote || *b == b'\\' || *b < 0x20)
            };
            let Some(plain) = plain else {
                return self.expected("a closing quote");
            };
            out.extend_from_slice(&rest[..plain]);
            self.at += plain + 1;
            match rest[plain] {
                b'\\' => self.escape(out)?,
                found if found == quote => return Ok(()),
                _ => {
                    self.at -= 1;
                    return self.expected("an escape for a control character");
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Some(kind) = self.peek() else {
            return self.expected("an escape");
        };
        self.at += 1;
        out.push(match kind {
            b'"' | b'\\' | b'/' => kind,
            b'\'' if self.dialect == Dialect::Legacy => kind,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let c = self.unicode_escape()?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return self.expected("an escape"),
        });
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let unit = self.hex4()?;
        let code = match unit {
            0xD800..0xDC00 if self.text[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                let low = self.hex4()?;
                if !(0xDC00..0xE000).contains(&low) {
                    return self.expected("a low surrogate");
                }
                0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            }
            _ => unit,
        };
        char::from_u32(code).map_or_else(|| self.expected("a Unicode character"), Ok)
    }

    fn hex4(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else {
                return self.expected("four hexadecimal digits");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// After a member: true if another follows, false at the end of its object or array.
    pub(super) fn another(&mut self, end: u8) -> Result<bool> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                // The shell allows a comma after the last member.
                Ok(!(self.dialect == Dialect::Legacy && self.next_is(end)))
            }
            Some(found) if found == end => {
                self.at += 1;
                Ok(false)
            }
            _ => self.expected("a comma or a closing bracket"),
        }
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        if self.next_is(byte) {
            Ok(())
        } else {
            self.expected(format!("`{}`", char::from(byte)))
        }
    }

    /// Skips space, and takes `byte` if it stands there.
    pub(super) fn next_is(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes a whole word.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let Some(after) = self.text[self.at..].strip_prefix(word.as_bytes()) else {
            return false;
        };
        let whole = !after.first().copied().is_some_and(is_word);
        self.at += if whole { word.len() } else { 0 };
        whole
    }

    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || (byte == b'\'' && self.dialect == Dialect::Legacy)
    }

    pub(super) fn take_text(&self, bytes: Vec<u8>) -> Result<String> {
        String::from_utf8(bytes).or_else(|_| self.expected("UTF-8 text"))
    }

    fn deeper(&self, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            Err(Error::TooDeep {
                offset: self.at,
                path: String::new(),
            })
        } else {
            Ok(())
        }
    }

    pub(super) fn expected<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::text(self.at, what))
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

fn close(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

impl Error {
    /// Puts the name that stands at `start` of `out` before the error's path.
    fn within(self, out: &[u8], start: usize) -> Self {
        let name = out
            .get(start..)
            .unwrap_or_default()
            .split(|b| *b == 0)
            .next()
            .unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let join = |path: String| {
            if path.is_empty() {
                name.to_string()
            } else {
                format!("{name}.{path}")
            }
        };
        match self {
            Self::Text {
                offset,
                path,
                expected,
            } => Self::Text {
                offset,
                path: join(path),
                expected,
            },
            Self::TooDeep { offset, path } => Self::TooDeep {
                offset,
                path: join(path),
            },
            other => other,
        }
    }

    /// Gives an error without a place of its own the offset at which its value began.
    fn moved_to(self, at: usize) -> Self {
        match self {
            Self::Text { path, expected, .. } => Self::Text {
                offset: at,
                path,
                expected,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ElementType, doc, extjson};

    #[test]
    fn numbers_take_the_smallest_type_that_holds_them() {
        let d = extjson::parse(
            r#"{"a":1,"b":2147483648,"c":1.0,"d":9223372036854775808,"e":1e2,"f":-0.0}"#,
        )
        .unwrap();
        let types: Vec<_> = d.iter().map(|e| e.element_type()).collect();
        use ElementType as T;
        assert_eq!(
            types,
            [
                T::Int32,
                T::Int64,
                T::Double,
                T::Double,
                T::Double,
                T::Double
            ]
        );
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_its_place() {
        for text in [
            "",
            "{",
            "{}x",
            "[1]",
            "{a:1}",
            "{'a':1}",
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":1e}"#,
            r#"{"a":-}"#,
            r#"{"a":tru}"#,
            r#"{"a":truex}"#,
            r#"{"a":1,}"#,
            r#"{"a":[1,]}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":"\x"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\ud800\u0041"}"#,
            r#"{"a":"\u12"}"#,
            r#"{"a" 1}"#,
            r#"{"a":NaN}"#,
            r#"{"a\u0000":1}"#,
            r#"{"$a\u0000":1}"#,
            r#"{"$x":{"a\u0000":1}}"#,
        ] {
            assert!(extjson::parse(text).is_err(), "{text}");
        }
        let error = extjson::parse(r#"{"a":{"b":[1,?]}}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid text at byte 13 in `a.b.1`: expected a JSON value"
        );
        let deep = "[".repeat(100_000);
        assert!(extjson::parse_value(&deep).is_err());
        let deep = r#"{"$a":"#.repeat(100_000);
        assert!(extjson::parse(&deep).is_err());
    }

    #[test]
    fn escapes_resolve() {
        let d = extjson::parse(r#"{"a\"b":"\u00e9\ud83d\ude00\n\/\u0000x"}"#).unwrap();
        assert_eq!(d, doc! { "a\"b": "é😀\n/\0x" });
        assert_eq!(extjson::relaxed(d.as_raw()), r#"{"a\"b":"é😀\n/\u0000x"}"#);
    }
}
