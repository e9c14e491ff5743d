//! `$fill`: the `$setWindowFields` and the `$addFields` it stands for. A field that is null or missing gets the last value before,
//! one between its neighbours, or the value of an expression.

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value};

use super::stage::{Specification, Stages};
use super::{add_fields, window};
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::type_name;

/// The options as they were given.
#[derive(Default)]
struct Options<'s> {
    partition: Option<Value>,
    sort: Option<RawDocument<'s>>,
    output: Option<RawDocument<'s>>,
}

/// The way in which one field is filled.
enum Way<'s> {
    /// By a function of windows.
    Function(&'static str),
    Expression(RawValue<'s>),
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let options = read(specification)?;
    let output = options.output.ok_or_else(|| {
        let text = "BSON field '$fill.output' is missing but a required field";
        Error::location(40414, text)
    })?;
    let mut ways = Vec::new();
    for field in output {
        ways.push((
            field.name().as_str()?,
            read_way(field.name().as_str()?, field.value())?,
        ));
    }
    if ways.is_empty() {
        let text = "The output field of '$fill' must contain at least one field";
        return Err(Error::location(6_050_203, text));
    }
    let mut stages = Stages::new();
    let is_by_function = |way: &Way<'_>| matches!(way, Way::Function(_));
    if ways.iter().any(|(_, way)| is_by_function(way)) {
        let windows = Document::build(|out| {
            if let Some(partition) = &options.partition {
                out.append("partitionBy", partition);
            }
            if let Some(sort) = options.sort {
                out.append("sortBy", sort);
            }
            let mut output = out.document("output");
            for (name, way) in &ways {
                if let Way::Function(function) = way {
                    let mut field = output.document(name);
                    field.append(function, format!("${name}").as_str());
                    field.finish();
                }
            }
            output.finish();
        });
        stages.extend(window::parse(Specification {
            name: "$setWindowFields",
            value: RawValue::Document(windows.as_raw()),
            ..specification
        })?);
    }
    if ways.iter().any(|(_, way)| !is_by_function(way)) {
        let fields = Document::build(|out| {
            for (name, way) in &ways {
                if let Way::Expression(value) = way {
                    append_default(name, *value, out);
                }
            }
        });
        stages.extend(add_fields::parse(Specification {
            name: "$addFields",
            value: RawValue::Document(fields.as_raw()),
            ..specification
        })?);
    }
    Ok(stages)
}

/// `<name>: {$ifNull: ["$<name>", <value>]}`.
fn append_default(name: &str, value: RawValue<'_>, out: &mut DocumentBuilder<'_>) {
    let mut field = out.document(name);
    let mut both = field.array("$ifNull");
    both.push(format!("${name}").as_str());
    both.push(value);
    both.finish();
    field.finish();
}

fn read(specification: Specification<'_>) -> Result<Options<'_>> {
    let RawValue::Document(given) = specification.value else {
        let text = format!(
            "the $fill stage specification must be an object, found {}",
            type_name(specification.value)
        );
        return Err(Error::failed_to_parse(text));
    };
    let mut options = Options::default();
    let mut partitions = 0;
    for option in given {
        let value = option.value();
        let object = || {
            value.as_document().ok_or_else(|| {
                let text = format!(
                    "BSON field '$fill.{}' is the wrong type '{}', expected type 'object'",
                    option.name(),
                    type_name(value)
                );
                Error::type_mismatch(text)
            })
        };
        match option.name().as_bytes() {
            // Null stands for an option that is not there, but for `partitionBy`, which may be of several types.
            b"partitionByFields" | b"sortBy" | b"output" if value.is_nullish() => {}
            b"partitionBy" => {
                if !matches!(value, RawValue::String(_) | RawValue::Document(_)) {
                    let text = format!(
                        "BSON field '$fill.partitionBy' is the wrong type '{}', expected types '[string, object]'",
                        type_name(value)
                    );
                    return Err(Error::type_mismatch(text));
                }
                partitions += 1;
                options.partition = Some(value.to_value());
            }
            b"partitionByFields" => {
                partitions += 1;
                options.partition = Some(by_fields(value)?);
            }
            b"sortBy" => options.sort = Some(object()?),
            b"output" => options.output = Some(object()?),
            _ => {
                let text = format!("BSON field '$fill.{}' is an unknown field.", option.name());
                return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text));
            }
        }
    }
    if partitions > 1 {
        let text =
            "Maximum one of 'partitionBy' and 'partitionByFields' can be specified in '$fill'";
        return Err(Error::location(6_050_204, text));
    }
    Ok(options)
}

/// The document of the fields as the expression to partition by.
fn by_fields(value: RawValue<'_>) -> Result<Value> {
    let names = value.as_array();
    let Some(names) = names.filter(|names| names.iter().all(|name| name.as_str().is_some())) else {
        let text = "BSON field '$fill.partitionByFields' must be an array of strings";
        return Err(Error::type_mismatch(text));
    };
    let mut fields = Document::new();
    for (place, name) in names.iter().filter_map(|name| name.as_str()).enumerate() {
        if name.starts_with('$') {
            let text = format!(
                "Each element in $fill.partitionByFields must not begin with '$', found {name}"
            );
            return Err(Error::location(6_050_201, text));
        }
        // The names may have dots: the values alone tell the partitions.
        fields.append(format!("f{place}").as_str(), format!("${name}").as_str());
    }
    Ok(Value::from(fields))
}

fn read_way<'s>(name: &str, value: RawValue<'s>) -> Result<Way<'s>> {
    let RawValue::Document(given) = value else {
        let text = format!("The field '{name}' of $fill.output must be an object");
        return Err(Error::location(6_050_200, text));
    };
    let is_known = |name: &[u8]| matches!(name, b"value" | b"method");
    if let Some(unknown) = given
        .iter()
        .find(|field| !is_known(field.name().as_bytes()))
    {
        let text = format!(
            "BSON field '$fill.output.{}' is an unknown field.",
            unknown.name()
        );
        return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, text));
    }
    let mut fields = given.iter();
    let (Some(only), None) = (fields.next(), fields.next()) else {
        let text = format!(
            "The field '{name}' of $fill.output must have exactly one of 'value' and 'method'"
        );
        return Err(Error::location(6_050_202, text));
    };
    match (only.name().as_bytes(), only.value()) {
        (b"value", value) => Ok(Way::Expression(value)),
        (b"method", RawValue::String(method)) if method == "locf" => Ok(Way::Function("$locf")),
        (b"method", RawValue::String(method)) if method == "linear" => {
            Ok(Way::Function("$linearFill"))
        }
        _ => {
            let text = "Method must be either locf or linear";
            Err(Error::location(6_050_202, text))
        }
    }
}
