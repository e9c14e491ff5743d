//! From a filter document to the tree. The first field of an operand decides whether it is a set of operators
//! (`{$gt: 1}`) or a literal document; unknown operators, wrong operands and too deep nesting are refused here,
//! so that evaluation has nothing left to check.

use quarry_bson::{RawArray, RawDocument, RawValue};

use super::expression::{CompareOp, FieldPredicate, MatchExpression, Matcher, Predicate};
use super::in_list::InList;
use super::near;
use super::operators;
use super::regex::RegexPredicate;
use crate::Collation;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::interrupts;

/// The work of parsing one element of a filter, and one member of a list.
const UNITS_OF_AN_ELEMENT: usize = 20;
const UNITS_OF_A_MEMBER: usize = 5;

/// Filters nest no deeper, as in MongoDB.
pub const FILTER_DEPTH_MAX: usize = 100;

/// Predicates that are made room for at first.
const PREDICATES_FEW: usize = 4;

fn unknown_top_level(name: &str) -> Error {
    Error::bad_value(format!(
        "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, \
         consider using $getField or $setField."
    ))
}

/// The input of an operator on a field.
#[derive(Clone, Copy)]
pub(super) struct Operand<'o> {
    pub path: &'o FieldPath,
    /// The operator's name.
    pub name: &'o str,
    pub value: RawValue<'o>,
    /// All operators of the field, this one among them.
    pub siblings: RawDocument<'o>,
    pub level: Level<'o>,
}

/// How deep the parser is in a filter, and what the filter's expressions have in common.
#[derive(Clone, Copy)]
pub(super) struct Level<'c> {
    pub(super) context: &'c ExpressionContext,
    depth: usize,
    /// Whether `$expr` and `$sampleRate` may stand in the filter.
    allows_expressions: bool,
    near: NearHere,
    text: TextHere,
}

/// Whether a search for words may stand in a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextHere {
    Allowed,
    InNor,
    /// The filter is of a part of a document.
    InPart,
    /// No plan answers the filter.
    Refused,
}

/// Whether a wish for an order by distance may stand in a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NearHere {
    Allowed,
    /// Something stands around it that only asks whether a document matches.
    Within,
    /// Only the filter is asked.
    Refused,
}

impl<'c> Level<'c> {
    pub(super) fn outermost(context: &'c ExpressionContext) -> Level<'c> {
        Level {
            context,
            depth: 0,
            allows_expressions: true,
            near: NearHere::Allowed,
            text: TextHere::Refused,
        }
    }

    /// Like `outermost`, for a filter that is asked of parts of documents.
    fn of_parts(context: &'c ExpressionContext) -> Level<'c> {
        Level {
            near: NearHere::Refused,
            ..Level::outermost(context)
        }
    }

    /// The level of what does not have to match alone.
    pub(super) fn beside_top(self) -> Level<'c> {
        match self.near {
            NearHere::Refused => self,
            _ => Level {
                near: NearHere::Within,
                ..self
            },
        }
    }

    /// The level of what shall not match.
    pub(super) fn in_nor(self) -> Level<'c> {
        self.with_text(TextHere::InNor)
    }

    fn with_text(self, text: TextHere) -> Level<'c> {
        match self.text {
            TextHere::Allowed => Level { text, ..self },
            _ => self,
        }
    }

    /// Refuses a search for words where it may not stand.
    pub(super) fn check_text(self) -> Result<()> {
        match self.text {
            TextHere::Allowed => Ok(()),
            TextHere::InNor => Err(Error::bad_value("text expression not allowed in nor")),
            TextHere::InPart => Err(Error::bad_value(
                "$text can only be applied to the top-level document",
            )),
            TextHere::Refused => {
                let text = "$text is not allowed in this context";
                Err(Error::new(ErrorCode::QUERY_FEATURE_NOT_ALLOWED, text))
            }
        }
    }

    /// Refuses a wish for an order by distance where it may not stand.
    pub(super) fn check_near(self) -> Result<()> {
        match self.near {
            NearHere::Allowed => Ok(()),
            NearHere::Within => Err(Error::bad_value("geo $near must be top-level expr")),
            NearHere::Refused => Err(near::not_allowed()),
        }
    }

    /// Refuses an operator that asks an expression where none may stand.
    pub(super) fn check_expression(self, operator: &str) -> Result<()> {
        if self.allows_expressions {
            return Ok(());
        }
        let text = format!("{operator} is not allowed in this context");
        Err(Error::new(ErrorCode::QUERY_FEATURE_NOT_ALLOWED, text))
    }

    pub(super) fn deeper(self) -> Result<Level<'c>> {
        let depth = self.depth + 1;
        if depth > FILTER_DEPTH_MAX {
            return Err(Error::bad_value(format!(
                "exceeded maximum query tree depth of {FILTER_DEPTH_MAX}"
            )));
        }
        Ok(Level { depth, ..self })
    }
}

/// Parses a filter of fields alone: `$expr` and `$sampleRate` are refused.
pub(super) fn parse_filter_of_fields(
    filter: RawDocument<'_>,
    context: &ExpressionContext,
) -> Result<MatchExpression> {
    let level = Level {
        allows_expressions: false,
        ..Level::of_parts(context)
    };
    parse_document(filter, level)
}

pub(super) fn parse_filter(
    filter: RawDocument<'_>,
    context: &ExpressionContext,
) -> Result<MatchExpression> {
    parse_at(filter, Level::outermost(context))
}

/// Like `parse_filter`, for a filter that a plan answers.
pub(super) fn parse_query(
    filter: RawDocument<'_>,
    context: &ExpressionContext,
) -> Result<MatchExpression> {
    let level = Level {
        text: TextHere::Allowed,
        ..Level::outermost(context)
    };
    parse_at(filter, level)
}

fn parse_at(filter: RawDocument<'_>, level: Level<'_>) -> Result<MatchExpression> {
    let root = parse_document(filter, level)?;
    match root.nears() > 1 {
        true => Err(Error::bad_value("Too many geoNear expressions")),
        false => Ok(root),
    }
}

/// Parses a condition, which may follow a field's name, over the path of the empty name.
pub(super) fn parse_condition(
    condition: RawValue<'_>,
    context: &ExpressionContext,
) -> Result<MatchExpression> {
    let level = Level::of_parts(context);
    let mut predicates = Vec::new();
    parse_operand(FieldPath::parse("")?, condition, level, &mut predicates)?;
    Ok(and(predicates))
}

fn parse_document(filter: RawDocument<'_>, level: Level<'_>) -> Result<MatchExpression> {
    let mut all = Vec::with_capacity(PREDICATES_FEW);
    for element in filter {
        interrupts::work(UNITS_OF_AN_ELEMENT)?;
        let name = element.name().as_str()?;
        if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
            let parse = operators::find_top_level(name).ok_or_else(|| unknown_top_level(name))?;
            parse(name, element.value(), level, &mut all)?;
        } else {
            parse_operand(FieldPath::parse(name)?, element.value(), level, &mut all)?;
        }
    }
    Ok(and(all))
}

fn and(mut children: Vec<MatchExpression>) -> MatchExpression {
    match children.pop() {
        Some(only) if children.is_empty() => only,
        Some(last) => {
            children.push(last);
            MatchExpression::And(children)
        }
        None => MatchExpression::And(children),
    }
}

pub(super) fn parse_list(
    name: &str,
    operand: RawValue<'_>,
    level: Level<'_>,
) -> Result<Vec<MatchExpression>> {
    let RawValue::Array(list) = operand else {
        return Err(Error::bad_value(format!("{name} must be an array")));
    };
    if list.is_empty() {
        return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    let mut children = Vec::new();
    for member in list {
        let RawValue::Document(filter) = member else {
            return Err(Error::bad_value(
                "$or/$and/$nor entries need to be full objects",
            ));
        };
        children.push(parse_document(filter, level.deeper()?)?);
    }
    Ok(children)
}

/// Parses what follows a field's name: operators, a regular expression, or a literal to be equal to.
fn parse_operand(
    path: FieldPath,
    operand: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    match operand {
        RawValue::Document(operators) if is_operators(operators) => {
            parse_operators(&path, operators, level, all)
        }
        RawValue::Regex(regex) => {
            let predicate = Predicate::Regex(RegexPredicate::from_raw(regex)?);
            all.push(MatchExpression::Field(FieldPredicate::new(path, predicate)));
            Ok(())
        }
        literal => {
            let predicate = comparison(&path, CompareOp::Eq, literal)?;
            all.push(MatchExpression::Field(FieldPredicate::new(path, predicate)));
            Ok(())
        }
    }
}

/// `{$gt: 1}` is, `{}` and a DBRef (`{$ref: .., $id: ..}`) are literals.
pub(super) fn is_operators(document: RawDocument<'_>) -> bool {
    document.first().is_some_and(|first| {
        let name = first.name();
        name.as_bytes().starts_with(b"$") && !(name == "$ref" || name == "$id" || name == "$db")
    })
}

fn parse_operators(
    path: &FieldPath,
    operators: RawDocument<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    for element in operators {
        interrupts::work(UNITS_OF_AN_ELEMENT)?;
        let name = element.name().as_str()?;
        let operand = Operand {
            path,
            name,
            value: element.value(),
            siblings: operators,
            level,
        };
        let parse = operators::find(name)
            .ok_or_else(|| Error::bad_value(format!("unknown operator: {name}")))?;
        if let Some(expression) = parse(operand)? {
            all.push(expression);
        }
    }
    Ok(())
}

pub(super) fn negate(expression: MatchExpression) -> MatchExpression {
    MatchExpression::Not(Box::new(expression))
}

pub(super) fn compare(
    path: &FieldPath,
    op: CompareOp,
    operand: RawValue<'_>,
) -> Result<MatchExpression> {
    Ok(MatchExpression::field(path, comparison(path, op, operand)?))
}

fn comparison(path: &FieldPath, op: CompareOp, operand: RawValue<'_>) -> Result<Predicate> {
    match operand {
        RawValue::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        RawValue::Regex(_) if op != CompareOp::Eq => Err(Error::bad_value(format!(
            "Can't have RegEx as arg to predicate over field '{}'.",
            path.as_str()
        ))),
        _ => Ok(Predicate::Compare {
            op,
            value: operand.to_value(),
        }),
    }
}

pub(super) fn parse_in(name: &str, operand: RawValue<'_>, collation: &Collation) -> Result<InList> {
    let RawValue::Array(members) = operand else {
        return Err(Error::bad_value(format!("{name} needs an array")));
    };
    let mut values = Vec::new();
    let mut regexes = Vec::new();
    for member in members {
        interrupts::work(UNITS_OF_A_MEMBER)?;
        match member {
            RawValue::Document(document) if is_operators(document) => {
                return Err(Error::bad_value(format!("cannot nest $ under {name}")));
            }
            RawValue::Undefined => return Err(Error::bad_value("cannot compare to undefined")),
            RawValue::Regex(regex) => regexes.push(RegexPredicate::from_raw(regex)?),
            literal => values.push(literal.to_value()),
        }
    }
    InList::new(values, regexes, collation)
}

pub(super) fn parse_not(
    path: &FieldPath,
    operand: RawValue<'_>,
    level: Level<'_>,
) -> Result<MatchExpression> {
    match operand {
        RawValue::Regex(regex) => Ok(MatchExpression::field(
            path,
            Predicate::Regex(RegexPredicate::from_raw(regex)?),
        )),
        RawValue::Document(document) if document.is_empty() => {
            Err(Error::bad_value("$not cannot be empty"))
        }
        RawValue::Document(operators) => {
            let mut all = Vec::new();
            parse_operators(path, operators, level.deeper()?.beside_top(), &mut all)?;
            Ok(and(all))
        }
        _ => Err(Error::bad_value("$not needs a regex or a document")),
    }
}

pub(super) fn parse_all(
    path: &FieldPath,
    operand: RawValue<'_>,
    level: Level<'_>,
) -> Result<MatchExpression> {
    let RawValue::Array(members) = operand else {
        return Err(Error::bad_value("$all needs an array"));
    };
    if members.is_empty() {
        return Ok(MatchExpression::AlwaysFalse);
    }
    let wants_elements = is_elem_match(members);
    let mut all = Vec::new();
    for member in members {
        interrupts::work(UNITS_OF_AN_ELEMENT)?;
        match member {
            RawValue::Document(document) if wants_elements => {
                match document.get_element("$elemMatch") {
                    Some(only) if document.len() == 1 => {
                        all.push(parse_elem_match(path, only.value(), level)?);
                    }
                    _ => return Err(Error::bad_value("$all/$elemMatch has to be consistent")),
                }
            }
            _ if wants_elements => {
                return Err(Error::bad_value("$all/$elemMatch has to be consistent"));
            }
            RawValue::Document(document) if is_operators(document) => {
                return Err(Error::bad_value("no $ expressions in $all"));
            }
            RawValue::Regex(regex) => {
                all.push(MatchExpression::field(
                    path,
                    Predicate::Regex(RegexPredicate::from_raw(regex)?),
                ));
            }
            literal => all.push(compare(path, CompareOp::Eq, literal)?),
        }
    }
    Ok(and(all))
}

fn is_elem_match(members: RawArray<'_>) -> bool {
    let first = members
        .iter()
        .next()
        .and_then(|member| member.as_document());
    first
        .and_then(|document| document.first())
        .is_some_and(|element| element.name() == "$elemMatch")
}

pub(super) fn parse_elem_match(
    path: &FieldPath,
    operand: RawValue<'_>,
    level: Level<'_>,
) -> Result<MatchExpression> {
    let RawValue::Document(filter) = operand else {
        return Err(Error::bad_value("$elemMatch needs an Object"));
    };
    let logical = |name: &[u8]| matches!(name, b"$and" | b"$or" | b"$nor" | b"$where" | b"$expr");
    let over_documents = filter
        .first()
        .is_none_or(|first| logical(first.name().as_bytes()))
        || !is_operators(filter);
    let level = level.beside_top().with_text(TextHere::InPart);
    let predicate = if over_documents {
        let inner = parse_document(filter, level.deeper()?)?;
        if holds_expr(&inner) {
            return Err(Error::bad_value(
                "$expr can only be applied to the top-level document",
            ));
        }
        let collation = level.context.collation();
        Predicate::ElemMatchObject(Box::new(Matcher::new(inner, collation)))
    } else {
        let mut all = Vec::new();
        parse_operators(&FieldPath::parse("")?, filter, level.deeper()?, &mut all)?;
        Predicate::ElemMatchValue(all)
    };
    Ok(MatchExpression::field(path, predicate))
}

/// Whether `$expr` stands anywhere in the filter.
pub(super) fn holds_expr(expression: &MatchExpression) -> bool {
    match expression {
        MatchExpression::Expr(_) => true,
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => children.iter().any(holds_expr),
        MatchExpression::Not(child) => holds_expr(child),
        _ => false,
    }
}

/// Whether the filter may answer otherwise when it is asked of one document again.
pub(super) fn varies(expression: &MatchExpression) -> bool {
    match expression {
        MatchExpression::Expr(predicate) => predicate.expression.varies(),
        MatchExpression::And(children)
        | MatchExpression::Or(children)
        | MatchExpression::Nor(children) => children.iter().any(varies),
        MatchExpression::Not(child) => varies(child),
        _ => false,
    }
}

pub(super) fn parse_regex(
    operand: RawValue<'_>,
    siblings: RawDocument<'_>,
) -> Result<RegexPredicate> {
    let options = match siblings.get("$options") {
        None => None,
        Some(RawValue::String(options)) => Some(options.as_str()?),
        Some(_) => return Err(Error::bad_value("$options has to be a string")),
    };
    match operand {
        RawValue::String(pattern) if pattern.as_bytes().contains(&0) => Err(Error::location(
            51109,
            "Regular expression cannot contain an embedded null byte",
        )),
        RawValue::String(pattern) => RegexPredicate::new(pattern.as_str()?, options.unwrap_or("")),
        RawValue::Regex(regex) => match options {
            Some(_) if !regex.options.is_empty() => Err(Error::location(
                51075,
                "options set in both $regex and $options",
            )),
            options => RegexPredicate::new(
                regex.pattern.as_str()?,
                options.unwrap_or(regex.options.as_str()?),
            ),
        },
        _ => Err(Error::bad_value("$regex has to be a string")),
    }
}
