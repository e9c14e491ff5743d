//! The numbers of the rows that an operation's time is split over, and how the times of one are made to add up.

use crate::PHASE_COUNT;
use crate::clock;

/// The row of the time that no phase covered, behind those of the phases, as its slot is.
pub(crate) const UNATTRIBUTED_ROW: usize = PHASE_COUNT;
/// The row of the wall time.
pub(crate) const WALL_ROW: usize = PHASE_COUNT + 1;
pub(crate) const ROW_COUNT: usize = PHASE_COUNT + 2;

/// Calls `each` with the rows and their times in nanoseconds, which add up to that of the wall, the first one; what no
/// phase covered is the last one.
pub(crate) fn each_ns(
    rows: impl Iterator<Item = usize>,
    ticks: impl Iterator<Item = u64>,
    mut each: impl FnMut(usize, u64),
) {
    let mut left = 0;
    for (row, ticks) in rows.zip(ticks) {
        let ns = match row {
            WALL_ROW => {
                left = clock::ns(ticks);
                left
            }
            UNATTRIBUTED_ROW => left,
            _ => clock::ns(ticks).min(left),
        };
        if row != WALL_ROW {
            left -= ns;
        }
        each(row, ns);
    }
}
