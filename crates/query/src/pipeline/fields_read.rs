//! The fields that the rest of a pipeline reads of what comes to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::stage::{Reads, Stage};
use crate::fields_kept::FieldsKept;

/// The stages that are looked through for what a stage before them has to keep. One that stands before more keeps everything.
const STAGES_LOOKED_AT: usize = 50;

/// The fields that the stages read of their input; None if they need all of it.
pub(super) fn fields_kept_for(stages: &[Arc<dyn Stage>]) -> Option<FieldsKept> {
    fields_read(stages.iter().take(STAGES_LOOKED_AT)).map(FieldsKept::new)
}

/// The top-level fields that stages read of their input; None if they need all of it.
pub(super) fn fields_read<'s>(
    stages: impl IntoIterator<Item = &'s Arc<dyn Stage>>,
) -> Option<BTreeSet<String>> {
    let mut fields = BTreeSet::new();
    for stage in stages {
        match stage.add_fields_read(&mut fields) {
            Reads::Only => return Some(fields),
            Reads::Passes => {}
            Reads::Everything => return None,
        }
    }
    None
}
