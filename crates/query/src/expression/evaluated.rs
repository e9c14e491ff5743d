//! The result of an expression: a value borrowed from the document or the expression where one is there
//! already, an owned one where it had to be made. Missing (no such field, `$$REMOVE`) is not Null.

use std::rc::Rc;

use quarry_bson::{ElementType, RawArray, RawDocument, RawValue, Value};

use crate::memory::{Charge, Counted};

/// The value of an expression, borrowed where that is possible.
#[derive(Debug)]
pub enum Evaluated<'a> {
    /// There is no value: a field that is not there.
    Missing,
    /// A value within a document or a constant.
    Raw(RawValue<'a>),
    /// A value that the expression has made, with the charge for its memory.
    Owned(Made),
    /// A document that the builder of this crate has made.
    Document(Built),
    /// An array that the builder of this crate has made.
    Array(Built),
    /// The value of a variable, shared so that reading it costs no copy.
    Shared(Rc<Evaluated<'a>>),
}

/// A value that is counted as long as it is held.
#[derive(Debug)]
pub struct Made {
    value: Value,
    _charge: Charge,
}

/// The bytes of a document or an array that are counted as long as they are held.
#[derive(Debug)]
pub struct Built(pub(super) Counted);

impl<'a> Evaluated<'a> {
    /// Null.
    pub const NULL: Evaluated<'static> = Evaluated::Raw(RawValue::Null);
    /// True.
    pub const TRUE: Evaluated<'static> = Evaluated::Raw(RawValue::Boolean(true));
    /// False.
    pub const FALSE: Evaluated<'static> = Evaluated::Raw(RawValue::Boolean(false));

    /// The value, or None for Missing.
    pub fn as_raw(&self) -> Option<RawValue<'_>> {
        match self {
            Evaluated::Missing => None,
            Evaluated::Raw(value) => Some(*value),
            Evaluated::Owned(made) => Some(made.value.as_raw()),
            Evaluated::Document(built) => Some(RawValue::Document(built.document())),
            Evaluated::Array(built) => {
                Some(RawValue::Array(RawArray::from_document(built.document())))
            }
            Evaluated::Shared(value) => value.as_raw(),
        }
    }

    /// The value, Missing read as Undefined: the order and the equality that MongoDB gives a missing operand.
    pub fn as_comparable(&self) -> RawValue<'_> {
        self.as_raw().unwrap_or(RawValue::Undefined)
    }

    /// Missing, Null or Undefined.
    pub fn is_nullish(&self) -> bool {
        self.as_raw().is_none_or(|value| value.is_nullish())
    }

    /// Whether the value counts as true, by the rules of expressions.
    pub fn is_truthy(&self) -> bool {
        self.as_raw().is_some_and(|value| value.is_truthy())
    }

    /// The `$type` alias, "missing" where there is no value.
    pub fn type_name(&self) -> &'static str {
        self.as_raw().map_or("missing", |value| type_name(value))
    }

    /// The value, if it is an array.
    pub fn as_array(&self) -> Option<RawArray<'_>> {
        self.as_raw()?.as_array()
    }

    /// The value, if it is a string of UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.as_raw()?.as_str()
    }

    /// As error messages show it.
    pub fn display(&self) -> String {
        self.as_raw()
            .map_or_else(|| "MISSING".to_owned(), |value| value.to_string())
    }

    /// An owned copy, None for Missing.
    pub fn into_value(self) -> Option<Value> {
        match self {
            Evaluated::Owned(made) => Some(made.value),
            other => other.as_raw().map(Value::from),
        }
    }

    /// A document that was built, with its charge.
    pub(super) fn document(built: Counted) -> Evaluated<'a> {
        Evaluated::Document(Built(built))
    }

    /// An array that was built, with its charge.
    pub(super) fn array(built: Counted) -> Evaluated<'a> {
        Evaluated::Array(Built(built))
    }

    /// Once more what `shared` has given.
    pub(super) fn share(&self) -> Evaluated<'a> {
        match self {
            Evaluated::Raw(value) => Evaluated::Raw(*value),
            Evaluated::Shared(value) => Evaluated::Shared(Rc::clone(value)),
            Evaluated::Missing => Evaluated::Missing,
            other => other
                .as_raw()
                .map_or(Evaluated::Missing, |value| value.to_value().into()),
        }
    }

    /// The form in which a variable keeps the value: cheap to hand out again.
    pub(super) fn shared(self) -> Evaluated<'a> {
        match self {
            Evaluated::Owned(_) | Evaluated::Document(_) | Evaluated::Array(_) => {
                Evaluated::Shared(Rc::new(self))
            }
            cheap => cheap,
        }
    }

    /// Picks a part of the value, without a copy where the value is borrowed.
    pub(super) fn select(
        &self,
        pick: impl for<'v> Fn(RawValue<'v>) -> Option<RawValue<'v>>,
    ) -> Evaluated<'a> {
        match self {
            Evaluated::Raw(value) => pick(*value).map_or(Evaluated::Missing, Evaluated::Raw),
            other => other
                .as_raw()
                .and_then(pick)
                .map_or(Evaluated::Missing, |part| part.to_value().into()),
        }
    }
}

impl<'a> From<RawValue<'a>> for Evaluated<'a> {
    fn from(value: RawValue<'a>) -> Evaluated<'a> {
        Evaluated::Raw(value)
    }
}

impl From<Value> for Evaluated<'_> {
    fn from(value: Value) -> Self {
        Evaluated::Owned(Made {
            _charge: Charge::of(value.as_bytes().len()),
            value,
        })
    }
}

impl From<String> for Evaluated<'_> {
    fn from(text: String) -> Self {
        Value::from(text).into()
    }
}

impl From<&str> for Evaluated<'_> {
    fn from(text: &str) -> Self {
        Value::from(text).into()
    }
}

macro_rules! from_scalar {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Evaluated<'_> {
            fn from(value: $from) -> Self {
                Evaluated::Raw(RawValue::$variant(value))
            }
        }
    )*};
}

from_scalar!(bool => Boolean, i32 => Int32, i64 => Int64, f64 => Double);

/// The name of a value's type in messages.
pub fn type_name(value: RawValue<'_>) -> &'static str {
    match value.element_type() {
        ElementType::Boolean => "bool",
        other => other.alias(),
    }
}

impl Built {
    fn document(&self) -> RawDocument<'_> {
        RawDocument::new(&self.0.bytes).unwrap_or(RawDocument::EMPTY)
    }
}
