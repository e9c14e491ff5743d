//! A plan that contends with others for a query: by one index, or by the branches of an `$or`.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::branches::Branches;
use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::wanted::Wanted;
use crate::plan::{Fetch, Node, TrialBound, Watch};

/// A plan that contends with others for a query.
pub enum Contender<'c> {
    /// By one index.
    Index(Box<Scored<'c>>),
    /// By an index for each branch of the filter's `$or`.
    Branches(Box<Branches>),
}

impl Contender<'_> {
    /// Adds what the plan does for the query to a hash, without the values that it is asked for.
    pub fn hash_shape(&self, hash: &mut impl Hasher) {
        match self {
            Contender::Index(scored) => {
                hash.write_u64(scored.ident().0);
                scored.hash_shape(hash);
            }
            Contender::Branches(branches) => branches.hash_shape(hash),
        }
    }

    /// Whether its documents have to be sorted, so that it gives nothing before it has read all.
    pub fn sorts(&self, wanted: &Wanted<'_>) -> bool {
        wanted.sort.is_some()
            && match self {
                Contender::Index(scored) => scored.order.is_none(),
                Contender::Branches(branches) => !branches.are_merged(),
            }
    }

    /// The tree that is tried: the documents of as many keys as it is allowed to read.
    pub fn trial(
        &self,
        bounds: &FilterBounds<'_>,
        wanted: &Wanted<'_>,
        allowance: &Arc<AtomicU64>,
    ) -> Node {
        match self {
            Contender::Index(scored) => {
                // Each key counts, those that a test would pass over, too.
                let scan = scored.scan_of_ranges(bounds, wanted);
                let bound = TrialBound::new(scan.node, Arc::clone(allowance));
                Box::new(Fetch::new(Box::new(bound), !scan.answers))
            }
            Contender::Branches(branches) => branches.trial(allowance),
        }
    }

    /// Has the plan watched that rests on a remembered trial.
    pub fn watch(&mut self, watch: Watch) {
        let watch = Some(Box::new(watch));
        match self {
            Contender::Index(scored) => scored.watch = watch,
            Contender::Branches(branches) => branches.watch = watch,
        }
    }
}
