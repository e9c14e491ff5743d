//! `$redact`: of each document, and of the documents within it, an expression says whether it is kept, looked into, or left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use super::execution::{Buffer, Fork, RunningStage, Show, Upstream, show_made};
use super::redact_safe;
use super::stage::{InFront, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, ExpressionContext};
use crate::interrupts;
use crate::metadata::{self, MetadataKinds};

#[derive(Debug)]
struct Redact {
    specification: Value,
    decide: Expression,
    /// The metadata that the expression reads, which comes with the documents then.
    metadata: MetadataKinds,
}

/// The answer of the expression for a document.
enum Decision {
    Keep,
    Descend,
    Prune,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let decide = Expression::parse_redaction(specification.value, specification.context)?;
    Ok(one(Redact {
        specification: specification.value.to_value(),
        decide,
        metadata: specification.context.metadata_named(),
    }))
}

impl Stage for Redact {
    fn name(&self) -> &'static str {
        "$redact"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), &self.specification);
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Everything
    }

    fn metadata(&self) -> MetadataKinds {
        self.metadata
    }

    /// The filter stays behind, too: it may ask for something that the stage leaves out.
    fn in_front(&self, filter: RawDocument<'_>, _: &ExpressionContext) -> Result<InFront> {
        let safe = redact_safe::part_of(filter)?;
        Ok(match safe.is_empty() {
            true => InFront::Nothing,
            false => InFront::Copied(safe),
        })
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Redacting {
            stage: self,
            buffer: Buffer::default(),
            bare: Buffer::default(),
        })
    }
}

struct Redacting {
    stage: Arc<Redact>,
    buffer: Buffer,
    /// The document without the metadata that it came with.
    bare: Buffer,
}

impl Redact {
    /// The redaction of a document that was read; `bare` takes the document without the metadata that it came with.
    fn redaction<'r>(
        &'r self,
        read: RawDocument<'r>,
        bare: &'r mut Buffer,
    ) -> Result<Redaction<'r>> {
        let mut metadata = None;
        let root = match self.metadata.is_empty() {
            true => read,
            false => {
                interrupts::work_on_bytes(read.len_bytes())?;
                bare.fill(|out| metadata = Some(metadata::split(read, out)))?
            }
        };
        Ok(Redaction {
            decide: &self.decide,
            root,
            metadata,
        })
    }
}

impl RunningStage for Redacting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Redacting {
            stage,
            buffer,
            bare,
        } = self;
        while let Some(read) = upstream.read(buffer)? {
            let redaction = stage.redaction(read, bare)?;
            let root = redaction.root;
            let is_kept = match redaction.decision(root)? {
                Decision::Prune => false,
                Decision::Keep => {
                    out.extend_from_slice(root.as_bytes());
                    true
                }
                Decision::Descend => {
                    redaction.descend(root, DocumentBuilder::new(out))?;
                    true
                }
            };
            buffer.empty();
            bare.empty();
            if is_kept {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        let Redacting {
            stage,
            buffer,
            bare,
        } = self;
        upstream.each(&mut |read| {
            let redaction = stage.redaction(read, bare)?;
            let root = redaction.root;
            match redaction.decision(root)? {
                Decision::Prune => {}
                Decision::Keep => show(root)?,
                Decision::Descend => show_made(buffer, show, |out| {
                    redaction.descend(root, DocumentBuilder::new(out))
                })?,
            }
            bare.empty();
            Ok(())
        })?;
        buffer.empty();
        Ok(())
    }

    fn as_fork(&self) -> Option<&dyn Fork> {
        Some(self)
    }
}

impl Fork for Redacting {
    fn fork(&self) -> Box<dyn RunningStage> {
        Arc::clone(&self.stage).start(&[])
    }
}

/// The redaction of one document. Recursion is bounded by the depth of a validated document.
struct Redaction<'r> {
    decide: &'r Expression,
    root: RawDocument<'r>,
    /// That of the whole document, which each document within it shares.
    metadata: Option<RawDocument<'r>>,
}

impl Redaction<'_> {
    fn decision(&self, document: RawDocument<'_>) -> Result<Decision> {
        let mut context = Context::with_current(self.root, document);
        context.metadata = self.metadata;
        let value = self.decide.evaluate(&mut context)?;
        match value.as_str() {
            Some("keep") => Ok(Decision::Keep),
            Some("descend") => Ok(Decision::Descend),
            Some("prune") => Ok(Decision::Prune),
            _ => {
                let text = format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned {}",
                    value.display()
                );
                Err(Error::location(17053, text))
            }
        }
    }

    fn descend(&self, document: RawDocument<'_>, mut out: DocumentBuilder<'_>) -> Result<()> {
        for element in document {
            interrupts::work(1)?;
            match element.value() {
                RawValue::Document(within) => match self.decision(within)? {
                    Decision::Prune => {}
                    Decision::Keep => {
                        out.append_element(element);
                    }
                    Decision::Descend => {
                        let name = element.name().as_str()?;
                        self.descend(within, out.document(name))?;
                    }
                },
                RawValue::Array(items) => {
                    let name = element.name().as_str()?;
                    self.descend_array(items, out.array(name))?;
                }
                _ => {
                    out.append_element(element);
                }
            }
        }
        out.finish();
        Ok(())
    }

    fn descend_array(&self, items: RawArray<'_>, mut out: ArrayBuilder<'_>) -> Result<()> {
        for item in items {
            interrupts::work(1)?;
            match item {
                RawValue::Document(within) => match self.decision(within)? {
                    Decision::Prune => {}
                    Decision::Keep => {
                        out.push(item);
                    }
                    Decision::Descend => self.descend(within, out.document())?,
                },
                RawValue::Array(within) => self.descend_array(within, out.array())?,
                _ => {
                    out.push(item);
                }
            }
        }
        out.finish();
        Ok(())
    }
}
