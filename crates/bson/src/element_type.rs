//! The element types of bsonspec 1.1, the deprecated ones included, with their MongoDB names and numbers.

/// The type byte that starts every element.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// A 64-bit binary floating-point number.
    Double = 1,
    /// UTF-8 text; may hold NUL.
    String = 2,
    /// A nested document.
    Document = 3,
    /// An array: a document whose names are positions.
    Array = 4,
    /// Bytes with a subtype.
    Binary = 5,
    /// Undefined; deprecated.
    Undefined = 6,
    /// Twelve bytes that identify a document.
    ObjectId = 7,
    /// True or false.
    Boolean = 8,
    /// Milliseconds since 1970 in UTC.
    DateTime = 9,
    /// Null.
    Null = 10,
    /// A regular expression: pattern and options.
    Regex = 11,
    /// A namespace and an ObjectId; deprecated.
    DbPointer = 12,
    /// JavaScript code.
    JavaScript = 13,
    /// A symbol; deprecated. Compares as String does.
    Symbol = 14,
    /// JavaScript code with a document of variables; deprecated.
    JavaScriptWithScope = 15,
    /// A 32-bit whole number.
    Int32 = 16,
    /// MongoDB's internal clock: seconds and an ordinal.
    Timestamp = 17,
    /// A 64-bit whole number.
    Int64 = 18,
    /// A decimal floating-point number of 34 digits.
    Decimal128 = 19,
    /// Below all other values.
    MinKey = 255,
    /// Above all other values.
    MaxKey = 127,
}

impl ElementType {
    /// All types, in the order of their bytes.
    pub const ALL: [Self; 21] = [
        Self::Double,
        Self::String,
        Self::Document,
        Self::Array,
        Self::Binary,
        Self::Undefined,
        Self::ObjectId,
        Self::Boolean,
        Self::DateTime,
        Self::Null,
        Self::Regex,
        Self::DbPointer,
        Self::JavaScript,
        Self::Symbol,
        Self::JavaScriptWithScope,
        Self::Int32,
        Self::Timestamp,
        Self::Int64,
        Self::Decimal128,
        Self::MaxKey,
        Self::MinKey,
    ];

    /// The type of a type byte; `None` for a byte that is none.
    #[inline]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Double,
            2 => Self::String,
            3 => Self::Document,
            4 => Self::Array,
            5 => Self::Binary,
            6 => Self::Undefined,
            7 => Self::ObjectId,
            8 => Self::Boolean,
            9 => Self::DateTime,
            10 => Self::Null,
            11 => Self::Regex,
            12 => Self::DbPointer,
            13 => Self::JavaScript,
            14 => Self::Symbol,
            15 => Self::JavaScriptWithScope,
            16 => Self::Int32,
            17 => Self::Timestamp,
            18 => Self::Int64,
            19 => Self::Decimal128,
            127 => Self::MaxKey,
            255 => Self::MinKey,
            _ => return None,
        })
    }

    /// The number that `$type` takes: the type byte, but -1 for MinKey.
    pub const fn number(self) -> i32 {
        match self {
            Self::MinKey => -1,
            other => other as i32,
        }
    }

    /// The type that `$type` means by a number.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.number() == number)
    }

    /// The name that `$type` takes and error messages show.
    pub const fn alias(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::String => "string",
            Self::Document => "object",
            Self::Array => "array",
            Self::Binary => "binData",
            Self::Undefined => "undefined",
            Self::ObjectId => "objectId",
            Self::Boolean => "bool",
            Self::DateTime => "date",
            Self::Null => "null",
            Self::Regex => "regex",
            Self::DbPointer => "dbPointer",
            Self::JavaScript => "javascript",
            Self::Symbol => "symbol",
            Self::JavaScriptWithScope => "javascriptWithScope",
            Self::Int32 => "int",
            Self::Timestamp => "timestamp",
            Self::Int64 => "long",
            Self::Decimal128 => "decimal",
            Self::MinKey => "minKey",
            Self::MaxKey => "maxKey",
        }
    }

    /// The type that `$type` means by a name (`"number"` is a set of types and not among them).
    pub fn from_alias(alias: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.alias() == alias)
    }

    /// Int32, Int64, Double or Decimal128.
    pub const fn is_number(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Int32 | Self::Int64 | Self::Decimal128
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_numbers_and_aliases_lead_back_to_the_type() {
        for t in ElementType::ALL {
            assert_eq!(ElementType::from_u8(t as u8), Some(t));
            assert_eq!(ElementType::from_number(t.number()), Some(t));
            assert_eq!(ElementType::from_alias(t.alias()), Some(t));
        }
        assert_eq!(
            (0..=255u8)
                .filter(|b| ElementType::from_u8(*b).is_some())
                .count(),
            21
        );
    }
}
