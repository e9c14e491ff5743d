//! The conformance suite: everything that an engine must do. The tests of each engine run it.
//!
//! [`run`] asks for fresh, empty engines; [`run_reopening`] for the same files opened again and
//! again, [`run_copying`] for files copied, both of which an engine in memory has none of. A failed check panics and says which. The suite
//! keeps its own model of the answers (an ordered map), so it needs no engine to compare with.

mod basics;
mod calls;
mod cursors;
mod durability;
mod model;
mod snapshots;

use std::path::Path;
use std::sync::Arc;

use crate::Engine;

type Check = fn(&dyn Engine);

const CHECKS: &[Check] = &[
    basics::gets_puts_and_deletes,
    basics::present_keys_are_found_by_their_positions,
    basics::batches_apply_in_order_and_as_one,
    basics::long_keys_and_values,
    basics::keys_of_a_wrong_length_write_nothing,
    cursors::walk_both_ways,
    cursors::stay_inside_their_range,
    cursors::seek_before_at_the_edges,
    cursors::turn_round_anywhere,
    cursors::empty_and_absent_ranges,
    cursors::seek_with_keys_longer_than_any,
    snapshots::never_change,
    snapshots::outlive_many_writes,
    snapshots::are_shared,
    snapshots::move_between_threads,
    snapshots::readers_see_whole_batches,
    snapshots::read_a_range_that_is_reclaimed,
    durability::applied_lsn_becomes_durable_with_a_sync,
    durability::reclaim_in_steps_empties_the_range,
    durability::size_estimates_follow_the_data,
    durability::closed_engines_refuse,
    model::random_operations_agree_with_a_map,
];

/// Runs every check that needs no reopening; `fresh` gives a new, empty engine each time.
pub fn run(fresh: &dyn Fn() -> Arc<dyn Engine>) {
    run_syncing_commits(fresh);
    run_check(fresh, durability::hook_runs_first_and_can_refuse);
    run_check(
        fresh,
        durability::a_hook_that_runs_is_waited_for_by_who_takes_it_back,
    );
}

/// As [`run`], for an engine whose every write is durable by itself, so that a refusing hook
/// refuses the write and not the next sync.
pub fn run_syncing_commits(fresh: &dyn Fn() -> Arc<dyn Engine>) {
    run_uncounted(fresh);
    run_check(fresh, basics::counters_count);
}

/// The checks of answers alone, for what stands before an engine and answers some calls itself.
pub fn run_uncounted(fresh: &dyn Fn() -> Arc<dyn Engine>) {
    for check in CHECKS {
        run_check(fresh, *check);
    }
}

fn run_check(fresh: &dyn Fn() -> Arc<dyn Engine>, check: Check) {
    let engine = fresh();
    check(engine.as_ref());
    engine
        .close()
        .expect("an engine that passed a check closes");
}

/// Runs the checks that need files; `open` opens the same files every time, empty at first.
pub fn run_reopening(open: &dyn Fn() -> Arc<dyn Engine>) {
    durability::closed_engines_keep_everything(open);
    durability::dropped_engines_keep_what_was_durable(open);
    durability::closed_engines_have_all_of_it_durable(open);
}

/// Runs the check of copies; `open` opens the files in a directory, and makes them where there are none. `root` is empty.
pub fn run_copying(open: &dyn Fn(&Path) -> Arc<dyn Engine>, root: &Path) {
    durability::copies_open_beside_the_engine(open, root);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlushImages, Memory, Mirror};

    #[test]
    fn memory_conforms() {
        run(&|| Arc::new(Memory::new()));
    }

    #[test]
    fn mirrored_memory_conforms() {
        run(&|| {
            Arc::new(Mirror::new(
                Arc::new(Memory::new()),
                Arc::new(Memory::new()),
            ))
        });
    }

    #[test]
    fn imaged_memory_conforms() {
        run(&|| FlushImages::memory().open().unwrap());
    }
}
