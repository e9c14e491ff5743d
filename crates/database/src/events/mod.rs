//! Changes read from the journal: durable records only, in their order, from any record or time that is still there.
//!
//! There is no log beside the journal and no second write. A reader (`change_reader`) has a place in the journal and an
//! interest (`commit::interests`), and holds nothing else while nothing comes: no file, no buffer, no thread. It must not know
//! the catalog, locks or the engine: a record tells all that an event needs, as it was when the record was made.

pub(crate) mod change_event;
pub(crate) mod change_point;
pub(crate) mod change_reader;
pub(crate) mod update_description;
