//! Where the time of one operation went, as it is shown.

use crate::work::{WORK_COUNT, Work};
use crate::{IS_COMPILED, PHASE_COUNT, Phase};

/// The time of one operation, split over the phases, in nanoseconds, and what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// From the beginning of the operation to its end, or to now while it runs.
    pub wall_ns: u64,
    /// Exclusive time by phase, in the order of [`Phase::ALL`].
    pub phases: [u64; PHASE_COUNT],
    /// The time that no phase covered: `wall_ns` minus the sum of `phases`.
    pub unattributed_ns: u64,
    /// In the order of [`Work::ALL`].
    pub work: [u64; WORK_COUNT],
    /// [`Phase::bit`]s.
    pub(crate) entered: u32,
    /// The phases were timed.
    pub(crate) is_timed: bool,
}

impl Breakdown {
    /// The time of one phase.
    #[must_use]
    pub fn phase_ns(&self, phase: Phase) -> u64 {
        self.phases[phase as usize]
    }

    /// The amount of one sort of work, or the name that stands for it.
    #[must_use]
    pub fn work(&self, work: Work) -> u64 {
        self.work[work as usize]
    }

    /// Whether the operation is timed, and will be counted.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        IS_COMPILED && self.is_timed
    }

    /// The phases that the operation entered, in order, with their time in nanoseconds.
    pub fn entered(&self) -> impl Iterator<Item = (Phase, u64)> + '_ {
        Phase::ALL
            .into_iter()
            .filter(|phase| self.entered & phase.bit() != 0)
            .map(|phase| (phase, self.phase_ns(phase)))
    }
}
