//! `$count`: one document with the number of documents, or none for none.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::DocumentBuilder;

use super::execution::{RunningStage, Upstream};
use super::stage::{FieldOrder, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
use crate::expression::number::Number;
use crate::interrupts;

#[derive(Debug)]
struct Count {
    name: Box<str>,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let name = specification
        .value
        .as_str()
        .ok_or_else(|| Error::location(40156, "the count field must be a non-empty string"))?;
    let complaint = match name {
        "" => Some((40157, "the count field must be a non-empty string")),
        _ if name.starts_with('$') => Some((40158, "the count field cannot be a $-prefixed path")),
        _ if name.contains('\0') => Some((40159, "the count field cannot contain a null byte")),
        "_id" => Some((9_039_800, "the count field cannot be '_id'")),
        _ if name.contains('.') => Some((40160, "the count field cannot contain '.'")),
        _ => None,
    };
    match complaint {
        Some((code, text)) => Err(Error::location(code, text)),
        None => Ok(one(Count { name: name.into() })),
    }
}

impl Stage for Count {
    fn name(&self) -> &'static str {
        "$count"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(Stage::name(self), &*self.name);
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Only
    }

    fn order_of_fields(&self) -> FieldOrder {
        FieldOrder::Hidden
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Counting {
            stage: self,
            done: false,
        })
    }
}

struct Counting {
    stage: Arc<Count>,
    done: bool,
}

impl RunningStage for Counting {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        let mut count = 0_i64;
        upstream.each(&mut |_| {
            count += 1;
            interrupts::work(1)
        })?;
        if count > 0 {
            DocumentBuilder::new(out).append(&*self.stage.name, Number::int(count).raw());
        }
        Ok(count > 0)
    }
}
