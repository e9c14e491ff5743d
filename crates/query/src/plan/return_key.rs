//! RETURN_KEY: the keys by which documents were found, in place of the documents; empty ones where no index found them.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use super::node::{Node, PlanContext, PlanNode, Row, Sink};
use super::shown::Shown;
use crate::error::Result;
use crate::exec::stored;
use crate::field_path::{FieldPath, PathPart};
use crate::metadata::{self, INDEX_KEY, SORT_KEY};

/// Gives the keys that are attached to the documents of its input.
pub struct ReturnKey {
    input: Node,
    /// The fields that the key by which the documents are sorted is given in.
    sort_keys: Vec<FieldPath>,
    returned: u64,
}

impl ReturnKey {
    /// Gives the keys of what `input` gives.
    pub fn new(input: Node, sort_keys: Vec<FieldPath>) -> ReturnKey {
        ReturnKey {
            input,
            sort_keys,
            returned: 0,
        }
    }
}

/// Appends a value at a path, with the documents on the way to it. As deep as the path.
fn append_at(path: &[PathPart], value: RawValue<'_>, out: &mut DocumentBuilder<'_>) {
    match path {
        [] => {}
        [last] => {
            out.append(last.name(), value);
        }
        [first, rest @ ..] => {
            let mut within = out.document(first.name());
            append_at(rest, value, &mut within);
            within.finish();
        }
    }
}

impl PlanNode for ReturnKey {
    fn next(&mut self, context: &PlanContext<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let ReturnKey {
            input,
            sort_keys,
            returned,
        } = self;
        let (mut document, mut made) = (Vec::new(), Vec::new());
        input.next(context, &mut |row| {
            *returned += 1;
            document.clear();
            made.clear();
            let attached = row.document.unwrap_or(RawDocument::EMPTY);
            let known = metadata::split(attached, &mut document);
            let mut out = DocumentBuilder::new(&mut made);
            for field in known.get_document(INDEX_KEY).unwrap_or(RawDocument::EMPTY) {
                out.append_element(field);
            }
            if let Some(sort_key) = known.get(SORT_KEY) {
                for path in &*sort_keys {
                    append_at(path.parts(), sort_key, &mut out);
                }
            }
            out.finish();
            sink(&Row {
                record: row.record,
                document: Some(stored(RawDocument::new(&made))?),
            })
        })
    }

    fn input(&self) -> Option<&dyn PlanNode> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanNode> {
        Some(&mut *self.input)
    }

    fn name(&self) -> &'static str {
        "RETURN_KEY"
    }

    fn returned(&self) -> u64 {
        self.returned
    }

    fn describe(&self, shown: &Shown<'_>, out: &mut DocumentBuilder<'_>) {
        shown.returned(self.returned(), out);
    }
}
