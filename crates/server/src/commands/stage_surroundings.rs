//! The pipeline that a first stage stands in whose documents the server makes (`server_stages`).

use quarry_bson::RawArray;
use quarry_database::Namespace;

use crate::dispatch::command::Invocation;

/// The pipeline that such a stage stands in.
#[derive(Clone, Copy)]
pub struct Surroundings<'s, 'i> {
    pub invocation: &'s Invocation<'i>,
    /// The collection of the aggregate; none for `aggregate: 1`.
    pub namespace: Option<&'s Namespace>,
    pub pipeline: RawArray<'s>,
}
