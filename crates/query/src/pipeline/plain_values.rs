//! The values that a `$group` takes of a document, where all of them are top-level fields or constants, as they mostly are: found in one
//! walk over the document, without an evaluation for each.

use quarry_bson::{FieldSet, RawDocument, RawElement, RawValue, Value};
use smallvec::{SmallVec, smallvec};

use crate::error::Result;
use crate::expression::Expression;
use crate::interrupts;

/// The work of finding one value.
const UNITS_OF_A_VALUE: usize = 2;

/// A field that several accumulators take has one slot, if it is one of so many that came first.
const NAMES_COMPARED: usize = 16;

/// Where the values are found.
#[derive(Debug)]
pub(super) struct PlainValues {
    fields: FieldSet,
    sources: Vec<Source>,
}

#[derive(Debug)]
enum Source {
    /// The slot of the field.
    Field(usize),
    /// A constant; none for a parameter that was not given.
    Constant(Option<Value>),
}

/// The values of one document, in the order of the expressions; None for Missing.
pub(super) type Values<'a> = SmallVec<[Option<RawValue<'a>>; 8]>;

impl PlainValues {
    /// None where one of the expressions is more than a field or a constant.
    pub fn of<'e>(expressions: impl IntoIterator<Item = &'e Expression>) -> Option<PlainValues> {
        let (mut names, mut sources) = (Vec::<&str>::new(), Vec::new());
        for expression in expressions {
            sources.push(match expression {
                Expression::Literal(value) => Source::Constant(Some(value.clone())),
                Expression::Absent => Source::Constant(None),
                other => {
                    let path = other.as_path()?.root_path()?;
                    let name = Some(path).filter(|path| path.is_top_level())?.as_str();
                    let known = names
                        .iter()
                        .take(NAMES_COMPARED)
                        .position(|known| *known == name);
                    Source::Field(known.unwrap_or_else(|| {
                        names.push(name);
                        names.len() - 1
                    }))
                }
            });
        }
        Some(PlainValues {
            fields: FieldSet::new(names),
            sources,
        })
    }

    /// The number of different fields that are looked for.
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// The field that an expression is, by its number among the different ones; none for a constant.
    pub fn field_of(&self, expression: usize) -> Option<usize> {
        match self.sources.get(expression) {
            Some(Source::Field(slot)) => Some(*slot),
            _ => None,
        }
    }

    /// The values of a document.
    pub fn find<'a>(&'a self, document: RawDocument<'a>) -> Result<Values<'a>> {
        interrupts::work(UNITS_OF_A_VALUE * self.sources.len())?;
        let mut found: SmallVec<[Option<RawElement<'a>>; 8]> = smallvec![None; self.fields.len()];
        self.fields.extract(document, &mut found);
        let value = |source: &'a Source| match source {
            Source::Field(slot) => found[*slot].map(|element| element.value()),
            Source::Constant(constant) => constant.as_ref().map(Value::as_raw),
        };
        Ok(self.sources.iter().map(value).collect())
    }
}
