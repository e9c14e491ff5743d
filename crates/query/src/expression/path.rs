//! `"$a.b"`: the field of a document, mapped over the arrays on the way. A path never picks an array's element
//! by number, and elements that are not documents (arrays among them) are passed over.

use std::sync::Arc;

use quarry_bson::{ArrayBuilder, RawArray, RawDocument, RawValue, Value};

use super::context::Bound;
use super::{Context, Evaluated, Variables, variables::check_readable};
use crate::error::{Error, Result};
use crate::field_path::{FieldPath, PathPart};
use crate::interrupts;
use crate::memory::{self, Counted};

/// A constant of at most so many bytes is copied into the expression that names it. A larger one is shared, so that a request
/// of a few bytes, which names it again and again, does not multiply it.
const COPIED_BYTES_MAX: usize = 64;

/// The variable that only a cluster's servers have, and that this one has not.
const CLUSTER_TIME: &str = "CLUSTER_TIME";

/// A field path, from a document or from a variable.
#[derive(Debug, Clone)]
pub struct Path {
    base: Base,
    /// None for a variable that is read as a whole.
    fields: Option<FieldPath>,
}

#[derive(Debug, Clone)]
enum Base {
    Root,
    Remove,
    /// A variable of a pipeline that is only checked: it is not evaluated.
    Unknown,
    Slot(usize),
    /// A variable of the command, whose value all its readers share.
    Constant(Arc<Value>),
}

/// The meaning of a path once it is parsed.
pub(super) enum Parsed {
    Path(Path),
    /// It leads to a small constant of the command.
    Constant(Value),
}

impl Path {
    /// Parses `$a.b` or `$$name.a.b`.
    pub(super) fn parse(text: &str, variables: &Variables<'_>) -> Result<Parsed> {
        if let Some(rest) = text.strip_prefix("$$") {
            let (name, fields) = rest
                .split_once('.')
                .map_or((rest, None), |(name, fields)| (name, Some(fields)));
            check_readable(name)?;
            if fields == Some("") {
                let text = "FieldPath must not end with a '.'.";
                return Err(Error::location(40353, text));
            }
            let fields = fields.map(FieldPath::parse_strictly).transpose()?;
            let context = variables.context;
            let base = match (variables.slot(name), name) {
                (Some(slot), _) => Base::Slot(slot),
                (None, "ROOT" | "CURRENT") => Base::Root,
                (None, "NOW") => {
                    let now = RawValue::DateTime(context.now_ms()).to_value();
                    return constant(&Arc::new(now), fields);
                }
                (None, "REMOVE") => Base::Remove,
                _ => match context.variable(name) {
                    Some(Bound::Value(value)) => return constant(value, fields),
                    Some(Bound::Missing) => Base::Remove,
                    Some(Bound::Unknown) => Base::Unknown,
                    None if name == CLUSTER_TIME => {
                        let text = "Builtin variable '$$CLUSTER_TIME' is not available";
                        return Err(Error::location(51144, text));
                    }
                    None => {
                        let text = format!("Use of undefined variable: {name}");
                        return Err(Error::location(17276, text));
                    }
                },
            };
            return Ok(Parsed::Path(Path { base, fields }));
        }
        let Some(fields) = text.strip_prefix('$') else {
            return Err(Error::location(
                16873,
                format!("FieldPath '{text}' doesn't start with $"),
            ));
        };
        if fields.is_empty() {
            return Err(Error::location(
                16872,
                "'$' by itself is not a valid FieldPath",
            ));
        }
        let base = variables.slot("CURRENT").map_or(Base::Root, Base::Slot);
        Ok(Parsed::Path(Path {
            base,
            fields: Some(FieldPath::parse_strictly(fields)?),
        }))
    }

    /// The values that the path leads to.
    pub fn evaluate<'a>(&'a self, context: &Context<'a>) -> Result<Evaluated<'a>> {
        match &self.base {
            Base::Root => follow(RawValue::Document(context.root), self.names()),
            Base::Remove | Base::Unknown => Ok(Evaluated::Missing),
            Base::Constant(value) => follow(value.as_raw(), self.names()),
            Base::Slot(slot) => match context.variable(*slot) {
                value if self.fields.is_none() => Ok(value),
                Evaluated::Raw(value) => follow(value, self.names()),
                value => self.follow_made(&value),
            },
        }
    }

    /// Copies what the path finds in a value that was made.
    fn follow_made<'a>(&self, value: &Evaluated<'a>) -> Result<Evaluated<'a>> {
        let Some(value) = value.as_raw() else {
            return Ok(Evaluated::Missing);
        };
        Ok(match follow(value, self.names())? {
            Evaluated::Missing => Evaluated::Missing,
            Evaluated::Array(built) => Evaluated::Array(built),
            found => found
                .into_value()
                .map_or(Evaluated::Missing, Evaluated::from),
        })
    }

    /// The top-level field read, None where the whole document may be; `Some("")` where no field is.
    pub fn root_field(&self) -> Option<&str> {
        match self.base {
            Base::Root => self.fields.as_ref().map(FieldPath::first),
            Base::Remove | Base::Unknown | Base::Slot(_) | Base::Constant(_) => Some(""),
        }
    }

    /// The path if it names a field of the document (not of a variable).
    pub fn root_path(&self) -> Option<&FieldPath> {
        let is_root = matches!(self.base, Base::Root);
        self.fields.as_ref().filter(|_| is_root)
    }

    fn names(&self) -> &[PathPart] {
        self.fields.as_ref().map_or(&[], FieldPath::parts)
    }
}

/// Follows the names from a constant: a copy of what they lead to where that is small, else a path from the constant.
fn constant(value: &Arc<Value>, fields: Option<FieldPath>) -> Result<Parsed> {
    let names = fields.as_ref().map_or(&[][..], FieldPath::parts);
    let copied = match follow(value.as_raw(), names)?.as_raw() {
        None => {
            return Ok(Parsed::Path(Path {
                base: Base::Remove,
                fields: None,
            }));
        }
        Some(found) => (memory::bytes_of(found) <= COPIED_BYTES_MAX)
            .then(|| Parsed::Constant(found.to_value())),
    };
    Ok(copied.unwrap_or_else(|| {
        Parsed::Path(Path {
            base: Base::Constant(Arc::clone(value)),
            fields,
        })
    }))
}

fn follow<'a>(value: RawValue<'a>, names: &[PathPart]) -> Result<Evaluated<'a>> {
    let Some((name, rest)) = names.split_first() else {
        return Ok(Evaluated::Raw(value));
    };
    match value {
        RawValue::Document(document) => field(document, name.name(), rest),
        RawValue::Array(array) => Ok(Evaluated::array(map_array(array, names)?)),
        _ => Ok(Evaluated::Missing),
    }
}

fn field<'a>(document: RawDocument<'a>, name: &str, rest: &[PathPart]) -> Result<Evaluated<'a>> {
    interrupts::work_on_bytes(document.len_bytes())?;
    match document.get(name) {
        Some(value) => follow(value, rest),
        None => Ok(Evaluated::Missing),
    }
}

fn map_array(array: RawArray<'_>, names: &[PathPart]) -> Result<Counted> {
    let mut built = Counted::default();
    let mut builder = ArrayBuilder::new(&mut built.bytes);
    for item in array {
        interrupts::work(1)?;
        let RawValue::Document(_) = item else {
            continue;
        };
        if let Some(found) = follow(item, names)?.as_raw() {
            builder.push(found);
            built.charge.cover(builder.len_bytes())?;
        }
    }
    builder.finish();
    Ok(built)
}
