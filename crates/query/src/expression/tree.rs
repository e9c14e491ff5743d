//! An expression as a tree: literals, paths, documents, arrays, and calls of operators. The operators themselves stand
//! in `operators.rs`.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawValue, Value};

use super::{Context, Evaluated, Path, Variables, bounds};
use crate::Collation;
use crate::error::Result;
use crate::interrupts;
use crate::matcher::RegexPredicate;
use crate::memory::{self, Counted};

/// The work of evaluating one node of an expression.
const UNITS_OF_A_NODE: usize = 2;

/// An aggregation expression as it was parsed.
#[derive(Debug)]
pub enum Expression {
    /// A constant.
    Literal(Value),
    /// A field path.
    Path(Path),
    /// A document whose fields are expressions.
    Object(Vec<(Box<str>, Expression)>),
    /// An array whose elements are expressions.
    Array(Vec<Expression>),
    /// An operator with its arguments.
    Call(Box<Call>),
    /// A parameter that was not given: Missing.
    Absent,
}

/// Evaluates a call over a context.
pub(super) type Function = for<'a> fn(&'a Call, &mut Context<'a>) -> Result<Evaluated<'a>>;

#[derive(Debug)]
pub(super) struct Operator {
    pub name: &'static str,
    pub arguments: Arguments,
    pub evaluate: Function,
    /// Whether it may give another value each time, so that it is never evaluated ahead.
    pub varies: bool,
}

/// How an operator's operand is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arguments {
    Exactly(usize),
    Between(usize, usize),
    Any,
    /// Read by a function of its own.
    Parsed(fn(&'static Operator, RawValue<'_>, &mut Variables<'_>) -> Result<Expression>),
}

/// An operator with its arguments.
#[derive(Debug)]
pub struct Call {
    pub(super) operator: &'static Operator,
    pub(super) arguments: Box<[Expression]>,
    /// The slots of the variables that the call binds.
    pub(super) slots: Box<[usize]>,
    /// The pattern of a call whose pattern is constant, once it was asked for.
    pub(super) compiled: OnceLock<Box<RegexPredicate>>,
    /// How it compares strings, if it does.
    pub(super) collation: Collation,
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        self.operator.name
    }

    /// The value of the argument at `index`; Missing if it is not given.
    pub(super) fn argument<'a>(
        &'a self,
        index: usize,
        context: &mut Context<'a>,
    ) -> Result<Evaluated<'a>> {
        self.arguments
            .get(index)
            .map_or(Ok(Evaluated::Missing), |argument| {
                argument.evaluate(context)
            })
    }

    /// True if the argument was given, whatever it evaluates to.
    pub(super) fn has(&self, index: usize) -> bool {
        self.arguments
            .get(index)
            .is_some_and(|argument| !matches!(argument, Expression::Absent))
    }
}

impl Expression {
    /// Evaluates the expression over the context's document and variables.
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

    /// Whether the expression may give another value each time that it is evaluated over one document.
    pub fn varies(&self) -> bool {
        match self {
            Expression::Literal(_) | Expression::Path(_) | Expression::Absent => false,
            Expression::Object(fields) => fields.iter().any(|(_, field)| field.varies()),
            Expression::Array(items) => items.iter().any(Expression::varies),
            Expression::Call(call) => {
                call.operator.varies || call.arguments.iter().any(Expression::varies)
            }
        }
    }

    /// The path, if the expression is nothing else.
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

    pub(super) fn call(
        operator: &'static Operator,
        arguments: Vec<Expression>,
        slots: Vec<usize>,
    ) -> Expression {
        let call = Call {
            operator,
            arguments: arguments.into_boxed_slice(),
            slots: slots.into_boxed_slice(),
            compiled: OnceLock::new(),
            collation: Collation::SIMPLE,
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
        let value = value.as_raw().unwrap_or(RawValue::Null);
        bounds::check_depth(value, 1)?;
        built
            .charge
            .cover(builder.len_bytes() + memory::bytes_of(value))?;
        builder.push(value);
    }
    builder.finish();
    Ok(Evaluated::array(built))
}
