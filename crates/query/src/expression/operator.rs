//! The operators: a table of names, the arguments each takes and the function that evaluates it.

use quarry_bson::RawValue;

use super::{
    Context, Evaluated, Expression, Variables, arithmetic, arrays, comparison, conditional, fold,
    iteration, parse, rounding, strings,
};
use crate::error::{Error, Result};

/// Evaluates a call over a context.
pub(super) type Function = for<'a> fn(&'a Call, &mut Context<'a>) -> Result<Evaluated<'a>>;

#[derive(Debug)]
pub(super) struct Operator {
    pub name: &'static str,
    pub arguments: Arguments,
    pub evaluate: Function,
}

/// How an operator's operand is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arguments {
    Exactly(usize),
    Between(usize, usize),
    Any,
    /// At least one, with the code that MongoDB gives for none.
    NotEmpty(i32),
    /// A document of named parameters, in this order in the call; `Expression::Absent` where one is not given.
    Named(&'static Named),
    /// Read by a function of its own.
    Parsed(fn(&'static Operator, RawValue<'_>, &mut Variables) -> Result<Expression>),
}

#[derive(Debug)]
pub(super) struct Named {
    pub parameters: &'static [Parameter],
    /// Codes for an operand that is not a document and for an unknown parameter.
    pub codes: (i32, i32),
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    /// The code for its absence; None if it may be absent.
    pub required: Option<i32>,
}

/// An operator with its arguments.
#[derive(Debug)]
pub struct Call {
    pub(super) operator: &'static Operator,
    pub(super) arguments: Box<[Expression]>,
    /// The slots of the variables that the call binds.
    pub(super) slots: Box<[usize]>,
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

/// The operator of that name, `$` included.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .find(|operator| operator.name == name)
}

static TABLES: [&[Operator]; 9] = [
    arithmetic::OPERATORS,
    rounding::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    strings::OPERATORS,
    arrays::OPERATORS,
    iteration::OPERATORS,
    fold::OPERATORS,
    parse::OPERATORS,
];

/// Reads an operand by an operator's rule.
pub(super) fn read(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables,
) -> Result<Expression> {
    let arguments = match operator.arguments {
        Arguments::Parsed(parse) => return parse(operator, operand, variables),
        Arguments::Named(named) => read_named(operator, named, operand, variables)?,
        _ => read_positional(operand, variables)?,
    };
    check_count(operator, arguments.len())?;
    Ok(Expression::call(operator, arguments, Vec::new()))
}

/// An array is the list of arguments, anything else the only one.
pub(super) fn read_positional(
    operand: RawValue<'_>,
    variables: &mut Variables,
) -> Result<Vec<Expression>> {
    match operand {
        RawValue::Array(array) => array
            .iter()
            .map(|item| Expression::parse(item, variables))
            .collect(),
        single => Ok(vec![Expression::parse(single, variables)?]),
    }
}

pub(super) fn read_named(
    operator: &Operator,
    named: &Named,
    operand: RawValue<'_>,
    variables: &mut Variables,
) -> Result<Vec<Expression>> {
    let name = operator.name;
    let RawValue::Document(document) = operand else {
        let text = format!(
            "{name} requires an object as an argument, found: {}",
            super::type_name(operand)
        );
        return Err(Error::location(named.codes.0, text));
    };
    let mut arguments: Vec<Expression> = named
        .parameters
        .iter()
        .map(|_| Expression::Absent)
        .collect();
    for element in document {
        let known = named
            .parameters
            .iter()
            .position(|parameter| element.name() == parameter.name);
        let Some(index) = known else {
            let text = format!("{name} found an unknown argument: {}", element.name());
            return Err(Error::location(named.codes.1, text));
        };
        arguments[index] = Expression::parse(element.value(), variables)?;
    }
    for (parameter, argument) in named.parameters.iter().zip(&arguments) {
        if let (Some(code), Expression::Absent) = (parameter.required, argument) {
            let text = format!("{name} requires '{}' to be specified", parameter.name);
            return Err(Error::location(code, text));
        }
    }
    Ok(arguments)
}

fn check_count(operator: &Operator, count: usize) -> Result<()> {
    let name = operator.name;
    match operator.arguments {
        Arguments::Exactly(wanted) if count != wanted => {
            let text = format!(
                "Expression {name} takes exactly {wanted} arguments. {count} were passed in."
            );
            Err(Error::location(16020, text))
        }
        Arguments::Between(low, high) if !(low..=high).contains(&count) => {
            let text = format!(
                "Expression {name} takes at least {low} arguments, and at most {high}, but {count} were passed in."
            );
            Err(Error::location(28667, text))
        }
        Arguments::NotEmpty(code) if count == 0 => Err(Error::location(
            code,
            format!("Expression {name} takes at least 1 argument, but 0 were passed in."),
        )),
        _ => Ok(()),
    }
}
