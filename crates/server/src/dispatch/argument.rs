//! One field of a command, read as the type that the command wants, with MongoDB's errors where it is another.
//!
//! A field that has a row in its command's list (`fields`) comes here only if it is there: Null and Undefined stand for one
//! that is not. Fields whose type MongoDB's generated parsers leave to other code refuse Null here, among them a find's filter,
//! sort and projection, and every hint. The texts are those of the generated parsers; a list of types ends in `']`, which is
//! how those print it.

use quarry_bson::{ElementType, RawArray, RawDocument, RawElement, RawStr, RawValue};
use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// The types that a flag may have: a bool, or a number taken as one.
pub const FLAG: &str = "[bool, long, int, decimal, double";
/// The types that a number may have.
pub const NUMBER: &str = "[long, int, decimal, double";

/// One field of a command or of a document within it.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    /// The command or statement that the field is of, as errors name it: `find`, `update.updates`.
    of: &'static str,
    element: RawElement<'a>,
}

impl<'a> Argument<'a> {
    #[inline]
    pub fn new(of: &'static str, element: RawElement<'a>) -> Argument<'a> {
        Argument { of, element }
    }

    /// The fields of a document that the command holds, which has no name in front of them.
    #[inline]
    pub fn each(
        of: &'static str,
        document: RawDocument<'a>,
    ) -> impl Iterator<Item = Argument<'a>> + use<'a> {
        document.iter().map(move |element| Argument { of, element })
    }

    #[inline]
    pub fn name(&self) -> RawStr<'a> {
        self.element.name()
    }

    /// The field itself.
    #[inline]
    pub fn element(&self) -> RawElement<'a> {
        self.element
    }

    #[inline]
    pub fn element_type(&self) -> ElementType {
        self.element.element_type()
    }

    #[inline]
    pub fn value(&self) -> RawValue<'a> {
        self.element.value()
    }

    /// Whether MongoDB's generated parsers take the field for one that is not there: it is Null or Undefined.
    #[inline]
    pub fn is_absent(&self) -> bool {
        matches!(
            self.element_type(),
            ElementType::Null | ElementType::Undefined
        )
    }

    /// One of the texts that the field may have.
    pub fn one_of(&self, texts: &[&str]) -> Result<&'a str> {
        let given = self.text()?;
        if texts.contains(&given) {
            return Ok(given);
        }
        let (of, name) = (self.of, self.name());
        Err(CommandError::bad_value(format!(
            "Enumeration value '{given}' for field '{of}.{name}' is not a valid value."
        )))
    }

    /// The field as `read` reads it; none where it is Null or Undefined.
    #[inline]
    pub fn optional<T>(&self, read: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.is_absent() {
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// A document.
    #[inline]
    pub fn document(&self) -> Result<RawDocument<'a>> {
        let document = self.value().as_document();
        document.ok_or_else(|| self.wrong_type("object"))
    }

    /// A document; none where it is Null or Undefined.
    #[inline]
    pub fn document_or_null(&self) -> Result<Option<RawDocument<'a>>> {
        self.optional(Argument::document)
    }

    /// A document that says something; none where it is Null, Undefined or empty.
    #[inline]
    pub fn some_document(&self) -> Result<Option<RawDocument<'a>>> {
        let document = self.document_or_null()?;
        Ok(document.filter(|document| !document.is_empty()))
    }

    /// An array.
    pub fn array(&self) -> Result<RawArray<'a>> {
        let array = self.value().as_array();
        array.ok_or_else(|| self.wrong_type("array"))
    }

    /// An array of documents.
    pub fn documents(&self) -> Result<Vec<RawDocument<'a>>> {
        let document = |value: RawValue<'a>| match value {
            RawValue::Document(document) => Ok(document),
            other => Err(self.wrong_type_of(other, "object")),
        };
        self.array()?.iter().map(document).collect()
    }

    /// A string.
    pub fn text(&self) -> Result<&'a str> {
        self.value()
            .as_str()
            .ok_or_else(|| self.wrong_type("string"))
    }

    /// A bool, or a number taken as one; false where it is Null or Undefined.
    #[inline]
    pub fn flag(&self) -> Result<bool> {
        let value = self.value();
        match value {
            RawValue::Boolean(is_set) => Ok(is_set),
            _ if value.is_nullish() => Ok(false),
            _ if value.is_number() => Ok(value.is_truthy()),
            _ => Err(self.wrong_type(FLAG)),
        }
    }

    /// A whole number; a fraction is not cut off, but refused.
    pub fn whole(&self) -> Result<i64> {
        let number = self.value().as_i64_exact();
        number.ok_or_else(|| self.wrong_type("long"))
    }

    /// A number whose fraction is cut off.
    #[inline]
    pub fn number(&self) -> Result<i64> {
        let number = self.value().as_i64_truncated();
        number.ok_or_else(|| self.wrong_type(NUMBER))
    }

    /// A number that is not negative, whose fraction is cut off.
    #[inline]
    pub fn count(&self) -> Result<u64> {
        let number = self.number()?;
        u64::try_from(number).map_err(|_| {
            let name = self.name().to_string_lossy();
            let message =
                format!("BSON field '{name}' value must be >= 0, actual value '{number}'");
            CommandError::new(ErrorCode(51_024), message)
        })
    }

    /// A number of any type, as a double.
    pub fn double(&self) -> Result<f64> {
        let number = self.value().as_f64_lossy();
        number.ok_or_else(|| self.wrong_type("double"))
    }

    /// The error of a value that has none of the types `expected`.
    #[cold]
    pub fn wrong_type(&self, expected: &str) -> CommandError {
        self.wrong_type_of(self.value(), expected)
    }

    #[cold]
    fn wrong_type_of(&self, found: RawValue<'_>, expected: &str) -> CommandError {
        CommandError::field_type(
            self.of,
            &self.name().to_string_lossy(),
            found.element_type().alias(),
            expected,
        )
    }

    /// The error of a field that comes a second time.
    #[cold]
    pub fn duplicate(&self) -> CommandError {
        CommandError::duplicate_field(self.of, &self.name().to_string_lossy())
    }

    /// The error of a field that nobody knows.
    #[cold]
    pub fn unknown(&self) -> CommandError {
        CommandError::unknown_field(self.of, &self.name().to_string_lossy())
    }

    /// The error of an option that MongoDB has and that is not served.
    #[cold]
    pub fn not_served(&self) -> CommandError {
        CommandError::not_supported(format_args!("the option '{}'", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    fn message<'a, T>(document: &'a Document, read: impl Fn(&Argument<'a>) -> Result<T>) -> String {
        let argument = Argument::each("c", document.as_raw()).next().unwrap();
        match read(&argument) {
            Ok(_) => "fine".into(),
            Err(error) => format!("{}: {}", error.code, error.message),
        }
    }

    #[test]
    fn another_type_is_refused_in_mongodbs_words() {
        let text = doc! { "a": "x" };
        let wrong = |expected: &str| {
            format!("14: BSON field 'c.a' is the wrong type 'string', expected {expected}")
        };
        assert_eq!(message(&text, Argument::document), wrong("type 'object'"));
        assert_eq!(message(&text, Argument::array), wrong("type 'array'"));
        assert_eq!(message(&text, Argument::whole), wrong("type 'long'"));
        assert_eq!(message(&text, Argument::double), wrong("type 'double'"));
        assert_eq!(
            message(&text, Argument::flag),
            wrong("types '[bool, long, int, decimal, double']")
        );
        assert_eq!(
            message(&text, Argument::count),
            wrong("types '[long, int, decimal, double']")
        );
        assert_eq!(
            message(&doc! { "a": 1 }, Argument::text),
            "14: BSON field 'c.a' is the wrong type 'int', expected type 'string'"
        );
        assert_eq!(
            message(&doc! { "a": [1] }, Argument::documents),
            "14: BSON field 'c.a' is the wrong type 'int', expected type 'object'"
        );
    }

    #[test]
    fn numbers_are_cut_off_or_refused() {
        assert_eq!(message(&doc! { "a": 1.5 }, Argument::count), "fine");
        assert_eq!(
            message(&doc! { "a": 1.5 }, Argument::whole),
            "14: BSON field 'c.a' is the wrong type 'double', expected type 'long'"
        );
        assert_eq!(
            message(&doc! { "a": -1 }, Argument::count),
            "51024: BSON field 'a' value must be >= 0, actual value '-1'"
        );
    }

    #[test]
    fn null_is_nothing_where_nothing_would_do() {
        let null = doc! { "a": (RawValue::Null) };
        let argument = Argument::each("c", null.as_raw()).next().unwrap();
        assert_eq!(argument.document_or_null().unwrap(), None);
        assert!(!argument.flag().unwrap());
        assert_eq!(argument.optional(Argument::count).unwrap(), None);
        assert_eq!(argument.optional(Argument::text).unwrap(), None);
        assert!(argument.document().is_err());
        let empty = doc! { "a": {} };
        let argument = Argument::each("c", empty.as_raw()).next().unwrap();
        assert_eq!(argument.some_document().unwrap(), None);
    }

    #[test]
    fn what_is_unknown_or_not_served_is_named() {
        assert_eq!(
            message(&doc! { "a": 1 }, |argument| Err::<(), _>(
                argument.unknown()
            )),
            "40415: BSON field 'c.a' is an unknown field."
        );
        assert_eq!(
            message(&doc! { "a": 1 }, |argument| Err::<(), _>(
                argument.not_served()
            )),
            "238: the option 'a' is not supported yet"
        );
    }
}
