//! Aggregation expressions, parsed once into a tree and evaluated over raw documents.
//!
//! Keeps true: no document is decoded to evaluate one; Missing is told from Null; a result never borrows from
//! another result, so that a variable outlives the expression that bound it. Depth is bounded at parse time.
//! Leaves out: `$function` and `$accumulator` (no JavaScript), collation, `$meta`.

mod arithmetic;
mod arrays;
pub(crate) mod bounds;
mod comparison;
mod conditional;
mod constants;
mod conversion;
mod evaluated;
pub(crate) mod fold;
mod iteration;
pub(crate) mod number;
pub(crate) mod objects;
mod operator;
mod parse;
pub(crate) mod path;
mod rounding;
mod strings;
mod substrings;
pub(crate) mod sum;
mod variables;

use std::collections::BTreeSet;

use quarry_bson::{ArrayBuilder, DocumentBuilder, Value};

pub use evaluated::{Built, Evaluated, Made, type_name};
pub use operator::Call;
pub use path::Path;
pub use variables::{Context, Variables};

use crate::error::Result;
use crate::interrupts;
use crate::memory::{self, Counted};

/// The work of evaluating one node of an expression.
const UNITS_OF_A_NODE: usize = 2;

/// Levels of operators, documents and arrays in one expression.
pub const EXPRESSION_DEPTH_MAX: usize = 100;

#[derive(Debug)]
pub enum Expression {
    Literal(Value),
    Path(Path),
    Object(Vec<(Box<str>, Expression)>),
    Array(Vec<Expression>),
    Call(Box<Call>),
    /// A parameter that was not given: Missing.
    Absent,
}

impl Expression {
    pub fn evaluate<'a>(&'a self, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
        interrupts::work(UNITS_OF_A_NODE)?;
        match self {
            Expression::Literal(value) => Ok(Evaluated::Raw(value.as_raw())),
            Expression::Path(path) => path.evaluate(context),
            Expression::Object(fields) => evaluate_object(fields, context),
            Expression::Array(items) => evaluate_array(items, context),
            Expression::Call(call) => {
                let value = (call.operator.evaluate)(call, context)?;
                memory::check()?;
                Ok(value)
            }
            Expression::Absent => Ok(Evaluated::Missing),
        }
    }

    /// The value of an expression that reads no document: what a stage's options may be.
    pub fn constant(&self) -> Option<&Value> {
        match self {
            Expression::Literal(value) => Some(value),
            _ => None,
        }
    }

    pub fn as_path(&self) -> Option<&Path> {
        match self {
            Expression::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Adds the top-level fields that the expression reads. False if it may read the whole document.
    pub fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            Expression::Literal(_) | Expression::Absent => true,
            Expression::Path(path) => match path.root_field() {
                None => false,
                Some("") => true,
                Some(field) => {
                    fields.insert(field.to_owned());
                    true
                }
            },
            Expression::Object(members) => members
                .iter()
                .all(|(_, member)| member.add_fields_read(fields)),
            Expression::Array(items) => items.iter().all(|item| item.add_fields_read(fields)),
            Expression::Call(call) => call
                .arguments
                .iter()
                .all(|argument| argument.add_fields_read(fields)),
        }
    }

    fn call(
        operator: &'static operator::Operator,
        arguments: Vec<Expression>,
        slots: Vec<usize>,
    ) -> Expression {
        let call = Call {
            operator,
            arguments: arguments.into_boxed_slice(),
            slots: slots.into_boxed_slice(),
        };
        Expression::Call(Box::new(call))
    }
}

#[inline(never)]
fn evaluate_object<'a>(
    fields: &'a [(Box<str>, Expression)],
    context: &mut Context<'a>,
) -> Result<Evaluated<'a>> {
    let mut built = Counted::default();
    let mut builder = DocumentBuilder::new(&mut built.bytes);
    for (name, field) in fields {
        if let Some(value) = field.evaluate(context)?.as_raw() {
            bounds::check_depth(value, 1)?;
            built
                .charge
                .cover(builder.len_bytes() + memory::bytes_of(value))?;
            builder.append(&**name, value);
        }
    }
    builder.finish();
    Ok(Evaluated::document(built))
}

#[inline(never)]
fn evaluate_array<'a>(items: &'a [Expression], context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for item in items {
        let value = item.evaluate(context)?;
        let value = value.as_raw().unwrap_or(quarry_bson::RawValue::Null);
        bounds::check_depth(value, 1)?;
        built
            .charge
            .cover(builder.len_bytes() + memory::bytes_of(value))?;
        builder.push(value);
    }
    builder.finish();
    Ok(Evaluated::array(built))
}
