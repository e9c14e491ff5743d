//! `$mergeObjects`: documents merge field by field, the later one wins and the earlier one gives the place.

use quarry_bson::{DocumentBuilder, RawDocument, RawValue};

use super::accumulator::Accumulator;
use crate::error::Result;
use crate::expression::bounds;
use crate::expression::objects::merge_into;

/// The document so far; no bytes at all for an empty one.
#[derive(Debug, Default)]
pub struct MergeObjects(Vec<u8>);

impl Accumulator for MergeObjects {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some(value) = value else { return Ok(0) };
        bounds::check_depth(value, 1)?;
        let before = self.0.len();
        if self.0.is_empty() {
            self.0.extend_from_slice(RawDocument::EMPTY.as_bytes());
        }
        merge_into(&mut self.0, value)?;
        Ok(self.0.len().saturating_sub(before))
    }

    fn held_bytes(&self) -> usize {
        self.0.len()
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        let merged = match self.0.as_slice() {
            [] => RawDocument::EMPTY,
            bytes => RawDocument::new(bytes)?,
        };
        out.append(name, merged);
        Ok(())
    }
}
