//! `$documents`, and whatever else makes the documents of a pipeline instead of a collection.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue, Value};

use super::execution::{RunningStage, Upstream};
use super::stage::{Input, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, type_name};
use crate::interrupts;
use crate::memory::Charge;

/// A first stage that hands out documents which were made when it was parsed.
#[derive(Debug)]
pub struct Documents {
    name: &'static str,
    specification: Value,
    documents: Vec<Document>,
    input: Input,
}

impl Documents {
    /// The stage of that specification, with the documents that it stands for; `input` says whether they are of a collection.
    pub fn new(
        specification: Specification<'_>,
        documents: Vec<Document>,
        input: Input,
    ) -> Documents {
        debug_assert!(input != Input::Documents, "it takes none");
        Documents {
            name: specification.name,
            specification: specification.value.to_value(),
            documents,
            input,
        }
    }
}

/// `$documents: <an expression for an array of documents>`. It is evaluated when the pipeline runs, because the variables
/// of a surrounding `$lookup` have no values before that.
#[derive(Debug)]
struct Computed {
    specification: Value,
    documents: Expression,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    Ok(one(Computed {
        specification: specification.value.to_value(),
        documents: specification.expression(specification.value)?,
    }))
}

impl Computed {
    fn compute(&self) -> Result<(Vec<Document>, Charge)> {
        let value = self
            .documents
            .evaluate(&mut Context::new(RawDocument::EMPTY))?;
        let Some(array) = value.as_array() else {
            let text = format!(
                "an array is expected, but $documents evaluated to a value of type {}",
                value.type_name()
            );
            return Err(Error::location(5_858_203, text));
        };
        let (mut documents, mut charge) = (Vec::new(), Charge::default());
        for item in array {
            let bytes = crate::memory::bytes_of(item);
            interrupts::work_on_bytes(bytes)?;
            charge.grow(size_of::<Document>() + bytes)?;
            let RawValue::Document(document) = item else {
                let text = format!(
                    "$documents expects its elements to be objects, found {}",
                    type_name(item)
                );
                return Err(Error::location(40228, text));
            };
            documents.push(document.to_owned_document());
        }
        Ok((documents, charge))
    }
}

impl Stage for Computed {
    fn name(&self) -> &'static str {
        "$documents"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), &self.specification);
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Computing {
            stage: self,
            computed: None,
        })
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Only
    }

    fn input(&self) -> Input {
        Input::MadeOfNothing
    }
}

struct Computing {
    stage: Arc<Computed>,
    /// The documents that are left, once the first one was asked for.
    computed: Option<(std::vec::IntoIter<Document>, Charge)>,
}

impl RunningStage for Computing {
    fn next(&mut self, _: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let (left, charge) = match &mut self.computed {
            Some(computed) => computed,
            none => {
                let (documents, charge) = self.stage.compute()?;
                none.insert((documents.into_iter(), charge))
            }
        };
        let Some(document) = left.next() else {
            return Ok(false);
        };
        charge.shrink(size_of::<Document>() + document.as_bytes().len());
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}

impl Stage for Documents {
    fn name(&self) -> &'static str {
        self.name
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name, &self.specification);
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(HandingOut {
            stage: self,
            position: 0,
        })
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Only
    }

    fn input(&self) -> Input {
        self.input
    }
}

struct HandingOut {
    stage: Arc<Documents>,
    position: usize,
}

impl RunningStage for HandingOut {
    fn next(&mut self, _: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(document) = self.stage.documents.get(self.position) else {
            return Ok(false);
        };
        self.position += 1;
        out.extend_from_slice(document.as_bytes());
        Ok(true)
    }
}
