//! `$match`: lets the documents through that a filter accepts.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::{Document, DocumentBuilder, RawDocument, RawValue};

use super::execution::{Running, Upstream};
use super::stage::{PartOfFind, Reads, Specification, Stage, Stages, one};
use crate::error::{Error, Result};
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
    Ok(one(Match {
        filter: filter.to_owned_document(),
        matcher: Matcher::parse_in(filter, specification.context)?,
    }))
}

impl Stage for Match {
    fn name(&self) -> &'static str {
        "$match"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), self.filter.as_raw());
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
        Box::new(Matching { stage: self })
    }

    fn part_of_find(&self) -> PartOfFind<'_> {
        PartOfFind::Filter(self.filter.as_raw(), &self.matcher)
    }

    fn add_fields_read(&self, fields: &mut BTreeSet<String>) -> Reads {
        if add_filter_fields(self.filter.as_raw(), fields) {
            Reads::Passes
        } else {
            Reads::Everything
        }
    }
}

/// Adds the top-level fields that a filter reads; false if it has operators that may read others.
fn add_filter_fields(filter: RawDocument<'_>, fields: &mut BTreeSet<String>) -> bool {
    filter.iter().all(
        |element| match (&*element.name().to_string_lossy(), element.value()) {
            ("$and" | "$or" | "$nor", RawValue::Array(clauses)) => clauses.iter().all(|clause| {
                clause
                    .as_document()
                    .is_some_and(|clause| add_filter_fields(clause, fields))
            }),
            ("$comment", _) => true,
            (name, _) if name.starts_with('$') => false,
            (path, _) => {
                fields.insert(path.split('.').next().unwrap_or_default().to_owned());
                true
            }
        },
    )
}

struct Matching {
    stage: Arc<Match>,
}

impl Running for Matching {
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
}
