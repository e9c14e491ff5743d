//! The fields that the rest of a pipeline reads of what comes to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::stage::{FieldOrder, Picks, Reads, Stage};
use crate::fields_kept::FieldsKept;

/// The stages that are looked through for what a stage before them has to keep. One that stands before more keeps everything.
const STAGES_LOOKED_AT: usize = 50;

/// The fields that the stages read of their input; None if they need all of it.
pub(super) fn fields_kept_for(stages: &[Arc<dyn Stage>]) -> Option<FieldsKept> {
    fields_read(stages.iter().take(STAGES_LOOKED_AT)).map(FieldsKept::new)
}

/// The top-level fields that stages read of their input; None if they need all of it. One that a stage makes itself before it is read,
/// or that is passed on and not read, is none of them, if nobody sees where among the others it stands.
pub(super) fn fields_read<'s>(
    stages: impl IntoIterator<Item = &'s Arc<dyn Stage>>,
) -> Option<BTreeSet<String>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    // How many stages there are up to the first behind which nothing else of the input is left.
    let mut last = None;
    for stage in stages {
        let mut read = BTreeSet::new();
        let reads = stage.add_fields_read(&mut read);
        // Metadata comes with the whole document.
        if reads == Reads::Everything || !stage.metadata().is_empty() {
            break;
        }
        steps.push(Step { stage, read, reads });
        if reads == Reads::Only {
            last.get_or_insert(steps.len());
        }
        match stage.order_of_fields() {
            FieldOrder::Passes => {}
            FieldOrder::Shown => break,
            FieldOrder::Hidden => return Some(read_first(steps)),
        }
    }
    let steps = steps.into_iter().take(last?);
    Some(steps.flat_map(|step| step.read).collect())
}

/// A stage that is no more than looked through, and the fields that it reads.
struct Step<'s> {
    stage: &'s Arc<dyn Stage>,
    read: BTreeSet<String>,
    reads: Reads,
}

/// The fields that have to be in the input of the stages, behind the last of which the order of fields is seen by nobody.
fn read_first(steps: Vec<Step<'_>>) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for Step { stage, read, reads } in steps.into_iter().rev() {
        let picks = stage.picks();
        match &picks {
            Some(Picks { taken, .. }) => fields.retain(|field| taken.contains(field)),
            None if reads == Reads::Only => fields.clear(),
            None => {}
        }
        let mut made = BTreeSet::new();
        stage.add_fields_made(&mut made);
        fields.retain(|field| !made.contains(field));
        fields.extend(picks.map_or(read, |picks| picks.read));
    }
    fields
}
