//! `$percentile` and `$median`: a digest for each group.

use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawValue};

use super::accumulator::Column;
use crate::error::Result;
use crate::expression::quantiles::{Digest, Wanted};

/// The bytes of a group without values.
pub const DIGEST_BYTES: usize = size_of::<Digest>();

/// The digests of all groups.
pub struct Digests {
    wanted: Arc<Wanted>,
    groups: Vec<Digest>,
}

impl Digests {
    pub fn new(wanted: &Arc<Wanted>) -> Digests {
        Digests {
            wanted: Arc::clone(wanted),
            groups: Vec::new(),
        }
    }
}

impl Column for Digests {
    fn begin_group(&mut self) {
        self.groups.push(Digest::default());
    }

    fn add(&mut self, group: usize, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some(number) = value.and_then(|value| value.as_f64_lossy()) else {
            return Ok(0);
        };
        let digest = &mut self.groups[group];
        let before = digest.held_bytes();
        digest.add(number)?;
        // What is merged takes less than what waited: the difference is given back with the group.
        Ok(digest.held_bytes().saturating_sub(before))
    }

    fn show(&self, group: usize, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        self.wanted.write(&self.groups[group], name, out)
    }

    fn hand_out(
        &mut self,
        group: usize,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<usize> {
        let digest = std::mem::take(&mut self.groups[group]);
        self.wanted.write(&digest, name, out)?;
        Ok(digest.held_bytes())
    }
}
