//! `$replaceRoot` and `$replaceWith`: a document computed in place of the one that came.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawDocument, RawValue, Value};

use super::execution::{Buffer, Fork, RunningStage, Show, Upstream, show_made};
use super::stage::{DocumentMap, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::{Context, Evaluated, Expression, type_name};

#[derive(Debug)]
struct ReplaceRoot {
    specification: Value,
    new_root: Expression,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let value = specification.value;
    let RawValue::Document(options) = value else {
        let text = "expected an object as specification for $replaceRoot stage, got";
        return Err(Error::location(
            40229,
            format!("{text} {}", type_name(value)),
        ));
    };
    let mut new_root = None;
    for element in options {
        if element.name() != "newRoot" {
            let text = "unrecognized option to $replaceRoot stage:";
            return Err(Error::location(
                40230,
                format!("{text} {}, only valid option is 'newRoot'.", element.name()),
            ));
        }
        new_root = Some(element.value());
    }
    let text = "no newRoot specified for the $replaceRoot stage";
    parse_with(Specification {
        value: new_root.ok_or_else(|| Error::location(40231, text))?,
        ..specification
    })
}

/// `$replaceWith`, whose value is the new root itself.
pub(super) fn parse_with(specification: Specification<'_>) -> Result<Stages> {
    let value = specification.value;
    Ok(one(ReplaceRoot {
        specification: value.to_value(),
        new_root: specification.expression(value)?,
    }))
}

impl Stage for ReplaceRoot {
    fn name(&self) -> &'static str {
        "$replaceRoot"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.document(self.name())
            .append("newRoot", &self.specification);
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        if self.new_root.add_fields_read(fields) {
            Reads::Only
        } else {
            Reads::Everything
        }
    }

    fn as_map(&self) -> Option<&dyn DocumentMap> {
        Some(self)
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Replacing {
            stage: self,
            buffer: Buffer::default(),
        })
    }
}

impl DocumentMap for ReplaceRoot {
    fn map(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()> {
        let found = self.new_root.evaluate(&mut Context::new(document))?;
        if let Some(RawValue::Document(root)) = found.as_raw() {
            out.extend_from_slice(root.as_bytes());
            return Ok(());
        }
        Err(no_document(&found, document.to_string()))
    }
}

struct Replacing {
    stage: Arc<ReplaceRoot>,
    buffer: Buffer,
}

impl RunningStage for Replacing {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = upstream.read(&mut self.buffer)? else {
            return Ok(false);
        };
        self.stage.map(document, out)?;
        self.buffer.empty();
        Ok(true)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        let Replacing { stage, buffer } = self;
        upstream.each(&mut |document| show_made(buffer, show, |out| stage.map(document, out)))?;
        buffer.empty();
        Ok(())
    }

    fn as_fork(&self) -> Option<&dyn Fork> {
        Some(self)
    }
}

impl Fork for Replacing {
    fn fork(&self) -> Box<dyn RunningStage> {
        Arc::clone(&self.stage).start(&[])
    }
}

#[cold]
fn no_document(found: &Evaluated<'_>, input: String) -> Error {
    let text = format!(
        "'newRoot' expression must evaluate to an object, but resulting value was: {}. Type of resulting value: '{}'. Input \
         document: {input}",
        found.display(),
        found.type_name()
    );
    Error::location(40228, text)
}
