//! `$match`: lets the documents through that a filter accepts.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::execution::{Fork, RunningStage, Show, Upstream};
use super::stage::{Modifies, PartOfFind, Reads, Specification, Stage, Stages};
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::matcher::Matcher;

#[derive(Debug)]
struct Match {
    filter: Document,
    matcher: Matcher,
}

pub(super) fn parse(specification: Specification<'_>) -> Result<Stages> {
    let RawValue::Document(filter) = specification.value else {
        return Err(Error::location(
            15959,
            "the match filter must be an expression in an object",
        ));
    };
    of_filter(filter.to_owned_document(), specification.context).map(|stage| vec![stage])
}

/// The stage of a filter.
pub(super) fn of_filter(filter: Document, context: &ExpressionContext) -> Result<Arc<dyn Stage>> {
    let matcher = Matcher::parse_query(filter.as_raw(), context)?;
    matcher.refuse_near()?;
    Ok(Arc::new(Match { filter, matcher }))
}

impl Stage for Match {
    fn name(&self) -> &'static str {
        "$match"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.filter.as_raw());
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Matching { stage: self })
    }

    fn modifies(&self) -> Modifies {
        Modifies::Nothing
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Filter(self.filter.as_raw(), &self.matcher)
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        if self.matcher.add_fields_read(fields) {
            Reads::Passes
        } else {
            Reads::Everything
        }
    }
}

struct Matching {
    stage: Arc<Match>,
}

impl RunningStage for Matching {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        while upstream.next(out)? {
            if self
                .stage
                .matcher
                .try_matches(RawDocument::new(&out[start..])?)?
            {
                return Ok(true);
            }
            out.truncate(start);
        }
        Ok(false)
    }

    fn as_fork(&self) -> Option<&dyn Fork> {
        Some(self)
    }

    fn each(&mut self, upstream: &mut Upstream<'_, '_>, show: &mut Show<'_>) -> Result<()> {
        upstream.each(
            &mut |document| match self.stage.matcher.try_matches(document)? {
                true => show(document),
                false => Ok(()),
            },
        )
    }
}

impl Fork for Matching {
    fn fork(&self) -> Box<dyn RunningStage> {
        Arc::clone(&self.stage).start(&[])
    }
}
