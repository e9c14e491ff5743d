//! The operators: a table of names, the arguments each takes and the function that evaluates it.

use quarry_bson::RawValue;

use super::{
    Context, Evaluated, Expression, Variables, arithmetic, arrays, comparison, conditional,
    conversion, fold, iteration, objects, parse, rounding, strings, substrings,
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
    /// Read by a function of its own.
    Parsed(fn(&'static Operator, RawValue<'_>, &mut Variables) -> Result<Expression>),
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

static TABLES: [&[Operator]; 12] = [
    arithmetic::OPERATORS,
    rounding::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    strings::OPERATORS,
    arrays::OPERATORS,
    iteration::OPERATORS,
    conversion::OPERATORS,
    objects::OPERATORS,
    substrings::OPERATORS,
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
        _ => Ok(()),
    }
}
