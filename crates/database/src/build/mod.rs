//! Index builds: on existing data, while writes go on, and what a crash leaves of them.
//!
//! It stands above the commit path. `builds` is the register of the builds that are running, which definitions ask too.

pub(crate) mod builds;
pub(crate) mod index_build;
pub(crate) mod noted;
pub(crate) mod unique_build;
