//! Where the time of an operation goes.
//!
//! An operation begins with [`begin_operation`] and ends with [`end_operation`]; between them
//! [`phase`] opens scopes that nest and count **exclusive** time into a fixed array in thread-local
//! state. At the end the array goes, in one step, into histograms by operation kind and phase, kept
//! per core and merged when [`report`] reads them. Always true: the phases and `unattributed` add
//! up to the wall time of the operation.
//!
//! A scope costs one clock read at its start and one at its end. Outside an operation, or while
//! timing is off, a scope reads one thread-local flag and nothing else.
//!
//! This crate knows nothing of documents, engines or sockets; it writes no text and no files.
#![forbid(unsafe_code)]

mod histograms;
mod operation_kind;
mod phase;
mod recorder;
mod report;

pub use operation_kind::OperationKind;
pub use phase::{PHASE_COUNT, Phase};
pub use recorder::{
    Breakdown, Scope, add, begin_operation, breakdown, end_operation, is_enabled, phase,
    set_enabled,
};
pub use report::{KindReport, PhaseReport, Summary, report};
