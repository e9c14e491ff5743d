//! `$percentile` and `$median`: a digest for each group.

use std::sync::Arc;

use quarry_bson::{DocumentBuilder, RawValue};

use super::accumulator::Column;
use crate::error::Result;
use crate::expression::quantiles::{Digest, Wanted};

/// The bytes of a group without values.
pub const DIGEST_BYTES: usize = size_of::<CountedDigest>();

/// The digests of all groups.
pub struct Digests {
    wanted: Arc<Wanted>,
    groups: Vec<CountedDigest>,
}

/// The digest of a group. Values that are merged take less than they took while they waited, and their room fills again: what counts
/// is the most that it has held.
#[derive(Default)]
struct CountedDigest {
    digest: Digest,
    most_bytes: usize,
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
    fn begin_group(&mut self, _: RawValue<'_>) -> Result<()> {
        self.groups.push(CountedDigest::default());
        Ok(())
    }

    fn add(&mut self, group: usize, value: Option<RawValue<'_>>) -> Result<usize> {
        let Some(number) = value.and_then(|value| value.as_f64_lossy()) else {
            return Ok(0);
        };
        let CountedDigest { digest, most_bytes } = &mut self.groups[group];
        digest.add(number)?;
        let grew = digest.held_bytes().saturating_sub(*most_bytes);
        *most_bytes += grew;
        Ok(grew)
    }

    fn show(&self, group: usize, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        self.wanted.write(&self.groups[group].digest, name, out)
    }

    fn hand_out(
        &mut self,
        group: usize,
        name: &str,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<usize> {
        let CountedDigest { digest, most_bytes } = std::mem::take(&mut self.groups[group]);
        self.wanted.write(&digest, name, out)?;
        Ok(most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use quarry_bson::Document;

    use super::*;

    #[test]
    fn what_a_group_was_charged_is_given_back_with_it() {
        let mut digests = Digests::new(&Arc::new(Wanted::new(None)));
        digests.begin_group(RawValue::Null).unwrap();
        let values = (0..100_000).map(f64::from);
        let charged: usize = values
            .map(|value| digests.add(0, Some(RawValue::Double(value))).unwrap())
            .sum();
        let mut given_back = 0;
        Document::build(|out| given_back = digests.hand_out(0, "p", out).unwrap());
        assert_eq!(charged, given_back);
        // Some thousand values that wait, and some thousand means.
        assert!(charged < 200_000, "{charged}");
    }
}
