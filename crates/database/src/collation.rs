//! Collations: how strings are compared, sorted and found.
//!
//! There is one so far, `simple`, which compares bytes. Every document that asks for a collation is read here, so that a client
//! is told in one way which ones are not served, and those who compare are handed a type.

use quarry_bson::RawDocument;

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// The options of a collation beside its locale.
const OPTIONS: [&str; 9] = [
    "caseLevel",
    "caseFirst",
    "strength",
    "numericOrdering",
    "alternate",
    "maxVariable",
    "normalization",
    "backwards",
    "version",
];

/// How strings are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collation {
    /// Byte by byte.
    #[default]
    Simple,
}

impl Collation {
    /// Reads the document of a command or of an index. An empty one asks for nothing.
    pub fn parse(specification: RawDocument<'_>) -> Result<Collation> {
        let mut locale = None;
        for element in specification {
            let name = element.name().as_str()?;
            let value = element.value();
            match name {
                "locale" => {
                    let text = value.as_str();
                    locale = Some(text.ok_or_else(|| wrong_type(value.element_type().alias()))?);
                }
                _ if OPTIONS.contains(&name) => {}
                _ => {
                    let text = format!("BSON field 'collation.{name}' is an unknown field.");
                    return Err(Error::invalid(ErrorCode::IDL_UNKNOWN_FIELD, text));
                }
            }
        }
        match locale {
            Some("simple") => Ok(Collation::Simple),
            Some(locale) => {
                let text = format!("the collation of the locale '{locale}' is not supported yet");
                Err(Error::invalid(ErrorCode::NOT_IMPLEMENTED, text))
            }
            None if specification.is_empty() => Ok(Collation::Simple),
            None => {
                let text = "BSON field 'collation.locale' is missing but a required field";
                Err(Error::invalid(ErrorCode::IDL_FAILED_TO_PARSE, text))
            }
        }
    }
}

fn wrong_type(found: &str) -> Error {
    let text = format!(
        "BSON field 'collation.locale' is the wrong type '{found}', expected type 'string'"
    );
    Error::invalid(ErrorCode::TYPE_MISMATCH, text)
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    #[test]
    fn bytes_are_compared_and_other_ways_are_refused_by_name() {
        for fine in [
            doc! {},
            doc! { "locale": "simple" },
            doc! { "locale": "simple", "strength": 3 },
        ] {
            assert_eq!(Collation::parse(fine.as_raw()).unwrap(), Collation::Simple);
        }
        let refused = |specification: Document| {
            let error = Collation::parse(specification.as_raw()).unwrap_err();
            (error.code(), error.to_string())
        };
        let (code, text) = refused(doc! { "locale": "de", "strength": 2 });
        assert_eq!(code, 238);
        assert!(text.contains("'de'"), "{text}");
        assert_eq!(refused(doc! { "strength": 2 }).0, 40_414);
        assert_eq!(refused(doc! { "locale": 1 }).0, 14);
        assert_eq!(refused(doc! { "locale": "simple", "odd": 1 }).0, 40_415);
    }
}
