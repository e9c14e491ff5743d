//! `$unwind`: one document for each element of an array field. A value that is no array passes as it is.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawArray, RawDocument, RawValue};

use super::execution::{Buffer, Fork, RunningStage, Show, Upstream, show_made};
use super::fields_read::fields_kept_for;
use super::nested_field;
use super::stage::{Modifies, Reads, Specification, Stage, Stages, Unwound, one, own_field};
use crate::error::{Error, Result};
use crate::expression::type_name;
use crate::field_path::FieldPath;
use crate::fields_kept::FieldsKept;
use crate::interrupts::{self, units_of_search};

#[derive(Debug)]
struct Unwind {
    path: FieldPath,
    index: Option<FieldPath>,
    preserve: bool,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    Unwind::parse(specification.value).map(one)
}

impl Unwind {
    fn parse(value: RawValue<'_>) -> Result<Unwind> {
        match value {
            RawValue::String(path) => Ok(Unwind {
                path: parse_path(path.as_str()?)?,
                index: None,
                preserve: false,
            }),
            RawValue::Document(options) => Unwind::parse_options(options),
            other => {
                let text =
                    "expected either a string or an object as specification for $unwind stage, got";
                Err(Error::location(
                    15981,
                    format!("{text} {}", type_name(other)),
                ))
            }
        }
    }

    fn parse_options(options: RawDocument<'_>) -> Result<Unwind> {
        let (mut path, mut index, mut preserve) = (None, None, false);
        for element in options {
            let value = element.value();
            match element.name().as_bytes() {
                b"path" => {
                    let wrong = || {
                        let text = "expected a string as the path for $unwind stage, got";
                        Error::location(28808, format!("{text} {}", type_name(value)))
                    };
                    path = Some(parse_path(value.as_str().ok_or_else(wrong)?)?);
                }
                b"preserveNullAndEmptyArrays" => {
                    let text = "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got";
                    let wrong = || Error::location(28809, format!("{text} {}", type_name(value)));
                    preserve = value.as_bool().ok_or_else(wrong)?;
                }
                b"includeArrayIndex" => index = Some(parse_index(value)?),
                _ => {
                    let text = format!("unrecognized option to $unwind stage: {}", element.name());
                    return Err(Error::location(28811, text));
                }
            }
        }
        let path =
            path.ok_or_else(|| Error::location(28812, "no path specified to $unwind stage"))?;
        Ok(Unwind {
            path,
            index,
            preserve,
        })
    }

    /// Appends the document with the field and, where asked for, the position set.
    fn write(
        &self,
        document: RawDocument<'_>,
        value: Option<RawValue<'_>>,
        position: RawValue<'_>,
        scratch: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(index) = &self.index else {
            nested_field::set(document, self.path.parts(), value, out);
            return Ok(());
        };
        let unwound =
            scratch.fill(|bytes| nested_field::set(document, self.path.parts(), value, bytes))?;
        nested_field::set(unwound, index.parts(), Some(position), out);
        scratch.empty();
        Ok(())
    }

    /// Shows the documents that it makes of one, each in the first of the buffers.
    fn show(
        &self,
        document: RawDocument<'_>,
        (made, scratch): (&mut Buffer, &mut Buffer),
        show: &mut Show<'_>,
    ) -> Result<()> {
        let kept = match nested_field::get(document, self.path.parts()) {
            Some(RawValue::Array(array)) if !array.is_empty() => {
                for (position, element) in (0..).zip(array.elements()) {
                    let (value, position) = (Some(element.value()), RawValue::Int64(position));
                    show_made(made, show, |out| {
                        self.write(document, value, position, scratch, out)
                    })?;
                }
                return Ok(());
            }
            None | Some(RawValue::Null | RawValue::Undefined | RawValue::Array(_))
                if !self.preserve =>
            {
                return Ok(());
            }
            found => found.filter(|value| value.as_array().is_none()),
        };
        show_made(made, show, |out| {
            self.write(document, kept, RawValue::Null, scratch, out)
        })
    }
}

impl Stage for Unwind {
    fn name(&self) -> &'static str {
        "$unwind"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        let mut options = out.document(self.name());
        options.append("path", format!("${}", self.path.as_str()).as_str());
        if self.preserve {
            options.append("preserveNullAndEmptyArrays", true);
        }
        if let Some(index) = &self.index {
            options.append("includeArrayIndex", index.as_str());
        }
    }

    fn unwinds(&self) -> Option<Unwound<'_>> {
        Some(Unwound {
            path: &self.path,
            index: self.index.as_ref(),
            preserve: self.preserve,
        })
    }

    fn modifies(&self) -> Modifies {
        let mut changed = BTreeSet::from([self.path.first().to_owned()]);
        changed.extend(self.index.as_ref().map(|index| index.first().to_owned()));
        Modifies::Fields(changed)
    }

    fn add_fields_made(&self, fields: &mut BTreeSet<String>) {
        fields.extend(self.index.as_ref().and_then(own_field));
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        fields.insert(self.path.first().to_owned());
        Reads::Passes
    }

    fn start(self: Arc<Self>, following: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        let kept = fields_kept_for(following).map(|kept| kept.with(self.path.first()));
        Box::new(Unwinding::new(&self, kept))
    }
}

fn parse_path(path: &str) -> Result<FieldPath> {
    let Some(fields) = path.strip_prefix('$') else {
        let text = format!("path option to $unwind stage should be prefixed with a '$': {path}");
        return Err(Error::location(28818, text));
    };
    FieldPath::parse_strictly(fields)
}

fn parse_index(value: RawValue<'_>) -> Result<FieldPath> {
    let wrong = || {
        let text =
            "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got";
        Error::location(28810, format!("{text} {}", type_name(value)))
    };
    let name = value
        .as_str()
        .filter(|name| !name.is_empty())
        .ok_or_else(wrong)?;
    if name.starts_with('$') {
        let text = format!(
            "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {name}"
        );
        return Err(Error::location(28822, text));
    }
    FieldPath::parse_strictly(name)
}

struct Unwinding {
    stage: Arc<Unwind>,
    document: Buffer,
    /// The array of the document that is being taken apart.
    opened: Option<Opened>,
    scratch: Buffer,
    /// The document that is shown.
    made: Buffer,
    /// The fields that the stages behind it read, if that is not all: nothing else is written once more for each element.
    kept: Option<FieldsKept>,
}

impl Unwinding {
    fn new(stage: &Arc<Unwind>, kept: Option<FieldsKept>) -> Unwinding {
        Unwinding {
            stage: Arc::clone(stage),
            document: Buffer::default(),
            opened: None,
            scratch: Buffer::default(),
            made: Buffer::default(),
            kept,
        }
    }
}

/// How far an array was walked; places are bytes of the document.
struct Opened {
    array: Range<usize>,
    walked_bytes: usize,
    elements: i64,
}

impl RunningStage for Unwinding {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        loop {
            if let Some(opened) = &mut self.opened {
                if opened.write_next(&self.stage, &self.document, &mut self.scratch, out)? {
                    return Ok(true);
                }
                self.opened = None;
            }
            let Some(document) = upstream.read(&mut self.document)? else {
                return Ok(false);
            };
            match nested_field::get(document, self.stage.path.parts()) {
                Some(RawValue::Array(array)) if !array.is_empty() => {
                    self.opened = Some(Opened::new(document, array));
                }
                None | Some(RawValue::Null | RawValue::Undefined | RawValue::Array(_))
                    if !self.stage.preserve => {}
                found => {
                    let kept = found.filter(|value| value.as_array().is_none());
                    self.stage
                        .write(document, kept, RawValue::Null, &mut self.scratch, out)?;
                    self.document.empty();
                    return Ok(true);
                }
            }
        }
    }

    fn as_fork(&self) -> Option<&dyn Fork> {
        Some(self)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        debug_assert!(
            self.opened.is_none(),
            "who is shown all documents was handed one"
        );
        let Unwinding {
            stage,
            document: part,
            scratch,
            made,
            kept,
            ..
        } = self;
        upstream.each(&mut |document| {
            let document = match kept {
                None => document,
                Some(fields) => {
                    interrupts::work(units_of_search(document))?;
                    part.fill(|bytes| fields.keep(document, bytes))?
                }
            };
            stage.show(document, (&mut *made, &mut *scratch), show)
        })?;
        part.empty();
        made.empty();
        Ok(())
    }
}

impl Fork for Unwinding {
    fn fork(&self) -> Box<dyn RunningStage> {
        Box::new(Unwinding::new(&self.stage, self.kept.clone()))
    }
}

impl Opened {
    fn new(document: RawDocument<'_>, array: RawArray<'_>) -> Opened {
        // The array is a part of the document's bytes.
        let start = array.as_bytes().as_ptr() as usize - document.as_bytes().as_ptr() as usize;
        Opened {
            array: start..start + array.as_bytes().len(),
            walked_bytes: 0,
            elements: 0,
        }
    }

    /// Writes the document with the next element; false if there is none.
    fn write_next(
        &mut self,
        stage: &Unwind,
        document: &Buffer,
        scratch: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let document = RawDocument::new(document.bytes())?;
        let array = RawDocument::new(&document.as_bytes()[self.array.clone()])?;
        let mut left = match self.walked_bytes {
            0 => array.iter(),
            walked => array.iter_from(walked),
        };
        let Some(element) = left.next() else {
            return Ok(false);
        };
        self.walked_bytes = array.len_bytes() - left.remaining_bytes().len();
        let position = RawValue::Int64(self.elements);
        self.elements += 1;
        stage.write(document, Some(element.value()), position, scratch, out)?;
        Ok(true)
    }
}
