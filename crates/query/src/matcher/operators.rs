//! The operators of filters by name: those that follow a field, and those that stand in a field's place. A new one is a row
//! here, a `ValueTest` in a file of its own if it asks each value by itself, and a section of `tests/scripts/matching.txt`.

use quarry_bson::{Document, RawValue};

use super::bits::{BitsPredicate, BitsTest};
use super::expression::{CompareOp, ExprPredicate, MatchExpression, Predicate};
use super::geo;
use super::json_schema::JsonSchema;
use super::modulo::ModPredicate;
use super::near;
use super::parse::{
    Level, Operand, compare, negate, parse_all, parse_elem_match, parse_in, parse_list, parse_not,
    parse_regex,
};
use super::size::Size;
use super::text::TextQuery;
use super::type_set::TypeSet;
use super::value_test::ValueTest;
use crate::error::{Error, Result};
use crate::expression::Expression;

/// Parses an operator of a field; None for one that another carries (`$options`).
type OfField = fn(Operand<'_>) -> Result<Option<MatchExpression>>;

/// Parses an operator that stands in a field's place, and appends what it means.
type TopLevel = fn(&str, RawValue<'_>, Level<'_>, &mut Vec<MatchExpression>) -> Result<()>;

/// The parser of the operator of a field with that name, `$` included.
pub(super) fn find(name: &str) -> Option<OfField> {
    let place = OF_FIELD.binary_search_by_key(&name, |(name, _)| name);
    place.ok().map(|place| OF_FIELD[place].1)
}

/// The parser of the operator with that name that stands in a field's place.
pub(super) fn find_top_level(name: &str) -> Option<TopLevel> {
    let place = TOP_LEVEL.binary_search_by_key(&name, |(name, _)| name);
    place.ok().map(|place| TOP_LEVEL[place].1)
}

/// The operators that follow a field, and those that stand in a field's place, by the names that a client may send.
pub(super) fn names() -> [Vec<&'static str>; 2] {
    let top_level = TOP_LEVEL.iter().map(|(name, _)| *name);
    let is_served = |name: &&str| !matches!(*name, near::NEAR_OF_STAGE | WHERE);
    [
        OF_FIELD.iter().map(|(name, _)| *name).collect(),
        top_level.filter(is_served).collect(),
    ]
}

/// It is refused by name.
const WHERE: &str = "$where";

/// Sorted by name, for a search by halves.
static OF_FIELD: &[(&str, OfField)] = &[
    ("$all", |of| {
        parse_all(of.path, of.value, of.level).map(Some)
    }),
    ("$bitsAllClear", |of| bits(of, BitsTest::AllClear)),
    ("$bitsAllSet", |of| bits(of, BitsTest::AllSet)),
    ("$bitsAnyClear", |of| bits(of, BitsTest::AnyClear)),
    ("$bitsAnySet", |of| bits(of, BitsTest::AnySet)),
    ("$elemMatch", |of| {
        parse_elem_match(of.path, of.value, of.level).map(Some)
    }),
    ("$eq", |of| {
        compare(of.path, CompareOp::Eq, of.value).map(Some)
    }),
    ("$exists", exists),
    ("$geoIntersects", geo::intersects),
    ("$geoNear", geo::near),
    ("$geoWithin", geo::within),
    ("$gt", |of| {
        compare(of.path, CompareOp::Gt, of.value).map(Some)
    }),
    ("$gte", |of| {
        compare(of.path, CompareOp::Gte, of.value).map(Some)
    }),
    ("$in", |of| {
        field(
            of,
            Predicate::In(parse_in(of.name, of.value, of.level.context.collation())?),
        )
    }),
    ("$lt", |of| {
        compare(of.path, CompareOp::Lt, of.value).map(Some)
    }),
    ("$lte", |of| {
        compare(of.path, CompareOp::Lte, of.value).map(Some)
    }),
    ("$maxDistance", geo::beside_near),
    ("$minDistance", geo::beside_near),
    ("$mod", |of| test(of, ModPredicate::parse(of.value)?)),
    ("$ne", not_equal),
    ("$near", geo::near),
    ("$nearSphere", geo::near),
    ("$nin", |of| {
        let list = Predicate::In(parse_in(of.name, of.value, of.level.context.collation())?);
        Ok(Some(negate(MatchExpression::field(of.path, list))))
    }),
    ("$not", |of| {
        Ok(Some(negate(parse_not(of.path, of.value, of.level)?)))
    }),
    ("$options", options),
    ("$regex", |of| {
        field(of, Predicate::Regex(parse_regex(of.value, of.siblings)?))
    }),
    ("$size", |of| test(of, Size::parse(of.value)?)),
    ("$type", |of| test(of, TypeSet::parse(of.value)?)),
    ("$within", geo::within),
];

/// Sorted by name, for a search by halves.
static TOP_LEVEL: &[(&str, TopLevel)] = &[
    (near::NEAR_OF_STAGE, near_of_stage),
    ("$alwaysFalse", |name, value, _, all| {
        always(name, value, MatchExpression::AlwaysFalse, all)
    }),
    ("$alwaysTrue", |name, value, _, all| {
        always(name, value, MatchExpression::AlwaysTrue, all)
    }),
    ("$and", and),
    ("$comment", |_, _, _, _| Ok(())),
    ("$expr", expr),
    ("$jsonSchema", |_, value, level, all| {
        let schema = JsonSchema::parse(value, level)?;
        all.push(MatchExpression::Schema(Box::new(schema)));
        Ok(())
    }),
    ("$nor", |name, value, level, all| {
        let children = parse_list(name, value, level.beside_top().in_nor())?;
        all.push(MatchExpression::Nor(children));
        Ok(())
    }),
    ("$or", |name, value, level, all| {
        let children = parse_list(name, value, level.beside_top())?;
        all.push(MatchExpression::Or(children));
        Ok(())
    }),
    ("$sampleRate", sample_rate),
    ("$text", text),
    (WHERE, refuse_javascript),
];

fn field(operand: Operand<'_>, predicate: Predicate) -> Result<Option<MatchExpression>> {
    Ok(Some(MatchExpression::field(operand.path, predicate)))
}

fn test(operand: Operand<'_>, test: impl ValueTest + 'static) -> Result<Option<MatchExpression>> {
    field(operand, Predicate::Test(Box::new(test)))
}

fn bits(operand: Operand<'_>, asked: BitsTest) -> Result<Option<MatchExpression>> {
    let predicate = BitsPredicate::parse(operand.name, asked, operand.value)?;
    test(operand, predicate)
}

fn exists(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    let exists = MatchExpression::field(operand.path, Predicate::Exists);
    Ok(Some(if operand.value.is_truthy() {
        exists
    } else {
        negate(exists)
    }))
}

fn not_equal(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    if matches!(operand.value, RawValue::Regex(_)) {
        return Err(Error::bad_value("Can't have regex as arg to $ne."));
    }
    let equal = compare(operand.path, CompareOp::Eq, operand.value)?;
    Ok(Some(negate(equal)))
}

/// `$regex` reads it.
fn options(operand: Operand<'_>) -> Result<Option<MatchExpression>> {
    if operand.siblings.get("$regex").is_none() {
        return Err(Error::bad_value("$options needs a $regex"));
    }
    Ok(None)
}

/// Parses the wish of the stage `$geoNear`, which stands in the filter of its find.
fn near_of_stage(
    name: &str,
    value: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    level.check_near()?;
    let Some(specification) = value.as_document() else {
        return Err(Error::bad_value(format!("{name} must be an object")));
    };
    let near = near::Near::parse_stage(specification)?;
    all.push(MatchExpression::Near(Box::new(near)));
    Ok(())
}

/// Parses an `$and`. The predicates of `$and`s within it stand beside its own.
fn and(
    name: &str,
    value: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    for child in parse_list(name, value, level)? {
        match child {
            MatchExpression::And(children) => all.extend(children),
            other => all.push(other),
        }
    }
    Ok(())
}

fn expr(
    name: &str,
    value: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    level.check_expression(name)?;
    let expression = Expression::parse(value, level.context)?.folded()?;
    // Only what equals matches, and an index can find that.
    for (path, value) in expression.implied_equalities() {
        all.push(MatchExpression::field(
            &path,
            Predicate::Compare {
                op: CompareOp::Eq,
                value,
            },
        ));
    }
    let predicate = ExprPredicate { expression };
    all.push(MatchExpression::Expr(Box::new(predicate)));
    Ok(())
}

/// Lets each document through with a probability: as an expression that asks `$rand`.
fn sample_rate(
    name: &str,
    value: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    let Some(rate) = value.as_f64_lossy() else {
        let text = format!("argument to {name} must be a numeric type");
        return Err(Error::bad_value(text));
    };
    if !(0.0..=1.0).contains(&rate) {
        let text = format!("numeric argument to {name} must be in [0, 1]");
        return Err(Error::bad_value(text));
    }
    let below = Document::build(|out| {
        let mut operands = out.array("$lt");
        operands.document().document("$rand").finish();
        operands.push(rate);
        operands.finish();
    });
    expr(name, RawValue::Document(below.as_raw()), level, all)
}

fn always(
    name: &str,
    value: RawValue<'_>,
    means: MatchExpression,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    if value.as_i64_exact() != Some(1) {
        let text = format!("{name} must be an integer value of 1");
        return Err(Error::failed_to_parse(text));
    }
    all.push(means);
    Ok(())
}

fn text(
    _: &str,
    value: RawValue<'_>,
    level: Level<'_>,
    all: &mut Vec<MatchExpression>,
) -> Result<()> {
    level.check_text()?;
    all.push(MatchExpression::Text(Box::new(TextQuery::parse(value)?)));
    Ok(())
}

fn refuse_javascript(
    name: &str,
    _: RawValue<'_>,
    _: Level<'_>,
    _: &mut Vec<MatchExpression>,
) -> Result<()> {
    let text = format!("{name} is not supported: this server runs no JavaScript, by choice");
    Err(Error::bad_value(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_sorted_and_none_stands_twice() {
        assert!(OF_FIELD.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(TOP_LEVEL.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
