//! PROJECTION: makes of each document what is asked for.

use quarry_bson::{DocumentBuilder, RawDocument};

use super::node::{Node, PlanContext, PlanNode, Row, Sink};
use super::shown::Shown;
use crate::error::Result;
use crate::exec::stored;
use crate::projection::Projection;

/// Whether documents are made of keys, and have only what is read of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Covered {
    /// They are read.
    No,
    /// They are made of the keys of one scan.
    ByScan,
    /// They are made of the keys of a merge. Explain calls what stands above them otherwise, as MongoDB does.
    ByMerge,
}

/// Projects each document.
pub struct ProjectionNode {
    name: &'static str,
    input: Node,
    projected: Vec<u8>,
    returned: u64,
}

impl ProjectionNode {
    /// Projects what `input` gives, which may be documents that are made of keys.
    pub fn new(input: Node, projection: &Projection, covered: Covered) -> ProjectionNode {
        ProjectionNode {
            name: match (projection.is_simple(), covered) {
                // It takes off what only the sort has read.
                _ if projection.is_identity() => "",
                (true, Covered::ByScan) => "PROJECTION_COVERED",
                (true, Covered::No) => "PROJECTION_SIMPLE",
                (true, Covered::ByMerge) | (false, _) => "PROJECTION_DEFAULT",
            },
            input,
            projected: Vec::new(),
            returned: 0,
        }
    }
}

impl PlanNode for ProjectionNode {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let ProjectionNode {
            input,
            projected,
            returned,
            ..
        } = self;
        let outcome = input.next(context, &mut |row| {
            *returned += 1;
            let (Some(document), false) = (row.document, context.is_replay) else {
                return sink(row);
            };
            projected.clear();
            context.parsed.project(document, projected)?;
            sink(&Row {
                record: row.record,
                document: Some(stored(RawDocument::new(projected))?),
            })
        });
        // There may be many cursors that wait.
        self.projected = Vec::new();
        outcome
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        if let Some(projection) = shown.projection {
            out.append("transformBy", projection);
        }
        shown.returned(self.returned(), out);
    }
}
