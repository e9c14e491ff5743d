//! `$bucket`: the `$group` and the `$sort` it stands for. The key of a group is the lower boundary of its bucket.

use quarry_bson::compare::canonical_type;
use quarry_bson::{Document, RawValue, Value};

use super::stage::{Specification, Stages};
use super::{group, sort_stage};
use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::type_name;
use crate::interrupts;

/// The options as they were given.
#[derive(Default)]
struct Options<'s> {
    group_by: Option<RawValue<'s>>,
    boundaries: Option<Vec<Value>>,
    default: Option<Value>,
    output: Option<RawValue<'s>>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let options = parse_options(specification)?;
    let (Some(group_by), Some(boundaries)) = (options.group_by, options.boundaries) else {
        let text = "$bucket requires 'groupBy' and 'boundaries' to be specified.";
        return Err(Error::location(40198, text));
    };
    let collation = specification.context.collation();
    check_boundaries(&boundaries, collation)?;
    if let Some(default) = &options.default {
        check_default(&boundaries, default, collation)?;
    }
    let group = Document::build(|out| {
        // The value is bound to a variable, so that it is neither written nor evaluated for each boundary.
        let mut key = out.document("_id");
        let mut bound = key.document("$let");
        bound.document("vars").append("value", group_by);
        let mut body = bound.document("in");
        let mut switch = body.document("$switch");
        let mut branches = switch.array("branches");
        for pair in boundaries.windows(2) {
            let mut branch = branches.document();
            let mut case = branch.document("case");
            let mut both = case.array("$and");
            for (operator, boundary) in [("$gte", &pair[0]), ("$lt", &pair[1])] {
                let mut test = both.document();
                let mut operands = test.array(operator);
                operands.push("$$value");
                operands.document().append("$const", boundary);
                operands.finish();
                test.finish();
            }
            both.finish();
            case.finish();
            branch.document("then").append("$const", &pair[0]);
            branch.finish();
        }
        branches.finish();
        if let Some(default) = &options.default {
            switch.document("default").append("$const", default);
        }
        switch.finish();
        body.finish();
        bound.finish();
        key.finish();
        match options.output {
            Some(RawValue::Document(output)) => {
                for element in output {
                    out.append_element(element);
                }
            }
            _ => {
                out.document("count").append("$sum", 1);
            }
        }
    });
    let sort = Document::build(|out| {
        out.append("_id", 1);
    });
    let means = |value| Specification {
        value,
        ..specification
    };
    let mut stages = group::parse(means(RawValue::Document(group.as_raw())))?;
    stages.extend(sort_stage::parse(means(RawValue::Document(sort.as_raw())))?);
    Ok(stages)
}

fn parse_options(specification: Specification<'_>) -> Result<Options<'_>> {
    let RawValue::Document(document) = specification.value else {
        let kind = type_name(specification.value);
        let text = format!("Argument to $bucket stage must be an object, but found type: {kind}.");
        return Err(Error::location(40201, text));
    };
    let mut options = Options::default();
    for element in document {
        let value = element.value();
        match element.name().as_bytes() {
            b"groupBy" => options.group_by = Some(check_group_by(value)?),
            b"boundaries" => options.boundaries = Some(read_boundaries(specification, value)?),
            b"default" => {
                let default = constant(specification, value)?;
                options.default = Some(default.ok_or_else(|| {
                    let text = format!(
                        "The $bucket 'default' field must be a constant, but found expression: {value}."
                    );
                    Error::location(40195, text)
                })?);
            }
            b"output" if value.as_document().is_some() => options.output = Some(value),
            b"output" => {
                let kind = type_name(value);
                let text = format!(
                    "The $bucket 'output' field must be an object, but found type: {kind}."
                );
                return Err(Error::location(40196, text));
            }
            _ => {
                let text = format!("Unrecognized option to $bucket: {}.", element.name());
                return Err(Error::location(40197, text));
            }
        }
    }
    Ok(options)
}

fn check_group_by(value: RawValue<'_>) -> Result<RawValue<'_>> {
    let is_expression = match value {
        RawValue::String(path) => path.as_bytes().first() == Some(&b'$'),
        RawValue::Document(call) => {
            let first = call.first();
            first.is_some_and(|first| first.name().as_bytes().first() == Some(&b'$'))
        }
        _ => false,
    };
    if is_expression {
        return Ok(value);
    }
    let text = format!(
        "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {value}."
    );
    Err(Error::location(40202, text))
}

fn read_boundaries(specification: Specification<'_>, value: RawValue<'_>) -> Result<Vec<Value>> {
    let RawValue::Array(list) = value else {
        let kind = type_name(value);
        let text =
            format!("The $bucket 'boundaries' field must be an array, but found type: {kind}.");
        return Err(Error::location(40200, text));
    };
    let mut boundaries = Vec::new();
    for boundary in list {
        let found = constant(specification, boundary)?;
        boundaries.push(found.ok_or_else(|| {
            let text = format!(
                "The $bucket 'boundaries' field must be an array of constant values, but found value: {boundary}."
            );
            Error::location(40191, text)
        })?);
    }
    Ok(boundaries)
}

/// The value of an expression that reads no document.
fn constant(specification: Specification<'_>, value: RawValue<'_>) -> Result<Option<Value>> {
    let expression = specification.expression(value)?.folded()?;
    Ok(expression.constant().cloned())
}

fn check_boundaries(boundaries: &[Value], collation: &Collation) -> Result<()> {
    if boundaries.len() < 2 {
        let text = format!(
            "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
            boundaries.len()
        );
        return Err(Error::location(40192, text));
    }
    for (number, pair) in boundaries.windows(2).enumerate() {
        interrupts::work(1)?;
        let (low, high) = (pair[0].as_raw(), pair[1].as_raw());
        if canonical_type(low) != canonical_type(high) {
            let text = format!(
                "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types {} and {}.",
                type_name(low),
                type_name(high)
            );
            return Err(Error::location(40193, text));
        }
        if collation.compare(low, high).is_ge() {
            let text = format!(
                "The 'boundaries' option to $bucket must be sorted, but elements {number} and {} are not in ascending order ({low} is not less than {high}).",
                number + 1
            );
            return Err(Error::location(40194, text));
        }
    }
    Ok(())
}

fn check_default(boundaries: &[Value], default: &Value, collation: &Collation) -> Result<()> {
    let default = default.as_raw();
    let is_below = |boundary: &Value| collation.compare(default, boundary.as_raw()).is_lt();
    let (first, last) = (boundaries.first(), boundaries.last());
    if first.is_some_and(|first| !is_below(first)) && last.is_some_and(is_below) {
        let text = "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.";
        return Err(Error::location(40199, text));
    }
    Ok(())
}
