//! Where the time of an operation goes.
//!
//! An operation begins with [`begin_operation`] and ends with [`end_operation`]; between them
//! [`phase`] opens scopes that nest and count **exclusive** time into a fixed array of the thread,
//! and [`count`] adds up what the operation does. At the end the array is added, in one step, to the sums of its core,
//! and those to histograms: by operation kind and phase, and for the busiest namespaces and query shapes.
//! [`kinds`], [`namespaces`] and [`shapes`] read them, over three windows. Always true: the phases and
//! `unattributed` add up to the wall time of the operation.
//!
//! A scope costs one clock read at its start and one at its end. Outside an operation, or while
//! timing is off, a scope reads one thread-local address and nothing else. Memory is bounded, whatever
//! the number of connections, collections and queries.
//!
//! This crate knows nothing of documents, engines or sockets; it writes no text and no files.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod layer;
mod operation_kind;
mod phase;
mod work;

mod breakdown;
mod labels;
mod live;
mod recorder;

mod collector;
mod entry;
mod histogram;
mod interner;
mod row;
mod rows;
mod tally;
mod tracked;
mod uses;
mod windows;

mod report;
mod stall;

pub use breakdown::Breakdown;
pub use clock::{IS_COMPILED, start_clock};
pub use collector::{Distribution, collect};
pub use labels::{Exemplar, LabelTexts, Labels, NoTexts};
pub use layer::Layer;
pub use live::{Attached, Glimpse, Observer, attach, count, count_all, name, name_all};
pub use operation_kind::OperationKind;
pub use phase::{PHASE_COUNT, Phase};
pub use recorder::{
    Finished, Pause, Scope, add, begin_operation, begin_operation_after, begin_operation_in,
    breakdown, end_operation, finish_operation, is_enabled, note_exemplar, pause, phase,
    record_operation, set_enabled, tag, tag_operation, turn,
};
pub use report::{
    KindReport, LabelReport, OTHERS, PhaseReport, Times, all_uses, exemplar, forget_namespace,
    kinds, namespaces, reset, shapes, uses, uses_of,
};
pub use stall::{stall_cause, stall_cause_text};
pub use uses::{Durations, OperationClass, Use, Uses};
pub use windows::Window;
pub use work::{WORK_COUNT, Work};
