//! The fields that a command takes, or a document within one: one list, which says of each its name, its type, and what
//! becomes of it.
//!
//! A body is held against its list before anything reads it, as MongoDB's generated parsers do: a field that the list does
//! not name is refused, and so are one that comes twice, one of another type, a required one that is missing, and one that
//! is not served. A field that is Null or Undefined is not there, unless its list leaves its type to the command's own code
//! (`any`). Who reads the body afterwards goes by that.

use std::ops::Range;

use quarry_bson::{ElementType, Iter, RawDocument, RawElement, RawValue};

use crate::dispatch::argument::{Argument, FLAG, NUMBER};
use crate::dispatch::error::{CommandError, Result};

/// A list has at most so many fields: one bit each says which have come.
const FIELDS_MAX: usize = u64::BITS as usize;

/// Names from this length on are looked for among each other.
const LONG_NAME_BYTES: usize = 31;

/// One field of a list.
#[derive(Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    kind: Kind,
    /// `Kind::types`.
    types: u32,
    standing: Standing,
}

/// The type that a field has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The command's own code looks at the type, Null included.
    Any,
    Object,
    Array,
    Text,
    /// A bool, or a number taken as one.
    Flag,
    /// A number of any type; whoever reads it says which ones will do.
    Number,
}

/// The part that a field plays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Optional,
    Required,
    /// Taken and without an effect: nothing that it could ask for changes an answer here.
    Ignored,
    /// Refused by name where it asks for something; a flag that is off asks for nothing.
    NotServed,
    /// Like `NotServed`, and an empty document or array asks for nothing either.
    NotServedUnlessEmpty,
}

/// A field whose type the command's own code looks at.
pub const fn any(name: &'static str) -> Field {
    field(name, Kind::Any)
}

/// A document.
pub const fn object(name: &'static str) -> Field {
    field(name, Kind::Object)
}

/// An array.
pub const fn array(name: &'static str) -> Field {
    field(name, Kind::Array)
}

/// A string.
pub const fn text(name: &'static str) -> Field {
    field(name, Kind::Text)
}

/// A bool, or a number taken as one.
pub const fn flag(name: &'static str) -> Field {
    field(name, Kind::Flag)
}

/// A number.
pub const fn number(name: &'static str) -> Field {
    field(name, Kind::Number)
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        types: kind.types(),
        standing: Standing::Optional,
    }
}

impl Field {
    /// The command cannot do without it.
    pub const fn required(self) -> Field {
        self.with(Standing::Required)
    }

    /// It changes no answer here.
    pub const fn ignored(self) -> Field {
        self.with(Standing::Ignored)
    }

    /// It is refused by name, unless it is a flag that is off.
    pub const fn not_served(self) -> Field {
        self.with(Standing::NotServed)
    }

    /// It is refused by name, unless it is a flag that is off or an empty document or array.
    pub const fn not_served_unless_empty(self) -> Field {
        self.with(Standing::NotServedUnlessEmpty)
    }

    const fn with(self, standing: Standing) -> Field {
        Field { standing, ..self }
    }
}

impl Kind {
    /// The types that it takes, one bit each, so that a field is held against its row by one test.
    const fn types(self) -> u32 {
        const NUMBERS: u32 = bit(ElementType::Double)
            | bit(ElementType::Int32)
            | bit(ElementType::Int64)
            | bit(ElementType::Decimal128);
        match self {
            Kind::Any => u32::MAX,
            Kind::Object => bit(ElementType::Document),
            Kind::Array => bit(ElementType::Array),
            Kind::Text => bit(ElementType::String),
            Kind::Flag => bit(ElementType::Boolean) | NUMBERS,
            Kind::Number => NUMBERS,
        }
    }

    /// The type as errors name it.
    fn shown(self) -> &'static str {
        match self {
            Kind::Any => "any",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::Text => "string",
            Kind::Flag => FLAG,
            Kind::Number => NUMBER,
        }
    }
}

/// The bit of a type. MinKey and MaxKey share one, which only `Kind::Any` has.
#[inline]
const fn bit(element_type: ElementType) -> u32 {
    1 << (element_type as u8 & 31)
}

#[cfg(test)]
impl Field {
    /// A value that the field takes and that asks for nothing which is not served.
    pub fn example(&self) -> quarry_bson::Value {
        let refuses = matches!(self.standing, Standing::NotServed);
        match self.kind {
            Kind::Any | Kind::Object => quarry_bson::Document::new().into(),
            Kind::Array => quarry_bson::Value::array(),
            Kind::Text => "x".into(),
            Kind::Flag => (!refuses && self.standing != Standing::NotServedUnlessEmpty).into(),
            Kind::Number => 1.into(),
        }
    }

    /// Whether Null stands for a field that is not there.
    pub fn is_absent_where_null(&self) -> bool {
        self.kind != Kind::Any
    }

    /// Whether every use of the field is refused.
    pub fn is_never_served(&self) -> bool {
        self.standing == Standing::NotServed && self.kind != Kind::Flag
    }
}

/// The fields that have come.
#[derive(Clone, Copy, Default)]
pub struct Seen(u64);

impl Seen {
    /// Notes the field with that number, and says whether it is there for the first time.
    #[inline]
    pub fn note(&mut self, number: usize) -> bool {
        debug_assert!(number < FIELDS_MAX, "a list is as long as the bits reach");
        let bit = 1 << number;
        let is_first = self.0 & bit == 0;
        self.0 |= bit;
        is_first
    }
}

/// The list of a command or of a document within one.
pub struct Fields {
    list: &'static [Field],
    /// For each length of a name the bits of the fields that have it, so that a name is compared with one or two others.
    by_length: [u64; LONG_NAME_BYTES + 1],
    /// The bits of the required ones.
    required: u64,
    /// Clients send fields that older or newer servers know: any field is taken, and none is looked at.
    is_open: bool,
}

impl Fields {
    /// A command that takes any field.
    pub const ANY: Fields = Fields {
        list: &[],
        by_length: [0; LONG_NAME_BYTES + 1],
        required: 0,
        is_open: true,
    };

    /// The list of these fields.
    pub const fn named(list: &'static [Field]) -> Fields {
        assert!(list.len() <= FIELDS_MAX, "one bit a field");
        let mut required = 0;
        let mut by_length = [0; LONG_NAME_BYTES + 1];
        let mut number = 0;
        while number < list.len() {
            if matches!(list[number].standing, Standing::Required) {
                required |= 1 << number;
            }
            by_length[length_class(list[number].name.len())] |= 1 << number;
            number += 1;
        }
        Fields {
            list,
            by_length,
            required,
            is_open: false,
        }
    }

    /// The rows.
    #[cfg(test)]
    pub fn list(&self) -> &'static [Field] {
        self.list
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.list.iter().map(|field| field.name)
    }

    /// Whether any field is taken.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The number of the field with that name.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let mut candidates = self.by_length[length_class(name.len())];
        while candidates != 0 {
            let number = candidates.trailing_zeros() as usize;
            let candidate = self.list[number].name.as_bytes();
            // The first byte tells most names of one length apart.
            if candidate.first() == name.first() && candidate == name {
                return Some(number);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Holds a field against its row, which has the number that `find` told. False where the field is not there, being Null.
    #[inline(always)]
    pub fn accept(&self, number: usize, given: &Argument<'_>, seen: &mut Seen) -> Result<bool> {
        let field = &self.list[number];
        let is_served = matches!(
            field.standing,
            Standing::Optional | Standing::Required | Standing::Ignored
        );
        if field.types & bit(given.element_type()) != 0 && is_served && seen.note(number) {
            return Ok(true);
        }
        self.judge(number, given, seen)
    }

    /// Like `accept`, of a field that is not simply taken.
    #[cold]
    fn judge(&self, number: usize, given: &Argument<'_>, seen: &mut Seen) -> Result<bool> {
        let field = &self.list[number];
        if field.types & bit(given.element_type()) == 0 {
            return match given.is_absent() {
                true => Ok(false),
                false => Err(given.wrong_type(field.kind.shown())),
            };
        }
        let asks = match field.standing {
            // `accept` has noted it before.
            Standing::Optional | Standing::Required | Standing::Ignored => {
                return Err(given.duplicate());
            }
            _ if !seen.note(number) => return Err(given.duplicate()),
            Standing::NotServed => asks_for_something(field.kind, given.value(), false),
            Standing::NotServedUnlessEmpty => asks_for_something(field.kind, given.value(), true),
        };
        match asks {
            true => Err(given.not_served()),
            false => Ok(true),
        }
    }

    /// Refuses a body that has not all that is required.
    #[inline]
    pub fn check_required(&self, of: &'static str, seen: Seen) -> Result<()> {
        let missing = self.required & !seen.0;
        if missing == 0 {
            return Ok(());
        }
        let first = &self.list[missing.trailing_zeros() as usize];
        Err(CommandError::missing_field(of, first.name))
    }

    /// Whether a field is not there although its name is: it is Null or Undefined.
    #[inline]
    pub fn is_absent(&self, element: &RawElement<'_>) -> bool {
        let is_nullish = matches!(
            element.element_type(),
            ElementType::Null | ElementType::Undefined
        );
        is_nullish && self.is_absent_where_null(element.name().as_bytes())
    }

    #[cold]
    fn is_absent_where_null(&self, name: &[u8]) -> bool {
        let keeps_null = |number: usize| self.list[number].kind == Kind::Any;
        !self.is_open && !self.find(name).is_some_and(keeps_null)
    }

    /// Reads a document within a command: holds each field against its row, and gives those that are there to `take`, one
    /// after the other. A closure rather than an iterator, which would carry an error by the side of each field.
    #[inline(always)]
    pub fn read<'a>(
        &self,
        of: &'static str,
        document: RawDocument<'a>,
        mut take: impl FnMut(Argument<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut seen = Seen::default();
        for element in document {
            let given = Argument::new(of, element);
            let Some(number) = self.find(given.name().as_bytes()) else {
                return Err(given.unknown());
            };
            if self.accept(number, &given, &mut seen)? {
                take(given)?;
            }
        }
        self.check_required(of, seen)
    }

    /// The fields that are there, of a document that has been held against the list.
    #[inline]
    pub fn present<'a>(&'static self, of: &'static str, document: RawDocument<'a>) -> Present<'a> {
        Present {
            fields: self,
            of,
            elements: document.iter(),
        }
    }

    /// Like `present`, of a command's body: the first field is its name.
    #[inline]
    pub fn present_behind_name<'a>(
        &'static self,
        of: &'static str,
        body: RawDocument<'a>,
    ) -> Present<'a> {
        let mut present = self.present(of, body);
        present.elements.next();
        present
    }

    /// Like `present`, of those fields of a body that stand between two offsets.
    #[inline]
    pub fn present_within<'a>(
        &'static self,
        of: &'static str,
        body: RawDocument<'a>,
        offsets: Range<usize>,
    ) -> Present<'a> {
        Present {
            fields: self,
            of,
            elements: body.iter_within(offsets),
        }
    }
}

/// The fields that are there, of a document that has been held against its list.
pub struct Present<'a> {
    fields: &'static Fields,
    of: &'static str,
    elements: Iter<'a>,
}

impl<'a> Iterator for Present<'a> {
    type Item = Argument<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Argument<'a>> {
        loop {
            let element = self.elements.next()?;
            if !self.fields.is_absent(&element) {
                return Some(Argument::new(self.of, element));
            }
        }
    }
}

/// The row of `Fields::by_length` for names of that length.
#[inline]
const fn length_class(length: usize) -> usize {
    if length < LONG_NAME_BYTES {
        length
    } else {
        LONG_NAME_BYTES
    }
}

fn asks_for_something(kind: Kind, value: RawValue<'_>, may_be_empty: bool) -> bool {
    match value {
        RawValue::Document(document) => !(may_be_empty && document.is_empty()),
        RawValue::Array(array) => !(may_be_empty && array.is_empty()),
        _ if kind == Kind::Flag => value.is_truthy(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;

    static LIST: Fields = Fields::named(&[
        text("name").required(),
        flag("is"),
        any("own"),
        object("min").not_served_unless_empty(),
        flag("asks").not_served(),
        number("old").ignored(),
    ]);

    fn names(document: &Document) -> std::result::Result<Vec<String>, i32> {
        let mut names = Vec::new();
        let read = LIST.read("c", document.as_raw(), |argument| {
            names.push(argument.name().to_string_lossy().into_owned());
            Ok(())
        });
        read.map_or_else(|error| Err(error.code), |()| Ok(names))
    }

    #[test]
    fn a_null_is_a_field_that_is_not_there_unless_its_type_is_left_to_other_code() {
        let null = || RawValue::Null;
        let given =
            doc! { "name": "x", "is": (null()), "own": (null()), "min": (null()), "old": (null()) };
        assert_eq!(names(&given).unwrap(), ["name", "own"]);
        assert_eq!(names(&doc! { "name": (null()) }), Err(40_414));
        let given = doc! { "is": (null()), "name": "x", "is": true };
        assert_eq!(names(&given).unwrap(), ["name", "is"]);
    }

    #[test]
    fn what_the_list_does_not_have_so_is_refused() {
        for (given, code) in [
            (doc! {}, 40_414),
            (doc! { "name": "x", "other": 1 }, 40_415),
            (doc! { "name": "x", "name": "x" }, 40_413),
            (doc! { "name": 5 }, 14),
            (doc! { "name": "x", "is": "yes" }, 14),
            (doc! { "name": "x", "old": "1" }, 14),
            (doc! { "name": "x", "min": { "a": 1 } }, 238),
            (doc! { "name": "x", "asks": 1.0 }, 238),
        ] {
            assert_eq!(names(&given), Err(code), "{given}");
        }
        let given = doc! { "name": "x", "is": 0, "min": {}, "asks": false, "old": 1, "own": [] };
        assert_eq!(names(&given).unwrap().len(), 6);
    }
}
