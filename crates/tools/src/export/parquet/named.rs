//! Columns that somebody has named, with their types.

use super::kind::{Field, Kind, Nulls};
use crate::error::{Error, Result};

/// The columns of `name.type(argument)` each; a dotted name makes a document within a document.
pub fn fields(names: &[String]) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for name in names {
        let (path, kind) = parse(name)?;
        let parts: Vec<&str> = path.split('.').collect();
        if parts.contains(&"") {
            return Err(Error::usage(format!("`{path}` is no name of a field")));
        }
        if !add(&mut fields, &parts, kind) {
            let what = format!("the field `{path}` stands twice, or within another one's value");
            return Err(Error::usage(what));
        }
    }
    Ok(fields)
}

fn parse(name: &str) -> Result<(&str, Kind)> {
    let bad = || {
        Error::usage(format!(
            "the column `{name}` has no type behind its name, as `name.int32()` has"
        ))
    };
    let (head, argument) = name
        .strip_suffix(')')
        .and_then(|name| name.split_once('('))
        .ok_or_else(bad)?;
    let (path, kind) = head.rsplit_once('.').ok_or_else(bad)?;
    let scale = || {
        argument
            .parse()
            .ok()
            .filter(|scale| (0..=34).contains(scale))
    };
    let kind = match (kind, argument) {
        ("decimal", "") => Kind::DecimalText,
        ("decimal", _) => {
            let scale = scale().ok_or_else(bad)?;
            Kind::Decimal { scale, pads: true }
        }
        ("boolean", "") => Kind::Boolean,
        ("int32", "") => Kind::Int32,
        ("int64", "") => Kind::Int64,
        ("double", "") => Kind::Double,
        ("string", "") => Kind::String,
        ("binary", "") => Kind::Binary,
        ("uuid", "") => Kind::Uuid,
        ("objectId", "") => Kind::ObjectId,
        ("date", "") => Kind::DateTime,
        ("timestamp", "") => Kind::Timestamp,
        ("json", "") => Kind::Json,
        _ => {
            let what =
                format!("the type `{kind}({argument})` of the column `{path}` is not supported");
            return Err(Error::usage(what));
        }
    };
    Ok((path, kind))
}

/// Adds a field; false where the path is taken.
fn add(fields: &mut Vec<Field>, path: &[&str], kind: Kind) -> bool {
    let [name, rest @ ..] = path else {
        return false;
    };
    let there = fields.iter_mut().find(|field| field.name == *name);
    match (there, rest) {
        (
            Some(Field {
                kind: Kind::Document(inner),
                ..
            }),
            [_, ..],
        ) => add(inner, rest, kind),
        (Some(_), _) => false,
        (None, _) => {
            let kind = match rest {
                [] => kind,
                rest => {
                    let mut inner = Vec::new();
                    add(&mut inner, rest, kind);
                    Kind::Document(inner)
                }
            };
            fields.push(Field {
                name: (*name).to_owned(),
                kind,
                nulls: Nulls::Either,
            });
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(names: &str) -> std::result::Result<Vec<Field>, String> {
        let names: Vec<_> = names.split(',').map(str::to_owned).collect();
        fields(&names).map_err(|error| error.to_string())
    }

    #[test]
    fn names_have_types_and_dotted_ones_nest() {
        let fields = said("_id.objectId(),a.b.decimal(2),a.c.json()").unwrap();
        assert_eq!(fields.len(), 2);
        assert_eq!(fields[0].kind, Kind::ObjectId);
        let Kind::Document(inner) = &fields[1].kind else {
            panic!("{fields:?}");
        };
        assert_eq!(
            inner[0].kind,
            Kind::Decimal {
                scale: 2,
                pads: true
            }
        );
        assert_eq!((inner[1].name.as_str(), &inner[1].kind), ("c", &Kind::Json));
        for bad in [
            "a",
            "a.int32",
            "int32()",
            "a.int16()",
            "a.int32(x)",
            "a.decimal(40)",
            "a.int32(),a.b.int32()",
            "a.b.int32(),a.int32()",
            "a..int32()",
        ] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }
}
